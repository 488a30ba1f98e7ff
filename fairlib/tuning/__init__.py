"""The search for a model within limits: spaces of parameters, folds, and what is best among
trials.
"""
