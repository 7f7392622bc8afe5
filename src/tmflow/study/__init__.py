"""The study: its config, the plan of points and rounds, the campaign, and what became of them."""
