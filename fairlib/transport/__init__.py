"""Worst-case distributions by optimal transport over the training rows.

Problem, solver and plan are three types. The solver uses losses and distances, never a model.
"""
