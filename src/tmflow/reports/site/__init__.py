"""A study as static pages, for any host of files and without a server: the same charts and tables."""
