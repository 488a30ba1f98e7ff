"""A starter contract inferred from a table: the label, the sensitive columns, and every other
column.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenhand.data_contracts.arrow import converted_text, reaches
from evenhand.data_contracts.column import SIDES, Column
from evenhand.data_contracts.errors import ContractError, did_you_mean
from evenhand.data_contracts.favourable import guess_favourable, guess_side, positive_meaning
from evenhand.data_contracts.model import INFERRED, MOST_CLASSES, Contract
from evenhand.data_contracts.roles import MAX_CATEGORIES, Outcome, describe_feature
from evenhand.data_contracts.values import Values, read_values, sample_rows, whole_numbers, words_of

MAX_GROUPS = 10
# A category of fewer people is merged with others: its name could identify them.
LEAST_PEOPLE = 5
# Fewest values of an id column of people of whom there are several rows.
FEWEST_UNITS = 20
OTHER = "other"
# Smallest share of the rows in a group of a cut number.
GROUP_SHARE = 0.05
# Rows that are searched for people of whom there are several.
PEOPLE_ROWS = 200_000
# Fewest repeated values of a column, of people outside the largest group, that show that it names
# people: with fewer, equal values may agree in the sensitive columns by chance.
LEAST_REPETITIONS = 20
# Smallest share of the rows on each side of a proposed threshold.
SHARE_OF_SIDE = 0.2
# Where people cut an age.
AGES = (25, 40, 60)
_ENGLISH_YES = ("1", "true", "yes", "y", "t", "positive", "pos")
_POSITIVE_WORDS = (*_ENGLISH_YES, "ja", "oui", "sí", "si", "sim", "tak")


class Columns(Protocol):
    """A table in memory or in a file, whose columns are read one after another."""

    @property
    def column_names(self) -> list[str]:
        """Names of all columns."""

    @property
    def num_rows(self) -> int:
        """Number of rows."""

    def column(self, name: str) -> pa.ChunkedArray:
        """Read one column.

        Parameters
        ----------
        name : str
            Name of the column.

        Returns
        -------
        pyarrow.ChunkedArray, length n
        """


def infer_contract(
    table: Columns,
    name: str,
    label: str,
    sensitive: Sequence[str],
    positive: Any = None,
    ids: Sequence[str] = (),
    *,
    use_sensitive: bool = False,
    text: Sequence[str] = (),
    favourable: Any = None,
    at_least: float | None = None,
    least_people: int = LEAST_PEOPLE,
) -> Contract:
    """Infer a contract from a table, for a person to review and correct.

    The table, after :func:`evenhand.data_contracts.arrow.coerce`, passes the contract's check. The
    description of a column is the reason for its role.

    Parameters
    ----------
    table : Columns
        The table, whose columns may or may not be typed.
    name : str
        Name of the table.
    label : str
        The column to predict. It must hold two values, or up to 100 words or whole numbers, which
        are classes, or with `at_least` numbers; none may be missing.
    sensitive : sequence of str
        The columns whose groups are compared.
    positive : object, default None
        The one of two values that becomes 1, as a value or as text; by default 1, true, yes or a
        value such as ``>50K`` if the label has it, else the rarer value.
    ids : sequence of str, default ()
        The columns that identify rows.
    use_sensitive : bool, default False
        Whether the sensitive columns are model inputs too.
    text : sequence of str, default ()
        The columns of sentences.
    favourable : object, default None
        The one of two values that is the good outcome for a person, by default the one that words
        of the label say (:func:`evenhand.data_contracts.favourable.guess_favourable`), if any do;
        with `at_least` the side, ``at-least`` or ``below``.
    at_least : float or None, default None
        Threshold of a label of numbers: from it on they become 1, below it 0.
    least_people : int, default 5
        Categories in text of fewer people are not named: together they are ``other``. 0 keeps all.
        Ordered categories and those of sensitive columns are kept.

    Returns
    -------
    Contract

    Raises
    ------
    ContractError
        If a named column does not exist, the label has other values, no column can be a model
        input, or a column has a type or values that no contract describes.

    Examples
    --------
    >>> hired = ["yes", "no", "no", "yes"] * 10
    >>> table = pa.table({"sex": ["f", "m"] * 20, "points": range(40), "hired": hired})
    >>> contract = infer_contract(table, "people", label="hired", sensitive=["sex"])
    >>> [column.name for column in contract.features]
    ['points']
    >>> contract.label.positive
    'yes'
    """
    names = table.column_names
    if not table.num_rows:
        raise ContractError(
            f"table '{name}' has no rows: give one with rows to infer a contract from"
        )
    repeated = sorted({item for item in names if names.count(item) > 1})
    if repeated:
        raise ContractError(f"table '{name}' has column '{repeated[0]}' twice: rename one of them")
    roles = _requested_roles(
        names, {"label": [label], "sensitive": sensitive, "id": ids, "text": text}
    )
    target = read_label(table.column(label), label, at_least)
    described = {
        label: label_column(
            target, positive, most=MOST_CLASSES, favourable=favourable, at_least=at_least
        )
    }
    outcome = _outcome(target, described[label])
    # by signature of its values, the first column that has it
    originals: dict[bytes, str] = {}
    for item in names:
        if item == label:
            continue
        role = roles.get(item)
        values = read_values(table.column(item), item, plain=role in ("id", "text"))
        if role is not None:
            described[item] = _requested_column(values, role, use_sensitive)
        else:
            described[item] = describe_feature(values, outcome)
            _leave_out_copy(described, originals, values)
    _find_people(table, described)
    _merge_rare(table, described, least_people)
    columns = [described[item] for item in names]
    if not any(column.is_feature for column in columns):
        raise ContractError(
            f"no column is a model input: of {len(names)} columns all are ignored, sensitive, ids "
            "or the label; give a table with other columns"
        )
    rows = table.num_rows
    return Contract(
        name=name,
        version="0.1.0",
        description=f"{INFERRED}{rows:,} rows and {len(names)} columns; review before use.",
        columns=tuple(columns),
        min_rows=min(max(100, rows // 10), rows),
        max_rows=rows * 10,
        unseen_categories="ignore",
        missing_sensitive=_policy_for_missing(columns),
        rules="observed",
    )


def _requested_roles(names: Sequence[str], requests: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Role of each column for which the caller names one; refuse unknown columns and two roles."""
    roles: dict[str, str] = {}
    for role, columns in requests.items():
        for item in columns:
            if item not in names:
                raise ContractError(
                    f"{role} column '{item}' is not in the table{did_you_mean(item, names)}"
                )
            if roles.setdefault(item, role) != role:
                raise ContractError(
                    f"column '{item}' is named as {roles[item]} and as {role}: choose one"
                )
    return roles


