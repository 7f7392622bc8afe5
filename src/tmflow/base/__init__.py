"""The ground: errors, paths, atomic files, locks, child processes, the clock, canonical JSON, documents and text."""
