"""Which small faults the tests detect."""
