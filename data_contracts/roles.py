"""The use of a column that nobody described: model input in which encoding, or ignored, and why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenhand.data_contracts.column import Column
from evenhand.data_contracts.model import SAMPLING_WEIGHT
from evenhand.data_contracts.orders import order_of
from evenhand.data_contracts.values import Values, sample_rows, whole_numbers, words_of

MAX_CATEGORIES = 60  # the states of the US with their territories are 56
# Of fewer rows a measure may be sorted, or without gaps, by chance.
MIN_COUNTED_ROWS = 50
# More levels than this are a measure unless the name or the label says otherwise.
MAX_SHAPED_LEVELS = 20
# Share of the possible numbers that no row has: a sign of codes, and one that suffices alone.
GAPS = 0.25
WIDE_GAPS = 0.6
# Fewest rows of a level whose share of positive labels is compared with the curve of all levels.
MIN_LEVEL_ROWS = 10
# A difference of two frequencies counts from so many standard errors on.
CLEAR_CHANGE = 4.0
# The label is irregular where a curve leaves more than this share of its variation unexplained, and
# chance alone would do so with a smaller probability than this.
UNEXPLAINED = 0.4
BY_CHANCE = 1e-3
# Dates in other forms than YYYY-MM-DD: 31.12.2019, 12/31/2019 8:15, 2019/12/31, 31 Dec 2019,
# Dec 01, 2019, Dec-2019.
_MONTH = (
    "(jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?"
    "|nov(ember)?|dec(ember)?)[.]?"
)
_OTHER_DATE = (
    r"(?i)^((\d{1,2}[./-]\d{1,2}[./-]\d{4}|\d{4}[./]\d{1,2}[./]\d{1,2})([ T][0-9:.apm ]+)?"
    rf"|(\d{{1,2}}[. -]+)?{_MONTH}[ -](\d{{1,2}}(st|nd|rd|th)?,?[ -])?'?(\d{{4}}|\d{{2}}))$"
)
OTHER_DATE = "its values look like dates; written as YYYY-MM-DD they give age, month and weekday"


def _words(text: str) -> frozenset[str]:
    """Words of a column's name that are listed below, separated by blanks."""
    return frozenset(text.split())


