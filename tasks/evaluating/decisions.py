"""What a model decides about encoded rows, and whether it decides the same about their copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.preprocessing.counterfactuals import encoded_copies
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.fairlib.progress import Progress
from evenhand.tasks.acquisition import Acquired, Acquires

__all__ = ["Counterfactuals", "Decides", "Decisions", "acquire", "decide_rows", "is_consistent"]

Counterfactuals = Mapping[str, Mapping[str, Sequence[Any] | str]]


class Decides(Protocol):
    """What predicts labels and their probabilities."""

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels."""

    def predict_proba(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """Class probabilities, shape (n, 2)."""

    def predict(self, X: NDArray[np.float32]) -> NDArray[Any]:
        """Labels, shape (n,)."""


@dataclass(frozen=True, eq=False)
class Decisions:
    """
    What a model decides about n rows.

    `score` is the probability of label 1 and `predicted` the label, each of shape (n,); `consistent` says per
    set of counterfactual copies whether all copies of a row get one label; `asked` is how many features each
    person was asked, None of a model that asks nothing.
    """

    score: NDArray[np.float64]
    predicted: NDArray[np.int64]
    consistent: dict[str, NDArray[np.bool_]]
    asked: NDArray[np.int64] | None = None

    @classmethod
    def concatenate(cls, parts: Sequence[Decisions]) -> Decisions:
        """Decisions about the rows of all parts, in their order."""
        asked = [part.asked for part in parts if part.asked is not None]
        return cls(
            np.concatenate([part.score for part in parts]),
            np.concatenate([part.predicted for part in parts]),
            {name: np.concatenate([part.consistent[name] for part in parts]) for name in parts[0].consistent},
            np.concatenate(asked) if asked else None,
        )


def decide_rows(
    model: Decides,
    encoder: TableEncoder,
    X: NDArray[np.float32],
    counterfactuals: Counterfactuals,
    acquired: Acquired | None = None,
    *,
    callback: Progress | None = None,
) -> Decisions:
    """
    Predict rows and their copies.

    Parameters
    ----------
    model : Decides
    encoder : TableEncoder
        The one that encoded `X`.
    X : ndarray of float32, shape (n, d)
    counterfactuals : mapping
        By name, the values that each changed column gets.
    acquired : Acquired, optional
        What a model that asks for features has asked of these rows: it predicts from that.
    callback : callable, optional
        ``callback(done, total)``: the rows count as one, and so does every set of copies.
    """
    report, total = callback or (lambda done, total: None), 1 + len(counterfactuals)
    if acquired is None:
        # a model may have a threshold of its own
        score, predicted = model.predict_proba(X)[:, 1], model.predict(X)
    else:
        # the questions are asked once
        score, predicted = acquired.probability, model.classes_[(acquired.probability > 0.5).astype(int)]
    report(1, total)
    consistent = {}
    for done, (name, changes) in enumerate(counterfactuals.items(), start=2):
        consistent[name] = is_consistent(model, encoder, X, changes)
        report(done, total)
    asked = (acquired.order >= 0).sum(axis=1) if acquired is not None else None
    return Decisions(score, predicted.astype(np.int64), consistent, asked)


def acquire(model: Any, X: NDArray[np.float32], *, callback: Progress | None = None) -> Acquired | None:
    """Ask for features, if the model is one that does; `callback(done, total)` counts the rows."""
    return model.acquire(X, callback=callback) if isinstance(model, Acquires) else None


def is_consistent(
    model: Decides,
    encoder: TableEncoder,
    X: NDArray[np.float32],
    changes: Mapping[str, Sequence[Any] | str],
) -> NDArray[np.bool_]:
    """Whether each row gets one and the same prediction on all its counterfactual copies, shape (n,)."""
    predictions = np.stack([model.predict(copy) for copy in encoded_copies(encoder, X, changes)])
    same: NDArray[np.bool_] = (predictions == predictions[0]).all(axis=0)
    return same
