"""The use of a column that nobody described: model input in which encoding, or ignored, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenhand.data_contracts.column import Column
from evenhand.data_contracts.orders import order_of
from evenhand.data_contracts.values import Values, sample_rows, whole_numbers, words_of

MAX_CATEGORIES = 60  # the states of the US with their territories are 56
# Of fewer rows a measure may be sorted, or without gaps, by chance.
MIN_COUNTED_ROWS = 50
# More levels than this are a measure unless the name or the label says otherwise.
MAX_SHAPED_LEVELS = 20

_ID = {
    "id",
    "ids",
    "uuid",
    "guid",
    "ssn",
    "identifier",
    "pk",
    "rowid",
    "rownum",
    "rownames",
    "unnamed",
}
_MAYBE_ID = {
    "key", "index", "idx", "nr", "no", "num", "number", "code", "account", "acct", "policy",
    "ticket", "phone", "row", "record", "case", "serial", "reference", "ref",
}  # fmt: skip
_CODE = {
    "type", "code", "codes", "status", "class", "kind", "category", "cat", "group", "grp", "region",
    "zone", "district", "state", "county", "sector", "branch", "dept", "department", "industry",
    "occupation", "job", "marital", "ethnicity", "race", "religion", "country", "nationality",
    "product", "channel", "segment", "cluster", "method", "reason", "purpose", "naics", "sic",
    "icd", "zip", "zipcode", "postcode", "postal", "plz", "city", "gender", "sex", "colour",
    "color", "brand", "model", "flag", "location", "site", "office", "store", "diagnosis",
    "specialty", "source", "workclass", "profession", "major", "kanton", "canton", "province",
    "municipality",
}  # fmt: skip
# Names of what the law of many countries forbids to decide by.
PROTECTED = {
    "gender", "sex", "race", "ethnicity", "age", "religion", "nationality", "disability", "disabled",
    "pregnant", "citizenship", "veteran", "male", "female", "women", "woman", "white", "nonwhite",
    "nwhite", "black", "hispanic", "hispan", "hisp", "latino", "asian", "ethn", "ethnic", "foreign",
    "immigrant",
}  # fmt: skip
_CODE_BOOK = {
    "zip", "zipcode", "postcode", "postal", "plz", "code", "naics", "sic", "icd", "diagnosis", "fips",
}  # fmt: skip
_MEASURE = {
    "count", "counts", "cnt", "total", "sum", "amount", "amt", "age", "year", "years", "yrs", "yr",
    "month", "months", "week", "weeks", "day", "days", "hour", "hours", "hrs", "minute", "minutes",
    "rate", "ratio", "score", "scores", "level", "grade", "rank", "size", "income", "salary",
    "wage", "price", "cost", "costs", "fee", "balance", "payment", "payments", "visits", "times",
    "tenure", "duration", "length", "distance", "height", "weight", "children", "kids", "rooms",
    "priors", "sessions", "percentage", "percent", "pct", "share", "quantity", "qty", "limit",
    "value", "rating", "points", "index", "since", "mean", "avg", "average", "max", "min", "median",
    "dependents", "persons", "people", "members", "credits", "calls", "experience", "revenue",
    "debt", "term", "loss", "gain", "temperature", "pressure", "bmi", "rated", "satisfaction",
    "involvement", "stars", "frequency",
}  # fmt: skip
_COUNTED = {"n", "num", "no", "nb", "number", "count", "total", "times", "how"}
_WEIGHT = {
    "fnlwgt", "finalwt", "pweight", "fweight", "aweight", "perwt", "hhwt", "wtfinl", "asecwt", "ipw", "wgt",
    "wght",
}  # fmt: skip
_SAMPLING = {
    "sample", "sampling", "survey", "pop", "population", "final", "design", "replicate",
    "expansion", "inverse", "person", "household", "hh", "probability", "case", "instance", "norm",
    "normalized", "post", "stratification",
}  # fmt: skip
_FOLDS = {"fold", "folds", "kfold"}
_PARTS = {
    "train", "training", "test", "testing", "valid", "validation", "val", "dev", "holdout", "oot", "eval",
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """The label of the sampled rows, for relations of columns to it."""

    rows: NDArray[np.int64]  # shape (m,): positions of the sampled rows
    positive: NDArray[np.float64]  # shape (m,): 1 where the label is positive, else 0

    @classmethod
    def of(cls, data: pa.ChunkedArray, positive: Any) -> Outcome:
        """Read the label's sampled rows."""
        rows = sample_rows(len(data))
        return cls(
            rows, np.asarray(pc.equal(data.take(pa.array(rows)), positive), dtype=np.float64)
        )


