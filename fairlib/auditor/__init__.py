r"""
The auditor: for each person, the comparable treatment that is worst.

:mod:`fairlib.auditor.search` maximises :math:`g(h(x')) - \lambda d_x^2(x, x')` over :math:`x'`, first along
the directions that the fair metric ignores, then in full space. What :math:`g` is, a goal says
(:mod:`fairlib.auditor.objectives`); how :math:`h` is differentiated with respect to its input, a view of the
network (:mod:`evenhand.fairlib.auditor.differentiable_model`).
"""

from evenhand.fairlib.auditor.differentiable_model import DifferentiableModel, as_differentiable
from evenhand.fairlib.auditor.objectives import LogitDistance, LogLoss, SearchObjective
from evenhand.fairlib.auditor.search import Auditor, WorstCase

__all__ = [
    "Auditor",
    "SearchObjective",
    "LogLoss",
    "LogitDistance",
    "DifferentiableModel",
    "WorstCase",
    "as_differentiable",
]
