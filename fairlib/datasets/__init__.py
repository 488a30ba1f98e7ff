"""Known tables: a generator, and recipes that turn publishers' raw files into one clean table.

Nothing here downloads: a recipe names its files, their addresses and their sha256, and reads local copies.
"""

from evenhand.fairlib.datasets.loans import make_loans
from evenhand.fairlib.datasets.recipes import RECIPES, RawFile, Recipe

__all__ = ["RECIPES", "RawFile", "Recipe", "make_loans"]