def _requested_column(values: Values, role: str, use_sensitive: bool) -> Column:
    """Describe a column for which the caller names the role ``id``, ``text`` or ``sensitive``."""
    if role == "sensitive":
        return sensitive_column(values, use_sensitive)
    if role == "id":
        return Column(
            values.name,
            values.kind,
            values.required,
            "Identifies a row; never a model input.",
            role="id",
        )
    if values.kind != "string":
        raise ContractError(
            f"text column '{values.name}' holds no sentences, but values of type {values.kind}"
        )
    return Column(
        values.name,
        "string",
        values.required,
        "Sentences: the model reads a vector of each.",
        is_feature=True,
        encoding="text",
    )


def _policy_for_missing(columns: Sequence[Column]) -> str:
    """Choose the policy for missing values of sensitive columns by those that have any."""
    with_gaps = [c for c in columns if c.role == "sensitive" and not c.required]
    if not with_gaps:
        return "error"
    # a missing number as a model input can be no group
    if any(column.is_feature and column.encoding != "onehot" for column in with_gaps):
        return "drop"
    return "own_group"


def _find_people(table: Columns, described: dict[str, Column]) -> None:
    """Give the role ``id`` to columns whose values name people, or places, of whom there are
    several rows.

    These are whole numbers or texts of many values, some of them in several rows, and rows with an
    equal value agree in every sensitive column, of which at least one is no number in groups: what
    is computed from an age names nobody. They agree in 20 rows or more that by chance would not.
    """
    groups = [column for column in described.values() if column.role == "sensitive"]
    if all(column.bins for column in groups):
        return
    group_codes = [_codes(table, column.name) for column in groups]
    largest_group = min(float(np.bincount(codes).max()) / len(codes) for codes in group_codes)
    for name, column in described.items():
        may_name_people = column.role in ("feature", "ignore") and column.logical_type in (
            "integer",
            "string",
        )
        if not may_name_people:
            continue
        values = _codes(table, name)
        distinct = int(values.max()) + 1
        repetitions = len(values) - distinct
        if distinct <= MAX_CATEGORIES or repetitions * (1.0 - largest_group) < LEAST_REPETITIONS:
            continue
        if all(_determines(values, codes) for codes in group_codes):
            sensitive_names = ", ".join(column.name for column in groups)
            text = (
                f"Names people or places: rows with an equal value agree in {sensitive_names}. "
                "Never a model input."
            )
            described[name] = column.no_input("id", description=text)


