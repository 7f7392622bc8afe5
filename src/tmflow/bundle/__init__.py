"""The file format that runs travel in: writing, reading, verification and its rules."""
