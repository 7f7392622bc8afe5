"""Advice for a model of one's own: strategies measured on this machine, side by side."""
