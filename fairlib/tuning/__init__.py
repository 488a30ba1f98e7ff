"""The search for a model within limits: spaces of parameters, folds, and what is best among
trials.
"""

from functools import partial
from typing import TYPE_CHECKING

from evenhand.fairlib.lazy_exports import list_names, load_name

if TYPE_CHECKING:
    from evenhand.fairlib.tuning.space import Choice, Real, Whole
    from evenhand.fairlib.tuning.study import Limit, parse_limit

__all__ = [
    "Choice",
    "Limit",
    "parse_limit",
    "Real",
    "Whole",
]

if not TYPE_CHECKING:
    _MODULES = {
        "Choice": "evenhand.fairlib.tuning.space",
        "Limit": "evenhand.fairlib.tuning.study",
        "parse_limit": "evenhand.fairlib.tuning.study",
        "Real": "evenhand.fairlib.tuning.space",
        "Whole": "evenhand.fairlib.tuning.space",
    }
    __getattr__ = partial(load_name, __name__, _MODULES)
    __dir__ = partial(list_names, __name__, _MODULES)
