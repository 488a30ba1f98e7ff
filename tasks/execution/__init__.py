"""How steps run: their store, keys and fingerprints, and the tables that they exchange."""
