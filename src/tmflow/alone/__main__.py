"""`python -m tmflow.alone` is `tmflow-native`."""

from tmflow.alone.cli import main

if __name__ == "__main__":
    main()
