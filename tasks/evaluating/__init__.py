"""Measuring published models on new tables, and saying in CI's own forms what came of it."""
