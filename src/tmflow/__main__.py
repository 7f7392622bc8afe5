"""`python -m tmflow` is the command line."""

from tmflow.cli import main

main()
