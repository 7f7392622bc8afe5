"""The runs of others: import, withdrawal, quarantine, review and access."""
