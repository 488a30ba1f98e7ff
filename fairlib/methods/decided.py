"""A trained classifier with a calibration of its probabilities and a rule that decides from
them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.arrays import Bool, Float, Str
from evenhand.fairlib.methods.calibration import Calibration
from evenhand.fairlib.methods.method_base import Method

FORMAT = 1
DECISION_FILE = "decision.json"
# By how much the share of positive decisions may miss a quota because of equal probabilities.
QUOTA_TOLERANCE = 0.01
# Group of the rows without a value, as contracts name it.
MISSING_GROUP = "missing"


@dataclass(frozen=True)
class ThresholdRule:
    """Positive where the calibrated probability is at least a threshold."""

    threshold: float | None = None  # in [0, 1]; None: the model's own prediction
    wanted: str = "the method's own"  # how the threshold was chosen, in words

    def to_json(self) -> dict[str, Any]:
        """Give the rule as plain JSON types."""
        return {"kind": "threshold", "threshold": self.threshold, "wanted": self.wanted}


@dataclass(frozen=True)
class GroupRule:
    """Thresholds by group of one sensitive attribute, mixed at random where the groups' rates need
    it.

    The random number of a person follows from the encoded row, so that the same row always gets the
    same decision. The groups are needed wherever decisions are made.
    """

    attribute: str
    thresholds: Any
    wanted: str
    seed: int = 0  # of the rows' random numbers
    # cut points of a numeric attribute, so that a published model can read its groups
    bins: tuple[float, ...] | None = None
    names: tuple[str, ...] = ()  # names of its groups

    def decide(self, probability: Float, groups: ArrayLike | None, uniform: Float) -> Bool:
        """Decide about n rows with calibrated probabilities, groups, and the result of
        :meth:`uniforms`.

        All have the shape (n,). ValueError: there are no groups, or a group is unknown.
        """
        if groups is None:
            raise ValueError(
                f"decisions of this model depend on {self.attribute!r}: give the group of every "
                "row."
            )
        decided = self.thresholds.decide(probability, np.asarray(groups).astype(str), uniform)
        return np.asarray(decided, dtype=bool)

    def groups_of(self, rows: Any) -> Str:
        """Group of every row of a raw table (DataFrame of n rows), shape (n,); ``missing`` for no
        value. ValueError: the table lacks the attribute, or a value that must be a number is none.
        """
        if self.attribute not in rows.columns:
            raise ValueError(
                f"the input lacks the column {self.attribute!r}, which decisions depend on."
            )
        from evenhand.fairlib.preprocessing.encoder import category_name

        values = rows[self.attribute]
        missing = values.isna().to_numpy()
        found = np.full(len(values), MISSING_GROUP, dtype=object)
        if self.bins is None:
            found[~missing] = [category_name(value) for value in values[~missing]]
            return found.astype(str)
        try:
            numbers = values[~missing].to_numpy(dtype=np.float64)
        except (TypeError, ValueError):  # its message would quote a value
            raise ValueError(
                f"the column {self.attribute!r} must hold numbers: some are none."
            ) from None
        found[~missing] = np.array(self.names)[np.searchsorted(self.bins, numbers, side="right")]
        return found.astype(str)

    def uniforms(self, X: ArrayLike) -> Float:
        """A number in [0, 1) for each encoded row, shape (n,), which chooses among its group's
        thresholds.
        """
        import pyarrow as pa

        from evenhand.fairlib.proxies.hash_uniform import hash_uniforms

        rows = np.ascontiguousarray(X, dtype=np.float32)
        key = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(rows.shape[1] * 4), len(rows), [None, pa.py_buffer(rows.tobytes())]
        )
        return hash_uniforms(pa.table({"row": key}), ["row"], self.seed)

    def to_json(self) -> dict[str, Any]:
        """Give the rule as plain JSON types."""
        plain = {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in vars(self).items()
        }
        return {"kind": "groups", **plain, "thresholds": self.thresholds.to_json()}


Rule = ThresholdRule | GroupRule


class DecidedModel:
    """A classifier for two labels, whose probabilities are calibrated and whose decisions follow a
    rule.

    It has all attributes of its fitted `base` beside its own.
    """

    def __init__(self, base: Any, calibration: Calibration, rule: Rule) -> None:
        self.base = base
        self.calibration = calibration
        self.rule = rule

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "base":
            raise AttributeError(name)
        return getattr(self.base, name)

    def predict_proba(self, X: ArrayLike) -> Float:
        """Calibrated probabilities of both labels, shape (n, 2), of rows, shape (n, d)."""
        return self._both(self.base.predict_proba(X))

    def predict_proba_known(self, X: ArrayLike, known: Bool) -> Float:
        """The same from known features alone, for a model that asks for features."""
        return self._both(self.base.predict_proba_known(X, known))

    def _both(self, probabilities: Float) -> Float:
        positive = self.calibration(probabilities[:, 1])
        return np.stack([1.0 - positive, positive], axis=1)

    @property
    def acquire(self) -> Any:
        """The questions of a model that asks for features, with calibrated probabilities after
        them.
        """
        ask = self.base.acquire

        def acquire(X: ArrayLike, **options: Any) -> Any:
            found = ask(X, **options)
            return replace(found, probability=self.calibration(found.probability))

        return acquire

    def predict(self, X: ArrayLike, groups: ArrayLike | None = None) -> NDArray[Any]:
        """Labels, shape (n,); `groups` are needed where the rule depends on them."""
        if isinstance(self.rule, ThresholdRule) and self.rule.threshold is None:
            return np.asarray(self.base.predict(X))
        return self.decide(self.predict_proba(X)[:, 1], X, groups)

    def decide(
        self, probability: ArrayLike, X: ArrayLike, groups: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Labels of calibrated probabilities, shape (n,).
        ValueError: the rule needs groups, and there are none.
        """
        p = np.asarray(probability, dtype=np.float64)
        if isinstance(self.rule, GroupRule):
            decided = self.rule.decide(p, groups, self.rule.uniforms(X))
        elif self.rule.threshold is None:
            # the classifier's own decision is at one half of its own probability
            decided = p > self.calibration([0.5])
        else:
            decided = p >= self.rule.threshold
        return np.asarray(self.base.classes_[decided.astype(np.int64)])

    @property
    def decides_by(self) -> str | None:
        """Sensitive attribute whose groups the decisions depend on; None for most models."""
        return self.rule.attribute if isinstance(self.rule, GroupRule) else None

    def save(self, folder: str | Path) -> None:
        """Write the classifier's files and ``decision.json``; neither holds a row."""
        self.base.save(folder)
        write_decision(folder, self.calibration, self.rule)

    @classmethod
    def wrap(cls, base: Any, folder: str | Path) -> Self:
        """Give a loaded classifier the calibration and rule of ``decision.json`` in `folder`.
        ValueError: the file has another format.
        """
        content = json.loads((Path(folder) / DECISION_FILE).read_text())
        if content.get("format") != FORMAT:
            raise ValueError(f"{folder} holds no decision rule of format {FORMAT}.")
        rule = dict(content["rule"])
        read: Rule
        if rule.pop("kind") == "groups":
            from evenhand.fairlib.evaluation.group_thresholds import GroupThresholds

            thresholds = GroupThresholds.from_json(rule.pop("thresholds"))
            bins = None if rule["bins"] is None else tuple(rule["bins"])
            read = GroupRule(
                thresholds=thresholds, **{**rule, "bins": bins, "names": tuple(rule["names"])}
            )
        else:
            read = ThresholdRule(**rule)
        return cls(base, Calibration.from_json(content["calibration"]), read)


