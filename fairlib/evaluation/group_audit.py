"""One audit for predictions of any kind: metrics by group with intervals, gaps, and a verdict.

``audit(y_true, y_pred, sensitive_features=...)`` compares the groups of one attribute or of several
by metrics of the catalogue or by functions of other libraries. The result has the members of
Fairlearn's ``MetricFrame`` and adds intervals, the numbers of people, the groups that are too small
to be compared, and sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

import numpy as np
import pandas as pd

from evenhand.fairlib.arrays import Float, Int
from evenhand.fairlib.evaluation.audit_columns import (
    Grouping,
    RowChecker,
    as_pandas,
    group_by,
    groupings_of,
    holds_probabilities,
    read_column,
    read_columns,
)
from evenhand.fairlib.evaluation.audit_comparison import (
    Side,
    compared_gaps,
    compared_groups,
    outcomes_of,
)
from evenhand.fairlib.evaluation.audit_frames import (
    Errors,
    Method,
    ModelFrames,
    gap_rows,
    tidy_rows,
)
from evenhand.fairlib.evaluation.audit_metrics import (
    CALIBRATION_GAP,
    ModelMetrics,
    Request,
    read_request,
)
from evenhand.fairlib.evaluation.audit_page import audit_fragment, audit_page
from evenhand.fairlib.evaluation.audit_target import Target, read_target
from evenhand.fairlib.evaluation.audit_verdict import NOTE, sentences_of
from evenhand.fairlib.evaluation.evaluate import check_settings
from evenhand.fairlib.evaluation.group_metrics import CellMetric, Cells
from evenhand.fairlib.evaluation.group_tables import (
    Gap,
    GroupTable,
    ModelTables,
    Settings,
    make_table,
)
from evenhand.fairlib.parameters import check_sample_weight

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Makers = Mapping[str, Callable[[Cells], CellMetric]]
"""By name, functions that compute a metric in cells."""

MOST_LINES = 20
"""Groups that `print` shows at most."""

WHOLE = "overall"
"""Name of the group of all rows."""


@dataclass(frozen=True, eq=False)
class AuditRows:
    """The n rows of an audit."""

    target: Target | None  # None where labels are only what functions make of them
    raw_true: Any  # shape (n,): labels as they were passed; None without labels
    raw_pred: Mapping[str, Any]  # by model, as they were passed
    groupings: Sequence[Grouping]  # the last is of all attributes together
    controls: Grouping | None
    weights: Float | None
    people: Int | None
    intersections: bool = True

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.groupings[0].code)

    @property
    def shown(self) -> list[Grouping]:
        """Each attribute alone, and every pair where these are asked for."""
        most = 2 if self.intersections else 1
        return [part for part in self.groupings if len(part.columns) <= most]

    def of_model(self, model: str) -> AuditRows:
        """The rows as one of the models predicts them; it then has no name.

        Parameters
        ----------
        model : str
            Its name.

        Returns
        -------
        AuditRows
        """
        target = self.target
        if target is not None:
            score = {"": target.score[model]} if model in target.score else {}
            target = replace(target, y_pred={"": target.y_pred[model]}, score=score)
        return replace(self, target=target, raw_pred={"": self.raw_pred[model]})


def audit(
    y_true: ArrayLike | None,
    y_pred: ArrayLike | Mapping[str, ArrayLike] | pd.DataFrame | None = None,
    *,
    sensitive_features: ArrayLike | Mapping[str, ArrayLike] | pd.DataFrame,
    y_score: ArrayLike | Mapping[str, ArrayLike] | pd.DataFrame | None = None,
    metrics: Any = None,
    control_features: ArrayLike | Mapping[str, ArrayLike] | pd.DataFrame | None = None,
    sample_weight: ArrayLike | None = None,
    people: ArrayLike | None = None,
    positive: Any = None,
    favourable: Any = None,
    threshold: float = 0.5,
    intersections: bool = True,
    missing: Literal["shown", "group"] = "shown",
    required: Mapping[str, Sequence[Any]] | None = None,
    value_names: Mapping[str, Mapping[Any, str]] | None = None,
    level: float = 0.95,
    min_cell: int = 5,
    draws: int = 200,
    seed: int = 0,
) -> GroupAudit:
    """Compare how groups of people are treated by predictions, with intervals and a verdict.

    Rates have exact intervals, their differences Newcombe's, their ratios MOVER-R, means Student's
    (:mod:`evenhand.fairlib.evaluation.closed_intervals`); functions are resampled. A gap is over
    the groups with at least `min_cell` rows that the metric is of; the others are shown and named.

    Rows are matched by position. Two pandas objects whose indexes have the same labels in another
    order are refused.

    Parameters
    ----------
    y_true : array-like, shape (n,), or None
        True labels (two or more) or true numbers. None: nothing is known of them, and only what is
        predicted is compared.
    y_pred : array-like, shape (n,), mapping or DataFrame, optional
        Predicted labels or numbers, or probabilities: of label 1, which `threshold` turns into
        decisions, or what ``predict_proba`` gives. A mapping, or a DataFrame of several columns,
        has the predictions of several models by name.
    sensitive_features : Series, array-like of shape (n,) or (n, k), mapping or DataFrame
        Attributes whose groups are compared. With several, each alone, every pair, and all
        together.
    y_score : array-like, shape (n,) or (n, L), mapping or DataFrame, optional
        Probabilities of label 1, or of each label in sorted order.
    metrics : str, callable, sequence or mapping, optional
        Names of the catalogue, or functions ``metric(y_true, y_pred)``, which get
        ``sample_weight=`` too where there are weights. Default: the usual ones.
    control_features : as `sensitive_features`, optional
        Groups are compared within each combination of values of these.
    sample_weight : array-like, shape (n,), optional
        Weights of the rows, at least 0.
    people : array-like, shape (n,), optional
        Name or number of every row's person, where people have several rows: these are not
        independent, and `min_cell` counts people.
    positive : object, optional
        Label that is coded 1, which true positive rates are of; default: 1, true or yes, else the
        favourable one.
    favourable : object, optional
        Label that is the good outcome for a person, which selection rates are of. Default: as the
        words of the labels, or of their column's name, say (``denied`` is none), else the positive
        one; the verdict says which one was taken.
    threshold : float, default 0.5
        Probability from which on label 1 is predicted.
    intersections : bool, default True
        Whether to compare the groups of every pair of attributes too.
    missing : {"shown", "group"}
        Whether rows without a value of an attribute are only shown, or are a group that is
        compared.
    required : mapping, optional
        By attribute the groups that must be measured: where one has too few rows, the attribute has
        no gap.
    value_names : mapping, optional
        By column, that of the label too, the names of values that are codes, such as ``{"sex": {1:
        "women"}}``.
    level : float, default 0.95
        Coverage of the intervals.
    min_cell : int, default 5
        Fewest rows, or people, of a group that is compared.
    draws : int, default 200
        Bootstrap draws of metrics without a closed interval; 0 for none.
    seed : int, default 0
        Seed of these draws.

    Returns
    -------
    GroupAudit

    Raises
    ------
    ValueError
        For rows that do not match, missing labels, an unknown metric, labels of which nothing says
        which one is favourable, or a setting out of its range.

    Examples
    --------
    >>> approved = [1, 1, 1, 0, 1] * 10 + [1, 0, 1, 0, 0] * 10
    >>> sex = ["men"] * 50 + ["women"] * 50
    >>> result = audit(None, approved, sensitive_features={"sex": sex}, metrics="selection_rate")
    >>> result.by_group.to_dict()
    {'men': 0.8, 'women': 0.4}
    >>> round(float(result.ratio()), 3)
    0.5
    """
    checker = RowChecker()
    labels = None if y_true is None else read_column("y_true", y_true, checker)
    if y_score is None and holds_probabilities(y_pred):
        y_pred, y_score = None, y_pred
    predictions = _by_model("y_pred", y_pred, checker)
    scores = _by_model("y_score", y_score, checker)
    if not predictions and not scores:
        raise ValueError("y_pred: got none, expected predictions, or y_score")
    attributes = read_columns(
        "sensitive_features", sensitive_features, checker, "sensitive_feature_"
    )
    names = value_names or {}
    controls = None
    if control_features is not None:
        columns = read_columns("control_features", control_features, checker, "control_feature_")
        _check_distinct(attributes, columns)
        controls = group_by(columns, names)
    rows = checker.rows
    if not rows:
        raise ValueError("y_pred: got 0 rows, expected at least 1")
    unknown = sorted(set(required or ()) - set(attributes))
    if unknown:
        raise ValueError(
            f"required: {unknown[0]!r} is no sensitive feature; these are {list(attributes)}"
        )
    settings = _settings(level, min_cell, draws, seed, missing, people, required)
    target = _read_target(
        labels,
        predictions,
        scores,
        metrics,
        positive=positive,
        favourable=favourable,
        threshold=threshold,
        value_names=names,
    )
    audited = AuditRows(
        target=target,
        raw_true=None if labels is None else labels.to_numpy(),
        raw_pred=_raw_predictions(predictions, target),
        groupings=groupings_of(attributes, names, intersections=intersections),
        controls=controls,
        weights=check_sample_weight(_numbers_of("sample_weight", sample_weight, checker), rows),
        people=_people(people, checker),
        intersections=intersections,
    )
    request = read_request(metrics, target)
    audited = _in_fixed_order(audited)
    models = {}
    for model in audited.raw_pred:
        models[model] = _measure(audited, model, request, settings)
    return GroupAudit(models, request, settings, audited, attributes=tuple(attributes))


def _by_model(argument: str, values: Any, checker: RowChecker) -> dict[str, Any]:
    """Predictions by model; the one model of a single column has no name."""
    if values is None:
        return {}
    values = as_pandas(values)
    if isinstance(values, Mapping):
        return {
            str(name): _one_model(f"{argument}[{name!r}]", column, checker)
            for name, column in values.items()
        }
    if isinstance(values, pd.DataFrame) and values.shape[1] > 1:
        columns = read_columns(argument, values, checker, "model_")
        return dict(columns)
    return {"": _one_model(argument, values, checker)}


def _one_model(argument: str, values: Any, checker: RowChecker) -> Any:
    """One column; of probabilities of several labels a table."""
    if argument.startswith("y_score"):
        table = np.asarray(values)
        if table.ndim == 2 and table.shape[1] > 1:
            checker.check(argument, values, len(table))
            return table
    return read_column(argument, values, checker)


def _check_distinct(attributes: Mapping[str, Any], controls: Mapping[str, Any]) -> None:
    """Refuse a column that is both."""
    shared = sorted(set(attributes) & set(controls))
    if shared:
        raise ValueError(
            f"control_features: {shared[0]!r} is a sensitive feature too; rename one of them"
        )


def _settings(
    level: float,
    min_cell: int,
    draws: int,
    seed: int,
    missing: str,
    people: Any,
    required: Mapping[str, Sequence[Any]] | None,
) -> Settings:
    """Checked settings."""
    check_settings(draws, level, min_cell)
    if missing not in ("shown", "group"):
        raise ValueError(f"missing: got {missing!r}, expected 'shown' or 'group'")
    groups = {}
    for attribute, values in (required or {}).items():
        groups[str(attribute)] = tuple(map(str, values))
    return Settings(
        level=level,
        min_cell=min_cell,
        draws=draws,
        seed=seed,
        compares_missing=missing == "group",
        unit="rows" if people is None else "people",
        required=groups,
    )


def _read_target(
    labels: pd.Series | None,
    predictions: Mapping[str, pd.Series],
    scores: Mapping[str, Any],
    metrics: Any,
    **stated: Any,
) -> Target | None:
    """Labels and predictions; None where they cannot be read and only functions are computed."""
    listed = metrics.values() if isinstance(metrics, Mapping) else metrics
    only_functions = callable(metrics)
    if metrics is not None and not isinstance(metrics, str) and not only_functions:
        only_functions = all(map(callable, listed))
    try:
        return read_target(labels, predictions, scores, **stated)
    except ValueError:
        is_stated = stated["positive"] is not None or stated["favourable"] is not None
        if not only_functions or is_stated or scores:
            raise
        return None


def _raw_predictions(predictions: Mapping[str, Any], target: Target | None) -> dict[str, Any]:
    """Predictions as functions get them: as they were passed, else decisions of the scores."""
    raw = {model: column.to_numpy() for model, column in predictions.items()}
    if target is None:
        return raw
    for model, decided in target.y_pred.items():
        if model not in raw:
            raw[model] = np.array(target.labels)[decided.astype(np.int64)]
    return raw


def _numbers_of(argument: str, values: Any, checker: RowChecker) -> Any:
    if values is None:
        return None
    return read_column(argument, values, checker).to_numpy(np.float64)


def _people(values: Any, checker: RowChecker) -> Int | None:
    """Numbers of people."""
    if values is None:
        return None
    column = read_column("people", values, checker)
    missing = int(column.isna().sum())
    if missing:
        raise ValueError(
            f"people: {missing:,} of {len(column):,} values are missing; name every row's person"
        )
    return pd.factorize(column, sort=True)[0].astype(np.int64)


def _in_fixed_order(rows: AuditRows) -> AuditRows:
    """Bring the rows into an order that only their contents decide.

    Sums of floats depend on the order of their terms, and an audit must not depend on that of the
    rows. Counts do not, so rows without weights, people and numbers stay where they are.
    """
    keys = _sorting_keys(rows)
    if not keys:
        return rows
    order = np.lexsort(keys)
    target = rows.target
    if target is not None:
        target = replace(
            target,
            y_true=_taken(target.y_true, order),
            y_pred={model: column[order] for model, column in target.y_pred.items()},
            score={model: column[order] for model, column in target.score.items()},
        )
    controls = rows.controls
    if controls is not None:
        controls = replace(controls, code=controls.code[order])
    return replace(
        rows,
        target=target,
        raw_true=_taken(rows.raw_true, order),
        raw_pred={model: column[order] for model, column in rows.raw_pred.items()},
        groupings=[replace(part, code=part.code[order]) for part in rows.groupings],
        controls=controls,
        weights=_taken(rows.weights, order),
        people=_taken(rows.people, order),
    )


def _taken(column: Any, order: Int) -> Any:
    """A column in another order; None stays None."""
    return None if column is None else column[order]


def _sorting_keys(rows: AuditRows) -> list[Any]:
    """Columns by which rows are sorted, the most important last; none where only counts matter."""
    target = rows.target
    keys: list[Any] = []
    has_numbers = rows.weights is not None
    if target is not None:
        keys += target.y_pred.values()
        keys += [score if score.ndim == 1 else score[:, 0] for score in target.score.values()]
        has_numbers = has_numbers or target.kind == "numbers" or bool(target.score)
        if target.y_true is not None:
            keys.append(target.y_true)
    if rows.people is None and not has_numbers:
        return []
    keys += [column for column in (rows.weights, rows.people) if column is not None]
    return keys


def _measure(rows: AuditRows, model: str, request: Request, settings: Settings) -> ModelTables:
    """Compute one model's metrics."""
    source = _source(rows, model, settings)
    makers = {name: source.maker(metric) for name, metric in request.metrics.items()}
    of_verdict = makers | {name: source.maker(name) for name in request.hidden}
    # a function may have the name of a metric that the verdict uses: results are the function's
    shares_name = any(name in makers for name in request.hidden)
    if not shares_name:
        makers = of_verdict
    whole = Grouping(
        (WHOLE,), np.zeros(rows.n, dtype=np.int64), ((WHOLE,),), np.zeros(1, dtype=bool), {}
    )

    def _table(
        grouping: Grouping, controls: Grouping | None, metrics: Makers = makers
    ) -> GroupTable:
        return make_table(grouping, controls, metrics, rows.weights, rows.people, settings)

    tables = {part.name: _table(part, rows.controls) for part in rows.groupings}
    marginal = tables
    if rows.controls is not None or shares_name:
        # the verdict begins with the groups as they are, whatever the control features
        marginal = {part.name: _table(part, None, of_verdict) for part in rows.shown}
    joint = tables[rows.groupings[-1].name]
    by_attribute = {part.name: tables[part.name] for part in rows.shown}
    marginal = {name: marginal[name] for name in by_attribute}
    return ModelTables(_table(whole, rows.controls), by_attribute, joint, marginal)


