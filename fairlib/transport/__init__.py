"""Worst-case distributions by optimal transport over the training rows.

A problem, a solver and its result are three types; solvers know losses and distances, never a model.
"""

from fairlib.transport.dual import solve_dual
from fairlib.transport.problem import TransportPlan, TransportProblem

__all__ = ["TransportPlan", "TransportProblem", "solve_dual"]
