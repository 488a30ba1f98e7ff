"""One person explained: reasons of a decision, what would change it, and comparable people."""

from functools import partial
from typing import TYPE_CHECKING

from evenhand.fairlib.lazy_exports import list_names, load_name

if TYPE_CHECKING:
    from evenhand.fairlib.explanations.choices import Changeable
    from evenhand.fairlib.explanations.comparables import Comparables, comparable_people
    from evenhand.fairlib.explanations.ranked_reasons import Reason, principal_reasons
    from evenhand.fairlib.explanations.real_people import RealValues
    from evenhand.fairlib.explanations.recourse import Recourse, smallest_change

__all__ = [
    "Changeable",
    "Comparables",
    "comparable_people",
    "principal_reasons",
    "RealValues",
    "Reason",
    "Recourse",
    "smallest_change",
]

if not TYPE_CHECKING:
    _MODULES = {
        "Changeable": "evenhand.fairlib.explanations.choices",
        "Comparables": "evenhand.fairlib.explanations.comparables",
        "comparable_people": "evenhand.fairlib.explanations.comparables",
        "principal_reasons": "evenhand.fairlib.explanations.ranked_reasons",
        "RealValues": "evenhand.fairlib.explanations.real_people",
        "Reason": "evenhand.fairlib.explanations.ranked_reasons",
        "Recourse": "evenhand.fairlib.explanations.recourse",
        "smallest_change": "evenhand.fairlib.explanations.recourse",
    }
    __getattr__ = partial(load_name, __name__, _MODULES)
    __dir__ = partial(list_names, __name__, _MODULES)
