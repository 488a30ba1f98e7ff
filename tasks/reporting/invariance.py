"""Section on the certificate of invariance: how far a network's outputs move between comparable people."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.tasks.reporting import formats
from evenhand.tasks.reporting.budget_plot import Point, budget_plot

__all__ = ["invariance_sections"]

Json = Mapping[str, Any]

TITLE = "How far outputs can move"
NO_BOUND = "no bound"
# Smaller numbers are left by rounding.
NOTHING = 1e-9
# The factor that the text speaks of, where its bound says anything.
FACTOR = 2.0


def invariance_sections(certificate: Json | None, metrics: Json) -> list[dict[str, Any]]:
    """
    Write the report's section on the certificate of invariance.

    Parameters
    ----------
    certificate : mapping or None
        Content of ``certificate.json``. None where the run has none: then there is no section.
    metrics : mapping
        Content of ``metrics.json``.

    Returns
    -------
    list of dict
        Plain JSON, each a :class:`evenhand.tasks.reporting.context.Section`.
    """
    if certificate is None:
        return []
    interval = f"{100 * metrics.get('settings', {}).get('level', 0.95):g}% interval"
    ends = _interval(certificate)
    section: dict[str, Any] = {
        "title": TITLE,
        "html_safe_paragraphs": [
            _asked(certificate, metrics.get("n")),
            _found(certificate, f"{interval} {ends}" if ends else ""),
            *_share(certificate),
            _other_budgets(certificate),
            _proves(certificate),
            "<strong>What it does not say.</strong> The search keeps each feature within the range of the "
            "training rows (rounded outwards), and each protected direction, along which the fair distance "
            "sees no difference, within its own; only a move along such a direction may take a feature "
            "further. Nothing is known beyond. The interval is about which people were looked at, not about "
            "what another training would give. And it is an average: any one person’s output may move "
            "further, so it says nothing about the individual.",
        ],
        "table": _numbers(certificate, interval, ends),
    }
    if len(certificate["curve"]["budgets"]) > 1:
        section |= _curve(certificate, interval)
    return [section]


def _interval(certificate: Json) -> str | None:
    """Interval at the job's own budget."""
    curve = certificate["curve"]
    if curve["low"] is None or curve["high"] is None:
        return None
    own = curve["budgets"].index(certificate["budget"])
    return formats.interval(curve["low"][own], curve["high"][own])


def _asked(certificate: Json, rows: int | None) -> str:
    people = formats.count(certificate["people"])
    whom = f"the {people} people in the test rows"
    if rows is not None and certificate["people"] < rows:
        whom = f"{people} people, drawn at random from the {formats.count(rows)} in the test rows,"
    return (
        "How far do the model’s outputs move if people are exchanged for comparable ones? Each of "
        f"{whom} may be exchanged for a comparable one, in the test rows or not, as long as the average "
        f"squared fair distance between the two is at most {certificate['budget']:g} (the budget). Fair "
        "distance is small between people whom the job holds to be comparable."
    )


def _found(certificate: Json, interval: str) -> str:
    said = f" ({interval})" if interval else ""
    if certificate["value"] < NOTHING:
        return f"No exchange was found that moves them: the outputs <strong>do not move</strong>{said}."
    return (
        f"On average they move by <strong>{formats.number(certificate['value'])}</strong>{said}. This is the "
        "mean squared change of the logits, the model’s scores before they become probabilities. 0 would "
        "mean that comparable people always get the same output."
    )


def _share(certificate: Json) -> list[str]:
    """The value as a share of people, for the first factor from 2 on that it bounds."""
    shares, value = certificate["shares"], certificate["value"]
    if not shares or value < NOTHING:
        return []
    bounded = [item for item in shares if item["odds"] >= FACTOR and item["share"] < 1]
    if not bounded:
        largest = max(item["odds"] for item in shares)
        return [
            "So large an average bounds no share of people: by this number alone, everybody’s odds of the "
            f"positive answer might change by a factor of {largest:g} or more."
        ]
    item = min(bounded, key=lambda item: item["odds"])
    factor = f"{item['odds']:g}"
    likely = 100 * item["odds"] / (1 + item["odds"])
    return [
        "In other words: if the search for exchanges missed nothing, <strong>at most "
        f"{_at_most(item['share'])}</strong> of these people can have their odds of the positive answer "
        f"changed by a factor of {factor} or more. Here each person’s own squared distance, not the average "
        f"alone, is at most the budget. Changing the odds by a factor of {factor} takes a probability of 50% "
        f"to {likely:.0f}% or to {100 - likely:.0f}%. The share is Markov’s bound, the average divided by "
        "the least that such a change takes (Yurochkin and Sun 2021, proposition 2.3): the real share may be "
        "far smaller."
    ]


