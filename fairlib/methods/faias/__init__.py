"""FAIAS: a predictor against a selector that looks for the features which leave it most to learn."""

from evenhand.fairlib.methods.faias.classifier import FAIASClassifier

__all__ = ["FAIASClassifier"]
