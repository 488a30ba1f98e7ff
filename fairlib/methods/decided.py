"""A trained classifier with a calibration of its probabilities and a rule that decides from
them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.arrays import Bool, Float, Str
from evenhand.fairlib.evaluation.group_selection import JOINT
from evenhand.fairlib.methods.calibration import Calibration
from evenhand.fairlib.methods.method_base import Method

FORMAT = 1
# Of a rule of crossed groups, or in which small groups share thresholds: older releases do not
# read it.
CROSSED_FORMAT = 2
DECISION_FILE = "decision.json"
# By how much the share of positive decisions may miss a quota because of equal probabilities.
QUOTA_TOLERANCE = 0.01
# Group of the rows without a value, as contracts name it.
MISSING_GROUP = "missing"
# Groups that are too small for thresholds of their own, and combinations that no training row has,
# share those of this one.
OTHER_GROUPS = "all other groups"


@dataclass(frozen=True)
class ThresholdRule:
    """Positive where the calibrated probability is at least a threshold.

    Attributes
    ----------
    threshold : float or None
        In [0, 1]; None: the model's own prediction.
    wanted : str
        How the threshold was chosen, in words.
    """

    threshold: float | None = None
    wanted: str = "the method's own"

    def to_json(self) -> dict[str, Any]:
        """Give the rule as plain JSON types.

        Returns
        -------
        dict
        """
        return {"kind": "threshold", "threshold": self.threshold, "wanted": self.wanted}


@dataclass(frozen=True)
class AttributeGroups:
    """How the groups of one sensitive column are read from a raw table.

    Attributes
    ----------
    name : str
        The column.
    bins : tuple of float, or None
        Cut points of a numeric column.
    names : tuple of str
        Names of the groups between the cut points.
    known : tuple of str
        Groups of the training rows; empty where they are not known.
    """

    name: str
    bins: tuple[float, ...] | None = None
    names: tuple[str, ...] = ()
    known: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> AttributeGroups:
        """Read plain JSON.

        Parameters
        ----------
        content : mapping
            ``name``, ``bins`` and ``names``, and ``known`` optionally.

        Returns
        -------
        AttributeGroups
        """
        bins = None
        if content["bins"] is not None:
            bins = tuple(content["bins"])
        known = tuple(content.get("known", ()))
        return cls(content["name"], bins, tuple(content["names"]), known)

    def to_json(self) -> dict[str, Any]:
        """Give what :meth:`from_json` reads, as plain JSON types.

        Returns
        -------
        dict
        """
        bins = None
        if self.bins is not None:
            bins = list(self.bins)
        names = list(self.names)
        return {"name": self.name, "bins": bins, "names": names, "known": list(self.known)}

    def of(self, rows: Any) -> Str:
        """Group of every row of a raw table.

        Parameters
        ----------
        rows : DataFrame, n rows

        Returns
        -------
        ndarray of str, shape (n,)
            ``missing`` where there is no value.

        Raises
        ------
        ValueError
            If the table lacks the column, or a value that must be a number is none.
        """
        if self.name not in rows.columns:
            raise ValueError(
                f"the input lacks the column {self.name!r}, which decisions depend on."
            )
        from evenhand.fairlib.preprocessing.encoder import category_name

        values = rows[self.name]
        missing = values.isna().to_numpy()
        groups = np.full(len(values), MISSING_GROUP, dtype=object)
        if self.bins is None:
            groups[~missing] = [category_name(value) for value in values[~missing]]
            return groups.astype(str)
        try:
            numbers = values[~missing].to_numpy(dtype=np.float64)
        except (TypeError, ValueError):  # its message would quote a value
            raise ValueError(
                f"the column {self.name!r} must hold numbers: some are none."
            ) from None
        numbered = np.searchsorted(self.bins, numbers, side="right")
        groups[~missing] = np.array(self.names)[numbered]
        return groups.astype(str)


@dataclass(frozen=True)
class GroupRule:
    """Thresholds by group of one sensitive attribute, or of several crossed ones, mixed at random
    where the groups' rates need it.

    The random number of a person follows from the encoded row, so that the same row always gets the
    same decision. The groups are needed wherever decisions are made.

    Attributes
    ----------
    attribute : str
        Name of the attribute; ``"sex&race"`` of crossed ones.
    thresholds : GroupThresholds
    wanted : str
        How the thresholds were chosen, in words.
    seed : int
        Of the rows' random numbers.
    bins : tuple of float, or None
        Cut points of a numeric attribute, so that a published model can read its groups.
    names : tuple of str
        Names of the groups between the cut points.
    crossed : tuple of AttributeGroups
        The columns of crossed attributes. For one attribute its column if some of its groups share
        thresholds, else empty.
    """

    attribute: str
    thresholds: Any
    wanted: str
    seed: int = 0
    bins: tuple[float, ...] | None = None
    names: tuple[str, ...] = ()
    crossed: tuple[AttributeGroups, ...] = ()

    @property
    def parts(self) -> tuple[AttributeGroups, ...]:
        """The columns that the groups are read from."""
        return self.crossed or (AttributeGroups(self.attribute, self.bins, self.names),)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of these columns."""
        return tuple(part.name for part in self.parts)

    def ruled_groups(self, groups: ArrayLike) -> Str:
        """Group whose thresholds each row gets.

        Parameters
        ----------
        groups : array-like, shape (n,)
            Group of every row.

        Returns
        -------
        ndarray of str, shape (n,)
            The same groups; ``OTHER_GROUPS`` in place of those without thresholds of their own,
            whose parts are groups of the training rows.
        """
        named = np.asarray(groups).astype(str)
        if not self.crossed:
            return named
        distinct, place = np.unique(named, return_inverse=True)
        ruled = [self._ruled_group(group) for group in distinct.tolist()]
        return np.array(ruled, dtype=str)[place]

    def _ruled_group(self, group: str) -> str:
        if group in self.thresholds.thresholds or OTHER_GROUPS not in self.thresholds.thresholds:
            return group
        parts = [part.known for part in self.crossed]
        if all(parts) and not _is_joint(group, parts):
            return group
        return OTHER_GROUPS

    def knowing(self, sensitive: Mapping[str, ArrayLike]) -> GroupRule:
        """Return the rule with the groups of the training rows, by each attribute.

        Parameters
        ----------
        sensitive : mapping
            Groups of the training rows by attribute.

        Returns
        -------
        GroupRule
            The same rule where each group of one attribute has thresholds.
        """
        crossed = []
        for part in self.crossed:
            known = np.unique(np.asarray(sensitive[part.name]).astype(str))
            crossed.append(replace(part, known=tuple(known.tolist())))
        return replace(self, crossed=tuple(crossed))

    def unknown_groups(self, groups: ArrayLike) -> set[str]:
        """Groups that the rule has no thresholds for.

        Parameters
        ----------
        groups : array-like, shape (n,)

        Returns
        -------
        set of str
        """
        distinct = np.array(sorted(set(map(str, set(np.asarray(groups).tolist())))), dtype=str)
        return set(self.ruled_groups(distinct).tolist()) - set(self.thresholds.thresholds)

    def decide(self, probability: Float, groups: ArrayLike | None, uniform: Float) -> Bool:
        """Decide about n rows.

        Parameters
        ----------
        probability : ndarray of float, shape (n,)
            Calibrated probabilities of the second label.
        groups : array-like, shape (n,)
            Group of every row.
        uniform : ndarray of float, shape (n,)
            Result of :meth:`uniforms`.

        Returns
        -------
        ndarray of bool, shape (n,)
            Whether each row gets the second label.

        Raises
        ------
        ValueError
            If there are no groups, or a group is unknown.
        """
        if groups is None:
            raise ValueError(
                f"decisions of this model depend on {self.attribute!r}: give the group of every "
                "row."
            )
        decided = self.thresholds.decide(probability, self.ruled_groups(groups), uniform)
        return np.asarray(decided, dtype=bool)

    def groups_of(self, rows: Any) -> Str:
        """Group of every row of a raw table.

        Parameters
        ----------
        rows : DataFrame, n rows

        Returns
        -------
        ndarray of str, shape (n,)
            ``missing`` where there is no value.

        Raises
        ------
        ValueError
            If the table lacks a column, or a value that must be a number is none.
        """
        first, *others = self.parts
        groups: Any = first.of(rows)
        for part in others:
            groups_of_part: Any = part.of(rows)
            groups = np.char.add(np.char.add(groups, JOINT), groups_of_part)
        return np.asarray(groups)

    def uniforms(self, X: ArrayLike) -> Float:
        """Hash-based uniform numbers, which choose among the thresholds of a row's group.

        Parameters
        ----------
        X : array-like, shape (n, d)
            Encoded rows.

        Returns
        -------
        ndarray of float, shape (n,)
            In [0, 1); equal rows have equal numbers.
        """
        from evenhand.fairlib.proxies.byte_hash import LONGEST_INTEGER, byte_uniforms

        rows = np.ascontiguousarray(X, dtype=np.float32)
        if rows.shape[1] * rows.itemsize > LONGEST_INTEGER:
            return byte_uniforms(rows.view(np.uint8), "row", self.seed)
        import pyarrow as pa

        from evenhand.fairlib.proxies.hash_uniform import hash_uniforms

        key = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(rows.shape[1] * 4), len(rows), [None, pa.py_buffer(rows.tobytes())]
        )
        return hash_uniforms(pa.table({"row": key}), ["row"], self.seed)

    def to_json(self) -> dict[str, Any]:
        """Give the rule as plain JSON types.

        Returns
        -------
        dict
        """
        content: dict[str, Any] = {"kind": "groups"}
        for item in fields(self):
            value = getattr(self, item.name)
            content[item.name] = list(value) if isinstance(value, tuple) else value
        content["thresholds"] = self.thresholds.to_json()
        del content["crossed"]
        if self.crossed:
            content["crossed"] = [part.to_json() for part in self.crossed]
        return content


