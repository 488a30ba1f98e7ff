"""What is asked, in the report of a sweep: against the trade-off, as a Pareto front, feature by feature."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from evenhand.fairlib.evaluation.tradeoff import Summary, pareto_front, summarise
from evenhand.tasks.reporting import draw, formats, words
from evenhand.tasks.reporting.sweep_asked_plots import Curve, curve_plot, share_map
from evenhand.tasks.reporting.sweep_balance import evenly
from evenhand.tasks.reporting.sweep_panels import estimate
from evenhand.tasks.reporting.sweep_plots import Estimate, Mark, tradeoff_plot

__all__ = ["asked_part"]

Json = Mapping[str, Any]
GAMMA = "method.gamma"
# Columns of the picture of shares, and how wide their names may be.
MOST_COLUMNS, LONGEST = 24, 40.0
# Asked of most people, and of hardly any.
OFTEN, HARDLY = 0.5, 0.05


@dataclass(frozen=True)
class _Asked:
    """Runs with acquisitions by value, features asked there, and what all features would give."""

    document: Json
    runs: Mapping[int, Sequence[Json]]
    gap: str
    asked: Mapping[int, Summary]
    full: Mapping[str, float | None]

    def value(self, index: int) -> Json:
        found: Json = self.document["values"][index]
        return found

    def gamma(self, index: int) -> float:
        return float(self.value(index)["settings"][GAMMA])

    def metric(self, index: int, name: str) -> Json | None:
        found: Json | None = self.value(index)["metrics"].get(name)
        return found

    def front(self) -> list[int]:
        """The values on the Pareto front of AUC and disparity."""
        means = [
            [math.nan if (m := self.metric(index, name)) is None or m["mean"] is None else m["mean"]]
            for index in self.runs
            for name in ("auc", self.gap)
        ]
        rows = np.reshape(np.array(means, np.float64), (len(self.runs), 2))
        values = list(self.runs)
        return [values[i] for i in pareto_front(rows, ["higher", "lower"])]


def asked_part(document: Json) -> dict[str, Any] | None:
    """
    Write what the agents among the runs ask.

    Parameters
    ----------
    document : mapping
        Content of ``tradeoff.json``, some of whose points have an `acquisition`.

    Returns
    -------
    dict or None
        `said`, `panels`, whether some are `against_gamma` and one is a trade-off (`has_front`); the plots of
        the `map` with the `heads` and `rows` of its table; the rows of the table of the `front`, and the
        phrase of its `gap`. None if no run has an acquisition.
    """
    part = _gather(document)
    if part is None:
        return None
    against = GAMMA in document["keys"] and len({part.gamma(index) for index in part.runs}) > 1
    front = part.front()
    tradeoff = _front_panel(part, front)
    return {
        "against_gamma": against,
        "said": _said(part),
        "panels": [*(_curves(part) if against else []), *tradeoff],
        "has_front": bool(tradeoff),
        "front": _front_table(part, front),
        "gap": words.metric_phrase(part.gap),
        **_map(part),
    }


def _gather(document: Json) -> _Asked | None:
    runs: dict[int, list[Json]] = {}
    for point in document["points"]:
        if point.get("acquisition") is not None:
            runs.setdefault(point["value"], []).append(point["acquisition"])
    if not runs:
        return None
    every = [run for found in runs.values() for run in found]
    gap = f"demographic_parity_difference.{every[0]['attributes'][0]}"
    return _Asked(
        document,
        dict(sorted(runs.items())),
        gap,
        {index: _asked(found, document["level"]) for index, found in runs.items()},
        {
            "auc": _mean([run["full_information"].get("auc") for run in every]),
            gap: _mean([run["full_information"].get(gap) for run in every]),
            "features_asked": _mean([sum(group["allowed"] for group in run["groups"]) for run in every]),
        },
    )


def _asked(runs: Sequence[Json], level: float) -> Summary:
    """Mean number of features asked over the seeds; of one run its own interval."""
    return summarise(
        [run["asked"]["mean"] for run in runs],
        level=level,
        single=(runs[0]["asked"]["low"], runs[0]["asked"]["high"]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _shares(part: _Asked) -> dict[str, dict[int, float | None]]:
    """Mean share asked over the seeds, by feature and value; features that may not be asked are left out."""
    seeds: dict[str, dict[int, list[float | None]]] = {}
    for index, runs in part.runs.items():
        for run in runs:
            for group in run["groups"]:
                if group["allowed"]:
                    seeds.setdefault(group["name"], {}).setdefault(index, []).append(group["share"])
    return {
        name: {index: _mean(shares.get(index, [])) for index in part.runs} for name, shares in seeds.items()
    }


def _said(part: _Asked) -> list[str]:
    means = {index: summary.mean for index, summary in part.asked.items() if summary.mean is not None}
    sentences = []
    if len(means) > 1:
        least, most = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
        sentences.append(
            f"Fewest features are asked at {part.value(least)['name']} ({formats.number(means[least])} a "
            f"person on average), most at {part.value(most)['name']} ({formats.number(means[most])})."
        )
    shares = {
        name: [share for share in line.values() if share is not None] for name, line in _shares(part).items()
    }
    often = [name for name, line in shares.items() if line and min(line) >= OFTEN]
    hardly = [name for name, line in shares.items() if line and max(line) <= HARDLY]
    where = "every value" if len(part.runs) > 1 else "this value"
    if often:
        sentences.append(f"Asked of at least half of people at {where}: {formats.join(often)}.")
    if hardly:
        sentences.append(f"Asked of at most {HARDLY:.0%} at {where}: {formats.join(hardly)}.")
    return sentences


def _curves(part: _Asked) -> list[dict[str, Any]]:
    """AUC, disparity and features asked against gamma."""
    numbers = {
        name: {index: estimate(part.document, part.value(index), name) for index in part.runs}
        for name in ("auc", part.gap)
    }
    most = part.full["features_asked"]
    numbers["features_asked"] = {index: _estimate(summary, most) for index, summary in part.asked.items()}
    panels = []
    for number, (name, estimates) in enumerate(numbers.items()):
        lines = _lines(part, estimates)
        if not lines:
            continue
        phrase = words.metric_phrase(name)
        plot = curve_plot(
            lines,
            uid=f"gamma-{number}",
            title=f"{phrase} against gamma",
            description=f"Means with intervals at {formats.plural(len(part.runs), 'value')}. The table below "
            "has every number.",
            axis="gamma (1: only the prediction counts)",
            level=part.full[name],
        )
        panels.append({"name": name, "phrase": phrase, "plot": Markup(plot)})
    return panels


def _estimate(summary: Summary, most: float | None) -> Estimate | None:
    """A mean to plot; its interval is cut at no features and at all."""
    if summary.mean is None:
        return None
    if summary.low is None or summary.high is None or most is None:
        return Estimate(summary.mean)
    return Estimate(summary.mean, max(summary.low, 0.0), min(summary.high, most))


def _lines(part: _Asked, estimates: Mapping[int, Estimate | None]) -> list[Curve]:
    """One curve for each setting of the other keys."""
    lines: dict[str, list[tuple[float, Estimate]]] = {}
    for index, found in estimates.items():
        settings = part.value(index)["settings"]
        others = {key.rpartition(".")[2]: setting for key, setting in settings.items() if key != GAMMA}
        name = ", ".join(f"{key}={text}" for key, text in formats.flatten(others))
        if found is not None:
            lines.setdefault(name, []).append((part.gamma(index), found))
    return [(name, sorted(points, key=lambda point: point[0])) for name, points in lines.items()]


def _front_panel(part: _Asked, front: Sequence[int]) -> list[dict[str, Any]]:
    marks = []
    for index in part.runs:
        value = part.value(index)
        x, y = estimate(part.document, value, part.gap), estimate(part.document, value, "auc")
        if x is not None and y is not None:
            marks.append(Mark(value["mark"], x, y, index in front))
    if not marks:
        return []
    auc, gap = part.full["auc"], part.full[part.gap]
    square = (
        Mark("all features", Estimate(gap), Estimate(auc)) if auc is not None and gap is not None else None
    )
    phrase = f"{words.metric_phrase('auc')} against {words.metric_phrase(part.gap)}"
    named = formats.join([part.value(index)["label"] for index in front])
    plot = tradeoff_plot(
        marks,
        uid="asked-front",
        title=phrase,
        description=f"{formats.plural(len(marks), 'value')} as dots with intervals; on the Pareto front: "
        f"{named}." + (" The square is the same model with all features." if square else ""),
        x_axis="\u2190 lower is better",
        y_axis=f"{words.metric_phrase('auc')} (higher is better)",
        square=square,
    )
    return [{"name": part.gap, "phrase": phrase, "plot": Markup(plot)}]


def _front_table(part: _Asked, front: Sequence[int]) -> list[dict[str, Any]]:
    """A row a value, and one for the model with all features."""
    rows = [
        {
            "name": part.value(index)["label"],
            "cells": [_shown(part.metric(index, name)) for name in ("auc", part.gap)]
            + [_shown(asdict(summary))],
            "front": "yes" if index in front else "no",
        }
        for index, summary in sorted(part.asked.items())
    ]
    everything = [(formats.number(part.full[name]), "") for name in ("auc", part.gap, "features_asked")]
    return [*rows, {"name": "All features", "cells": everything, "front": "to compare with"}]


def _shown(found: Json | None) -> tuple[str, str]:
    if found is None or found["mean"] is None:
        return formats.MISSING, ""
    return formats.number(found["mean"]), formats.interval(found["low"], found["high"])


def _map(part: _Asked) -> dict[str, Any]:
    """Share asked by feature and value, as a picture and a table."""
    shares, values = _shares(part), list(part.runs)
    order = sorted(shares, key=lambda name: -(_mean(list(shares[name].values())) or 0.0))
    labels = [part.value(index)["label"] for index in values]
    drawn = evenly(range(len(values)), MOST_COLUMNS)
    numbered = any(draw.text_width(label, 12) > LONGEST for label in labels)
    keys = formats.join([key.rpartition(".")[2] for key in part.document["keys"]])
    arguments: dict[str, Any] = {
        "columns": [str(i + 1) if numbered else labels[i] for i in drawn],
        "rows": order,
        "shares": [[shares[name][values[i]] for i in drawn] for name in order],
        "axis": f"values of {keys}, numbered as in the table" if numbered else keys,
        "title": "Share of people asked, by feature and value",
        "description": f"{formats.plural(len(order), 'feature')} by {formats.plural(len(drawn), 'value')}, "
        "in per cent. The table below has every number.",
    }
    narrow = share_map(**arguments, uid="asked-map-n", compact=True) if order else ""
    return {
        "map": [Markup(share_map(**arguments, uid="asked-map-w")), Markup(narrow)] if order else [],
        "heads": [f"{i}: {label}" if numbered else label for i, label in enumerate(labels, start=1)],
        "rows": [
            {"name": name, "cells": [formats.percent(shares[name][index]) for index in values]}
            for name in order
        ],
    }
