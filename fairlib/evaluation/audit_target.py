"""What an audit's labels and predictions are: two labels, more labels, or numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from evenhand.fairlib.arrays import Float, Int
from evenhand.fairlib.evaluation.audit_columns import read_numbers
from evenhand.fairlib.outcome_words import WordedOutcome, favourable_by_words

Kind = Literal["two labels", "classes", "numbers"]

MOST_CLASSES = 20
"""Whole numbers of more different values are quantities."""

YES = ("1", "1.0", "true", "yes", "y", "t", "positive")
NO = ("0", "0.0", "-1", "-1.0", "false", "no", "n", "f", "negative")


@dataclass(frozen=True, eq=False)
class Target:
    """Labels and predictions of n rows, coded alike."""

    kind: Kind
    # shape (n,): 0 and 1, positions in `classes`, or numbers; None where they are not known
    y_true: Int | Float | None
    y_pred: Mapping[str, Int | Float]  # by model
    # by model: probability of label 1, shape (n,), or of each class, shape (n, L)
    score: Mapping[str, Float] = field(default_factory=dict)
    classes: tuple[str, ...] = ()  # names of the labels, in the order of their codes
    labels: tuple[Any, ...] = ()  # the labels as they were passed
    favourable: int | None = None  # code of the good outcome for a person
    is_stated: bool = False  # whether the caller named the good outcome
    reason: str = ""  # why this outcome is taken as the good one, where words say so
    column: str = ""  # name of the label's column; "" for none
    notes: tuple[str, ...] = ()

    @property
    def favourable_name(self) -> str:
        """Name of the favourable label; "" for none."""
        if self.favourable is None:
            return ""
        return self.classes[self.favourable]


def read_target(
    y_true: pd.Series | None,
    predictions: Mapping[str, pd.Series],
    scores: Mapping[str, Any],
    *,
    positive: Any = None,
    favourable: Any = None,
    threshold: float = 0.5,
    value_names: Mapping[str, Mapping[Any, str]] | None = None,
) -> Target:
    """Read labels and predictions as two labels, more labels, or numbers.

    Parameters
    ----------
    y_true : Series, shape (n,), optional
        True labels or numbers.
    predictions : mapping
        Predicted labels or numbers by model; may lack models of which there are scores.
    scores : mapping
        Probabilities by model.
    positive, favourable : object, optional
        Values of the labels.
    threshold : float
        Probability from which on label 1 is predicted.
    value_names : mapping, optional
        Names of values by column: those of the label's column are names of the labels.

    Returns
    -------
    Target

    Raises
    ------
    ValueError
        For missing values, labels and predictions of different values, a probability outside [0,
        1], or labels of which nothing says which one is favourable.
    """
    columns = {} if y_true is None else {"y_true": y_true}
    columns |= {_argument("y_pred", model): column for model, column in predictions.items()}
    for name, column in columns.items():
        _check_present(name, column)
    title = _title(y_true, predictions)
    label_names = _label_names(columns, (value_names or {}).get(title, {}))
    columns = {name: _plain(column) for name, column in columns.items()}
    if _are_probabilities(columns, scores):
        # probabilities in the place of predictions
        scores = {model: columns[_argument("y_pred", model)] for model in predictions}
        predictions = {}
        columns = {name: column for name, column in columns.items() if name == "y_true"}
    values = _distinct(columns)
    if _are_quantities(values):
        return _numbers(columns, predictions, title)
    if scores and not columns:
        values = [0, 1]
    _check_one_type(columns, values)
    if len(values) > 2:
        _refuse_positive(positive, values)
        return _classes(columns, predictions, scores, values, title, favourable)
    return _two_labels(
        columns,
        predictions,
        scores,
        values,
        (title, label_names),
        (positive, favourable),
        threshold,
    )


def _label_names(
    columns: Mapping[str, pd.Series], value_names: Mapping[Any, str]
) -> dict[Any, str]:
    """Names of labels by value; booleans, which are read as 0 and 1, are named as such."""
    if columns and all(pd.api.types.is_bool_dtype(column) for column in columns.values()):
        return {0: "false", 1: "true"} | dict(value_names)
    return dict(value_names)


def _refuse_positive(positive: Any, values: list[Any]) -> None:
    """Refuse a positive value of more than two labels."""
    if positive is not None:
        raise ValueError(
            f"positive: got {positive!r}, but there are {len(values)} labels, of which none "
            "is positive; leave it out, or pass favourable"
        )


def _title(y_true: pd.Series | None, predictions: Mapping[str, pd.Series]) -> str:
    """Name of the label's column; without labels that which all predictions share."""
    columns = [*predictions.values()] if y_true is None else [y_true]
    names = {column.name for column in columns}
    if len(names) != 1 or None in names:
        return ""
    return str(names.pop())


def _argument(argument: str, model: str) -> str:
    return f"{argument}[{model!r}]" if model else argument


def _check_present(name: str, column: pd.Series) -> None:
    """Refuse missing values."""
    missing = int(column.isna().sum())
    if missing:
        raise ValueError(
            f"{name}: {missing:,} of {len(column):,} values are missing; drop these rows, or fill "
            "them in"
        )


