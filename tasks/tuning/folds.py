"""Whether a table has enough rows for the folds of a search; imported before any model is."""

from __future__ import annotations

import numpy as np

from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.dataset import Dataset


def check_folds(data: Dataset, folds: int) -> None:
    """Raise InputError unless every fold gets rows of both labels, and leaves some to be trained
    on.
    """
    least = int(np.bincount(data.y, minlength=2).min())
    if least < 2 * folds:
        raise InputError(
            f"the training rows have {least} people of the rarer label, and {folds} folds need at "
            f"least {2 * folds}: collect more rows, or set tune.folds lower."
        )
