"""What a prediction adds to a row, and into how many parts probabilities are counted."""

from __future__ import annotations

BINS = 10
COLUMNS = ("prediction", "probability", "model_version")
