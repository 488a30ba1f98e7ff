"""Training rows of a matrix, the targets of both classifiers, and their AUCs on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from evenhand.fairlib.arrays import Bool, Float, Float32, Int
from evenhand.fairlib.execution import generator
from evenhand.fairlib.methods.dadi.network import Layout, Rows, SetNetwork, probabilities
from evenhand.fairlib.methods.row_groups import Groups

if TYPE_CHECKING:
    from evenhand.fairlib.methods.dadi.dadi_classifier import DADIClassifier

Criterion = Literal["demographic_parity", "equal_opportunity", "equalized_odds"]
CRITERIA: tuple[str, ...] = get_args(Criterion)


class Outcome(NamedTuple):
    """Target of a classifier: a person's logits are the ``classes`` outputs from ``start`` on."""

    # (n,): class of every person, and weight in the loss
    code: Any
    weight: Any
    start: Any  # (n,)
    classes: int


def with_weights(outcome: Outcome, weights: Float | None) -> Outcome:
    """The outcome with its weights times those of the rows, of mean 1 again.

    Parameters
    ----------
    outcome : Outcome
        Of n people.
    weights : ndarray of float, shape (n,), or None
        None: the outcome as it is.

    Returns
    -------
    Outcome

    Raises
    ------
    ValueError
        If the product of the weights is 0 for every row.
    """
    if weights is None:
        return outcome
    product = outcome.weight.astype(np.float64) * weights
    total = product.mean()
    if total == 0:
        raise ValueError("sample_weight is 0 in all rows that count in a loss.")
    return outcome._replace(weight=(product / total).astype(np.float32))


def label_outcome(y: Int, class_balance: float) -> Outcome:
    r"""Target of the classifier: weights :math:`\propto n_y^{-\beta}` of mean 1.

    Parameters
    ----------
    y : ndarray of int, shape (n,)
        Labels, 0 and 1.
    class_balance : float
        :math:`\beta`.

    Returns
    -------
    Outcome
    """
    counts = np.bincount(y, minlength=2).astype(np.float64)
    weights = counts[y] ** -class_balance
    return Outcome(y, (weights / weights.mean()).astype(np.float32), np.zeros(y.size, np.int64), 2)


def attribute_outcome(groups: Int, y: Int, criterion: str) -> Outcome:
    r"""Target of the adversary (Madras et al. 2018, section 4.2): all groups have the same total
    weight.

    Demographic parity: :math:`w_i \propto 1 / n_b`. Equalised odds: :math:`w_i \propto 1 / n_{by}`,
    and the adversary has a block of outputs for each label, so that it may use the label. Equal
    opportunity: only rows of the positive label have a weight, :math:`w_i \propto 1 / n_{b1}`.
    Weights have mean 1.

    Parameters
    ----------
    groups : ndarray of int, shape (n,)
        Number of each row's group.
    y : ndarray of int, shape (n,)
        Labels, 0 and 1.
    criterion : {"demographic_parity", "equal_opportunity", "equalized_odds"}

    Returns
    -------
    Outcome

    Raises
    ------
    ValueError
        For a group without people of a label that counts.

    References
    ----------
    Madras, Creager, Pitassi and Zemel, "Learning Adversarially Fair and Transferable
    Representations", ICML 2018.
    """
    k = int(groups.max()) + 1
    by_label = criterion == "equalized_odds"
    cells, n_cells = (groups * 2 + y, 2 * k) if by_label else (groups, k)
    counted = (y == 1) | (criterion != "equal_opportunity")
    counts = np.bincount(cells[counted], minlength=n_cells)
    if (counts == 0).any():
        raise ValueError(
            f"criterion {criterion} needs people of every group with each label that counts, and a "
            "group has none: merge small groups, or take demographic_parity."
        )
    weight = np.zeros(groups.size, np.float32)
    # the same sum in every cell
    balanced = (counted.sum() / (n_cells * counts[cells[counted]])).astype(np.float32)
    weight[counted] = balanced * (groups.size / counted.sum())
    return Outcome(groups, weight, y * k if by_label else np.zeros_like(y), k)


