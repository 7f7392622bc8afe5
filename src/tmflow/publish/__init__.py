"""A study as static pages: the same charts and tables, for any host of files and without a server."""
