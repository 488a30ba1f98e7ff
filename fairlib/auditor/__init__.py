"""The auditor: the worst comparable treatment of each person."""

from functools import partial
from typing import TYPE_CHECKING

from evenhand.fairlib.lazy_exports import list_names, load_name

if TYPE_CHECKING:
    from evenhand.fairlib.auditor.differentiable_model import DifferentiableModel, as_differentiable
    from evenhand.fairlib.auditor.worst_case_search import Auditor, SearchBounds, WorstCase

__all__ = [
    "as_differentiable",
    "Auditor",
    "DifferentiableModel",
    "SearchBounds",
    "WorstCase",
]

if not TYPE_CHECKING:
    _MODULES = {
        "as_differentiable": "evenhand.fairlib.auditor.differentiable_model",
        "Auditor": "evenhand.fairlib.auditor.worst_case_search",
        "DifferentiableModel": "evenhand.fairlib.auditor.differentiable_model",
        "SearchBounds": "evenhand.fairlib.auditor.worst_case_search",
        "WorstCase": "evenhand.fairlib.auditor.worst_case_search",
    }
    __getattr__ = partial(load_name, __name__, _MODULES)
    __dir__ = partial(list_names, __name__, _MODULES)
