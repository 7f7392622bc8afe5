"""A round in fresh processes: supervisor, round, journal and the load of the machine."""
