"""Known tables: a generator of synthetic loans, and recipes that read publishers' raw files."""

from functools import partial
from typing import TYPE_CHECKING

from evenhand.fairlib.lazy_exports import list_names, load_name

if TYPE_CHECKING:
    from evenhand.fairlib.datasets.generated import make_bios, make_hiring, make_loans

__all__ = [
    "make_bios",
    "make_hiring",
    "make_loans",
]

if not TYPE_CHECKING:
    _MODULES = {
        "make_bios": "evenhand.fairlib.datasets.generated",
        "make_hiring": "evenhand.fairlib.datasets.generated",
        "make_loans": "evenhand.fairlib.datasets.generated",
    }
    __getattr__ = partial(load_name, __name__, _MODULES)
    __dir__ = partial(list_names, __name__, _MODULES)
