r"""
The auditor: the worst comparable treatment of each person.

It maximises :math:`g(h(x')) - \lambda d_x^2(x, x')` over :math:`x'`, for an objective g and a model h.
"""

from evenhand.fairlib.auditor.differentiable_model import DifferentiableModel, as_differentiable
from evenhand.fairlib.auditor.objectives import LogitDistance, LogLoss, SearchObjective
from evenhand.fairlib.auditor.search import Auditor, WorstCase

__all__ = [
    "Auditor",
    "DifferentiableModel",
    "LogLoss",
    "LogitDistance",
    "SearchObjective",
    "WorstCase",
    "as_differentiable",
]