def labels_of(
    model: Any, probability: ArrayLike, X: ArrayLike, groups: ArrayLike | None = None
) -> NDArray[Any]:
    """Labels of any classifier's probabilities, shape (n,): by its rule, or the likelier one."""
    if isinstance(model, DecidedModel):
        return model.decide(probability, X, groups)
    return np.asarray(model.classes_[(np.asarray(probability) > 0.5).astype(np.int64)])


def predictions_of(
    model: Any, X: ArrayLike, groups: ArrayLike | None = None
) -> tuple[Bool, Float, list[str] | None]:
    """Predict n rows as ``predict`` and ``predict_proba`` do, with one pass through the model if
    possible.

    Returns whether each row gets ``classes_[1]`` and that label's probability, both of shape (n,),
    and, of a model that asks for features, their names in order, joined by commas. Of more than two
    labels these are the position of the predicted one in ``classes_`` and its probability. `groups`
    are those of
    :meth:`DecidedModel.predict`.
    """
    if hasattr(model, "acquire"):
        acquired = model.acquire(X)
        names = list(model.groups_)
        asked = [",".join(names[group] for group in row if group >= 0) for row in acquired.order]
        labels = labels_of(model, acquired.probability, X, groups)
        return labels == model.classes_[1], acquired.probability, asked
    decided = isinstance(model, DecidedModel)
    base = model.base if decided else model
    own: Float = base.predict_proba(X)
    if own.shape[1] > 2:
        best = own.argmax(axis=1)
        return best, own[np.arange(len(own)), best], None
    probability = model.calibration(own[:, 1]) if decided else own[:, 1]
    if decided and not (isinstance(model.rule, ThresholdRule) and model.rule.threshold is None):
        return model.decide(probability, X, groups) == model.classes_[1], probability, None
    if type(base).predict is Method.predict:
        return own[:, 1] > own[:, 0], probability, None
    return np.asarray(base.predict(X)) == model.classes_[1], probability, None


