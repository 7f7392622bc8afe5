"""What a training step costs: whole configurations, measured in rounds so that they compare."""
