"""Drift of columns and groups: a batch compared with the counts of a published model's training rows."""
