"""Worst-case distributions by optimal transport over the training rows.

A problem, a solver and its result are three types; solvers know losses and distances, never a model.
"""

from evenhand.fairlib.transport.problem import TransportPlan, TransportProblem
from evenhand.fairlib.transport.solvers import SOLVERS, Solver, SolverName, make_solver

__all__ = ["SOLVERS", "Solver", "SolverName", "TransportPlan", "TransportProblem", "make_solver"]
