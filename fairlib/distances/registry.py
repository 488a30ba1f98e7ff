"""All kinds of fair metrics by name, and loading a saved one of any kind."""

from __future__ import annotations

import json
from pathlib import Path

from evenhand.fairlib.distances.base import Metric
from evenhand.fairlib.distances.explore import EXPLORE
from evenhand.fairlib.distances.face import FACE
from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace

__all__ = ["METRICS", "load_metric"]

METRICS: dict[str, type[Metric]] = {metric.kind: metric for metric in (SensitiveSubspace, FACE, EXPLORE)}


def load_metric(folder: str | Path) -> Metric:
    """
    Read a metric of whichever kind was saved into `folder`.

    Raises
    ------
    ValueError
        The folder holds a kind or a format that this version does not know.
    """
    source = Path(folder)
    kind = json.loads((source / "metric.json").read_text()).get("kind")
    if kind not in METRICS:
        raise ValueError(f"{source} holds a metric of the kind {kind!r}; known: {', '.join(METRICS)}.")
    return METRICS[kind].load(source)
