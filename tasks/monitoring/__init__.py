"""Drift: what a published model's training rows looked like, and how far a batch is from them."""
