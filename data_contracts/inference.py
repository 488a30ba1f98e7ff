"""A starter contract inferred from a table: the label, the sensitive columns, and every other
column.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenhand.data_contracts.column import Column
from evenhand.data_contracts.errors import ContractError, did_you_mean
from evenhand.data_contracts.favourable import guess_favourable
from evenhand.data_contracts.model import INFERRED, MOST_CLASSES, Contract
from evenhand.data_contracts.roles import MAX_CATEGORIES, Outcome, describe_feature
from evenhand.data_contracts.values import Values, read_values, sample_rows, whole_numbers, words_of

MAX_GROUPS = 10
# Smallest share of the rows in a group of a cut number.
GROUP_SHARE = 0.05
# Rows that are searched for people of whom there are several.
PEOPLE_ROWS = 200_000
# Where people cut an age.
AGES = (25, 40, 60)
_POSITIVE_WORDS = (
    "1",
    "true",
    "yes",
    "y",
    "t",
    "positive",
    "pos",
    "ja",
    "oui",
    "sí",
    "si",
    "sim",
    "tak",
)


class Columns(Protocol):
    """A table in memory or in a file, whose columns are read one after another."""

    @property
    def column_names(self) -> list[str]:
        """Names of all columns."""

    @property
    def num_rows(self) -> int:
        """Number of rows."""

    def column(self, name: str) -> pa.ChunkedArray:
        """One column."""


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
) -> Contract:
    """Infer a contract from a table, for a person to review and correct.

    The columns of the table may or may not be typed. `label` is the column to predict: it must hold
    two values, or up to 100 words or whole numbers, which are classes; none may be missing.
    `positive` is the one of two values that becomes 1, as a value or as text; by default 1, true,
    yes or a value such as ``>50K`` if the label has it, else the rarer value. `favourable` is the
    one of two values that is the good outcome for a person, by default the one that words of the
    label say (:func:`evenhand.data_contracts.favourable.guess_favourable`), if any do. `sensitive`
    are the columns whose groups are compared, which `use_sensitive` makes model inputs too, `ids`
    those that identify rows, and `text` those of sentences.

    The table, after :func:`evenhand.data_contracts.arrow.coerce`, passes the contract's check. The
    description of a column is the reason for its role. ContractError if a named column does not
    exist, the label has other values, no column can be a model input, or a column has a type or
    values that no contract describes.
    """
    names = table.column_names
    if not table.num_rows:
        raise ContractError(
            f"table '{name}' has no rows: give one with rows to infer a contract from"
        )
    twice = sorted({item for item in names if names.count(item) > 1})
    if twice:
        raise ContractError(f"table '{name}' has column '{twice[0]}' twice: rename one of them")
    roles: dict[str, str] = {}
    for role, wanted in (("label", [label]), ("sensitive", sensitive), ("id", ids), ("text", text)):
        for item in wanted:
            if item not in names:
                raise ContractError(
                    f"{role} column '{item}' is not in the table{did_you_mean(item, names)}"
                )
            if roles.setdefault(item, role) != role:
                raise ContractError(
                    f"column '{item}' is named as {roles[item]} and as {role}: choose one"
                )
    target = read_values(table.column(label), label, plain=True)
    described = {label: label_column(target, positive, most=MOST_CLASSES, favourable=favourable)}
    chosen = described[label].positive
    outcome = Outcome.of(target.data, commonest(target.present) if chosen is None else chosen)
    first: dict[bytes, str] = {}
    for item in names:
        if item == label:
            continue
        wanted_role = roles.get(item)
        values = read_values(table.column(item), item, plain=wanted_role in ("id", "text"))
        if wanted_role == "id":
            reason = "Identifies a row; never a model input."
            described[item] = Column(item, values.kind, values.required, reason, role="id")
        elif wanted_role == "text":
            if values.kind != "string":
                raise ContractError(
                    f"text column '{item}' holds no sentences, but values of type {values.kind}"
                )
            reason = "Sentences: the model reads a vector of each."
            described[item] = Column(
                item, "string", values.required, reason, is_feature=True, encoding="text"
            )
        elif wanted_role == "sensitive":
            described[item] = sensitive_column(values, use_sensitive)
        else:
            described[item] = describe_feature(values, outcome)
            _leave_out_copy(described, first, values)
    _find_people(table, described)
    columns = [described[item] for item in names]
    if not any(column.is_feature for column in columns):
        raise ContractError(
            f"no column is a model input: of {len(names)} columns all are ignored, sensitive, ids "
            "or the "
            "label; give a table with other columns"
        )
    gaps = [column for column in columns if column.role == "sensitive" and not column.required]
    missing = "error" if not gaps else "own_group"
    if any(column.is_feature and column.encoding != "onehot" for column in gaps):
        missing = "drop"  # a missing number as a model input can be no group
    rows = table.num_rows
    return Contract(
        name=name,
        version="0.1.0",
        description=f"{INFERRED}{rows:,} rows and {len(names)} columns; review before use.",
        columns=tuple(columns),
        min_rows=min(max(100, rows // 10), rows),
        max_rows=rows * 10,
        unseen_categories="ignore",
        missing_sensitive=missing,
        rules="observed",
    )


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
    codes = [_codes(table, column.name) for column in groups]
    largest = min(float(np.bincount(code).max()) / len(code) for code in codes)
    for name, column in described.items():
        if column.role not in ("feature", "ignore") or column.logical_type not in (
            "integer",
            "string",
        ):
            continue
        values = _codes(table, name)
        distinct = int(values.max()) + 1
        if distinct <= MAX_CATEGORIES or (len(values) - distinct) * (1.0 - largest) < 20:
            continue
        if all(len(np.unique(values * (code.max() + 1) + code)) == distinct for code in codes):
            agree = ", ".join(column.name for column in groups)
            text = f"Names people or places: rows with an equal value agree in {agree}. Never a model input."
            described[name] = column.no_input("id", description=text)


def _codes(table: Columns, name: str) -> NDArray[np.int64]:
    """Numbers from 0 of the values of the first rows, where the rows of a person often stand
    together.
    """
    values = table.column(name).slice(0, PEOPLE_ROWS).combine_chunks().dictionary_encode()
    return np.asarray(values.indices.fill_null(len(values.dictionary)).to_numpy(), dtype=np.int64)


def ignored(column: Column, reason: str) -> Column:
    """Return a column that is no model input, with the reason as its description."""
    return column.no_input("ignore", description=f"Ignored: {reason}.")


def commonest(values: pa.ChunkedArray) -> Any:
    """Value that most rows have."""
    return max(pc.value_counts(values).to_pylist(), key=lambda item: item["counts"])["values"]


def label_column(
    values: Values, positive: Any = None, most: int = 2, favourable: Any = None
) -> Column:
    """Describe a label of two values, or of up to `most` classes, none missing.

    See :func:`infer_contract` for `positive`, `favourable` and errors.
    """
    name = values.name
    present = values.present
    rows = len(values.data)
    if len(present) < rows:
        raise ContractError(
            f"label column '{name}' has no usable value in {rows - len(present):,} of {rows:,} "
            "rows: "
            "fill them or drop these rows"
        )
    if values.kind == "date":
        raise ContractError(
            f"label column '{name}' holds dates; expected two values: choose another label"
        )
    if values.kind in ("string", "integer") and positive is None and 2 < values.distinct <= most:
        allowed = sorted(pc.unique(present).to_pylist())
        if favourable is not None:
            raise ContractError(
                f"favourable is for a label of two values, and label column '{name}' has "
                f"{len(allowed)} "
                "classes: leave it out"
            )
        text = f"Outcome to predict: one of {len(allowed)} classes."
        return Column(name, values.kind, True, text, allowed=tuple(allowed), role="label")
    if values.distinct != 2:
        found = f"{values.distinct:,} distinct value{'s' if values.distinct != 1 else ''}"
        raise ContractError(
            f"label column '{name}' has {found}, expected two: choose another column or reduce it "
            "to two"
        )
    counts = {item["values"]: item["counts"] for item in pc.value_counts(present).to_pylist()}
    allowed = sorted(counts)
    if positive is None:
        chosen, why = guess_positive(counts)
    else:
        chosen = match_value("positive", positive, allowed, f"label column '{name}'")
        why = "as asked"
    part = f"{counts[chosen] / rows:.0%} of rows"
    text = f"Outcome to predict: positive means {name} = {in_words(chosen)} ({why}; {part})."
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


def _favourable(name: str, allowed: Sequence[Any], wanted: Any) -> Any:
    """The favourable one of a label's two values, as asked or as its words say; None if nothing
    says it.
    """
    if wanted is not None:
        return match_value("favourable", wanted, allowed, f"label column '{name}'")
    guess = guess_favourable(name, allowed)
    return None if guess is None else guess.value


def in_words(value: Any) -> str:
    """Return a label's value as people write it: true, 1, yes."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value).strip()


