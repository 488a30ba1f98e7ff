"""What every plot of a report is made of: text that fits, round ticks, an SVG frame with its title."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

# Widths in em of a common sans-serif, on the wide side: labels are placed by estimate, since the
# reader's font is not known when the page is made.
_NARROW = frozenset("ijlI.,:;|!'()[]{}/ftr ·‘’“”`")
_WIDE = frozenset("mwMW@%—…<>=+~#&")


def text_width(text: str, size: float) -> float:
    """Estimate the width of a line of text.

    Parameters
    ----------
    text : str
    size : float
        Font size in pixels.

    Returns
    -------
    float
        Width in pixels, rather too wide than too narrow.
    """
    em = 0.0
    for char in text:
        if char in _NARROW:
            em += 0.36
        elif char in _WIDE:
            em += 0.92
        elif ord(char) >= 0x2E80:
            em += 1.0
        else:
            em += 0.7 if char.isupper() else 0.61
    return em * size


def shorten(text: str, width: float, size: float) -> str:
    """Cut a line with an ellipsis where it is wider than ``width`` pixels."""
    if text_width(text, size) <= width:
        return text
    room = width - text_width("…", size)
    used = 0.0
    for i, char in enumerate(text):
        used += text_width(char, size)
        if used > room:
            return text[:i].rstrip() + "…"
    return text


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers that cover [low, high].

    Parameters
    ----------
    low, high : float
        Finite; a range with next to nothing in it is widened around ``low``.
    most : int
        About how many ticks there may be.

    Returns
    -------
    list of float
        Rising, the first at most ``low``, the last at least ``high``, at steps of 1, 2 or 5 times a
        power of ten.
    """
    if not high - low > 1e-9 * max(abs(low), abs(high)):
        half = abs(low) * 0.05 or 0.5
        low, high = low - half, low + half
    rough = (high - low) / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(k * power for k in (1, 2, 5, 10) if k * power >= rough * (1 - 1e-9))
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    digits = max(0, 1 - math.floor(math.log10(step)))
    return [round(i * step, digits) for i in range(first, last + 1)]


def tick_label(value: float, marks: Sequence[float]) -> str:
    """Write a tick with as many decimals as the step between ticks needs."""
    step = min((b - a for a, b in zip(marks, marks[1:], strict=False)), default=1.0)
    if abs(value) >= 1e6 or 0 < step < 1e-5:
        return f"{value:.3g}".replace("-", "\u2212")
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{value:,.{decimals}f}".replace("-", "\u2212")


def num(value: float) -> str:
    """Write a coordinate: at most one decimal, no trailing zero."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def label(x: float, y: float, text: str, classes: str = "", anchor: str = "start") -> str:
    """Set a line of text on its baseline, escaped."""
    end = "" if anchor == "start" else f' text-anchor="{anchor}"'
    kind = f' class="{classes}"' if classes else ""
    return f'<text x="{num(x)}" y="{num(y)}"{kind}{end}>{html.escape(text)}</text>'


def turned(x: float, y: float, text: str, angle: float, classes: str = "") -> str:
    """Set a line of text that ends at a point, turned clockwise about it by ``angle`` degrees."""
    kind = f' class="{classes}"' if classes else ""
    place = f'transform="translate({num(x)} {num(y)}) rotate({num(angle)})"'
    return f'<text {place}{kind} text-anchor="end">{html.escape(text)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, classes: str) -> str:
    """Draw a straight line."""
    return f'<line x1="{num(x1)}" y1="{num(y1)}" x2="{num(x2)}" y2="{num(y2)}" class="{classes}"/>'


def rect(x: float, y: float, width: float, height: float, classes: str, radius: float = 0) -> str:
    """Draw a rectangle, its width at least 0."""
    corner = f' rx="{num(radius)}"' if radius else ""
    return (
        f'<rect x="{num(x)}" y="{num(y)}" width="{num(max(width, 0))}" height="{num(height)}"'
        f'{corner} class="{classes}"/>'
    )


def dot(x: float, y: float, classes: str = "dot", radius: float = 5) -> str:
    """Draw a round mark."""
    return f'<circle cx="{num(x)}" cy="{num(y)}" r="{num(radius)}" class="{classes}"/>'


def diamond(x: float, y: float, classes: str = "paper", half: float = 5) -> str:
    """Draw a diamond mark."""
    return (
        f'<path d="M{num(x)} {num(y - half)}L{num(x + half)} {num(y)}'
        f'L{num(x)} {num(y + half)}L{num(x - half)} {num(y)}Z" class="{classes}"/>'
    )


def strokes(segments: Sequence[tuple[float, float, float, float]], classes: str) -> str:
    """Draw straight lines of one kind as one element: (x1, y1, x2, y2) each."""
    path = "".join(f"M{num(x1)} {num(y1)}L{num(x2)} {num(y2)}" for x1, y1, x2, y2 in segments)
    return f'<path d="{path}" class="{classes}"/>' if path else ""


def whisker(x1: float, x2: float, y: float, classes: str = "whisker", cap: float = 4) -> str:
    """Draw an interval with end caps."""
    ends = [(x1, y - cap, x1, y + cap), (x1, y, x2, y), (x2, y - cap, x2, y + cap)]
    return strokes(ends, classes)


def frame(
    uid: str, width: float, height: float, title: str, description: str, body: str, kind: str = ""
) -> str:
    """Make an SVG image that scales with its box and speaks its title and description.

    Parameters
    ----------
    uid : str
        Unique on the page; the ids inside start with it.
    width, height : float
        The drawing's own size in pixels (its viewBox).
    title, description : str
        Plain text for people who do not see the plot.
    body : str
        SVG elements, already escaped.
    kind : str
        A class of the image.

    Returns
    -------
    str
    """
    name = html.escape(uid)
    return (
        f'<svg class="plot {html.escape(kind)}" viewBox="0 0 {num(width)} {num(height)}" role="img" '
        f'style="max-width:{num(width)}px" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{html.escape(title)}</title>'
        f'<desc id="{name}-d">{html.escape(description)}</desc>'
        f"{body}</svg>"
    )