def describe_feature(values: Values, outcome: Outcome | None) -> Column:
    """Return a column that is neither label nor sensitive nor an id by request, with the reason.

    It has the role ``feature`` or ``ignore``; its description is the reason. Without an outcome no
    relation to the label is tried.
    """
    if values.distinct < 2:
        found = "one value only" if values.distinct else "no value"
        return _ignored(
            values, f"it holds {found}, nothing to learn from", present=values.distinct == 1
        )
    if reason := _not_of_people(values):
        return _ignored(values, reason)
    if values.kind == "string":
        return _text(values)
    if values.kind == "boolean":
        return _boolean(values, f"True or false{f', {values.found}' if values.found else ''}.")
    if values.kind == "date":
        encoding = "calendar"
        text = "Date: used as age in days, month and weekday."
        return _feature(values, text, encoding=encoding)
    return _number(values, outcome)


def _not_of_people(values: Values) -> str | None:
    """Return why a column describes rows and not people: ids, sampling weights, parts of a
    split.
    """
    present = values.present
    distinct = values.distinct
    words = words_of(values.name)
    rows = len(present)
    named = set(words)
    last = words[-1] if words else ""
    numeric = values.kind in ("integer", "number")
    whole = numeric and whole_numbers(present)
    if (whole or values.kind == "string") and distinct > MAX_CATEGORIES and (named & _ID):
        return "its name and its many values are those of an id"
    if distinct == rows and values.kind == "string":
        return "differs in every row, like an identifier or free text"
    if distinct == rows and whole and rows > 10:
        if {last, *words[:1]} & (_ID | _MAYBE_ID):
            return "differs in every row, like an id"
        if values.kind == "integer" and rows >= MIN_COUNTED_ROWS:
            numbers = present.cast(pa.int64(), safe=False).to_numpy()
            steps = np.diff(numbers)
            if (steps > 0).all() or (steps < 0).all() or np.ptp(numbers) <= 1.02 * rows:
                return "numbers the rows, like an id"
    if whole and distinct >= 0.95 * rows and distinct > MAX_CATEGORIES and last in _MAYBE_ID:
        return "differs in nearly every row, like an id"
    if numeric and distinct > 10 and _is_weight(values):
        return "a sampling weight: it says for how many people a row stands"
    if distinct <= 20:
        parts = re.compile(
            r"^(train|test|valid|val|dev|holdout|oot|eval)(ing|ation)?([_ -]?set)?\d*$"
        )
        if values.kind == "string":
            texts = [str(item).strip().lower() for item in pc.unique(present).to_pylist()]
            if all(map(parts.match, texts)) and any(text.startswith("train") for text in texts):
                return "says to which part of a split a row belongs"
        marked = bool(named & _PARTS) and bool(
            named & {"is", "in", "set", "split", "flag", "sample"}
        )
        both = len(named & _PARTS) > 1 or ("cv" in named and "fold" in "".join(words))
        if named & _FOLDS or last in ("split", "partition") or marked or both:
            return "numbers the parts of a split"
    return None


def _is_weight(values: Values) -> bool:
    """Whether positive numbers are sampling weights, by their name and size: people weigh 40 to
    200.
    """
    present = values.present
    words = words_of(values.name)
    if pc.min(present).as_py() <= 0:
        return False
    named = set(words)
    if named & _WEIGHT or (words and re.fullmatch(r"[a-z]{2,}(wgt|wght|wt)", words[-1])):
        return True
    if not named & {"weight", "weights", "wt"}:
        return False
    if named & _SAMPLING:
        return True
    if len(words) > 1:
        return False
    median = pc.quantile(present, q=0.5)[0].as_py()
    mean = pc.mean(present).as_py()
    return bool(abs(mean - 1) < 0.05 or median > 1000)


