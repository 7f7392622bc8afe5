"""Advice for a model of one's own: strategies measured on this machine, or predicted from measured runs."""
