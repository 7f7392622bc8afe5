"""What no machine can exceed: bounds on times and counts, generous by orders of magnitude.

A bundle with values beyond them is refused, and what a database holds beyond them is left out where it is read. They
keep out numbers that no statistics can be computed from: the rate of a run of 5e-324 s is infinite, and so is the ratio
of one of 1e300 s to another.
"""

from __future__ import annotations

LONGEST_S = 366 * 86_400.0  # a year: no trial lasts so long
STEP_S = 1e-9  # no step, attempt or read takes less: a processor has a few cycles in it
MOST_COUNTED = int(LONGEST_S / STEP_S)
