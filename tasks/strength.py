"""Mitigation no stronger than a table allows: its strength is lowered where the predictions suffer."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_curve

from evenhand.fairlib.methods.base import Method
from evenhand.fairlib.methods.registry import method_class
from evenhand.tasks.dataset import Dataset
from evenhand.tasks.training import HeldOut, Learner, Progress

# Balanced accuracy that the default strength may cost on held-out training rows.
ALLOWED_LOSS = 0.02
# Strengths that are tried, as multiples of the default.
TRIED = (1.0, 0.1, 0.01)


def fit_useful(
    learner: Learner, data: Dataset, plain: HeldOut, seed: int, *, progress: Progress, checkpoint: Path | None
) -> tuple[Method, HeldOut, dict[str, Any]]:
    """Train with the default strength, and again with less of it while that costs too much.

    A strength costs too much if the balanced accuracy on rows that were not trained on, at the best threshold
    of each model, is below that of the plain control by more than ``ALLOWED_LOSS`` and by more than the
    standard error of the difference. If all of ``TRIED`` cost too much, the strongest is kept that costs no
    more than the cheapest and its standard error.

    Returns
    -------
    model : Method
    held_out : HeldOut
        Of this model.
    facts : dict
        ``parameter``, ``default`` and ``used`` strength, the balanced accuracy ``lost`` by it, whether that
        is ``allowed``, and of all that were ``tried`` the ``strength``, ``lost`` and ``standard_error``.
    """
    name = learner.spec.strength[0]
    default = inspect.signature(method_class(learner.spec.name).__init__).parameters[name].default
    tried: list[dict[str, float]] = []
    found: list[tuple[Method, HeldOut]] = []
    for number, share in enumerate(TRIED):

        def report(done: int, total: int, values: Mapping[str, float], before: int = number) -> None:
            progress(before * total + done, (before + 1) * total, values)

        attempt = learner.changed(**{name: default * share})
        folder = checkpoint if checkpoint is None else checkpoint / f"strength-{number}"
        model = attempt.fit(data, progress=report, checkpoint=folder)
        found.append((model, attempt.held_out(model, data, seed)))
        lost, error = balanced_accuracy_lost(found[-1][1], plain)
        tried.append({"strength": default * share, "lost": lost, "standard_error": error})
        if lost <= max(ALLOWED_LOSS, error):
            kept, allowed = number, True
            break
    else:
        allowed = False
        cheapest = min(tried, key=lambda item: item["lost"])
        limit = cheapest["lost"] + cheapest["standard_error"]
        kept = next(k for k, item in enumerate(tried) if item["lost"] <= limit)
    used = {"parameter": name, "default": default, "used": tried[kept]["strength"], "allowed": allowed}
    return *found[kept], {**used, "lost": tried[kept]["lost"], "tried": tried}


def balanced_accuracy_lost(held: HeldOut, plain: HeldOut) -> tuple[float, float]:
    """Balanced accuracy of `plain` less that of `held` on their common rows, and its standard error.

    Each decides by the threshold that is best for it there. Both are 0 without common rows of both labels.
    """
    _, own, other = np.intersect1d(held.rows, plain.rows, assume_unique=True, return_indices=True)
    labels = held.label[own]
    counts = np.bincount(labels, minlength=2)
    if counts.min() == 0:
        return 0.0, 0.0
    difference = _right(plain.probability[other], labels) - _right(held.probability[own], labels)
    parts = [difference[labels == label] for label in (0, 1)]
    lost = float(np.mean([part.mean() for part in parts]))
    return lost, math.sqrt(sum(float(part.var()) / part.size for part in parts)) / 2.0


def _right(probability: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Whether each row is decided rightly by the threshold of the largest balanced accuracy."""
    negative, positive, thresholds = roc_curve(labels, probability)
    decided = probability >= thresholds[np.argmax(positive - negative)]
    right: NDArray[np.float64] = (decided == labels).astype(np.float64)
    return right