def guess_positive(counts: Mapping[Any, int]) -> tuple[Any, str]:
    """Choose the positive one of two values, and say why."""
    for value in sorted(counts, reverse=True):
        text = str(value).strip().lower()
        if value == 1 or text in _POSITIVE_WORDS or text.startswith(">"):
            return value, "it reads as the positive value"
    rarest = min(counts.values())
    return max(value for value in counts if counts[value] == rarest), "the rarer value"


def match_value(key: str, wanted: Any, allowed: Sequence[Any], holder: str) -> Any:
    """Return the allowed value that is meant.

    Raises `ContractError`, with the `key` that names it and what holds the values, if it is none of
    them.
    """
    text = str(wanted).strip().lower()
    for value in allowed:
        if str(value).strip().lower() == text or value == wanted or _same_number(value, text):
            return value
    shown = " and ".join(repr(value) for value in allowed)
    raise ContractError(f"{key} is {wanted!r}, but {holder} holds {shown}: name one of them")


def _same_number(value: Any, text: str) -> bool:
    """Whether 1, 1.0, '1' and true are meant alike."""
    number = {"true": "1", "false": "0"}
    try:
        return float(value) == float(number.get(text, text))
    except ValueError:
        return False


def sensitive_column(values: Values, is_feature: bool = False) -> Column:
    """Describe a sensitive column: its groups, cut points for many numbers; see
    :func:`infer_contract`.
    """
    present = values.present
    kind = values.kind
    name = values.name
    distinct = values.distinct
    where = f"sensitive column '{name}'"
    use = "a model input too" if is_feature else "not a model input"
    if kind == "date":
        raise ContractError(
            f"{where} holds dates: derive a numeric column (age, year) and name that instead"
        )
    if distinct < 2:
        found = f"{distinct} distinct value{'' if distinct == 1 else 's'}"
        raise ContractError(f"{where} holds {found}: there are no groups to compare")
    allowed: tuple[Any, ...] | None = None
    bins: tuple[float, ...] | None = None
    text = f"Sensitive: its {distinct} groups are compared; {use}."
    if kind in ("integer", "number") and distinct > MAX_GROUPS:
        bins = round_cuts(present, name)
        *others, last = (f"{cut:g}" for cut in bins)
        cuts = f"{', '.join(others)} and {last}" if others else last
        text = f"Sensitive: {len(bins) + 1} groups, cut at {cuts}, are compared; {use}."
    elif kind == "string" and distinct > MAX_CATEGORIES:
        raise ContractError(
            f"{where} holds {distinct:,} distinct values, too many groups to compare: derive a "
            "coarser column"
        )
    elif kind != "boolean":
        allowed = tuple(sorted(pc.unique(present).to_pylist()))
    coded = kind == "integer" and bins is None
    return Column(
        name,
        kind,
        values.required,
        text,
        allowed=allowed,
        role="sensitive",
        is_feature=is_feature,
        encoding="onehot" if is_feature and coded else None,
        bins=bins,
        missing=values.missing or None,
    )


