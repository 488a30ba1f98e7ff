"""From columns of a table to a float32 matrix, with feature groups kept.

One column of the table is one group of the matrix: a categorical stays together wherever it goes.
"""

from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder, category_name
from evenhand.fairlib.preprocessing.split import split_rows

__all__ = ["ColumnSpec", "TableEncoder", "category_name", "split_rows"]
