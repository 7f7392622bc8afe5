"""What the portal's pages share: reading the database, filters in the URL, and how a figure is shown."""
