"""Fair metrics: distances between people that ignore differences which should not count.

Each metric has ``fit``, ``save`` and ``load``, and ``distance``, ``squared``, ``pairwise``,
``project``, ``weigh`` and ``unweigh`` for numpy arrays and torch tensors. ``load_metric`` reads a
saved one of any kind.
"""

from evenhand.fairlib.distances.explore import EXPLORE
from evenhand.fairlib.distances.face import FACE
from evenhand.fairlib.distances.metric_base import FeatureBounds, Metric
from evenhand.fairlib.distances.metric_kinds import METRICS, load_metric
from evenhand.fairlib.distances.sensitive_subspace import LearnedDirection, SensitiveSubspace

__all__ = [
    "METRICS",
    "EXPLORE",
    "FACE",
    "FeatureBounds",
    "LearnedDirection",
    "Metric",
    "SensitiveSubspace",
    "load_metric",
]
