"""Worst-case distributions by optimal transport over the training rows.

Problem, solver and plan are three types. Solvers use losses and distances, never a model.
"""

from evenhand.fairlib.transport.problem import (
    SOLVERS,
    Solver,
    SolverName,
    TransportPlan,
    TransportProblem,
    make_solver,
)

__all__ = ["SOLVERS", "Solver", "SolverName", "TransportPlan", "TransportProblem", "make_solver"]
