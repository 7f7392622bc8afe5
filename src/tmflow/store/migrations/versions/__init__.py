"""One file per revision, in order; each says what it changes."""