# Words that a column's name has, by what they say of its values.
_ID = _words("id ids uuid guid ssn identifier pk rowid rownum rownames unnamed")
_MAYBE_ID = _words(
    """
    key index idx nr no num number code account acct policy ticket phone row record case serial
    reference ref
    """
)
_CODE = _words(
    """
    type code codes status class kind category cat group grp flag
    region zone district state county zip zipcode postcode postal plz city country kanton canton
    province municipality location site office store
    sector branch dept department industry occupation job workclass profession naics sic
    marital ethnicity race religion nationality gender sex
    product channel segment cluster method reason purpose colour color brand model source
    icd diagnosis specialty major
    """
)
_CODE_BOOK = _words("zip zipcode postcode postal plz code naics sic icd diagnosis fips")
_MEASURE = _words(
    """
    count counts cnt total sum amount amt quantity qty value mean avg average max min median
    rate ratio score scores level grade rank size limit rating rated points index percentage
    percent pct share stars frequency satisfaction involvement
    age year years yrs yr month months week weeks day days hour hours hrs minute minutes times
    since tenure duration term experience
    income salary wage price cost costs fee balance payment payments revenue debt loss gain credits
    length distance height weight temperature pressure bmi
    children kids dependents persons people members rooms visits priors sessions calls
    """
)
_COUNTED = _words("n num no nb number count total times how")
# Words between a measure and what it is of: years at a job, hours per week, distance to a store.
_PREPOSITIONS = _words("at by for from in of on per since to until with")
_WEIGHT = _words("fnlwgt finalwt pweight fweight aweight perwt hhwt wtfinl asecwt ipw wgt wght")
_SAMPLING = _words(
    """
    sample sampling survey pop population final design replicate expansion inverse probability
    person household hh case instance norm normalized post stratification
    """
)
_FOLDS = _words("fold folds kfold")
_PARTS = _words("train training test testing valid validation val dev holdout oot eval")
_PART_MARKS = _words("is in set split flag sample")
_PART_VALUE = re.compile(
    r"^(train|test|valid|val|dev|holdout|oot|eval)(ing|ation)?([_ -]?set)?\d*$"
)
# Names of what the law of many countries forbids to decide by.
PROTECTED = _words(
    """
    gender sex male female women woman age pregnant disability disabled veteran
    race ethnicity ethn ethnic white nonwhite nwhite black hispanic hispan hisp latino asian
    religion nationality citizenship foreign immigrant caste
    birth birthdate birthday birthyear dob marital married pregnancy
    alter geburtsdatum geburtsjahr geschlecht familienstand muttersprache konfession behinderung
    herkunft
    """
)
# Words that are protected only together, such as in skin_colour and mother_tongue.
PROTECTED_PAIRS = (
    (_words("skin"), _words("color colour tone type")),
    (_words("tongue language"), _words("mother native first")),
    (_words("orientation"), _words("sexual")),
)
# Words of things: next to one of the words on the left a protected word means the thing.
UNPROTECTED_PAIRS = (
    (
        _words("age"),
        _words(
            """
            account accounts acct car cars vehicle vehicles house home building property company
            firm business device phone card policy contract loan credit debt file invoice order
            machine equipment system oldest newest record history
            """
        ),
    ),
    (_words("race"), _words("time times distance track event result results car start finish")),
    (
        _words("foreign"),
        _words("exchange currency transaction transactions trade key payment payments account"),
    ),
    (_words("black white"), _words("list listed box paper label collar space")),
    (_words("birth"), _words("certificate weight")),
)
# Categories without a place in an order, unless a scale has the word.
_VAGUE_IN_ORDERS = frozenset(
    (
        *("unknown", "unk", "not known", "not stated", "unspecified", "undefined", "none", "other"),
        *("refused", "not applicable", "prefer not to say", "don't know", "dont know"),
    )
)


def is_protected(name: str) -> bool:
    """Say whether a column's name reads as what the law of many countries forbids to decide by.

    Parameters
    ----------
    name : str
        Name of the column.

    Returns
    -------
    bool

    Examples
    --------
    >>> [is_protected(name) for name in ("skin_tone", "skin_thickness", "age", "account_age")]
    [True, False, True, False]
    """
    words = set(words_of(name))
    for first, second in PROTECTED_PAIRS:
        if words & first and words & second:
            return True
    protected = words & PROTECTED
    for word, things in UNPROTECTED_PAIRS:
        if words & things:
            protected -= word
    return bool(protected)


@dataclass(frozen=True)
class Outcome:
    """The label of the sampled rows, for relations of columns to it.

    Parameters
    ----------
    rows : ndarray of int64, shape (m,)
        Positions of the sampled rows.
    positive : ndarray of float64, shape (m,)
        1 where the label is positive, else 0.
    """

    rows: NDArray[np.int64]
    positive: NDArray[np.float64]

    @classmethod
    def of(cls, data: pa.ChunkedArray, positive: Any) -> Outcome:
        """Read the label's sampled rows.

        Parameters
        ----------
        data : pyarrow.ChunkedArray, length n
            The label, without missing values.
        positive : object
            Its value that counts as positive.

        Returns
        -------
        Outcome
        """
        rows = sample_rows(len(data))
        sampled = data.take(pa.array(rows))
        return cls(rows, np.asarray(pc.equal(sampled, positive), dtype=np.float64))