def _text(values: Values) -> Column:
    present = values.present
    distinct = values.distinct
    if distinct <= max(MAX_CATEGORIES, 100):
        texts = [item for item in pc.unique(present).to_pylist() if item is not None]
        vague = {text for text in texts if text.strip().lower() in _VAGUE_IN_ORDERS}
        # "unknown" has no place in an order, unless a scale has the word
        for left_out in (set(), vague):
            found = order_of([text for text in texts if text not in left_out], values.name)
            if found is not None:
                missing = tuple(
                    sorted({*values.missing, *(text.strip() for text in left_out)}, key=str)
                )
                text = f"Ordered category with {len(found[0])} values: {found[1]}."
                return _feature(
                    values, text, encoding="ordinal", allowed=found[0], missing=missing,
                    required=values.required and not left_out,
                )  # fmt: skip
    if distinct > MAX_CATEGORIES or distinct * 2 >= len(present):
        return _ignored(
            values, f"{distinct:,} distinct values are too many categories; group them to use it"
        )
    allowed = tuple(sorted(pc.unique(present).to_pylist()))
    return _feature(values, f"Category with {distinct} values.", allowed=allowed)


_VAGUE_IN_ORDERS = {
    "unknown", "unk", "none", "not known", "not stated", "unspecified", "undefined", "refused",
    "other", "not applicable", "prefer not to say", "don't know", "dont know",
}  # fmt: skip


def _boolean(values: Values, reason: str) -> Column:
    encoding, positive = ("binary", True) if values.required else ("onehot", None)
    return _feature(values, reason, logical_type="boolean", encoding=encoding, positive=positive)


def _number(values: Values, outcome: Outcome | None) -> Column:
    present = values.present
    distinct = values.distinct
    low = pc.min(present).as_py()
    whole = whole_numbers(present)
    written = f", {values.found}" if values.found else ""
    if whole and low >= 0 and pc.max(present).as_py() == 1:
        return _boolean(values, f"True or false, as 1 and 0{written}.")
    if whole and low >= 0 and pc.max(present).as_py() < 2**63:  # integers have 64 bits
        reason = _coded(values, outcome)
        if reason is not None and distinct > MAX_CATEGORIES:
            return _ignored(
                values, f"{distinct:,} codes are too many categories; group them to use it"
            )
        if reason is not None:
            allowed = tuple(int(item) for item in sorted(pc.unique(present).to_pylist()))
            text = f"Category with {distinct} codes: {reason}{written}."
            return _feature(
                values, text, logical_type="integer", encoding="onehot", allowed=allowed
            )
    word = "Whole number" if whole else "Number"
    text = f"{word}{written}, {'two' if distinct == 2 else f'{distinct:,}'} values."
    return _feature(values, text, encoding="standard", minimum=0 if low >= 0 else None)


def _coded(values: Values, outcome: Outcome | None) -> str | None:
    """Return why whole numbers are codes of categories; None for counts and measures."""
    words = words_of(values.name)
    last = words[-1] if words else ""
    if values.distinct > MAX_CATEGORIES:
        # a book of codes has few numbers that many rows share, and no fractions
        return "its name" if last in _CODE_BOOK and values.kind == "integer" else None
    named = "its name says so"
    if last in _CODE and not (words[0] in _COUNTED and len(words) > 1):
        return named
    # of schooling or experience, which have the gaps and peaks of codes
    named_years = any(re.search("educ|exp|^school", word) for word in words)
    years = named_years and values.distinct >= 8 and pc.max(values.present).as_py() <= 60
    if years or set(words) & _MEASURE or (len(words) > 1 and words[0] in _COUNTED):
        return None
    if set(words) & _CODE:
        return named
    if values.distinct == 2:
        return "two codes"
    if outcome is None:
        return None
    sampled = values.data.take(pa.array(outcome.rows)).cast(pa.float64(), safe=False).to_numpy()
    known = np.isfinite(sampled)
    return _shaped_like_codes(sampled[known], outcome.positive[known])