def _determines(values: NDArray[np.int64], codes: NDArray[np.int64]) -> bool:
    """Whether rows with an equal value have an equal code."""
    pairs = values * (codes.max() + 1) + codes
    return len(np.unique(pairs)) == int(values.max()) + 1


def _codes(table: Columns, name: str) -> NDArray[np.int64]:
    """Numbers from 0 of the values of the first rows, where the rows of a person often stand
    together.
    """
    values = table.column(name).slice(0, PEOPLE_ROWS).combine_chunks().dictionary_encode()
    return np.asarray(values.indices.fill_null(len(values.dictionary)).to_numpy(), dtype=np.int64)


def _merge_rare(table: Columns, described: dict[str, Column], least_people: int) -> None:
    """Merge the categories of fewer people than `least_people`, in columns that are neither
    sensitive nor ordered.
    """
    people: NDArray[np.int64] | None = None
    for name, column in described.items():
        is_category = column.logical_type == "string" and column.role in ("feature", "ignore")
        if column.allowed is None or column.encoding == "ordinal" or not is_category:
            continue
        values = converted_text(table.column(name), column).dictionary_encode().combine_chunks()
        categories = values.dictionary.to_pylist()
        is_present = np.asarray(values.is_valid())
        codes = np.asarray(values.indices.drop_null(), dtype=np.int64)
        if people is None:
            people = _people_of_rows(table, described)
        counts = _distinct_people(codes, people[is_present], len(categories))
        frequent = []
        rare = []
        for category, count in zip(categories, counts, strict=True):
            if count >= least_people:
                frequent.append(category)
            elif category.strip().lower() != OTHER:
                rare.append(category)
        if rare:
            described[name] = _merged(column, frequent, len(rare), least_people)


def _people_of_rows(table: Columns, described: Mapping[str, Column]) -> NDArray[np.int64]:
    """Number of each row's person: by the id column of the fewest values of which rows share some,
    else each row is a person.
    """
    people = np.arange(table.num_rows)
    fewest = table.num_rows
    for name, column in described.items():
        if column.role != "id":
            continue
        values = table.column(name).combine_chunks().dictionary_encode()
        if FEWEST_UNITS <= len(values.dictionary) < fewest:
            fewest = len(values.dictionary)
            people = np.asarray(values.indices.fill_null(fewest), dtype=np.int64)
    return people


