"""How trials are run and written down: rounds, run files, the machine's state."""