def _plain(column: pd.Series) -> pd.Series:
    """A column with booleans as 0 and 1, and numbers as NumPy's."""
    if pd.api.types.is_bool_dtype(column):
        return column.astype(np.int64)
    if pd.api.types.is_numeric_dtype(column):
        kind = np.int64 if pd.api.types.is_integer_dtype(column) else np.float64
        return column.astype(kind)
    if isinstance(column.dtype, pd.CategoricalDtype):
        return _plain(column.astype(column.cat.categories.dtype))
    return column


def _distinct(columns: Mapping[str, pd.Series]) -> list[Any]:
    """Distinct values of labels and predictions, in sorted order; equal numbers are one."""
    values: dict[Any, None] = {}
    for column in columns.values():
        distinct = pd.unique(column)
        values |= dict.fromkeys(distinct.tolist())
        if len(values) > MOST_CLASSES and pd.api.types.is_numeric_dtype(column):
            break
    listed = list(values)
    try:
        return sorted(listed)
    except TypeError:
        return sorted(listed, key=str)


def _are_quantities(values: list[Any]) -> bool:
    """Whether values are numbers that name no class: fractions, or very many."""
    if not values or not all(isinstance(value, int | float) for value in values):
        return False
    return len(values) > MOST_CLASSES or any(value != int(value) for value in values)


def _are_probabilities(columns: Mapping[str, pd.Series], scores: Mapping[str, Any]) -> bool:
    """Whether predictions are fractions in [0, 1] of labels of two values, or without labels."""
    predictions = [column for name, column in columns.items() if name != "y_true"]
    if scores or not predictions:
        return False
    if "y_true" in columns:
        labels = columns["y_true"].unique().tolist()
        if len(labels) > 2 or _are_quantities(labels):
            return False
    return all(map(_within_0_and_1, predictions)) and any(map(_has_fractions, predictions))


def _within_0_and_1(column: pd.Series) -> bool:
    """Whether a column has numbers from 0 to 1."""
    if not pd.api.types.is_numeric_dtype(column):
        return False
    return bool(column.min() >= 0 and column.max() <= 1)


def _has_fractions(column: pd.Series) -> bool:
    """Whether numbers from 0 to 1 are not all 0 or 1."""
    return bool(((column != 0) & (column != 1)).any())


def _check_one_type(columns: Mapping[str, pd.Series], values: list[Any]) -> None:
    """Refuse labels and predictions that share no value."""
    if "y_true" not in columns or len(values) <= 2:
        return
    labels = set(columns["y_true"].unique().tolist())
    for name, column in columns.items():
        predicted = set(column.unique().tolist())
        if not labels & predicted:
            raise ValueError(
                f"{name}: got {_some(predicted)}, and y_true has {_some(labels)}; give both in the "
                "same values"
            )


def _listed(values: list[Any]) -> str:
    """All values, for messages."""
    return ", ".join(map(repr, values))


def _some(values: set[Any]) -> str:
    """A few values, for messages."""
    listed = sorted(map(repr, values))
    text = ", ".join(listed[:3])
    return text if len(listed) <= 3 else f"{text}, ..."


def _numbers(
    columns: Mapping[str, pd.Series], predictions: Mapping[str, pd.Series], title: str
) -> Target:
    """Labels and predictions that are quantities."""
    numbers = {name: read_numbers(name, column) for name, column in columns.items()}
    y_pred = {model: numbers[_argument("y_pred", model)] for model in predictions}
    return Target("numbers", numbers.get("y_true"), y_pred, column=title)


def _classes(
    columns: Mapping[str, pd.Series],
    predictions: Mapping[str, pd.Series],
    scores: Mapping[str, Any],
    values: list[Any],
    title: str,
    favourable: Any,
) -> Target:
    """More than two labels."""
    place = None
    if favourable is not None:
        places = [place for place, value in enumerate(values) if _same(favourable, value)]
        if not places:
            raise ValueError(f"favourable: got {favourable!r}, expected one of {_listed(values)}")
        place = places[0]
    codes = {name: _codes(column, values) for name, column in columns.items()}
    y_pred = {model: codes[_argument("y_pred", model)] for model in predictions}
    rows = len(next(iter(codes.values())))
    probabilities = {}
    for model, score in scores.items():
        table = np.asarray(score, dtype=np.float64)
        if table.shape != (rows, len(values)):
            raise ValueError(
                f"{_argument('y_score', model)}: got shape {table.shape}, expected a probability "
                f"of each of the {len(values)} labels, in sorted order"
            )
        probabilities[model] = _checked_probabilities(model, table)
        y_pred.setdefault(model, table.argmax(axis=1).astype(np.int64))
    names = tuple(map(str, values))
    return Target(
        "classes",
        codes.get("y_true"),
        y_pred,
        probabilities,
        names,
        tuple(values),
        favourable=place,
        is_stated=place is not None,
        column=title,
    )


