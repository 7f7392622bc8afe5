"""A bundle: the runs of one machine in one file, to carry anywhere; what is in it is trusted after a check alone."""
