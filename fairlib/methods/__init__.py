"""Methods that train a model, each a scikit-learn classifier with ``save`` and ``load``.

:mod:`evenhand.fairlib.methods.registry` lists them by the name that a job uses.
"""

from evenhand.fairlib.methods.registry import METHODS, MethodSpec, load_model, method_class

__all__ = ["METHODS", "MethodSpec", "load_model", "method_class"]
