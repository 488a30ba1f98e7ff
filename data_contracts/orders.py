"""Ordered categories: ranges of numbers, and words that have an order."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

# Each paragraph is an order, its positions separated by blanks; words of one position are separated
# by |, after which a line may break. A dash joins the words of one name.
_SCALES = """
none|zero|no very-low|extremely-low|lowest low|lower medium-low|moderately-low|lower-middle
medium|moderate|average|normal|mid|middle|med medium-high|moderately-high|upper-middle
high|higher|upper|elevated very-high|extremely-high|highest critical|extreme

very-small|tiny|micro|mini|xxs xs|x-small|extra-small s|small m|medium|mid|mid-size|midsize l|
large|big
xl|x-large|extra-large|very-large|huge xxl|2xl|xx-large|giant xxxl|3xl

never|none|not-at-all almost-never|hardly-ever|very-rarely rarely|seldom occasionally|
once-in-a-while
sometimes|about-half-the-time often|frequently|regularly usually|mostly|most-of-the-time
very-often|very-frequently|almost-always|nearly-always always|constantly|all-the-time

never|none yearly|annually|annual|once-a-year quarterly monthly|once-a-month biweekly|fortnightly
weekly|once-a-week daily|once-a-day|every-day hourly

strongly-disagree|completely-disagree|totally-disagree disagree|mostly-disagree
somewhat-disagree|slightly-disagree|tend-to-disagree neutral|undecided|neither|
neither-agree-nor-disagree
somewhat-agree|slightly-agree|tend-to-agree agree|mostly-agree
strongly-agree|completely-agree|totally-agree

very-dissatisfied|very-unsatisfied|extremely-dissatisfied dissatisfied|unsatisfied
somewhat-dissatisfied|slightly-dissatisfied neutral|neither somewhat-satisfied|slightly-satisfied
satisfied very-satisfied|extremely-satisfied

very-unlikely|extremely-unlikely unlikely somewhat-unlikely neutral|possible somewhat-likely
likely|probable very-likely|extremely-likely certain

very-poor|terrible|awful|very-bad|fail|fails poor|bad|weak below-average
fair|average|ok|okay|satisfactory|acceptable|sufficient|moderate|neutral above-average good
very-good|great|strong excellent|outstanding|exceptional

fails|failing|unsatisfactory|does-not-meet-expectations
needs-improvement|partially-meets-expectations|below-expectations meets-expectations|met
exceeds-expectations|exceeds|exceeded outstanding|far-exceeds-expectations

none|no|absent|healthy minimal|very-mild|trace mild|minor|slight|light moderate|medium
severe|serious|major|heavy critical|very-severe|extreme fatal

intern|trainee|apprentice junior|entry|entry-level|jr mid|middle|intermediate|mid-level|associate|
regular
senior|sr|experienced lead|staff|principal manager director|head vice-president|vp
executive|chief|c-level

none novice|newcomer beginner|basic|elementary|foundation intermediate|medium upper-intermediate
advanced|proficient expert|fluent|master|native

bronze silver gold platinum diamond

free|trial basic|starter|economy|budget standard|regular|classic plus|premium-economy
premium|pro|professional|business enterprise|first|luxury|ultimate

baby|infant toddler child|kid|children preteen|tween teen|teenager|adolescent|youth young|
young-adult
adult|middle|middle-aged|middle-age old|older|older-adult|senior|elderly|retired

first|1st second|2nd third|3rd fourth|4th fifth|5th sixth|6th seventh|7th eighth|8th ninth|9th
tenth|10th

i ii iii iv v vi vii viii

unskilled|low-skilled semi-skilled|partly-skilled skilled highly-skilled

a1 a2 b1 b2 c1 c2

rural suburban|semi-urban|semiurban urban|metropolitan

cold cool mild warm hot