def _distinct_people(
    codes: NDArray[np.int64], people: NDArray[np.int64], categories: int
) -> list[int]:
    """Number of people of each category."""
    if not len(people):
        return [0] * categories
    width = int(people.max()) + 1
    pairs = np.unique(codes * width + people)
    return np.bincount(pairs // width, minlength=categories).tolist()


def _merged(column: Column, kept: Sequence[str], rare: int, least_people: int) -> Column:
    """Describe a column in which the categories that are not kept, a number of rare ones, are
    ``other``, however a kept category of this meaning is written.
    """
    rest_name = min((name for name in kept if name.strip().lower() == OTHER), default=OTHER)
    categories = sorted({*kept} - {rest_name})
    if not categories:
        return ignored(
            replace(column, allowed=None),
            f"no value is that of {least_people} people or more; group the values to use it",
        )
    text = column.description
    if column.role == "feature":
        read = f"{rare} others, of fewer than {least_people} people each, are read as {rest_name!r}"
        if rare == 1:
            read = f"another one, of fewer than {least_people} people, is read as {rest_name!r}"
        values = "value" if len(categories) == 1 else "values"
        text = f"Category with {len(categories)} {values}; {read}."
    return replace(column, description=text, allowed=(*categories, rest_name), other=rest_name)


def ignored(column: Column, reason: str) -> Column:
    """Return a column that is no model input, with the reason as its description.

    Parameters
    ----------
    column : Column
        The column to ignore.
    reason : str
        Why, as part of a sentence.

    Returns
    -------
    Column
    """
    return column.no_input("ignore", description=f"Ignored: {reason}.")


def _outcome(values: Values, label: Column) -> Outcome:
    """The outcome to which columns are related: the positive one, or the most frequent class."""
    if label.at_least is not None:
        return Outcome.of(reaches(values.data, label.at_least), True)
    reference = label.positive
    if reference is None:
        reference = _most_frequent(values.present)
    return Outcome.of(values.data, reference)


def _most_frequent(values: pa.ChunkedArray) -> Any:
    """Value that most rows have."""
    return max(pc.value_counts(values).to_pylist(), key=lambda item: item["counts"])["values"]


def read_label(values: pa.ChunkedArray, name: str, at_least: float | None = None) -> Values:
    """Read the column of a label: its values as they stand, or numbers also in texts if there is a
    threshold.

    Parameters
    ----------
    values : pyarrow.ChunkedArray, length n
        The raw column.
    name : str
        Its name.
    at_least : float or None, default None
        The threshold; see :func:`infer_contract`.

    Returns
    -------
    Values
    """
    plain = read_values(values, name, plain=True)
    if at_least is None or plain.kind != "string":
        return plain
    return read_values(values, name)


def label_column(
    values: Values,
    positive: Any = None,
    most: int = 2,
    favourable: Any = None,
    at_least: float | None = None,
) -> Column:
    """Describe a label of two values, of up to `most` classes, or of numbers with a threshold; none
    missing.

    Parameters
    ----------
    values : Values
        The label's values.
    positive : object, default None
        The one of two values that becomes 1; see :func:`infer_contract`.
    most : int, default 2
        Largest number of classes.
    favourable : object, default None
        The one of two values that is the favourable outcome; see :func:`infer_contract`.
    at_least : float or None, default None
        Threshold of a label of numbers; see :func:`infer_contract`.

    Returns
    -------
    Column

    Raises
    ------
    ContractError
        If a value is missing, the label holds dates, it has another number of values, or all of its
        numbers are on one side of the threshold.
    """
    name = values.name
    present = values.present
    rows = len(values.data)
    if len(present) < rows:
        raise ContractError(
            f"label column '{name}' has no usable value in {rows - len(present):,} of {rows:,} "
            "rows: fill them or drop these rows"
        )
    if at_least is not None:
        return _threshold_column(values, positive, favourable, at_least)
    if values.kind == "date":
        raise ContractError(
            f"label column '{name}' holds dates; expected two values: choose another label"
        )
    if values.kind in ("string", "integer") and positive is None and 2 < values.distinct <= most:
        return _classes_column(values, favourable)
    if values.distinct > 2 and values.kind in ("integer", "number"):
        raise ContractError(_threshold_proposal(values))
    if values.distinct != 2:
        plural = ""
        if values.distinct != 1:
            plural = "s"
        example = ""
        if values.distinct == 1:
            example = f" ({in_words(present[0].as_py())})"
        raise ContractError(
            f"label column '{name}' has {values.distinct:,} distinct value{plural}{example}, "
            "expected two: choose another column or reduce it to two"
        )
    counts = {item["values"]: item["counts"] for item in pc.value_counts(present).to_pylist()}
    allowed = sorted(counts)
    if positive is None:
        chosen, reason = guess_positive(counts)
    else:
        chosen = match_value("positive", positive, allowed, f"label column '{name}'")
        reason = "as asked"
    share = f"{counts[chosen] / rows:.0%} of rows"
    meaning = positive_meaning(name, in_words(chosen))
    text = f"Outcome to predict: {meaning} ({reason}; {share})."
    return Column(
        name,
        values.kind,
        True,
        text,
        allowed=tuple(allowed),
        role="label",
        positive=chosen,
        favourable=_favourable(name, allowed, favourable),
    )


def _threshold_column(values: Values, positive: Any, favourable: Any, at_least: float) -> Column:
    """Describe a label of numbers, of which those from a threshold on are the positive outcome."""
    where = f"label column '{values.name}'"
    if positive is not None:
        raise ContractError(
            f"{where}: positive and at-least both say what becomes 1: leave one of them out"
        )
    if values.kind not in ("integer", "number"):
        raise ContractError(
            f"{where} has values of type {values.kind}, and at-least needs numbers: leave "
            "--at-least out, or choose another label"
        )
    if values.distinct <= 2:
        raise ContractError(
            f"{where} has at most two different numbers, so it needs no threshold: leave "
            "--at-least out"
        )
    low = pc.min(values.present).as_py()
    high = pc.max(values.present).as_py()
    if not low < at_least <= high:
        raise ContractError(
            f"at-least is {at_least:,.15g}, and all numbers of {where} are on one side of it: give "
            f"--at-least a number above {low:,} and at most {high:,}"
        )
    if favourable not in (None, *SIDES):
        raise ContractError(
            f"favourable is {favourable!r}, and {where} has a threshold: give --favourable "
            "at-least or below"
        )
    if favourable is None:
        guess = guess_side(values.name)
        favourable = None if guess is None else guess.value
    column = Column(
        values.name, values.kind, True, role="label", favourable=favourable, at_least=at_least
    )
    share = pc.mean(reaches(values.data, at_least).cast(pa.float64())).as_py()
    meaning = positive_meaning(values.name, str(column.outcome.positive))
    text = f"Outcome to predict: {meaning} (as asked; {share:.0%} of rows)."
    return replace(column, description=text)


def _threshold_proposal(values: Values) -> str:
    """Say that a label has many numbers, and propose a threshold: a round number near the
    median.
    """
    numbers = np.sort(values.present.cast(pa.float64(), safe=False).to_numpy())
    median = float(np.median(numbers))
    threshold = _round_threshold(numbers, median)
    return (
        f"label column '{values.name}' has {values.distinct:,} different numbers, expected two "
        f"values: give --at-least {_digits(threshold)} (the median is {median:,.6g}), and people "
        f"with {values.name} of at least that get label 1"
    )


def _round_threshold(numbers: NDArray[np.float64], median: float) -> float:
    """A number of few digits near the median, with a fifth of the sorted numbers or more on each
    side; where there is none, the least of the numbers that follow the smallest or the median.
    """
    is_whole = bool((numbers == np.floor(numbers)).all())
    for digits in range(1, 7):
        threshold = float(f"{median:.{digits}g}")
        if is_whole:
            threshold = math.ceil(threshold)
        share = float(np.mean(numbers >= threshold))
        if SHARE_OF_SIDE <= share <= 1.0 - SHARE_OF_SIDE:
            return float(threshold)
    if median > numbers[0]:
        return median
    return float(numbers[numbers > numbers[0]][0])


def _digits(number: float) -> str:
    """A number as it is typed: without separators, whole ones without a point."""
    if number.is_integer():
        return str(int(number))
    return repr(number)


def _classes_column(values: Values, favourable: Any) -> Column:
    """Describe a label of more than two classes."""
    allowed = sorted(pc.unique(values.present).to_pylist())
    if favourable is not None:
        raise ContractError(
            f"favourable is for a label of two values, and label column '{values.name}' has "
            f"{len(allowed)} classes: leave it out"
        )
    text = f"Outcome to predict: one of {len(allowed)} classes."
    return Column(values.name, values.kind, True, text, allowed=tuple(allowed), role="label")


def _favourable(name: str, allowed: Sequence[Any], request: Any) -> Any:
    """The favourable one of a label's two values, as the caller asks or as its words say; None if
    nothing says it.
    """
    if request is not None:
        return match_value("favourable", request, allowed, f"label column '{name}'")
    guess = guess_favourable(name, allowed)
    if guess is None:
        return None
    return guess.value


def in_words(value: Any) -> str:
    """Return a label's value as people write it: true, 1, yes.

    Parameters
    ----------
    value : bool, int, float or str
        One of the label's values.

    Returns
    -------
    str
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).strip()


def guess_positive(counts: Mapping[Any, int]) -> tuple[Any, str]:
    """Choose the positive one of two values, and say why.

    Parameters
    ----------
    counts : mapping of value to int
        Number of rows of each of the two values.

    Returns
    -------
    value : object
        The positive one.
    reason : str
        Why, as part of a sentence.

    Examples
    --------
    >>> guess_positive({"yes": 30, "no": 70})
    ('yes', 'it reads as the positive value')
    """
    for value in sorted(counts, reverse=True):
        text = str(value).strip().lower()
        if value == 1 or text in _POSITIVE_WORDS or text.startswith(">"):
            return value, "it reads as the positive value"
    rarest = min(counts.values())
    return max(value for value in counts if counts[value] == rarest), "the rarer value"


def match_value(key: str, wanted: Any, allowed: Sequence[Any], holder: str) -> Any:
    """Return the allowed value that is meant.

    Parameters
    ----------
    key : str
        What names the value, for the message.
    wanted : object
        The value, or its text in any case.
    allowed : sequence
        The values that it may be.
    holder : str
        What holds the values, for the message.

    Returns
    -------
    object
        One of `allowed`.

    Raises
    ------
    ContractError
        If it is none of them.
    """
    text = str(wanted).strip().lower()
    for value in allowed:
        if str(value).strip().lower() == text or value == wanted or _same_number(value, text):
            return value
    choices = " and ".join(repr(value) for value in allowed)
    raise ContractError(f"{key} is {wanted!r}, but {holder} holds {choices}: name one of them")


def _same_number(value: Any, text: str) -> bool:
    """Whether 1, 1.0, '1' and true are meant alike."""
    number = {"true": "1", "false": "0"}
    try:
        return float(value) == float(number.get(text, text))
    except ValueError:
        return False


def sensitive_column(values: Values, is_feature: bool = False) -> Column:
    """Describe a sensitive column: its groups, cut points for many numbers.

    Parameters
    ----------
    values : Values
        The column's values.
    is_feature : bool, default False
        Whether the column is a model input too.

    Returns
    -------
    Column

    Raises
    ------
    ContractError
        If the column holds dates, fewer than two values, or too many categories.
    """
    kind = values.kind
    distinct = values.distinct
    where = f"sensitive column '{values.name}'"
    use = "a model input too" if is_feature else "not a model input"
    if kind == "date":
        raise ContractError(
            f"{where} holds dates: derive a numeric column (age, year) and name that instead"
        )
    if distinct < 2:
        plural = "" if distinct == 1 else "s"
        raise ContractError(
            f"{where} holds {distinct} distinct value{plural}: there are no groups to compare"
        )
    if kind == "string" and distinct > MAX_CATEGORIES:
        raise ContractError(
            f"{where} holds {distinct:,} distinct values, too many groups to compare: derive a "
            "coarser column"
        )
    allowed: tuple[Any, ...] | None = None
    bins: tuple[float, ...] | None = None
    text = f"Sensitive: its {distinct} groups are compared; {use}."
    if kind in ("integer", "number") and distinct > MAX_GROUPS:
        bins = round_cuts(values.present, values.name)
        text = (
            f"Sensitive: {len(bins) + 1} groups, cut at {_enumerated(bins)}, are compared; {use}."
        )
    elif kind != "boolean":
        allowed = tuple(sorted(pc.unique(values.present).to_pylist()))
    encoding = None
    if is_feature and kind == "integer" and bins is None:
        encoding = "onehot"
    return Column(
        values.name,
        kind,
        values.required,
        text,
        allowed=allowed,
        role="sensitive",
        is_feature=is_feature,
        encoding=encoding,
        bins=bins,
        missing=values.missing or None,
    )


def _enumerated(cuts: Sequence[float]) -> str:
    """Cut points in words: 25, 40 and 60."""
    texts = [f"{cut:g}" for cut in cuts]
    if len(texts) == 1:
        return texts[0]
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def round_cuts(present: pa.ChunkedArray, name: str) -> tuple[float, ...]:
    """Return one to three round cut points with at least a twentieth of the rows between any two of
    them.

    An age, by its `name`, is cut at 25, 40 and 60 where that leaves such groups. Where no round
    numbers leave groups of that size, it is the rounded median, or the second smallest number.

    Parameters
    ----------
    present : pyarrow.ChunkedArray, length n
        Numbers of more than one value, none missing.
    name : str
        Name of the column.

    Returns
    -------
    tuple of float
        Rising cut points; each is above the smallest and at most the largest number.
    """
    numbers = np.sort(
        np.asarray(present.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    )
    whole = whole_numbers(present)
    names_age = not {"age", "ages", "alter", "years"}.isdisjoint(words_of(name))
    if names_age and numbers[0] >= 0 and numbers[-1] <= 120:
        cuts = _large_groups(numbers, AGES)
        if len(cuts) > 1:
            return cuts
    quarters = np.quantile(numbers, [0.25, 0.5, 0.75])
    spread = quarters[2] - quarters[0] or numbers[-1] - numbers[0]
    for part in (2.0, 4.0, 10.0):
        step = _round_step(float(spread) / part, whole)
        rounded = {round(float(quarter) / step) * step for quarter in quarters}
        cuts = _large_groups(numbers, sorted(rounded))
        if cuts:
            return cuts
    return (_single_cut(numbers, float(quarters[1]), whole),)


def _single_cut(numbers: NDArray[np.float64], median: float, whole: bool) -> float:
    """Return the rounded median of sorted numbers, the median, or the second smallest number."""
    if whole:
        rounded = float(round(median))
    else:
        digits = 2 - math.floor(math.log10(abs(median))) if median else 0
        rounded = round(median, digits)
    for candidate in (rounded, median):
        if numbers[0] < candidate <= numbers[-1] and (not whole or candidate.is_integer()):
            return candidate
    return float(numbers[numbers > numbers[0]][0])


def _round_step(size: float, whole: bool) -> float:
    """Return the largest of 1, 2 and 5 times a power of ten that is at most ``size``; 1 at least if
    whole.
    """
    power = 10.0 ** math.floor(math.log10(size))
    step = next(factor * power for factor in (5.0, 2.0, 1.0) if factor * power <= size * (1 + 1e-9))
    if whole:
        return max(step, 1.0)
    return step


def _large_groups(numbers: NDArray[np.float64], cuts: Sequence[float]) -> tuple[float, ...]:
    """Return the cuts that leave groups of `GROUP_SHARE` of the sorted numbers; rounding errors of
    steps are removed.
    """
    rounded = [float(f"{cut:.12g}") for cut in cuts]
    remaining = [cut for cut in rounded if numbers[0] < cut <= numbers[-1]]
    while remaining:
        places = [0, *np.searchsorted(numbers, remaining, side="left").tolist(), len(numbers)]
        sizes = np.diff(places)
        smallest = int(sizes.argmin())
        if sizes[smallest] >= GROUP_SHARE * len(numbers):
            break
        remaining.pop(min(smallest, len(remaining) - 1))
    return tuple(remaining)


def _leave_out_copy(
    described: dict[str, Column], originals: dict[bytes, str], values: Values
) -> None:
    """Ignore a copy or a recoding of another column; of words and their codes the order stays."""
    column = described[values.name]
    if not column.is_feature:
        return
    signature = _signature(values)
    if signature is None:
        return
    original = originals.setdefault(signature, values.name)
    if original == values.name:
        return
    ranked = ("ordinal", "standard", "calendar")
    adds_order = column.encoding in ranked and described[original].encoding not in ranked
    if adds_order and len(described[original].allowed or ()) > 2:
        used = values.name
        dropped = original
    else:
        used = original
        dropped = values.name
    originals[signature] = used
    described[dropped] = ignored(described[dropped], f"says the same as '{used}', value for value")


def _signature(values: Values) -> bytes | None:
    """Return a digest that columns share if their values correspond one to one; None if that is
    unclear.

    Values are numbered in the order in which they first occur. Where nearly all differ that says
    nothing: then numbers are replaced by their ranks, rising or falling, and a text has no digest.
    """
    if values.data.num_chunks:
        data = pa.concat_arrays(values.data.chunks)
    else:
        data = values.data.combine_chunks()
    rows = sample_rows(len(data))
    sampled = data.take(pa.array(rows))
    if pc.count_distinct(sampled).as_py() * 2 <= len(rows):
        codes = data.dictionary_encode().indices.fill_null(-1)
        return _sha256(codes.to_numpy(zero_copy_only=False).astype(np.int32))
    if values.kind not in ("integer", "number") or len(rows) < 20:
        return None
    numbers = sampled.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    ranks = np.unique(numbers, return_inverse=True)[1].astype(np.int32)
    rising = _sha256(ranks)
    if np.isnan(numbers).any():
        return rising
    return min(rising, _sha256(ranks.max() - ranks))


def _sha256(codes: NDArray[np.int32]) -> bytes:
    return hashlib.sha256(codes.tobytes()).digest()
