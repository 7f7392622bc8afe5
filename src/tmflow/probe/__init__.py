"""What a machine's transactions and memory really do: the document of `tmflow probe` and the profile made from it."""
