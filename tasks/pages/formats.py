"""Numbers, times and names as a reader sees them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from markupsafe import Markup

from evenhand.fairlib.escaping import plain_text
from evenhand.fairlib.evaluation.gates import distinct

Item = TypeVar("Item")
MISSING = "not available"
_MINUS = "\u2212"
# Characters that XML cannot represent, and one that HTML readers show as nothing.
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_ELSEWHERE = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.\-]*:|//)|.*[\x00-\x1f\\]", re.DOTALL)


def number(value: float | None) -> str:
    """Write a number: three decimals, three significant digits below 0.01, none from 1,000 on."""
    if value is None:
        return MISSING
    size = abs(value)
    form = ".2e"
    if size >= 0.0001:
        form = ".3g"
    if size == 0 or 0.01 <= size < 1000:
        form = ".3f"
    elif 1000 <= size < 1_000_000_000:
        form = ",.0f"
    text = f"{value:{form}}"
    if text.startswith("-"):
        return text.replace("-", _MINUS, 1)
    return text


def apart(value: float | None, limit: float) -> tuple[str, str]:
    """Write two numbers with as many decimals, from three on, as it takes to distinguish them."""
    if value is None:
        return MISSING, number(limit)
    value_text, limit_text = distinct(value, limit)
    return value_text.replace("-", _MINUS), limit_text.replace("-", _MINUS)


def percent(share: float | None) -> str:
    """Write a share as a percentage with one decimal."""
    if share is None:
        return MISSING
    return f"{100 * share:.1f}%".replace("-", _MINUS)


def points(difference: float) -> str:
    """Write a difference of two shares in percentage points, without its sign."""
    return f"{abs(100 * difference):.1f} percentage points"


def count(value: int | None) -> str:
    """Write a whole number with thousands separated."""
    if value is None:
        return MISSING
    return f"{value:,}"


def interval(low: float | None, high: float | None, form: Callable[[float], str] = number) -> str:
    """Write both ends in words, so that a screen reader says them as a range."""
    if low is None or high is None:
        return "no interval"
    return f"{form(low)} to {form(high)}"


def p_value(value: float | None) -> str:
    """Write a p-value."""
    if value is not None and value < 0.001:
        return "below 0.001"
    return number(value)


def seconds(value: float) -> str:
    """Write seconds, or minutes from two of them on."""
    if value < 0.95:
        return f"{value:.2f} s"
    if value < 119.5:
        return f"{value:.1f} s"
    minutes, remainder = divmod(round(value), 60)
    if minutes < 120:
        return f"{minutes} min {remainder:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def moment(iso: str) -> str:
    """Write an ISO time as '3 May 2026, 14:05 UTC'; any other text unchanged."""
    try:
        when = datetime.fromisoformat(iso)
    except ValueError:
        return iso
    zone = ""
    if when.tzinfo is not None:
        when = when.astimezone(UTC)
        zone = " UTC"
    # Not strftime's %B, which follows the machine's locale.
    return f"{when.day} {_MONTHS[when.month - 1]} {when.year}, {when:%H:%M}{zone}"


def signed(value: float | None) -> str:
    """Write a difference with its sign; none for 0."""
    text = number(value)
    if value is not None and value > 0:
        return f"+{text}"
    return text


def change(value: float | None) -> str:
    """Write a difference with its sign and three decimals."""
    if value is None or abs(value) >= 999:
        return signed(value)
    text = f"{value:+.3f}".replace("-", _MINUS)
    if abs(value) < 0.0005:
        return "0.000"
    return text


def plural(n: int, one: str, many: str | None = None) -> str:
    """Count things: '1 gate', '3 gates'."""
    if n == 1:
        return f"{n:,} {one}"
    return f"{n:,} {many or one + 's'}"


def join(items: list[str], last: str = "and") -> str:
    """List items: 'a', 'a and b', 'a, b and c'."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {last} {items[-1]}"


def printable(text: str) -> str:
    """Replace what is no text: a column's name or a category may hold such bytes."""
    return plain_text(text)


def sentence(text: str) -> str:
    """Begin a text with a capital letter."""
    return text[:1].upper() + text[1:]


def evenly(items: Sequence[Item], most: int) -> list[Item]:
    """At most so many items at even distances, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[round(i * (len(items) - 1) / max(most - 1, 1))] for i in range(most)]


def shortlist(names: list[str], most: int = 8) -> str:
    """List names; of many, the last are only counted."""
    if len(names) <= most:
        return join(names)
    return join([*names[:most], f"{len(names) - most} more"])


def flatten(parameters: Mapping[str, object], prefix: str = "") -> list[tuple[str, str]]:
    """List nested parameters as (dotted name, value in words) pairs."""
    flat: list[tuple[str, str]] = []
    for key, value in parameters.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            flat += flatten(value, f"{name}.")
        else:
            flat.append((name, _plain(value)))
    return flat


def _plain(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(_plain(item) for item in value) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_plain(item)}" for key, item in value.items()) or "none"
    return str(value)


def breakable(name: str) -> Markup:
    """Let a long technical name be broken after its dots and underscores."""
    return Markup("<wbr>").join(part for part in re.split(r"(?<=[._&])", name) if part)


def relative_link(href: str | None) -> str | None:
    """Give the link back if it stays next to the report, else None: a report never points
    elsewhere.
    """
    if not href or _ELSEWHERE.match(href):
        return None
    return href
