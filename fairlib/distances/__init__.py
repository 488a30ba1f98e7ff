"""Fair metrics: distances between people that ignore differences which should not count.

Each metric has ``fit``, ``save`` and ``load``, and ``distance``, ``squared``, ``pairwise``,
``project``, ``weigh`` and ``unweigh`` for numpy arrays and torch tensors. ``load_metric`` reads a
saved one of any kind.
"""

from functools import partial
from typing import TYPE_CHECKING

from evenhand.fairlib.lazy_exports import list_names, load_name

if TYPE_CHECKING:
    from evenhand.fairlib.distances.explore import EXPLORE
    from evenhand.fairlib.distances.face import FACE
    from evenhand.fairlib.distances.learned import LearnedMetric
    from evenhand.fairlib.distances.metric_base import FeatureBounds, Metric
    from evenhand.fairlib.distances.metric_kinds import METRICS, load_metric
    from evenhand.fairlib.distances.sensitive_subspace import LearnedDirection, SensitiveSubspace

__all__ = [
    "EXPLORE",
    "FACE",
    "FeatureBounds",
    "LearnedDirection",
    "LearnedMetric",
    "load_metric",
    "Metric",
    "METRICS",
    "SensitiveSubspace",
]

if not TYPE_CHECKING:
    _MODULES = {
        "EXPLORE": "evenhand.fairlib.distances.explore",
        "FACE": "evenhand.fairlib.distances.face",
        "FeatureBounds": "evenhand.fairlib.distances.metric_base",
        "LearnedDirection": "evenhand.fairlib.distances.sensitive_subspace",
        "LearnedMetric": "evenhand.fairlib.distances.learned",
        "load_metric": "evenhand.fairlib.distances.metric_kinds",
        "Metric": "evenhand.fairlib.distances.metric_base",
        "METRICS": "evenhand.fairlib.distances.metric_kinds",
        "SensitiveSubspace": "evenhand.fairlib.distances.sensitive_subspace",
    }
    __getattr__ = partial(load_name, __name__, _MODULES)
    __dir__ = partial(list_names, __name__, _MODULES)
