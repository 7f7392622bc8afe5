"""Findings as checks, and the verdict of the runs on each (docs/claims.md)."""
