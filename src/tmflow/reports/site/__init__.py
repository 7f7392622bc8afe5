"""A study as static pages for any file host, with the same charts and tables as the portal."""
