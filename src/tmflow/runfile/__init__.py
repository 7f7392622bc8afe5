"""The record of a trial: its schema, lines, reader, validation and content hash."""