def describe_feature(values: Values, outcome: Outcome | None) -> Column:
    """Return a column that is neither label nor sensitive nor an id by request, with the reason.

    Parameters
    ----------
    values : Values
        The column's values, read by :func:`evenhand.data_contracts.values.read_values`.
    outcome : Outcome or None
        The label of sampled rows. Without it no relation to the label is tried.

    Returns
    -------
    Column
        Of the role ``feature`` or ``ignore``; its description is the reason.
    """
    if values.distinct == 0:
        return _ignored(values, "it holds no value, nothing to learn from", present=False)
    if values.distinct == 1:
        return _ignored(values, "it holds one value only, nothing to learn from")
    are_other_dates = values.kind == "string" and _are_other_dates(values)
    if are_other_dates and values.distinct > MAX_CATEGORIES:
        reason: str | None = OTHER_DATE
    else:
        reason = _not_of_people(values)
    if reason is not None:
        return _ignored(values, reason)
    if values.kind == "string":
        column = _text(values)
        if are_other_dates:
            column = replace(column, description=f"{column.description} Note: {OTHER_DATE}.")
        return column
    if values.kind == "boolean":
        return _boolean(values, f"True or false{_spelling(values)}.")
    if values.kind == "date":
        text = "Date: used as age in days, month and weekday."
        return _feature(values, text, encoding="calendar")
    return _number(values, outcome)


def _spelling(values: Values) -> str:
    """Text about how the raw values were written, to follow a description; empty if plain."""
    if values.found:
        return f", {values.found}"
    return ""


def _not_of_people(values: Values) -> str | None:
    """Return why a column describes rows and not people: ids, sampling weights, parts of a
    split.
    """
    is_numeric = values.kind in ("integer", "number")
    is_whole = is_numeric and whole_numbers(values.present)
    if is_whole or values.kind == "string":
        reason = _id_reason(values, is_whole)
        if reason is not None:
            return reason
    if is_numeric and values.distinct > 10 and _is_weight(values):
        return f"{SAMPLING_WEIGHT}: it says for how many people a row stands"
    if values.distinct <= 20:
        return _split_reason(values)
    return None


def _id_reason(values: Values, is_whole: bool) -> str | None:
    """Return why texts or whole numbers are ids; None if they are not."""
    distinct = values.distinct
    rows = len(values.present)
    words = words_of(values.name)
    if distinct > MAX_CATEGORIES and not _ID.isdisjoint(words):
        return "its name and its many values are those of an id"
    if not is_whole:
        if distinct == rows:
            return "differs in every row, like an identifier or free text"
        return None
    if distinct == rows and rows > 10:
        ends = {*words[:1], *words[-1:]}
        if ends & (_ID | _MAYBE_ID):
            return "differs in every row, like an id"
        if values.kind == "integer" and rows >= MIN_COUNTED_ROWS and _counts_rows(values):
            return "numbers the rows, like an id"
    differs_nearly_everywhere = distinct >= 0.95 * rows and distinct > MAX_CATEGORIES
    if differs_nearly_everywhere and words and words[-1] in _MAYBE_ID:
        return "differs in nearly every row, like an id"
    return None


def _counts_rows(values: Values) -> bool:
    """Whether distinct integers are sorted, or without gaps."""
    numbers = values.present.cast(pa.int64(), safe=False).to_numpy()
    steps = np.diff(numbers)
    if (steps > 0).all() or (steps < 0).all():
        return True
    return bool(np.ptp(numbers) <= 1.02 * len(numbers))


def _split_reason(values: Values) -> str | None:
    """Return why a column of few values names the parts of a split; None if it does not."""
    if values.kind == "string":
        texts = [str(item).strip().lower() for item in pc.unique(values.present).to_pylist()]
        are_parts = all(map(_PART_VALUE.match, texts))
        if are_parts and any(text.startswith("train") for text in texts):
            return "says to which part of a split a row belongs"
    words = words_of(values.name)
    part_words = _PARTS.intersection(words)
    is_marked_part = bool(part_words) and not _PART_MARKS.isdisjoint(words)
    is_cv_fold = "cv" in words and "fold" in "".join(words)
    names_split = words[-1:] in (["split"], ["partition"])
    names_fold = not _FOLDS.isdisjoint(words)
    if names_fold or names_split or is_marked_part or len(part_words) > 1 or is_cv_fold:
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
    if not _WEIGHT.isdisjoint(words):
        return True
    if words and re.fullmatch(r"[a-z]{2,}(wgt|wght|wt)", words[-1]):
        return True
    if {"weight", "weights", "wt"}.isdisjoint(words):
        return False
    if not _SAMPLING.isdisjoint(words):
        return True
    if len(words) > 1:
        return False
    median = pc.quantile(present, q=0.5)[0].as_py()
    mean = pc.mean(present).as_py()
    return bool(abs(mean - 1) < 0.05 or median > 1000)


