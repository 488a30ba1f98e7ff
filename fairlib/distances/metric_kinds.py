"""The kinds of fair metrics, by the name that a saved metric has."""

from evenhand.fairlib.distances.explore import EXPLORE
from evenhand.fairlib.distances.face import FACE
from evenhand.fairlib.distances.metric_base import Metric
from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace

METRICS: dict[str, type[Metric]] = {
    metric.kind: metric for metric in (SensitiveSubspace, FACE, EXPLORE)
}
