"""Whether a table has enough rows for the folds of a search; imported before any model is."""

from __future__ import annotations

import numpy as np

from evenhand.fairlib.arrays import Int
from evenhand.fairlib.execution import derive_seed
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.dataset import Dataset


def check_folds(data: Dataset, folds: int) -> None:
    """Raise InputError unless every fold can get rows of both labels, and leave some to be trained
    on.

    Rows that stay together, as those of a person, are in one fold: then it is people, or what else
    `split.by` names, of whom there must be enough.
    """
    least = int(np.bincount(data.y, minlength=2).min())
    if least < 2 * folds:
        raise InputError(
            f"the training rows have {least} people of the rarer label, and {folds} folds need at "
            f"least {2 * folds}: collect more rows, or set tune.folds lower."
        )
    if data.people is None:
        return
    together = len(np.unique(data.people))
    if together < folds:
        raise InputError(
            f"the training rows have {together} values of split.by, and {folds} folds need at "
            f"least {folds}: set tune.folds lower."
        )
    for label in np.unique(data.y):
        with_label = len(np.unique(data.people[data.y == label]))
        if with_label < 2:
            raise InputError(
                "all training rows of a label have one value of split.by, so no model can be "
                "trained on others and judged on these: split by another column."
            )


def cells_of(data: Dataset) -> Int:
    """Cell of label and sensitive groups of every row, by which folds are stratified."""
    # imported lazily, as below
    from evenhand.fairlib.methods.row_groups import joint_cells

    return joint_cells(data.y, data.sensitive.values())


def fold_numbers(data: Dataset, folds: int, fold_seed: int) -> Int:
    """Number of the fold of every row, shape (n,), stratified by label and groups.

    Raises InputError unless the rows outside of each fold have every label: rows of one value of
    `split.by` are in one fold, and by chance all with the rarer label may be.
    """
    # imported lazily: a search needs no numeric library before the rows are checked
    from evenhand.fairlib.methods.row_groups import fold_of_rows

    fold = fold_of_rows(cells_of(data), folds, derive_seed(fold_seed, "tune"), data.people)
    if data.people is None:
        return fold
    labels = len(np.unique(data.y))
    for number in range(folds):
        if len(np.unique(data.y[fold != number])) < labels:
            raise InputError(
                f"all training rows of a label are in one of the {folds} folds, as rows of one "
                "value of split.by stay together: set another tune.folds, or another seed."
            )
    return fold