def _shaped_like_codes(x: NDArray[np.float64], y: NDArray[np.float64]) -> str | None:
    """Return the signs that numbers of at most `MAX_CATEGORIES` levels are codes; None if there are
    too few.

    Three signs count: places between the common levels that no row has; a share of positive labels
    that no curve of the second degree follows (chi-squared); and frequencies that rise and fall
    more than once. Counts and measures have at most one of them, ages and durations that people
    round have gaps and frequencies.
    """
    levels, index, counts = np.unique(x, return_inverse=True, return_counts=True)
    # the differences of larger numbers do not fit into 64 bits
    if len(levels) < 3 or levels[-1] - levels[0] >= 2.0**63:
        return None
    cumulated = np.cumsum(counts) / len(x)
    low = levels[np.searchsorted(cumulated, 0.01)]
    high = levels[min(int(np.searchsorted(cumulated, 0.99)), len(levels) - 1)]
    unit = float(np.gcd.reduce((levels - levels[0]).astype(np.int64)))
    common = ((levels >= low) & (levels <= high)).sum()
    gaps = 1.0 - common / ((high - low) / unit + 1.0)
    change = np.diff(counts) / np.sqrt(counts[1:] + counts[:-1])
    steps = np.sign(change[np.abs(change) > 4.0])
    turns = int((np.diff(steps) != 0).sum())
    ragged = _irregular(levels, index, counts, y)
    widths = np.diff(levels)
    widening = len(levels) >= 8 and widths.std() > 0 and np.corrcoef(widths, levels[1:])[0, 1] > 0.5
    if widening and not ragged:
        gaps = 0.0  # those of terms and amounts that people round
    few = len(levels) <= MAX_SHAPED_LEVELS
    signs = []
    if gaps >= 0.25:
        signs.append("gaps between the numbers")
    if ragged:
        signs.append("no steady relation to the label")
    if turns >= 2:
        signs.append("no regular frequencies")
    if len(signs) >= 2 and (few or ragged):
        return ", ".join(signs)
    # a few numbers far from each other
    return signs[0] if few and gaps >= 0.6 and low > 0 else None


def _irregular(
    levels: NDArray[np.float64],
    index: NDArray[np.int64],
    counts: NDArray[np.int64],
    y: NDArray[np.float64],
) -> bool:
    """Whether the label's share by level departs clearly, and mostly, from a curve of the second
    degree.
    """
    from scipy.stats import chi2

    base = float(y.mean())
    usable = counts >= 10
    if usable.sum() < 4 or not 0.0 < base < 1.0:
        return False
    rates = np.bincount(index, weights=y)[usable] / counts[usable]
    weights = counts[usable] / (base * (1.0 - base))
    design = np.vander((levels[usable] - levels.mean()) / (np.ptp(levels) or 1.0), 3)
    root = np.sqrt(weights)
    fitted = design @ np.linalg.lstsq(design * root[:, None], rates * root, rcond=None)[0]
    mean = np.average(rates, weights=weights)
    total, rest = (float((weights * (rates - part) ** 2).sum()) for part in (mean, fitted))
    return rest > 0.4 * total and bool(chi2.sf(rest, int(usable.sum()) - 3) < 1e-3)


def _feature(values: Values, reason: str, **more: Any) -> Column:
    more = {
        "logical_type": values.kind,
        "required": values.required,
        "missing": values.missing,
        **more,
    }
    more["missing"] = more["missing"] or None
    return Column(values.name, description=reason, is_feature=True, **more)


def _ignored(values: Values, reason: str, *, present: bool = True) -> Column:
    text = f"Ignored: {reason}."
    missing = values.missing or None
    return Column(
        values.name, values.kind, values.required and present, text, role="ignore", missing=missing
    )
