"""Outputs of a trained network for given sets of known groups, and what single groups give away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from evenhand.fairlib.methods.base import Float32
from evenhand.fairlib.methods.dadi._inference import Columns, head_outputs, read_sets
from evenhand.fairlib.methods.dadi._network import Network
from evenhand.fairlib.methods.dadi.layout import Layout
from evenhand.fairlib.methods.dadi.parameters import NetworkShape

__all__ = ["CHUNK_ROWS", "HeldOut", "Known", "Reader", "group_report"]

CHUNK_ROWS = 1024
Codes = NDArray[np.int64]
Known = NDArray[np.uint8]


@dataclass(frozen=True)
class Reader:
    """A network that reads sets: its shape, its parameters in one vector, and the matrix's layout."""

    shape: NetworkShape
    vector: Float32
    layout: Layout
    steps: int

    def for_kernels(self) -> tuple[Network, Columns]:
        """
        Network and columns as the kernels take them.

        Read-only arrays, as of a model in shared memory, are copied: they would be compiled for anew.
        """
        columns = Columns(*(np.require(part, requirements=["C", "W"]) for part in self.layout.columns))
        return self.shape.network(np.require(self.vector, requirements=["C", "W"])), columns

    def outputs(self, head: str, X: Float32, known: Known) -> Float32:
        """Outputs of ``classify`` or ``policy`` for rows of which groups are known, shape (n, outputs)."""
        network, columns = self.for_kernels()
        # always the same layout: the kernels are compiled for each one anew
        known = np.ascontiguousarray(known)
        parts = []
        for start in range(0, len(X), CHUNK_ROWS):
            part = slice(start, start + CHUNK_ROWS)
            rows = self.layout.rows(X[part])
            vectors = read_sets(network.encoder, columns, rows, known[part], self.steps)
            parts.append(head_outputs(getattr(network, head), vectors))
        width = getattr(network, head).bias3.size
        return np.concatenate(parts) if parts else np.zeros((0, width), np.float32)


@dataclass(frozen=True)
class HeldOut:
    """
    Rows that no training saw.

    ``classes`` is the number of groups that the adversary guesses among; ``judged`` are the rows that count
    in its loss.
    """

    X: Float32
    label: Codes
    group: Codes
    classes: int
    judged: NDArray[np.bool_]

    def aucs(self, predictor: Reader, adversary: Reader, known: Known) -> dict[str, float | None]:
        """AUC of the label and of the group from what is known."""
        guess = adversary.outputs("classify", self.X, known).reshape(len(self.X), -1, self.classes)
        # with a block of outputs per label, the adversary uses the label
        block = self.label if guess.shape[1] > 1 else 0
        return {
            "classifier_auc": _auc(predictor.outputs("classify", self.X, known), self.label),
            "adversary_auc": _auc(guess[np.arange(len(self.X)), block][self.judged], self.group[self.judged]),
        }


def group_report(
    names: list[str],
    allowed: NDArray[np.bool_],
    held: HeldOut,
    pretrained: tuple[Reader, Reader],
    trained: tuple[Reader, Reader],
    known: Known,
) -> dict[str, Any]:
    """
    Measure AUCs of classifier and adversary on the rows set aside.

    Parameters
    ----------
    allowed : bool, shape (G,)
        Groups that may be asked.
    pretrained, trained : (Reader, Reader)
        Predictor and adversary before and after joint training.
    known : uint8, shape (rows, G)
        What the policy asks for.

    Returns
    -------
    dict
        ``rows``, and AUCs for each of ``groups`` alone (pretrained), for ``all`` that may be asked and for
        what is ``acquired``. Those of groups that may not be asked are None: no training showed them.
    """
    n = len(held.X)
    report: dict[str, Any] = {"rows": n, "groups": {}}
    if n == 0:
        return report
    for g, name in enumerate(names):
        if not allowed[g]:
            report["groups"][name] = {"classifier_auc": None, "adversary_auc": None}
            continue
        alone = np.zeros((n, len(names)), np.uint8)
        alone[:, g] = 1
        report["groups"][name] = held.aucs(*pretrained, alone)
    report["all"] = held.aucs(*trained, np.tile(allowed.astype(np.uint8), (n, 1)))
    report["acquired"] = held.aucs(*trained, known)
    return report


def _auc(logits: Float32, codes: Codes) -> float | None:
    """Area under the ROC curve, the mean over classes of each against the rest; None if one is empty."""
    from sklearn.metrics import roc_auc_score

    # equal rows differ in their last digits, which are not to be ranked
    probabilities = softmax(logits.astype(np.float64), axis=1).round(6)
    present = np.unique(codes)
    if present.size < 2:
        return None
    if probabilities.shape[1] == 2:
        return float(roc_auc_score(codes, probabilities[:, 1]))
    return float(np.mean([roc_auc_score(codes == k, probabilities[:, k]) for k in present]))
