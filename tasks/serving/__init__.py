"""The code of a published model: predictions from raw columns."""
