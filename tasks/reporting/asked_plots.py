"""Plots of what an agent asks: what each feature tells above how often it is asked, and how many are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evenhand.tasks.reporting import axes, draw, formats

__all__ = ["Question", "count_plot", "question_plot"]

# Heights of both panels, and the longest name below them, in pixels.
AUC_HEIGHT, SHARE_HEIGHT, NAME_LENGTH = 120.0, 140.0, 112.0
WIDEST_COLUMN, BAR_PART = 92.0, 0.68
PALEST = 0.3


@dataclass(frozen=True)
class Question:
    """
    A feature: the share asked with its interval, what it tells alone, and shares of some people.

    ``share`` None stands for a set of features, which has AUCs only.
    """

    name: str
    share: float | None
    low: float | None = None
    high: float | None = None
    label_auc: float | None = None
    group_auc: float | None = None
    parts: tuple[tuple[str, float], ...] = ()


def question_plot(
    questions: Sequence[Question],
    *,
    about: str,
    uid: str,
    title: str,
    description: str,
    compact: bool = False,
) -> str:
    """
    Draw for each feature the AUCs of outcome and group above the share of people who are asked for it.

    Where a feature has parts, its bar is split into them, from left to right and pale to dark, and a line
    across marks the share of all.

    Parameters
    ----------
    questions : sequence of Question
    about : str
        What the adversary guesses.
    uid, title, description : str
        See :func:`evenhand.tasks.reporting.draw.frame`.
    compact : bool
        For a narrow page.

    Returns
    -------
    str
        An SVG image. Without any AUC the upper panel is left out.
    """
    width = axes.NARROW if compact else axes.WIDE
    aucs = [auc for item in questions for auc in (item.label_auc, item.group_auc) if auc is not None]
    x0 = 38.0
    step = min((width - x0) / len(questions), WIDEST_COLUMN)
    places = [x0 + (i + 0.5) * step for i in range(len(questions))]
    end = x0 + step * len(questions)
    legend, y = axes.legend(_kinds(questions, about, bool(aucs)), width)
    body = [legend]
    if aucs:
        marks = draw.ticks(min(0.5, *aucs), max(0.5, *aucs), 5)
        body.append(draw.label(0, y + 12, "AUC from this feature alone", "s m"))
        top, bottom = y + 22, y + 22 + AUC_HEIGHT
        height = axes.scale(marks[0], marks[-1], bottom, top)
        body.append(_grid(marks, height, x0, end, [draw.tick_label(mark, marks) for mark in marks]))
        body.append(draw.line(x0, height(0.5), end, height(0.5), "reference"))
        for item, x in zip(questions, places, strict=True):
            body.append(_telling(item, x, min(5.5, step * 0.2), height))
        y = bottom + 22
    body.append(draw.label(0, y + 12, "share of people who are asked", "s m"))
    top, bottom = y + 30, y + 30 + SHARE_HEIGHT
    height = axes.scale(0.0, 1.0, bottom, top)
    quarters = [0.0, 0.25, 0.5, 0.75, 1.0]
    body.append(_grid(quarters, height, x0, end, [f"{mark:.0%}" for mark in quarters]))
    for item, x in zip(questions, places, strict=True):
        body.append(_asked(item, x, step * BAR_PART, height))
    body.append(draw.line(x0, bottom, end, bottom, "axis"))
    names, room = _names([item.name for item in questions], places, step, bottom, compact)
    return draw.frame(
        uid, width, bottom + room, title, description, "".join([*body, names]), axes.form(compact)
    )


def _kinds(questions: Sequence[Question], about: str, with_aucs: bool) -> list[tuple[str, str]]:
    kinds = [(draw.rect(0, -6, 18, 11, "bar"), "asked, with its interval")]
    if any(item.parts for item in questions):
        parts = _part(0, -6, 8, 11, PALEST) + _part(10, -2, 8, 7, 1.0)
        kinds.append((parts, "split by another answer"))
        kinds.append((draw.line(0, 0, 18, 0, "limit"), "all people"))
    if with_aucs:
        kinds = [
            (draw.dot(9, 0), "ranks the outcome"),
            (draw.diamond(9, 0), f"guesses {about}"),
            (draw.line(0, 0, 18, 0, "reference"), "guessing at random"),
            *kinds,
        ]
    return kinds


def _grid(
    marks: Sequence[float], height: Callable[[float], float], x0: float, x1: float, texts: Sequence[str]
) -> str:
    labels = [
        draw.label(x0 - 6, height(mark) + 4, text, "xs m", "end")
        for mark, text in zip(marks, texts, strict=True)
    ]
    return draw.strokes([(x0, height(mark), x1, height(mark)) for mark in marks], "grid") + "".join(labels)


def _telling(item: Question, x: float, offset: float, height: Callable[[float], float]) -> str:
    """Both AUCs, side by side so that neither hides the other."""
    parts = []
    if item.label_auc is not None:
        parts.append(draw.dot(x - offset, height(item.label_auc), radius=4.5))
    if item.group_auc is not None:
        parts.append(draw.diamond(x + offset, height(item.group_auc)))
    return "".join(parts)


def _asked(item: Question, x: float, wide: float, height: Callable[[float], float]) -> str:
    if item.share is None:
        return ""
    left, ground = x - wide / 2, height(0.0)
    if not item.parts:
        bar = draw.rect(left, height(item.share), wide, ground - height(item.share), "bar")
        if item.low is None or item.high is None:
            return bar
        ends = [(x, height(item.low), x, height(item.high))]
        ends += [(x - 3, height(end), x + 3, height(end)) for end in (item.low, item.high)]
        return bar + draw.strokes(ends, "limit")
    each = wide / len(item.parts)
    drawn = []
    for i, (name, share) in enumerate(item.parts):
        strength = PALEST + (1 - PALEST) * i / max(len(item.parts) - 1, 1)
        drawn.append(_part(left + i * each, height(share), each - 1, ground - height(share), strength))
        if draw.text_width(name, 11.5) <= each:
            drawn.append(draw.label(left + (i + 0.5) * each, height(share) - 4, name, "xs", "middle"))
    over = min(3.0, 0.15 * wide)
    across = draw.line(left - over, height(item.share), left + wide + over, height(item.share), "limit")
    return "".join([*drawn, across])


def _part(x: float, y: float, wide: float, high: float, strength: float) -> str:
    return (
        f'<rect x="{draw.num(x)}" y="{draw.num(y)}" width="{draw.num(wide)}" height="{draw.num(high)}" '
        f'class="part" fill-opacity="{strength:.2f}"/>'
    )


def _names(
    names: Sequence[str], places: Sequence[float], step: float, y: float, compact: bool
) -> tuple[str, float]:
    """Names below their columns, turned where they would not fit side by side, and the room they take."""
    if all(draw.text_width(name, 12) <= step - 6 for name in names):
        level = [draw.label(x, y + 17, name, "s", "middle") for x, name in zip(places, names, strict=True)]
        return "".join(level), 24.0
    angle = 90 if compact else 45
    lean = math.cos(math.radians(angle))
    parts, longest = [], 0.0
    for x, name in zip(places, names, strict=True):
        # a slanting name must not leave the picture on its left
        room = min(NAME_LENGTH, x / lean) if lean > 0.01 else NAME_LENGTH
        shown = draw.shorten(name, room, 12)
        longest = max(longest, draw.text_width(shown, 12))
        parts.append(draw.turned(x + 4, y + 13, shown, -angle, "s"))
    return "".join(parts), 20 + longest * math.sin(math.radians(angle))


def count_plot(
    counts: Sequence[int], *, axis: str, uid: str, title: str, description: str, compact: bool = False
) -> str:
    """
    Draw how many people there are of each whole number, from 0 on.

    Parameters
    ----------
    counts : sequence of int
    axis : str
        What the numbers are.
    uid, title, description : str
        See :func:`evenhand.tasks.reporting.draw.frame`.
    compact : bool
        For a narrow page.

    Returns
    -------
    str
        An SVG image.
    """
    width, high = (axes.NARROW, 210.0) if compact else (axes.WIDE, 230.0)
    shares = [count / max(sum(counts), 1) for count in counts]
    marks = draw.ticks(0.0, max(shares) or 1.0, 5)
    x0, y0, y1 = 44.0, high - 42, 34.0
    longest = draw.text_width(str(len(counts)), 12)
    # the last label may stand out on the right of its column
    step = min((width - x0 - longest / 2) / len(counts), WIDEST_COLUMN)
    end = x0 + step * len(counts)
    height = axes.scale(0.0, marks[-1], y0, y1)
    body = [draw.label(0, 12, "share of people", "s m")]
    body.append(_grid(marks, height, x0, end, [f"{100 * mark:g}%" for mark in marks]))
    every = max(1, math.ceil((longest + 4) / step))
    for i, share in enumerate(shares):
        x = x0 + (i + 0.5) * step
        if counts[i]:
            # a bar too low to see still leaves a mark
            top = min(height(share), y0 - 1.5)
            body.append(draw.rect(x - step * BAR_PART / 2, top, step * BAR_PART, y0 - top, "bar"))
            shown = formats.percent(share)
            if draw.text_width(shown, 11.5) < step - 2:
                body.append(draw.label(x, top - 5, shown, "xs", "middle"))
        if i % every == 0:
            body.append(draw.label(x, y0 + 17, str(i), "s m", "middle"))
    body.append(draw.line(x0, y0, end, y0, "axis"))
    named = draw.shorten(axis, width - x0, 12)
    middle = max((x0 + end) / 2, draw.text_width(named, 12) / 2)
    body.append(draw.label(middle, high - 4, named, "s m", "middle"))
    return draw.frame(uid, width, high, title, description, "".join(body), axes.form(compact))