def _are_other_dates(values: Values) -> bool:
    """Whether all texts look like dates that are written otherwise than YYYY-MM-DD."""
    texts = pc.utf8_trim_whitespace(pc.unique(values.present).cast(pa.string()))
    return bool(pc.all(pc.match_substring_regex(texts, _OTHER_DATE)).as_py())


def _text(values: Values) -> Column:
    distinct = values.distinct
    if distinct <= max(MAX_CATEGORIES, 100):
        ordered = _ordered_categories(values)
        if ordered is not None:
            return ordered
    if distinct > MAX_CATEGORIES or distinct * 2 >= len(values.present):
        return _ignored(
            values, f"{distinct:,} distinct values are too many categories; group them to use it"
        )
    allowed = tuple(sorted(pc.unique(values.present).to_pylist()))
    return _feature(values, f"Category with {distinct} values.", allowed=allowed)


def _ordered_categories(values: Values) -> Column | None:
    """Describe texts that have an order; None if they have none."""
    texts = [item for item in pc.unique(values.present).to_pylist() if item is not None]
    vague = {text for text in texts if text.strip().lower() in _VAGUE_IN_ORDERS}
    # first with all words, as a scale may have "unknown"; then with the vague ones as missing
    for left_out in (set(), vague):
        order = order_of([text for text in texts if text not in left_out], values.name)
        if order is None:
            continue
        allowed, kind = order
        missing = {*values.missing, *(text.strip() for text in left_out)}
        return _feature(
            values,
            f"Ordered category with {len(allowed)} values: {kind}.",
            encoding="ordinal",
            allowed=allowed,
            missing=tuple(sorted(missing, key=str)),
            required=values.required and not left_out,
        )
    return None


def _boolean(values: Values, reason: str) -> Column:
    if values.required:
        return _feature(values, reason, logical_type="boolean", encoding="binary", positive=True)
    return _feature(values, reason, logical_type="boolean", encoding="onehot", positive=None)


def _number(values: Values, outcome: Outcome | None) -> Column:
    low = pc.min(values.present).as_py()
    high = pc.max(values.present).as_py()
    is_whole = whole_numbers(values.present)
    is_count = is_whole and low >= 0
    if is_count and high == 1:
        return _boolean(values, f"True or false, as 1 and 0{_spelling(values)}.")
    if is_count and high < 2**63:  # integers have 64 bits
        reason = _coded(values, outcome)
        if reason is not None:
            return _codes(values, reason)
    word = "Whole number" if is_whole else "Number"
    count = "two" if values.distinct == 2 else f"{values.distinct:,}"
    text = f"{word}{_spelling(values)}, {count} values."
    if values.isolated:
        text += f" {values.isolated[0].upper()}{values.isolated[1:]}."
    minimum = 0 if low >= 0 else None
    return _feature(values, text, encoding="standard", minimum=minimum)


def _codes(values: Values, reason: str) -> Column:
    """Describe whole numbers that are codes of categories, for a reason."""
    distinct = values.distinct
    if distinct > MAX_CATEGORIES:
        return _ignored(values, f"{distinct:,} codes are too many categories; group them to use it")
    allowed = tuple(int(item) for item in sorted(pc.unique(values.present).to_pylist()))
    text = f"Category with {distinct} codes: {reason}{_spelling(values)}."
    return _feature(values, text, logical_type="integer", encoding="onehot", allowed=allowed)


