"""Which machine this is (facts), how it is set up (environment), and what runs on it (software)."""
