"""Known tables: a generator of synthetic loans, and recipes that read publishers' raw files."""
