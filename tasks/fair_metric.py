"""Fair metric: learn from the training rows which differences between people should not count."""

from __future__ import annotations

import numpy as np

from fairlib.distances.sensitive_subspace import LearnedDirection, SensitiveSubspace
from tasks.dataset import Dataset, read_dataset
from tasks.errors import InputError
from tasks.step import Step, StepContext, StepResult

__all__ = ["STEP"]


def fair_metric(context: StepContext) -> StepResult:
    """Write ``metric/``, the sensitive subspace that the job describes."""
    data = read_dataset(context.inputs["train"])
    parameters = context.parameters["fair_metric"]
    attributes = list(data.sensitive)
    indicators = parameters["indicators"]
    if indicators is None:
        indicators = [name for name in attributes if name in data.groups]
    learned = attributes if parameters["learned"] is None else parameters["learned"]
    metric = SensitiveSubspace(
        indicators=[column for name in indicators for column in data.groups[name]],
        learned=[LearnedDirection(name, tuple(data.groups.get(name, ()))) for name in learned],
        strength=parameters["strength"],
    )
    try:
        metric.fit(data.X, sensitive_features={name: _target(data, name) for name in learned})
    except ValueError as error:
        raise InputError(f"the fair metric cannot be learned: {error}") from None
    rank = metric.basis_.shape[1]
    if rank in (0, data.X.shape[1]):
        everything = "everything: all people are comparable" if rank else "nothing: it protects nobody"
        raise InputError(
            f"the fair metric's subspace is {everything}; "
            "change fair_metric.indicators or fair_metric.learned."
        )
    metric.save(context.workdir / "metric")
    return StepResult({"metric": (context.workdir / "metric", "metric")}, {"rank": rank})


def _target(data: Dataset, name: str) -> np.ndarray:
    """A numeric attribute as a number (standardised, as the encoder would), any other as its groups."""
    if name not in data.numbers:
        return data.sensitive[name].astype(str)
    values = data.numbers[name]
    scaled = (values - np.nanmean(values)) / (np.nanstd(values) or 1.0)
    return np.nan_to_num(scaled, nan=0.0)  # a missing one is the mean, as for a model input


STEP = Step("fair_metric", fair_metric)
