"""The study's findings as claims, and the verdict that runs give on each (docs/claims.md)."""
