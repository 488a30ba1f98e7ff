"""Worst-case distributions by optimal transport over the training rows.

Problem, solver and plan are three types. Solvers use losses and distances, never a model.
"""