@dataclass(frozen=True)
class HeldOut:
    """Rows that no training used."""

    rows: Int  # positions among all rows
    X: Float32
    label: Int
    group: Int
    classes: int  # number of groups that the adversary distinguishes
    judged: Bool  # rows that count in its loss

    def aucs(self, predicted: Float, adversary: SetNetwork, known: Bool) -> dict[str, float | None]:
        """AUC of the label and of the group, from the known feature groups.

        Parameters
        ----------
        predicted : ndarray of float, shape (n, 2)
            Probabilities of the label.
        adversary : SetNetwork
        known : ndarray of bool, shape (n, G)
            Groups that the adversary knows.

        Returns
        -------
        dict of str to float or None
            ``classifier_auc``, and ``adversary_auc`` among the rows that count in its loss; None
            where there is a single class.
        """
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

    AUCs are None for groups that may not be asked, because no training used them.

    Parameters
    ----------
    model : DADIClassifier
        Trained.
    held : HeldOut
        m rows.
    acquired : ndarray of bool, shape (m, G)
        Groups that the policy asks for.
    pretrained : (SetNetwork, SetNetwork)
        Predictor and adversary before the joint training.
    adversary : SetNetwork
        After it.

    Returns
    -------
    dict
        ``rows``, and AUCs (:meth:`HeldOut.aucs`) for each of ``groups`` alone, by the networks
        before joint training, and by the trained model and adversary for ``all`` groups that may be
        asked and for those ``acquired``. Without rows no more than ``rows`` and empty ``groups``.
    """
    n = len(held.X)
    names = list(model.groups_)
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


def auc(predicted: Float, codes: Int) -> float | None:
    """Area under the ROC curve, the mean over classes of each against the rest.

    Parameters
    ----------
    predicted : ndarray of float, shape (n, K)
        Probabilities; they are compared to six decimals.
    codes : ndarray of int, shape (n,)
        Class of every row.

    Returns
    -------
    float or None
        None for a single class.
    """
    from sklearn.metrics import roc_auc_score

    # equal rows differ in their last digits, which must not rank them
    found = predicted.round(6)
    present = np.unique(codes)
    if present.size < 2:
        return None
    if found.shape[1] == 2:
        return float(roc_auc_score(codes, found[:, 1]))
    return float(np.mean([roc_auc_score(codes == k, found[:, k]) for k in present]))


@dataclass(frozen=True)
class Problem:
    """Training rows, targets of both classifiers, and by group ``allowed`` (G,) and
    ``costs`` (G,).
    """

    layout: Layout
    rows: Rows
    label: Outcome
    attribute: Outcome
    allowed: Bool
    costs: Float


def prepare(
    config: DADIClassifier,
    X: Float32,
    codes: Int,
    sensitive: Groups,
    feature_groups: Mapping[str, Sequence[int]],
    weights: Float | None = None,
) -> tuple[Problem, HeldOut]:
    """Hold rows out, and encode the others.

    Parameters
    ----------
    config : DADIClassifier
    X : ndarray of float32, shape (n, d)
    codes : ndarray of int, shape (n,)
        Labels, 0 and 1.
    sensitive : Groups
        Of the n rows.
    feature_groups : mapping of str to sequence of int
        Columns of each group.
    weights : ndarray of float, shape (n,), or None, default None
        Those of the rows in both classifiers' losses.

    Returns
    -------
    Problem
        Of the training rows.
    HeldOut

    Raises
    ------
    ValueError
        If no group is left to ask, a cost is negative or of an unknown group, or too few rows are
        left to train on.
    """
    layout = Layout.fit(X, feature_groups)
    group = sensitive.codes
    never = {*layout.constant, *sensitive.attributes}
    allowed = np.array([name not in never for name in feature_groups])
    if not allowed.any():
        raise ValueError("no feature group is left to ask: all are constant or sensitive.")
    attribute = attribute_outcome(group, codes, config.criterion)
    held = generator(config.random_state, "validation").random(len(codes)) < config.validation_share
    train = ~held
    if np.unique(codes[train]).size < 2:
        raise ValueError(
            f"of {len(codes)} rows {train.sum()} are left to train on, not of both labels: give "
            "more rows or a smaller validation_share."
        )
    train_weights = None if weights is None else weights[train]
    attribute_of_rows = attribute._replace(
        code=group[train], weight=attribute.weight[train], start=attribute.start[train]
    )
    problem = Problem(
        layout,
        layout.rows(X[train]),
        with_weights(label_outcome(codes[train], config.class_balance), train_weights),
        with_weights(attribute_of_rows, train_weights),
        allowed,
        _costs(config.costs, list(feature_groups)),
    )
    judged = attribute.weight[held] > 0
    held_out = HeldOut(
        np.flatnonzero(held), X[held], codes[held], group[held], attribute.classes, judged
    )
    return problem, held_out


def _costs(given: Mapping[str, float] | None, groups: Sequence[str]) -> Float:
    """Cost of asking each group."""
    costs = dict(given or {})
    for name, cost in costs.items():
        if name not in groups:
            raise ValueError(
                f"costs names {name!r}, which is no feature group: {', '.join(groups)}."
            )
        if not (math.isfinite(cost) and cost >= 0):
            raise ValueError(f"costs[{name!r}] must be finite and not negative, got {cost!r}.")
    return np.array([float(costs.get(name, 0.0)) for name in groups])
