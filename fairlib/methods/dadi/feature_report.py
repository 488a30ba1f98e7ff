"""AUCs of both classifiers on held-out rows: how much each feature group reveals of label and group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.fairlib.arrays import Bool, Float, Float32, Int
from evenhand.fairlib.methods.dadi.network import SetNetwork, probabilities

if TYPE_CHECKING:
    from evenhand.fairlib.methods.dadi.classifier import DADIClassifier

Codes = Int


@dataclass(frozen=True)
class HeldOut:
    """Rows that no training used."""

    rows: Int  # positions among all rows
    X: Float32
    label: Codes
    group: Codes
    classes: int  # number of groups that the adversary distinguishes
    judged: Bool  # rows that count in its loss

    def aucs(self, predicted: Float, adversary: SetNetwork, known: Bool) -> dict[str, float | None]:
        """AUC of the label's probabilities, shape (n, 2), and of the group, from the known feature groups."""
        logits = adversary.outputs("classify", self.X, known).reshape(len(self.X), -1, self.classes)
        # with a block of outputs for each label, the adversary uses the label
        block = self.label if logits.shape[1] > 1 else 0
        judged = logits[np.arange(len(self.X)), block][self.judged]
        return {
            "classifier_auc": auc(predicted, self.label),
            "adversary_auc": auc(probabilities(judged), self.group[self.judged]),
        }


def feature_report(
    model: DADIClassifier,
    held: HeldOut,
    acquired: Bool,
    pretrained: tuple[SetNetwork, SetNetwork],
    adversary: SetNetwork,
) -> dict[str, Any]:
    """Measure AUCs of classifier and adversary on held-out rows.

    The report has ``rows``, and AUCs for each of ``groups`` alone, by the networks before joint training, and
    by the trained model and adversary for ``all`` groups that may be asked and for those that the policy asks
    for, `acquired`, bool of shape (m, G). AUCs are None for groups that may not be asked, because no training
    used them.
    """
    n, names = len(held.X), list(model.groups_)
    report: dict[str, Any] = {"rows": n, "groups": {}}
    if n == 0:
        return report
    for g, name in enumerate(names):
        alone = np.zeros((n, len(names)), bool)
        alone[:, g] = True
        report["groups"][name] = {"classifier_auc": None, "adversary_auc": None}
        if model.allowed_[g]:
            predicted = probabilities(pretrained[0].outputs("classify", held.X, alone))
            report["groups"][name] = held.aucs(predicted, pretrained[1], alone)
    sets = {"all": np.tile(model.allowed_, (n, 1)), "acquired": acquired}
    for name, known in sets.items():
        report[name] = held.aucs(model.predict_proba_known(held.X, known), adversary, known)
    return report


def auc(predicted: Float, codes: Codes) -> float | None:
    """Area under the ROC curve, the mean over classes of each against the rest; None for a single class."""
    from sklearn.metrics import roc_auc_score

    # equal rows differ in their last digits, which must not rank them
    found = predicted.round(6)
    present = np.unique(codes)
    if present.size < 2:
        return None
    if found.shape[1] == 2:
        return float(roc_auc_score(codes, found[:, 1]))
    return float(np.mean([roc_auc_score(codes == k, found[:, k]) for k in present]))