def write_decision(folder: str | Path, calibration: Calibration, rule: Rule) -> None:
    """Write ``decision.json`` beside a saved classifier's files."""
    content = {"format": FORMAT, "calibration": calibration.to_json(), "rule": rule.to_json()}
    (Path(folder) / DECISION_FILE).write_text(json.dumps(content, sort_keys=True))


def choose_threshold(
    probability: ArrayLike,
    y: ArrayLike,
    *,
    threshold: float | str | None = None,
    rate: float | None = None,
    costs: Mapping[str, float] | None = None,
) -> ThresholdRule:
    r"""Choose a threshold from calibrated probabilities of rows that the model was not trained on.

    With a calibrated probability p, the expected cost of a decision is least for ``positive`` where
    :math:`p \ge c_{FP} / (c_{FP} + c_{FN})` (Elkan, IJCAI 2001): one half for the largest accuracy,
    and the share of positives for the largest balanced accuracy, whose costs are the inverse shares
    of the labels.

    Probabilities and y, 0 and 1, have the shape (m,). `threshold` is a number, ``balanced``,
    ``max_accuracy``, or ``own`` for the classifier's own prediction. Instead of a threshold, `rate`
    is a wanted share of positive decisions, or `costs` has ``false_positive`` and
    ``false_negative``. ValueError for a quota that equal probabilities make impossible.
    """
    p = np.asarray(probability, dtype=np.float64)
    labels = np.asarray(y)
    if rate is not None:
        return _quota(p, rate)
    if costs is not None:
        wrong = costs["false_positive"]
        missed = costs["false_negative"]
        return ThresholdRule(wrong / (wrong + missed), f"costs {wrong:g} and {missed:g}")
    if threshold == "own":
        return ThresholdRule()
    if threshold == "balanced":
        return ThresholdRule(float(labels.mean()), "the largest balanced accuracy")
    if threshold == "max_accuracy":
        return ThresholdRule(0.5, "the largest accuracy")
    return ThresholdRule(float(threshold), "given")  # type: ignore[arg-type]


def _quota(p: Float, rate: float) -> ThresholdRule:
    values, counts = np.unique(p, return_counts=True)
    shares = counts[::-1].cumsum()[::-1] / len(p)
    best = int(np.abs(shares - rate).argmin())
    if abs(shares[best] - rate) > QUOTA_TOLERANCE + 1.0 / len(p):
        raise ValueError(
            f"a share of {rate:g} positive decisions is impossible: so many people have equal "
            "probabilities "
            f"that the nearest share is {shares[best]:.3f}: ask for that."
        )
    # halfway to the next lower probability, so that new people near the last one are decided alike
    below = values[best - 1] if best else values[best]
    middle = (values[best] + below) / 2
    # between neighbouring floats the middle may round to the lower one, whose people are not chosen
    threshold = middle if middle > below else values[best]
    return ThresholdRule(float(threshold), f"a share of {rate:g} positive decisions")


def decision_curve(
    probability: ArrayLike, y: ArrayLike, points: int = 51, *, min_cell: int = 5
) -> list[dict[str, float]]:
    """Shares of positive decisions, accuracy and balanced accuracy by threshold, for a chart.

    Between two thresholds, and beyond the outer ones, are nobody or at least `min_cell` people:
    nothing follows from the curve about fewer.
    """
    p = np.asarray(probability, dtype=np.float64)
    labels = np.asarray(y, dtype=bool)
    quantiles = np.quantile(p, np.linspace(0.0, 1.0, points)).round(6)
    rows: list[dict[str, float]] = []
    passed = 0  # people below the last threshold kept
    for threshold in [
        0.0,
        *np.unique(quantiles[(quantiles > 0.0) & (quantiles < 1.0)]).tolist(),
        1.0,
    ]:
        positive = p >= threshold
        below = int((~positive).sum())
        above = int(positive.sum())
        if 0.0 < threshold < 1.0 and (below - passed < min_cell or above < min_cell):
            continue
        if threshold == 1.0 and 0 < above < min_cell:
            continue
        passed = below
        true_rate = float(positive[labels].mean())
        false_rate = float(positive[~labels].mean())
        rows.append(
            {
                "threshold": threshold,
                "selected": float(positive.mean()),
                "accuracy": float((positive == labels).mean()),
                "balanced_accuracy": (true_rate + 1.0 - false_rate) / 2,
            }
        )
    return rows
