"""The predicates: each turns curves into the statements that must hold for a claim to be true."""
