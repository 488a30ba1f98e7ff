"""Methods side by side, in the report of a sweep over methods: bars, numbers and paired tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from evenhand.tasks.reporting import draw, formats, words
from evenhand.tasks.reporting.bars import Bar, bar_plot
from evenhand.tasks.reporting.sweep_axes import WIDTH
from evenhand.tasks.reporting.sweep_methods_words import explained, method_sentences, no_test, short_verdict
from evenhand.tasks.reporting.sweep_panels import better

__all__ = ["methods_part"]

Json = Mapping[str, Any]

# Colours that the page's style tells apart, and how many bars a picture holds.
COLOURS, MOST_BARS = 10, 24
# The smallest mean that three decimals show.
LEAST = 0.001


def methods_part(document: Json) -> dict[str, Any] | None:
    """
    Write what methods trade against each other, measure by measure.

    Parameters
    ----------
    document : mapping
        Content of ``tradeoff.json``.

    Returns
    -------
    dict or None
        `said` and `explained`, sentences; `figures`, each with a `title` and `panels`; `tables` of the
        numbers, and the rows of the table of `tests`. None where no two methods are swept.
    """
    comparison = document.get("comparison")
    if comparison is None:
        return None
    plain = [name for name in comparison["metrics"] if "&" not in name]
    how_good = [name for name in plain if document["metrics"][name] == "higher"]
    how_even = [name for name in plain if document["metrics"][name] == "lower"]
    shown = comparison["values"][:MOST_BARS]
    figures = [
        {"title": title, "panels": [_panel(document, shown, name, _marks(document, name)) for name in names]}
        for title, names in (("How often they are right", how_good), ("How even they are", how_even))
        if names
    ]
    return {
        "said": method_sentences(document),
        "explained": explained(document),
        "left_out": len(comparison["values"]) - len(shown),
        "figures": figures,
        "tables": _tables(document),
        "tests": _tests(document),
    }


def _value(document: Json, entry: Json) -> Json:
    found: Json = document["values"][entry["value"]]
    return found


def _marks(document: Json, name: str) -> list[float]:
    """An axis from 0: shares to 1, and all differences to the same end, so that they compare."""
    if document["metrics"][name] == "higher":
        return draw.ticks(0.0, 1.0, 5)
    alike = [other for other in document["comparison"]["metrics"] if _alike(name, other)]
    found = [value["metrics"][other] for value in document["values"] for other in alike]
    ends = [item["mean"] + (item["sd"] or 0.0) for item in found if item["mean"] is not None]
    return draw.ticks(0.0, max(ends, default=1.0) or 1.0, 5)


def _alike(name: str, other: str) -> bool:
    """Whether two metrics are drawn on one axis; intersections are not drawn."""
    return other == name or ("." in name and "." in other and "&" not in other)


def _panel(document: Json, entries: Sequence[Json], name: str, marks: Sequence[float]) -> dict[str, Any]:
    methods = list(dict.fromkeys(entry["method"] for entry in document["comparison"]["values"]))
    bars, spoken = [], []
    for entry in entries:
        found = _value(document, entry)["metrics"][name]
        said = short_verdict(document, entry, name)
        note = _mean_and_sd(found)
        if said in ("n.s.", "no test") and found["mean"] is not None and not no_test(document):
            note = f"{note}, {said}"
        low, high = _one_sd_around(found)
        kind = f"end c{methods.index(entry['method']) % COLOURS}"
        label = _value(document, entry)["label"]
        bars.append(Bar(label, found["mean"], note, low, high, kind=kind, bold=entry["against"] is None))
        spoken.append(f"{label} {_mean_and_sd(found)}{f' ({said})' if said else ''}")
    phrase = words.metric_phrase(name)
    plot = bar_plot(
        bars,
        marks,
        uid=f"methods-{document['comparison']['metrics'].index(name)}",
        title=f"{phrase}, method by method",
        description=f"{'; '.join(spoken)}. The tables below have every number.",
        width=WIDTH,
        compact=True,
    )
    return {"name": name, "phrase": f"{phrase} ({better(document, name)})", "plot": Markup(plot)}


def _one_sd_around(found: Json) -> tuple[float | None, float | None]:
    if found["sd"] is None:
        return None, None
    return found["mean"] - found["sd"], found["mean"] + found["sd"]


def _mean_and_sd(found: Json) -> str:
    if found["mean"] is None:
        return "no number"
    mean, sd = found["mean"], found["sd"]
    if sd is None:
        return formats.number(mean)
    # as many decimals in both
    return f"{mean:.3f} ± {sd:.3f}" if mean >= LEAST else f"{formats.number(mean)} ± {formats.number(sd)}"


def _tables(document: Json) -> list[dict[str, Any]]:
    """Mean and standard deviation of all that is compared, by what it is about."""
    groups: dict[str, list[str]] = {}
    for name in document["comparison"]["metrics"]:
        about = name.partition(".")[2]
        groups.setdefault(f"By {words.attribute(about)}" if about else "Overall", []).append(name)
    return [
        {
            "caption": caption,
            "columns": [
                (
                    name,
                    words.metric(name).label if "." in name else words.metric_phrase(name),
                    better(document, name),
                )
                for name in names
            ],
            "rows": [
                {
                    "label": _value(document, entry)["label"],
                    "reference": entry["against"] is None,
                    "cells": [
                        (
                            _mean_and_sd(_value(document, entry)["metrics"][name]),
                            _under(document, entry, name),
                        )
                        for name in names
                    ],
                }
                for entry in document["comparison"]["values"]
            ],
        }
        for caption, names in groups.items()
    ]


def _under(document: Json, entry: Json, name: str) -> str:
    """What stands below a number: the test's verdict, and of how many splits where some are missing."""
    said, total = short_verdict(document, entry, name), document["comparison"]["splits"]
    if not said or no_test(document):
        return ""
    n = entry["tests"][name]["n"]
    return said if n == total else f"{said} ({n} of {formats.plural(total, 'split')})"


def _tests(document: Json) -> list[dict[str, Any]]:
    """A row a test: what differs from what by how much, and how sure that is."""
    return [
        {
            "label": _value(document, entry)["label"],
            "against": document["values"][entry["against"]]["label"],
            "phrase": words.metric_phrase(name),
            "cells": [
                _signed(test["difference"]),
                *(_or_dash(test[key]) for key in ("t", "p", "p_holm")),
                str(test["n"]),
            ],
            "verdict": test["verdict"],
        }
        for entry in document["comparison"]["values"]
        for name, test in entry["tests"].items()
    ]


def _signed(value: float | None) -> str:
    if value is None:
        return "\u2013"
    return f"+{formats.number(value)}" if value > 0 else formats.number(value)


def _or_dash(value: float | None) -> str:
    return "\u2013" if value is None else formats.number(value)