def _codes(column: pd.Series, values: list[Any]) -> Int:
    """Positions of a column's values among all values."""
    code, distinct = pd.factorize(column)
    position = {value: place for place, value in enumerate(values)}
    places = np.array([position[value] for value in distinct.tolist()], dtype=np.int64)
    return places[code]


def _two_labels(
    columns: Mapping[str, pd.Series],
    predictions: Mapping[str, pd.Series],
    scores: Mapping[str, Any],
    values: list[Any],
    column: tuple[str, Mapping[Any, str]],
    stated: tuple[Any, Any],
    threshold: float,
) -> Target:
    """Two labels: the positive one is coded 1."""
    positive, favourable_value = stated
    worded = None
    if favourable_value is None:
        worded = _by_words(values, column)
    if worded is not None:
        favourable_value = values[worded.place]
    ordered = _negative_and_positive(values, positive, favourable_value)
    codes = {name: _codes(column, ordered) for name, column in columns.items()}
    y_pred = {model: codes[_argument("y_pred", model)] for model in predictions}
    notes = []
    probabilities = {}
    for model, score in scores.items():
        probabilities[model] = _one_probability(model, score)
        if model not in y_pred:
            y_pred[model] = (probabilities[model] >= threshold).astype(np.int64)
    if scores and not predictions:
        notes.append(f"decisions are probabilities of at least {threshold:g}")
    favourable = 1
    if favourable_value is not None:
        favourable = int(_same(favourable_value, ordered[1]))
    return Target(
        "two labels",
        codes.get("y_true"),
        y_pred,
        probabilities,
        tuple(str(column[1].get(label, label)) for label in ordered),
        tuple(ordered),
        favourable,
        is_stated=stated[1] is not None,
        reason="" if worded is None else worded.reason,
        column=column[0],
        notes=tuple(notes),
    )


def _by_words(values: list[Any], column: tuple[str, Mapping[Any, str]]) -> WordedOutcome | None:
    """The good outcome by the words of two labels, or of their column's name."""
    title, names = column
    texts = [str(names.get(value, value)) for value in values]
    return favourable_by_words(title, texts)


def _negative_and_positive(values: list[Any], positive: Any, favourable: Any) -> list[Any]:
    """Both labels, the positive one last; one of them may not occur."""
    for name, value in (("positive", positive), ("favourable", favourable)):
        is_new = not any(_same(value, label) for label in values)
        if value is not None and is_new and len(values) == 2:
            raise ValueError(f"{name}: got {value!r}, expected one of {_some(set(values))}")
    chosen = _positive_label(values, positive, favourable)
    same = [value for value in values if _same(value, chosen)]
    negatives = [value for value in values if not _same(value, chosen)]
    if not negatives:
        return [_opposite(same[0]), same[0]]
    # in a table of one label no row may have the positive one
    return [negatives[0], (same or [chosen])[0]]


def _positive_label(values: list[Any], positive: Any, favourable: Any) -> Any:
    """The label that is coded 1: as stated, the one that affirms, or the favourable one."""
    for chosen in (positive, _affirmed(values), favourable):
        if chosen is not None:
            return chosen
    raise ValueError(
        f"favourable: the labels are {_some(set(values))}, and nothing says which one is the "
        "good outcome for a person; pass it, as in favourable="
        f"{' or favourable='.join(map(repr, values))}"
    )


def _affirmed(values: list[Any]) -> Any:
    """The label that affirms, where the other one, if there is one, denies: 1 and 0, yes and no."""
    words = {str(value).strip().lower(): value for value in values}
    affirmed = [value for word, value in words.items() if word in YES]
    denied = [value for word, value in words.items() if word in NO]
    if len(affirmed) + len(denied) < len(values):
        return None
    if len(affirmed) == 1:
        return affirmed[0]
    if len(denied) == 1:
        return _opposite(denied[0])
    return None


def _opposite(value: Any) -> Any:
    """The label that a table of one label lacks."""
    if isinstance(value, int | float):
        return 0 if value == 1 else 1
    word = str(value).strip().lower()
    if word in NO:
        return YES[NO.index(word)]
    return f"not {value}"


def _same(one: Any, other: Any) -> bool:
    """Whether two values are one label: equal, or the same word."""
    if isinstance(one, bool | np.bool_):
        one = int(one)
    if one is None or other is None:
        return False
    return bool(one == other) or str(one).strip() == str(other).strip()


def _one_probability(model: str, score: Any) -> Float:
    """Probabilities of label 1; of two columns the second."""
    table = np.asarray(score, dtype=np.float64)
    if table.ndim == 2 and table.shape[1] in (1, 2):
        table = table[:, -1]
    if table.ndim != 1:
        raise ValueError(
            f"{_argument('y_score', model)}: got {table.ndim} dimensions, expected one probability "
            "per row"
        )
    return _checked_probabilities(model, table)


def _checked_probabilities(model: str, table: Float) -> Float:
    wrong = int(np.sum(~((table >= 0) & (table <= 1))))
    if wrong:
        raise ValueError(
            f"{_argument('y_score', model)}: {wrong:,} of {table.size:,} values are missing or "
            "outside [0, 1]; pass probabilities"
        )
    return table