def _is_joint(group: str, parts: Sequence[Sequence[str]]) -> bool:
    """Whether a crossed group joins one of the names of each part."""
    names, *others = parts
    if not others:
        return group in names
    for name in names:
        start = f"{name}{JOINT}"
        if group.startswith(start) and _is_joint(group.removeprefix(start), others):
            return True
    return False


Rule = ThresholdRule | GroupRule


class DecidedModel:
    """A classifier for two labels, whose probabilities are calibrated and whose decisions follow a
    rule.

    It has all attributes of its fitted `base` in addition to its own.

    Parameters
    ----------
    base : Method
        Fitted, for two labels.
    calibration : Calibration
    rule : ThresholdRule or GroupRule
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
        """Calibrated probabilities of both labels.

        Parameters
        ----------
        X : array-like, shape (n, d)

        Returns
        -------
        ndarray of float, shape (n, 2)
        """
        return self._both(self.base.predict_proba(X))

    def predict_proba_known(self, X: ArrayLike, known: Bool) -> Float:
        """As :meth:`predict_proba`, from known features alone, of a model that asks for features.

        Parameters
        ----------
        X : array-like, shape (n, d)
        known : ndarray of bool, shape (n, G)
            Known feature groups of every row.

        Returns
        -------
        ndarray of float, shape (n, 2)
        """
        return self._both(self.base.predict_proba_known(X, known))

    def _both(self, probabilities: Float) -> Float:
        """Calibrated probabilities of both labels, from the model's."""
        positive = self.calibration(probabilities[:, 1])
        return np.stack([1.0 - positive, positive], axis=1)

    @property
    def acquire(self) -> Any:
        """The questions of a model that asks for features, with calibrated probabilities after
        them.
        """
        ask = self.base.acquire

        def acquire(X: ArrayLike, **options: Any) -> Any:
            acquisition = ask(X, **options)
            probability = self.calibration(acquisition.probability)
            return replace(acquisition, probability=probability)

        return acquire

    def predict(self, X: ArrayLike, groups: ArrayLike | None = None) -> NDArray[Any]:
        """Predict labels by the rule.

        Parameters
        ----------
        X : array-like, shape (n, d)
        groups : array-like, shape (n,), or None
            Group of every row, needed where the rule depends on it.

        Returns
        -------
        ndarray, shape (n,)
        """
        if isinstance(self.rule, ThresholdRule) and self.rule.threshold is None:
            return np.asarray(self.base.predict(X))
        return self.decide(self.predict_proba(X)[:, 1], X, groups)

    def decide(
        self, probability: ArrayLike, X: ArrayLike, groups: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Labels of calibrated probabilities.

        Parameters
        ----------
        probability : array-like, shape (n,)
        X : array-like, shape (n, d)
            Encoded rows.
        groups : array-like, shape (n,), or None

        Returns
        -------
        ndarray, shape (n,)

        Raises
        ------
        ValueError
            If the rule needs groups, and there are none.
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
        """Sensitive attribute whose groups the decisions depend on, or several crossed ones such as
        ``"sex&race"``; None for most models.
        """
        return self.rule.attribute if isinstance(self.rule, GroupRule) else None

    def save(self, folder: str | Path) -> None:
        """Write the classifier's files and ``decision.json``; neither holds a row.

        Parameters
        ----------
        folder : str or Path
        """
        self.base.save(folder)
        write_decision(folder, self.calibration, self.rule)

    @classmethod
    def wrap(cls, base: Any, folder: str | Path) -> Self:
        """Give a loaded classifier the calibration and rule of ``decision.json``.

        Parameters
        ----------
        base : Method
            Loaded from the same folder.
        folder : str or Path

        Returns
        -------
        DecidedModel

        Raises
        ------
        ValueError
            If the file has another format.
        """
        content = json.loads((Path(folder) / DECISION_FILE).read_text())
        if content.get("format") not in (FORMAT, CROSSED_FORMAT):
            raise ValueError(
                f"{folder} holds no decision rule of format {FORMAT} or {CROSSED_FORMAT}."
            )
        calibration = Calibration.from_json(content["calibration"])
        return cls(base, calibration, _rule_of(content["rule"]))


def columns_of_rule(content: Mapping[str, Any]) -> list[str]:
    """Columns that decisions depend on, from a rule as JSON.

    Parameters
    ----------
    content : mapping
        Result of a rule's ``to_json``.

    Returns
    -------
    list of str
        Empty where one threshold is for all.
    """
    if content["kind"] != "groups":
        return []
    crossed = [part["name"] for part in content.get("crossed", ())]
    return crossed or [content["attribute"]]


def _rule_of(content: Mapping[str, Any]) -> Rule:
    """Read the result of a rule's ``to_json``."""
    fields = dict(content)
    if fields.pop("kind") != "groups":
        return ThresholdRule(**fields)
    from evenhand.fairlib.evaluation.group_thresholds import GroupThresholds

    fields["thresholds"] = GroupThresholds.from_json(fields["thresholds"])
    fields["names"] = tuple(fields["names"])
    if fields["bins"] is not None:
        fields["bins"] = tuple(fields["bins"])
    fields["crossed"] = tuple(map(AttributeGroups.from_json, fields.get("crossed", ())))
    return GroupRule(**fields)


def labels_of(
    model: Any, probability: ArrayLike, X: ArrayLike, groups: ArrayLike | None = None
) -> NDArray[Any]:
    """Labels of any classifier's probabilities: by its rule, or the more probable one.

    Parameters
    ----------
    model : Method or DecidedModel
    probability : array-like, shape (n,)
        Of ``classes_[1]``.
    X : array-like, shape (n, d)
        Encoded rows.
    groups : array-like, shape (n,), or None
        As in :meth:`DecidedModel.predict`.

    Returns
    -------
    ndarray, shape (n,)
    """
    if isinstance(model, DecidedModel):
        return model.decide(probability, X, groups)
    return np.asarray(model.classes_[(np.asarray(probability) > 0.5).astype(np.int64)])


def predictions_of(
    model: Any, X: ArrayLike, groups: ArrayLike | None = None
) -> tuple[Bool, Float, list[str] | None]:
    """Predict n rows as ``predict`` and ``predict_proba`` do, with one pass through the model if
    possible.

    Parameters
    ----------
    model : Method or DecidedModel
    X : array-like, shape (n, d)
    groups : array-like, shape (n,), or None
        As in :meth:`DecidedModel.predict`.

    Returns
    -------
    ndarray of bool, shape (n,)
        Whether each row gets ``classes_[1]``. Of more than two labels, the position of the
        predicted one in ``classes_``.
    ndarray of float, shape (n,)
        Probability of ``classes_[1]``, or of the predicted label.
    list of str, or None
        Of a model that asks for features, the names of those that it asked each row for, in order,
        joined by commas.
    """
    if hasattr(model, "acquire"):
        acquired = model.acquire(X)
        labels = labels_of(model, acquired.probability, X, groups)
        questions = _asked_names(list(model.groups_), acquired.order)
        return labels == model.classes_[1], acquired.probability, questions
    if isinstance(model, DecidedModel):
        return _decided_predictions(model, X, groups)
    probabilities: Float = model.predict_proba(X)
    if probabilities.shape[1] > 2:
        return *_most_probable(probabilities), None
    positive = _is_positive(model, X, probabilities)
    return positive, probabilities[:, 1], None


def _asked_names(names: list[str], order: NDArray[Any]) -> list[str]:
    """Names of the feature groups that each row was asked for; in `order`, -1 is no question."""
    questions = []
    for row in order:
        questions.append(",".join(names[group] for group in row if group >= 0))
    return questions


def _most_probable(probabilities: Float) -> tuple[NDArray[Any], Float]:
    """Position of the most probable label of every row, and its probability."""
    best = probabilities.argmax(axis=1)
    return best, probabilities[np.arange(len(probabilities)), best]


def _is_positive(base: Any, X: ArrayLike, probabilities: Float) -> Bool:
    """Whether each row gets ``classes_[1]`` by the classifier's own prediction."""
    if type(base).predict is Method.predict:
        return probabilities[:, 1] > probabilities[:, 0]
    return np.asarray(base.predict(X)) == base.classes_[1]


def _decided_predictions(
    model: DecidedModel, X: ArrayLike, groups: ArrayLike | None
) -> tuple[Bool, Float, None]:
    """As `predictions_of`, of a model with a calibration and a rule."""
    probabilities: Float = model.base.predict_proba(X)
    if probabilities.shape[1] > 2:
        return *_most_probable(probabilities), None
    calibrated = model.calibration(probabilities[:, 1])
    if isinstance(model.rule, ThresholdRule) and model.rule.threshold is None:
        return _is_positive(model.base, X, probabilities), calibrated, None
    return model.decide(calibrated, X, groups) == model.classes_[1], calibrated, None


def write_decision(folder: str | Path, calibration: Calibration, rule: Rule) -> None:
    """Write ``decision.json`` next to a saved classifier's files.

    Parameters
    ----------
    folder : str or Path
    calibration : Calibration
    rule : ThresholdRule or GroupRule
    """
    written_format = FORMAT
    if isinstance(rule, GroupRule) and rule.crossed:
        written_format = CROSSED_FORMAT
    content = {
        "format": written_format,
        "calibration": calibration.to_json(),
        "rule": rule.to_json(),
    }
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

    Parameters
    ----------
    probability : array-like, shape (m,)
    y : array-like, shape (m,)
        Labels, 0 and 1.
    threshold : float, {"observed", "balanced", "max_accuracy", "own"} or None
        ``observed`` is the threshold at which as many decisions are positive as labels are, or
        nearly as many where people have equal probabilities; ``own`` is the classifier's own
        prediction.
    rate : float or None
        Instead of a threshold, a wanted share of positive decisions.
    costs : mapping or None
        Instead of a threshold, the costs ``false_positive`` and ``false_negative``.

    Returns
    -------
    ThresholdRule

    Raises
    ------
    ValueError
        For a quota that equal probabilities make impossible.

    References
    ----------
    Elkan, "The foundations of cost-sensitive learning", IJCAI 2001.

    Examples
    --------
    >>> costs = {"false_positive": 3.0, "false_negative": 1.0}
    >>> choose_threshold([0.2, 0.4, 0.6, 0.9], [0, 1, 0, 1], costs=costs).threshold
    0.75
    >>> choose_threshold([0.1, 0.2, 0.2, 0.4], [0, 0, 1, 0], threshold="observed").threshold
    0.30000000000000004
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
    if threshold == "observed":
        chosen, _ = nearest_share(p, float(labels.mean()))
        return ThresholdRule(chosen, "the observed share of positive labels")
    if threshold == "balanced":
        return ThresholdRule(float(labels.mean()), "the largest balanced accuracy")
    if threshold == "max_accuracy":
        return ThresholdRule(0.5, "the largest accuracy")
    return ThresholdRule(float(threshold), "given")  # type: ignore[arg-type]


def _quota(p: Float, rate: float) -> ThresholdRule:
    """Threshold at which the share of positive decisions is a rate."""
    threshold, share = nearest_share(p, rate)
    if abs(share - rate) > QUOTA_TOLERANCE + 1.0 / len(p):
        raise ValueError(
            f"a share of {rate:g} positive decisions is impossible: so many people have equal "
            f"probabilities that the nearest share is {share:.3f}: ask for that."
        )
    return ThresholdRule(threshold, f"a share of {rate:g} positive decisions")


def nearest_share(p: Float, rate: float) -> tuple[float, float]:
    """Threshold at which the share of positive decisions is nearest to a rate, and that share.

    Parameters
    ----------
    p : ndarray of float64, shape (m,)
        Probabilities of the positive label.
    rate : float
        The wanted share.

    Returns
    -------
    float
        The threshold; people with it, or a larger probability, are decided positive.
    float
        Their share, which differs from `rate` where people have equal probabilities.
    """
    values, counts = np.unique(p, return_counts=True)
    shares = counts[::-1].cumsum()[::-1] / len(p)
    best = int(np.abs(shares - rate).argmin())
    # halfway to the next lower probability, so that new people near the last one are decided alike
    below = values[best - 1] if best else values[best]
    middle = (values[best] + below) / 2
    # between neighbouring floats the middle may round to the lower one, whose people are not chosen
    threshold = middle if middle > below else values[best]
    return float(threshold), float(shares[best])


def decision_curve(
    probability: ArrayLike, y: ArrayLike, points: int = 51, *, min_cell: int = 5
) -> list[dict[str, float]]:
    """Shares of positive decisions, accuracy and balanced accuracy by threshold, for a chart.

    Between two thresholds, and beyond the outer ones, are nobody or at least `min_cell` people:
    nothing follows from the curve about fewer.

    Parameters
    ----------
    probability : array-like, shape (m,)
    y : array-like, shape (m,)
        Labels, 0 and 1.
    points : int, default 51
        Quantiles of the probabilities that are tried as thresholds.
    min_cell : int, default 5

    Returns
    -------
    list of dict of str to float
        ``threshold``, ``selected``, ``accuracy`` and ``balanced_accuracy``, by ascending threshold.
    """
    p = np.asarray(probability, dtype=np.float64)
    labels = np.asarray(y, dtype=bool)
    quantiles = np.quantile(p, np.linspace(0.0, 1.0, points)).round(6)
    inner = np.unique(quantiles[(quantiles > 0.0) & (quantiles < 1.0)]).tolist()
    rows: list[dict[str, float]] = []
    passed = 0  # people below the last threshold kept
    for threshold in [0.0, *inner, 1.0]:
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
