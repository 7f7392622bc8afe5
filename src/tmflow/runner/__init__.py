"""A round in fresh processes: job, round, supervisor, journal and the load of the machine."""
