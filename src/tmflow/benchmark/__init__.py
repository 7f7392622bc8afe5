"""What an update, a read and a training step cost, measured in turns so that they compare."""
