"""What to run: config.yaml, the grid of trials, plan, campaign, adaptive rounds and the cost model."""