def round_cuts(present: pa.ChunkedArray, name: str) -> tuple[float, ...]:
    """Return one to three round cut points with at least a twentieth of the rows between any two of
    them.

    `present` are numbers of more than one value, none missing. An age, by its `name`, is cut at 25,
    40 and 60 where that leaves such groups. Cut points rise; each is above the smallest and at most
    the largest number. Where no round numbers leave groups of that size, it is the rounded median,
    or the second smallest number.
    """
    numbers = np.sort(
        np.asarray(present.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    )
    whole = whole_numbers(present)
    if (
        set(words_of(name)) & {"age", "ages", "alter", "years"}
        and numbers[0] >= 0
        and numbers[-1] <= 120
    ):
        cuts = _large_groups(numbers, AGES)
        if len(cuts) > 1:
            return cuts
    quarters = np.quantile(numbers, [0.25, 0.5, 0.75])
    spread = quarters[2] - quarters[0] or numbers[-1] - numbers[0]
    for part in (2.0, 4.0, 10.0):
        step = _round_step(float(spread) / part, whole)
        cuts = _large_groups(numbers, sorted({round(float(q) / step) * step for q in quarters}))
        if cuts:
            return cuts
    median = float(quarters[1])
    digits = 2 - math.floor(math.log10(abs(median))) if median else 0
    for candidate in (float(round(median)) if whole else round(median, digits), median):
        if numbers[0] < candidate <= numbers[-1] and (not whole or candidate.is_integer()):
            return (candidate,)
    return (float(numbers[numbers > numbers[0]][0]),)


def _round_step(size: float, whole: bool) -> float:
    """Return the largest of 1, 2 and 5 times a power of ten that is at most ``size``; 1 at least if
    whole.
    """
    power = 10.0 ** math.floor(math.log10(size))
    step = next(factor * power for factor in (5.0, 2.0, 1.0) if factor * power <= size * (1 + 1e-9))
    return max(step, 1.0) if whole else step


def _large_groups(numbers: NDArray[np.float64], cuts: Sequence[float]) -> tuple[float, ...]:
    """Return the cuts without those beside too small a group; rounding errors of steps are
    removed.
    """
    kept = [
        float(f"{cut:.12g}") for cut in cuts if numbers[0] < float(f"{cut:.12g}") <= numbers[-1]
    ]
    while kept:
        places = [0, *np.searchsorted(numbers, kept, side="left").tolist(), len(numbers)]
        sizes = np.diff(places)
        smallest = int(sizes.argmin())
        if sizes[smallest] >= GROUP_SHARE * len(numbers):
            break
        kept.pop(min(smallest, len(kept) - 1))
    return tuple(kept)


def _leave_out_copy(described: dict[str, Column], first: dict[bytes, str], values: Values) -> None:
    """Ignore a copy or a recoding of another column; of words and their codes the order stays."""
    column = described[values.name]
    if not column.is_feature:
        return
    signature = _signature(values)
    if signature is None:
        return
    other = first.setdefault(signature, values.name)
    if other == values.name:
        return
    ranked = ("ordinal", "standard", "calendar")
    keeps_order = column.encoding in ranked and described[other].encoding not in ranked
    kept, dropped = (
        (values.name, other)
        if keeps_order and len(described[other].allowed or ()) > 2
        else (other, values.name)
    )
    first[signature] = kept
    described[dropped] = ignored(described[dropped], f"says the same as '{kept}', value for value")


def _signature(values: Values) -> bytes | None:
    """Return a digest that columns share if their values correspond one to one; None if it cannot
    be told.

    Values are numbered in the order in which they first occur. Where nearly all differ that says
    nothing: then numbers are replaced by their ranks, rising or falling, and a text has no digest.
    """
    data = (
        pa.concat_arrays(values.data.chunks)
        if values.data.num_chunks
        else values.data.combine_chunks()
    )
    rows = sample_rows(len(data))
    sampled = data.take(pa.array(rows))
    if pc.count_distinct(sampled).as_py() * 2 <= len(rows):
        codes = data.dictionary_encode().indices.fill_null(-1)
        return hashlib.sha256(
            codes.to_numpy(zero_copy_only=False).astype(np.int32).tobytes()
        ).digest()
    if values.kind not in ("integer", "number") or len(rows) < 20:
        return None
    numbers = sampled.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    ranks = np.unique(numbers, return_inverse=True)[1].astype(np.int32)
    forms = (ranks, ranks.max() - ranks) if not np.isnan(numbers).any() else (ranks,)
    return min(hashlib.sha256(form.tobytes()).digest() for form in forms)