def _source(rows: AuditRows, model: str, settings: Settings) -> ModelMetrics:
    """Metrics of one model."""
    return ModelMetrics(rows.target, model, (rows.raw_true, rows.raw_pred[model]), settings)


class GroupAudit:
    """Metrics of the groups of one attribute or of several, of one model or of several.

    :func:`audit` makes it. With several models, results have the model first: in columns of
    :attr:`by_group`, and in the index of the others; ``result["name"]`` is the audit of one model.

    Attributes
    ----------
    attributes : tuple of str
        Sensitive attributes.
    models : tuple of str
        Names of the models; ``("",)`` for one without a name.
    level : float
        Coverage of the intervals.
    min_cell : int
        Fewest rows, or people, of a group that is compared.
    """

    def __init__(
        self,
        tables: Mapping[str, ModelTables],
        request: Request,
        settings: Settings,
        rows: AuditRows,
        attributes: tuple[str, ...],
    ) -> None:
        self._tables = dict(tables)
        self._request = request
        self._settings = settings
        self._rows = rows
        self.attributes = attributes
        self.models = tuple(tables)
        self.level = settings.level
        self.min_cell = settings.min_cell

    def __getitem__(self, model: str) -> GroupAudit:
        """The audit of one of several models.

        Parameters
        ----------
        model : str
            Its name.

        Returns
        -------
        GroupAudit
        """
        if model not in self._tables:
            raise KeyError(f"{model!r} is none of the models {list(self.models)}")
        tables = {"": self._tables[model]}
        return GroupAudit(
            tables, self._request, self._settings, self._rows.of_model(model), self.attributes
        )

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics of groups."""
        return tuple(self._request.metrics)

    @property
    def is_plain(self) -> bool:
        """Whether every row is a person of its own, of weight 1, without control features."""
        rows = self._rows
        return rows.weights is None and rows.people is None and rows.controls is None

    @property
    def overall(self) -> Any:
        """Metrics of all rows, as ``MetricFrame.overall``: a number for one metric, else a Series;
        with control features a row per level.
        """
        return self._of_models(lambda frames: frames.overall())

    @property
    def by_group(self) -> Any:
        """Metrics of every group, as ``MetricFrame.by_group``: a Series for one metric, else a
        DataFrame.

        Groups with few people are there too; ``to_frame`` says which these are. With several
        attributes the groups are those of all together.
        """
        return self._of_models(lambda frames: frames.by_group())

    def difference(self, method: Method = "between_groups", errors: Errors = "coerce") -> Any:
        """Largest difference of each metric, over the groups with enough people.

        Parameters
        ----------
        method : {"between_groups", "to_overall"}
            Between two groups, or between a group and all rows.
        errors : {"raise", "coerce"}
            Whether metrics that give no numbers are an error, or NaN.

        Returns
        -------
        float, Series or DataFrame
            As of ``MetricFrame.difference``; NaN where fewer than two groups are compared.
            :meth:`gaps` has the intervals.
        """
        return self._of_models(lambda frames: frames.difference(method, errors))

    def ratio(self, method: Method = "between_groups", errors: Errors = "coerce") -> Any:
        """Smallest ratio of each metric, over the groups with enough people.

        Parameters
        ----------
        method, errors
            As of :meth:`difference`.

        Returns
        -------
        float, Series or DataFrame
            At most 1; NaN for 0 over 0, and where fewer than two groups are compared.
        """
        return self._of_models(lambda frames: frames.ratio(method, errors))

    def group_min(self, errors: Errors = "raise") -> Any:
        """Smallest value of each metric, over the groups with enough people.

        Parameters
        ----------
        errors : {"raise", "coerce"}
            As of :meth:`difference`.

        Returns
        -------
        float, Series or DataFrame
        """
        return self._of_models(lambda frames: frames.extreme("min", errors))

    def group_max(self, errors: Errors = "raise") -> Any:
        """Largest value of each metric, over the groups with enough people.

        Parameters
        ----------
        errors : {"raise", "coerce"}
            As of :meth:`difference`.

        Returns
        -------
        float, Series or DataFrame
        """
        return self._of_models(lambda frames: frames.extreme("max", errors))

    def _of_models(self, compute: Callable[[ModelFrames], Any]) -> Any:
        """A result of one model, or of several with the model first."""
        results = {}
        for model, tables in self._tables.items():
            result = compute(ModelFrames(tables, list(self.metrics)))
            if self._request.is_single and len(self.metrics) == 1:
                result = _of_one_metric(result)
            results[model] = result
        if self.models == ("",):
            return results[""]
        first = next(iter(results.values()))
        if isinstance(first, pd.DataFrame):
            return pd.concat(results, axis=1)
        if isinstance(first, pd.Series) and self._rows.controls is None and not _has_groups(first):
            return pd.concat(results)
        if isinstance(first, pd.Series):
            return pd.concat(results, axis=1)
        return pd.Series(results)

    @property
    def verdict(self) -> tuple[str, ...]:
        """What the audit shows, in sentences, the gravest first."""
        sentences: list[str] = []
        notes: dict[str, None] = {}  # the same for all models
        for model, of_model in self.verdicts.items():
            for sentence in of_model:
                if sentence.startswith(NOTE):
                    notes[sentence] = None
                else:
                    sentences.append(f"{model}: {sentence}" if model else sentence)
        return (*sentences, *notes)

    @property
    def verdicts(self) -> dict[str, tuple[str, ...]]:
        """Sentences by model."""
        verdicts = {}
        for model, tables in self._tables.items():
            verdicts[model] = sentences_of(tables, self._rows.target, self.metrics)
        return verdicts

    def to_frame(self) -> pd.DataFrame:
        """One row per metric and group: of the table as a whole, each attribute, and every pair.

        Returns
        -------
        DataFrame
            ``metric``, ``attribute`` ("" for the table as a whole), control features, ``group``,
            ``value``, ``lower`` and ``upper`` end of the interval, ``n`` (rows, or people, that the
            value is of) and ``status``: ``ok``, ``too_few``, ``missing`` (no value of the
            attribute) or ``undefined``; only ``ok`` ones are compared. With several models
            ``model`` is the first column.
        """
        frames = {}
        for model, tables in self._tables.items():
            frames[model] = tidy_rows(
                list(tables.attributes.values()), self.metrics, tables.overall
            )
        return _with_models(frames)

    def gaps(self) -> pd.DataFrame:
        """One row per metric, attribute and comparison of groups.

        Returns
        -------
        DataFrame
            ``metric``, ``attribute``, control features, ``kind`` (``difference``, ``ratio``, or
            ``gap`` for metrics of the catalogue that compare groups), ``value``, ``lower``,
            ``upper``, the ``lowest`` and the ``highest`` group, ``status``, ``reason`` and
            ``left_out``, the groups that are not compared. The ends of an interval hold for the
            largest of all differences together.
        """
        frames = {}
        for model, tables in self._tables.items():

            def _of_catalogue(
                table: GroupTable, name: str, control: int, model: str = model
            ) -> Gap:
                return self._catalogue_gap(table, name, control, model)

            frames[model] = gap_rows(
                list(tables.attributes.values()), self.metrics, self._request.gaps, _of_catalogue
            )
        return _with_models(frames)

    def _catalogue_gap(self, table: GroupTable, name: str, control: int, model: str) -> Gap:
        """A metric of the catalogue that compares groups."""
        target = self._rows.target
        assert target is not None
        if name == CALIBRATION_GAP:
            outcomes = outcomes_of(target, model, {}, self._rows.people)
            return table.calibration_gap(outcomes, control)
        label = target.y_true
        decided = target.y_pred[model].astype(np.int64)
        labels = 2
        if target.kind == "classes":
            labels = len(target.classes)
        elif target.favourable == 0:
            label = None if label is None else 1 - label
            decided = 1 - decided
        if label is not None:
            label = label.astype(np.int64)
        return table.catalogue_gap(name, label, decided, labels, control)

    def compare(self, model: str | None = None, baseline: str | None = None) -> pd.DataFrame:
        """Differences between two models on the same rows, in every group, with paired intervals.

        Parameters
        ----------
        model, baseline : str, optional
            Names of two models: the first less the second. Default: every pair.

        Returns
        -------
        DataFrame
            ``model``, ``baseline``, ``metric``, ``attribute``, control features, ``group``,
            ``difference``, ``lower``, ``upper``, ``n`` and ``status``. Of labels there are also
            rows of the metrics that compare groups, without a group.

        Raises
        ------
        ValueError
            With fewer than two models.
        """
        if len(self.models) < 2:
            raise ValueError("compare: got one model, expected at least two in y_pred or y_score")
        pairs = [(second, first) for first, second in combinations(self.models, 2)]
        if model is not None and baseline is not None:
            pairs = [(model, baseline)]
        parts = []
        for first, second in pairs:
            frame = self._compare(first, second)
            frame.insert(0, "baseline", second)
            frame.insert(0, "model", first)
            parts.append(frame)
        return pd.concat(parts, ignore_index=True)

    def _compare(self, first: str, second: str) -> pd.DataFrame:
        """Differences of one pair of models."""
        metrics = list(self._request.metrics.items())
        rows = self._rows
        sources = {name: _source(rows, name, self._settings) for name in (first, second)}
        of_first = self._tables[first]
        of_second = self._tables[second]
        parts = [
            compared_groups(
                Side(first, sources[first], of_first.overall),
                Side(second, sources[second], of_second.overall),
                metrics,
                "",
            )
        ]
        for name, table in of_first.attributes.items():
            parts.append(
                compared_groups(
                    Side(first, sources[first], table),
                    Side(second, sources[second], of_second.attributes[name]),
                    metrics,
                    name,
                )
            )
        parts.append(self._compared_gaps(first, second))
        frame = pd.concat([part for part in parts if len(part)], ignore_index=True)
        if "reason" in frame:
            frame["reason"] = frame["reason"].fillna("")
        return frame

    def _compared_gaps(self, first: str, second: str) -> pd.DataFrame:
        """Differences of the metrics that compare groups; none of numbers and functions alone."""
        rows = self._rows
        target = rows.target
        if target is None or target.kind == "numbers" or rows.controls is not None:
            return pd.DataFrame()
        groups = {}
        for grouping in rows.shown:
            if len(grouping.columns) == 1:
                texts = np.array(grouping.texts, dtype=object)
                groups[grouping.name] = texts[grouping.code]
        sides = (
            outcomes_of(target, first, groups, rows.people),
            outcomes_of(target, second, groups, rows.people),
        )
        return compared_gaps(
            sides,
            rows.weights,
            self._settings,
            intersections=len(rows.shown) > len(groups),
            is_labelled=target.y_true is not None,
            has_scores=first in target.score and second in target.score,
        )

    @property
    def favourable(self) -> Any:
        """Label that rates are of as the good outcome for a person; None where there is none.

        The verdict says why it was taken, where nobody named it.
        """
        target = self._rows.target
        if target is None or target.favourable is None:
            return None
        return target.labels[target.favourable]

    def to_html(
        self,
        buf: str | Path | TextIO | None = None,
        *,
        full_page: bool = True,
        title: str = "Audit by group",
    ) -> str | None:
        """Write the audit as HTML that loads nothing: the verdict first, then tables.

        Values of groups with too few people are left out.

        Parameters
        ----------
        buf : path or file, optional
            Where to write it.
        full_page : bool, default True
            Whether to write a whole page, or a part of one.
        title : str
            Its title.

        Returns
        -------
        str or None
            The page; None if it is written to `buf`, as pandas has it.
        """
        html = self._html(full_page=full_page, title=title)
        if buf is None:
            return html
        if isinstance(buf, str | Path):
            Path(buf).write_text(html, encoding="utf-8")
        else:
            buf.write(html)
        return None

    def _html(self, *, full_page: bool, title: str) -> str:
        """The page, or a part of one."""
        groups = self.to_frame()
        few = (groups["n"] < self.min_cell) & (groups["status"] == "missing")
        groups.loc[few, "status"] = "too_few"
        write = audit_page if full_page else audit_fragment
        return write(self.verdicts, groups, self.gaps(), self.level, title)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return self._html(full_page=False, title="")

    def __repr__(self) -> str:
        """The verdict, and what was compared."""
        attributes = ", ".join(self.attributes)
        head = f"GroupAudit of {self._rows.n:,} rows by {attributes}"
        if self.models != ("",):
            head += f", {len(self.models)} model" + "s" * (len(self.models) > 1)
        lines = [head, *(f"  {sentence}" for sentence in self.verdict)]
        if self._request.is_asked:
            lines += self._table_lines()
        return "\n".join(lines)

    def _table_lines(self) -> list[str]:
        """The metrics that were asked for, as text: by group, and of all rows."""
        lines = []
        for model, tables in self._tables.items():
            frames = ModelFrames(tables, list(self.metrics))
            by_group = frames.by_group()
            text = by_group.head(MOST_LINES).to_string(float_format="{:.3f}".format, line_width=80)
            lines += ["", *([f"{model}:"] if model else []), text]
            if len(by_group) > MOST_LINES:
                lines.append(f"... {len(by_group) - MOST_LINES} more groups: by_group has them all")
            if self._rows.controls is None:
                overall = frames.overall().to_string(float_format="{:.3f}".format)
                lines += ["", "overall", overall]
        return lines


def _of_one_metric(result: Any) -> Any:
    """The only column of a frame, or the only value of a Series."""
    if isinstance(result, pd.DataFrame):
        return result.iloc[:, 0]
    return result.iloc[0]


def _has_groups(series: pd.Series) -> bool:
    """Whether a Series is of groups, not of metrics."""
    return series.index.names != [None]


def _with_models(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Frames of all models below each other; of a model without a name alone."""
    if list(frames) == [""]:
        return frames[""]
    parts = []
    for model, frame in frames.items():
        model_frame = frame.copy()
        model_frame.insert(0, "model", model)
        parts.append(model_frame)
    return pd.concat(parts, ignore_index=True)