def _at_most(share: float) -> str:
    """A bound as a percentage, rounded up so that it stays one."""
    return formats.percent(math.ceil(1000 * share - NOTHING) / 1000)


def _other_budgets(certificate: Json) -> str:
    budget, curve = certificate["budget"], certificate["curve"]
    price = formats.number(certificate["multiplier"])
    said = []
    if budget > 0 and 0.0 in curve["budgets"]:
        free = curve["values"][curve["budgets"].index(0.0)]
        said.append(
            "With a budget of 0, people may only be exchanged where the fair distance sees no difference; "
            + (f"that alone gives {formats.number(free)}." if free >= NOTHING else "that moves nothing.")
        )
    if certificate["multiplier"] <= 0:
        said.append("A larger budget would buy nothing.")
    elif budget == 0:
        said.append(
            "The budget is 0: people may only be exchanged where the fair distance sees no difference. With "
            f"a budget, outputs would move by at most {price} more per unit of it (the multiplier)."
        )
    else:
        # what budgets buy is concave, so the present price bounds the gain from more of it
        said.append(
            f"At this budget the price is {price} per unit of further budget (the multiplier), so that twice "
            f"the budget would buy at most {formats.number(certificate['multiplier'] * budget)} more."
        )
    return " ".join(said)


def _proves(certificate: Json) -> str:
    if certificate["value"] < NOTHING:
        number = "It is what was found"
    else:
        number = "Exchanges within the budget that move the outputs by this much do exist: they were found"
    shares = " A share of people that rests on it is no guarantee either." if certificate["shares"] else ""
    return (
        f"<strong>What this proves.</strong> {number} for these people. The worst exchange of each person is "
        "searched for, and a search can miss. The number is therefore a lower bound: on the same people, the "
        f"true worst case is this far or further, never less.{shares}"
    )


def _numbers(certificate: Json, interval: str, ends: str | None) -> dict[str, Any]:
    rows = [
        ["People looked at", formats.count(certificate["people"])],
        ["Budget (average squared fair distance)", f"{certificate['budget']:g}"],
        ["Outputs move by (mean squared change of the logits)", formats.number(certificate["value"])],
        [interval, ends or "no interval"],
        ["Price: movement per unit of further budget", formats.number(certificate["multiplier"])],
    ]
    for item in certificate["shares"]:
        bound = f"at most {_at_most(item['share'])}" if item["share"] < 1 else NO_BOUND
        rows.append([f"People whose odds can change by a factor of {item['odds']:g} or more", bound])
    caption = "The certificate in numbers"
    if certificate["shares"]:
        caption += "; the shares of people hold if the search missed nothing"
    return {"caption": caption, "columns": ["What", "Value"], "rows": rows}


def _curve(certificate: Json, interval: str) -> dict[str, Any]:
    """The plot over budgets, where two can be drawn, and its table."""
    curve, own = certificate["curve"], certificate["budget"]
    none: list[None] = [None] * len(curve["budgets"])
    points = [
        Point(*numbers)
        for numbers in zip(
            curve["budgets"], curve["values"], curve["low"] or none, curve["high"] or none, strict=True
        )
    ]
    rows = [
        [
            f"{point.budget:g}" + (" (this job)" if point.budget == own else ""),
            formats.number(point.value),
            formats.interval(point.low, point.high),
        ]
        for point in points
    ]
    caption = "How far outputs move, by budget"
    table = {"caption": caption, "columns": ["Budget", "Outputs move by", interval], "rows": rows}
    return {"folded": table, **_drawn(points, own, caption, interval)}


def _drawn(points: Sequence[Point], own: float, title: str, interval: str) -> dict[str, str]:
    # a logarithmic axis has no place for 0
    shown = [point for point in points if point.budget > 0 and point.value > NOTHING]
    if len(shown) < 2:
        return {}
    first, last = shown[0], shown[-1]
    arguments: dict[str, Any] = {
        "points": shown,
        "own": own,
        "title": title,
        "description": f"From {formats.number(first.value)} at a budget of {first.budget:g} to "
        f"{formats.number(last.value)} at {last.budget:g}; both axes are logarithmic. The table below has "
        "every number.",
        "interval_name": interval,
    }
    return {
        "svg": budget_plot(uid="invariance-w", **arguments),
        "svg_narrow": budget_plot(uid="invariance-n", compact=True, **arguments),
    }
