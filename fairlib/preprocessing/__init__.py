"""From columns of a table to a float32 matrix: one column of the table is one group of matrix
columns.
"""

from functools import partial
from typing import TYPE_CHECKING

from evenhand.fairlib.lazy_exports import list_names, load_name

if TYPE_CHECKING:
    from evenhand.fairlib.preprocessing.counterfactuals import encoded_copies
    from evenhand.fairlib.preprocessing.encoder import ColumnSpec, FittedColumn, TableEncoder
    from evenhand.fairlib.preprocessing.leaks import find_leaks

__all__ = [
    "ColumnSpec",
    "encoded_copies",
    "find_leaks",
    "FittedColumn",
    "TableEncoder",
]

if not TYPE_CHECKING:
    _MODULES = {
        "ColumnSpec": "evenhand.fairlib.preprocessing.encoder",
        "encoded_copies": "evenhand.fairlib.preprocessing.counterfactuals",
        "find_leaks": "evenhand.fairlib.preprocessing.leaks",
        "FittedColumn": "evenhand.fairlib.preprocessing.encoder",
        "TableEncoder": "evenhand.fairlib.preprocessing.encoder",
    }
    __getattr__ = partial(load_name, __name__, _MODULES)
    __dir__ = partial(list_names, __name__, _MODULES)
