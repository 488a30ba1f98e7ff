"""Worst-case distributions by optimal transport over the training rows.

Problem, solver and plan are three types. The solver uses losses and distances, never a model.
"""

from functools import partial
from typing import TYPE_CHECKING

from evenhand.fairlib.lazy_exports import list_names, load_name

if TYPE_CHECKING:
    from evenhand.fairlib.transport.dual import DualSolver
    from evenhand.fairlib.transport.problem import TransportPlan, TransportProblem

__all__ = [
    "DualSolver",
    "TransportPlan",
    "TransportProblem",
]

if not TYPE_CHECKING:
    _MODULES = {
        "DualSolver": "evenhand.fairlib.transport.dual",
        "TransportPlan": "evenhand.fairlib.transport.problem",
        "TransportProblem": "evenhand.fairlib.transport.problem",
    }
    __getattr__ = partial(load_name, __name__, _MODULES)
    __dir__ = partial(list_names, __name__, _MODULES)