def _coded(values: Values, outcome: Outcome | None) -> str | None:
    """Return why whole numbers are codes of categories; None for counts and measures."""
    words = words_of(values.name)
    if values.distinct > MAX_CATEGORIES:
        # a book of codes has few numbers that many rows share, and no fractions
        if values.kind == "integer" and words and words[-1] in _CODE_BOOK:
            return "its name"
        return None
    is_counted = len(words) > 1 and words[0] in _COUNTED
    if len(words) > 2 and words[0] in _MEASURE and words[1] in _PREPOSITIONS:
        is_counted = True
    if words and words[-1] in _CODE and not is_counted:
        return "its name says so"
    if is_counted or not _MEASURE.isdisjoint(words) or _are_years(values, words):
        return None
    if not _CODE.isdisjoint(words):
        return "its name says so"
    if values.distinct == 2:
        return "two codes"
    if outcome is None:
        return None
    sampled = values.data.take(pa.array(outcome.rows)).cast(pa.float64(), safe=False).to_numpy()
    is_finite = np.isfinite(sampled)
    return _shaped_like_codes(sampled[is_finite], outcome.positive[is_finite])


def _are_years(values: Values, words: Sequence[str]) -> bool:
    """Whether numbers are years of schooling or experience, which have the gaps and peaks of
    codes.
    """
    if not any(re.search("educ|exp|^school", word) for word in words):
        return False
    return bool(values.distinct >= 8 and pc.max(values.present).as_py() <= 60)


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
    low, high = _common_range(levels, counts)
    is_irregular = _irregular(levels, index, counts, y)
    gaps = _gap_share(levels, low, high)
    if _widens(levels) and not is_irregular:
        gaps = 0.0  # those of terms and amounts that people round
    signs = []
    if gaps >= GAPS:
        signs.append("gaps between the numbers")
    if is_irregular:
        signs.append("no steady relation to the label")
    if _turns(counts) >= 2:
        signs.append("no regular frequencies")
    few = len(levels) <= MAX_SHAPED_LEVELS
    if len(signs) >= 2 and (few or is_irregular):
        return ", ".join(signs)
    are_far_apart = few and gaps >= WIDE_GAPS and low > 0
    if are_far_apart:
        return signs[0]
    return None


def _common_range(levels: NDArray[np.float64], counts: NDArray[np.int64]) -> tuple[float, float]:
    """Levels at the first and the 99th percentile of the rows."""
    cumulated = np.cumsum(counts) / counts.sum()
    low = levels[np.searchsorted(cumulated, 0.01)]
    high = levels[min(int(np.searchsorted(cumulated, 0.99)), len(levels) - 1)]
    return low, high


def _gap_share(levels: NDArray[np.float64], low: float, high: float) -> float:
    """Share of the possible numbers between two levels that no row has."""
    unit = float(np.gcd.reduce((levels - levels[0]).astype(np.int64)))
    common = ((levels >= low) & (levels <= high)).sum()
    return float(1.0 - common / ((high - low) / unit + 1.0))


def _turns(counts: NDArray[np.int64]) -> int:
    """How often the frequencies of neighbouring levels change from rising to falling or back,
    if changes below ``CLEAR_CHANGE`` do not count.
    """
    change = np.diff(counts) / np.sqrt(counts[1:] + counts[:-1])
    steps = np.sign(change[np.abs(change) > CLEAR_CHANGE])
    return int((np.diff(steps) != 0).sum())


def _widens(levels: NDArray[np.float64]) -> bool:
    """Whether the distance of neighbouring levels grows with their size."""
    widths = np.diff(levels)
    if len(levels) < 8 or not widths.std() > 0:
        return False
    return bool(np.corrcoef(widths, levels[1:])[0, 1] > 0.5)


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
    usable = counts >= MIN_LEVEL_ROWS
    if usable.sum() < 4 or not 0.0 < base < 1.0:
        return False
    rates = np.bincount(index, weights=y)[usable] / counts[usable]
    weights = counts[usable] / (base * (1.0 - base))
    design = np.vander((levels[usable] - levels.mean()) / (np.ptp(levels) or 1.0), 3)
    root = np.sqrt(weights)
    fitted = design @ np.linalg.lstsq(design * root[:, None], rates * root, rcond=None)[0]
    mean = np.average(rates, weights=weights)
    # sums of squares around the mean and around the curve, in variances of a share
    total = float((weights * (rates - mean) ** 2).sum())
    unexplained = float((weights * (rates - fitted) ** 2).sum())
    degrees = int(usable.sum()) - 3
    return unexplained > UNEXPLAINED * total and bool(chi2.sf(unexplained, degrees) < BY_CHANCE)


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
