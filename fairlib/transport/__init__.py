"""Worst-case distributions by optimal transport over the training rows.

Problem, solver and plan are three types. The solver uses losses and distances, never a model.
"""

from typing import TYPE_CHECKING

from evenhand.fairlib.lazy_exports import lazy_dir, lazy_getattr

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
    __getattr__ = lazy_getattr(__name__, _MODULES)
    __dir__ = lazy_dir(__name__, _MODULES)
