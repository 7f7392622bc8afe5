"""What consistent reads cost: readers read one variable again and again while writers update it."""