none|no-education|no-schooling|no-formal-education|illiterate|never-attended
preschool|pre-school|kindergarten|nursery 1st-4th 5th-6th
elementary|elementary-school|primary|primary-school|basic|incomplete-primary 7th-8th
middle-school|lower-secondary|junior-high 9th 10th 11th
12th|some-high-school|less-than-high-school|no-high-school|incomplete-secondary
hs-grad|high-school|highschool|high-school-graduate|high-school-diploma|hs|hs-diploma|ged|secondary|
secondary-school|upper-secondary
vocational|apprenticeship|trade-school|technical|certificate|diploma
some-college|some-university|college-no-degree|post-secondary
assoc-voc|associate|associates|associate's|associates-degree|associate-degree|college|
college-degree|
foundation-degree
assoc-acdm
bachelor|bachelors|bachelor's|bachelors-degree|bachelor-degree|bachelor's-degree|university|
graduate|
graduation|undergraduate|tertiary|higher|university-degree|degree|bsc
master|masters|master's|masters-degree|master's-degree|postgraduate|post-graduate|grad-school|
graduate-school|graduate-degree|msc|mba
prof-school|professional|professional-degree phd|doctorate|doctoral|doctor|doctorate-degree|ph-d
"""


def _positions(scale: str) -> dict[str, int]:
    """Position of each word of an order."""
    positions = {}
    for position, words in enumerate(scale.replace("|\n", "|").split()):
        for word in words.split("|"):
            positions[word] = position
    return positions


_ORDERS = [_positions(scale) for scale in _SCALES.strip().split("\n\n")]
_LEVEL_WORDS = ("level", "lvl", "grade", "tier", "stage", "band", "step", "phase", "rank", "class")
_PART_WORDS = ("quartile", "quintile", "decile", "bracket", "year", "degree")
_STEP_WORDS = {*_LEVEL_WORDS, *_PART_WORDS}
_AMOUNT = r"([$€£]?\s*-?\d[\d,]*\.?\d*\s*[kKmM]?)"
_UNIT = r"(?:\s*(?:%|[A-Za-z]{1,8}\.?(?:\s+[A-Za-z]{1,5})?))?"
_BETWEEN = re.compile(
    rf"[\[(]?\s*{_AMOUNT}{_UNIT}\s*"
    r"(?:-|–|—|to|until|,|;|\.\.+|<=?[^<]*<=?|:)"
    rf"\s*<?=?{_AMOUNT}{_UNIT}\s*[\])]?"
)
_BELOW = re.compile(
    r"(?:\.\.+\s*)?(?:<=?|≤|less than|under|below|up to|at most|fewer than|until|younger than)\s*"
    rf"{_AMOUNT}{_UNIT}",
    re.IGNORECASE,
)
_ABOVE = re.compile(
    r"(?:(?:\.\.+\s*)?(?:>=?|≥|greater than|more than|over|above|at least|older than|from)\s*"
    rf"{_AMOUNT}{_UNIT}"
    rf"|{_AMOUNT}\s*(?:\+|plus|and (?:over|above|more|older|up)|or "
    rf"(?:more|over|older|above)){_UNIT}"
    rf"|{_AMOUNT}{_UNIT}\s*(?:\+|and (?:over|above|more|older)|or (?:more|over|older|above)))",
    re.IGNORECASE,
)
_SINGLE = re.compile(rf"{_AMOUNT}{_UNIT}")
_GRADE = re.compile(r"[A-G][+-]?")


def order_of(values: Sequence[str], name: str) -> tuple[tuple[str, ...], str] | None:
    """Return categories in their order, and a description of it; None if they have none.

    Parameters
    ----------
    values : sequence of str
        Distinct categories, none of them missing.
    name : str
        Name of the column. Single letters are grades only in a column whose name says so.

    Returns
    -------
    order : tuple of str
        The categories, from the lowest to the highest.
    description : str
        Which kind of order it is.
    """
    if len(values) < 2:
        return None
    ranges = _distinct_ranges(values)
    if ranges is not None and (_share_a_unit(values) or _any_is_wide(ranges.values())):
        return tuple(sorted(values, key=ranges.__getitem__)), "ranges of numbers"
    if len(values) < 3:
        return None
    ranks = _ranks(values, name)
    if ranks is None:
        return None
    return tuple(sorted(values, key=lambda value: (ranks[value], value))), "words with an order"


def _distinct_ranges(values: Sequence[str]) -> dict[str, tuple[float, float]] | None:
    """Ends of the range of numbers that each value is; None unless all are ranges, and differ."""
    ranges = {}
    for value in values:
        ends = _range(value.strip())
        if ends is None:
            return None
        ranges[value] = ends
    if len(set(ranges.values())) < len(values):
        return None
    return ranges


def _share_a_unit(values: Sequence[str]) -> bool:
    """Whether three numbers or more have the same unit, such as years; the plural aside."""
    units = {re.sub(r"[^a-z]|s$", "", value.lower()) for value in values}
    return len(units) == 1 and units != {""} and len(values) > 2


def _any_is_wide(ranges: Iterable[tuple[float, float]]) -> bool:
    return any(low != high for low, high in ranges)


def _range(text: str) -> tuple[float, float] | None:
    """Return the ends of a range of numbers, for sorting."""
    if re.fullmatch(r"\d{4}-\d{2}(-\d{2})?", text) and int(text[5:7]) <= 12:
        return None  # a month or a date
    between = _BETWEEN.fullmatch(text)
    if between is not None:
        return _ends(between[1], between[2])
    below = _BELOW.fullmatch(text)
    if below is not None:
        # sorted before the range that begins there
        return (-math.inf, _amount(below[1]))
    above = _ABOVE.fullmatch(text)
    if above is not None:
        return (_amount(next(part for part in above.groups() if part)), math.inf)
    single = _SINGLE.fullmatch(text)
    if single is not None:
        return (_amount(single[1]), _amount(single[1]))
    return None


def _ends(low_text: str, high_text: str) -> tuple[float, float] | None:
    """Ends of a range between two amounts; None if the first one is larger."""
    low = _amount(low_text)
    high = _amount(high_text)
    # 10-20k is 10,000 to 20,000
    suffix = high_text.strip()[-1:]
    if low > high and suffix in "kKmM" and low_text.strip()[-1:] not in "kKmM":
        low *= 1e3 if suffix in "kK" else 1e6
    if low <= high:
        return (low, high)
    return None


def _amount(text: str) -> float:
    digits = re.sub(r"[^0-9.\-]", "", text)
    scale = {"k": 1e3, "m": 1e6}.get(text.strip()[-1:].lower(), 1.0)
    return float(digits) * scale


def _ranks(values: Sequence[str], name: str) -> dict[str, int] | None:
    """Return the position of each value in the first scale that has all of them."""
    words = {value: re.sub(r"[^a-z0-9'+]+", "-", value.lower()).strip("-") for value in values}
    shared = set.intersection(*(set(text.split("-")) for text in words.values()))
    # "low risk", "high risk": the word that all have says nothing
    short = {value: _without_words(text, shared) for value, text in words.items()}
    for texts in (words, _without_numbers(words), short, _without_numbers(short)):
        ranks = _ranks_in_scales(texts)
        if ranks is not None:
            return ranks
    if shared & _STEP_WORDS and all(re.fullmatch(r"\d+", text) for text in short.values()):
        return {value: int(text) for value, text in short.items()}
    name_words = set(re.split(r"[^a-z]+", name.lower()))
    names_grade = name_words & {"grade", "rating", "mark", "band", "score"}
    if names_grade and all(map(_GRADE.fullmatch, values)):
        return {value: _grade_rank(value) for value in values}
    return None


def _without_numbers(texts: dict[str, str]) -> dict[str, str]:
    """Leave out a number before the word: "(3) high", "1. low"."""
    return {value: re.sub(r"^\d+-(?=[a-z])", "", text) for value, text in texts.items()}


def _without_words(text: str, left_out: set[str]) -> str:
    return "-".join(word for word in text.split("-") if word not in left_out)


def _ranks_in_scales(texts: dict[str, str]) -> dict[str, int] | None:
    """Position of each value, by its text, in the first scale that has all of them; at most two
    values, and none of three, may share one.
    """
    for scale in _ORDERS:
        ranks = {value: scale[text] for value, text in texts.items() if text in scale}
        positions = len(set(ranks.values()))
        if len(ranks) == len(texts) and positions >= max(3, len(texts) - 1):
            return ranks
    return None


def _grade_rank(grade: str) -> int:
    """Rank of a letter: A+ before A before A-, and G the lowest."""
    sign = {"+": 1, "-": -1}.get(grade[1:], 0)
    return -3 * ord(grade[0]) + sign
