"""What is asked, in a sweep of acquisition: against gamma, as a trade-off, and feature by feature."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.fairlib.catalogue import title
from evenhand.fairlib.evaluation.tradeoff import Summary, pareto_front, summarise
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.fronts.sweep import interval_name
from evenhand.tasks.pages.model import Block, Cell, Chart, Charts, Documents, Heading, Json, Section, Table
from evenhand.tasks.pages.sweep_numbers import estimate, heads, mean, of_axis, settings_text

PAGES = {"sweep": 30}
NEEDS = ("tradeoff",)

GAMMA = "method.gamma"
# Asked of most people, and of hardly any.
OFTEN, RARELY = 0.5, 0.05


@dataclass(frozen=True)
class _Asked:
    """Runs with acquisitions by value, features asked there, and what the model has with all features."""

    sweep: Json
    runs: Mapping[int, Sequence[Json]]
    gap: str
    asked: Mapping[int, Summary]
    full: Mapping[str, float | None]

    def value(self, index: int) -> Json:
        found: Json = self.sweep["values"][index]
        return found

    def front(self) -> list[int]:
        """The values on the Pareto front of AUC and disparity."""
        found = [[estimate(self.value(index), name) for name in ("auc", self.gap)] for index in self.runs]
        rows = np.array([[e["value"] if e else math.nan for e in pair] for pair in found], np.float64)
        values = list(self.runs)
        return [values[i] for i in pareto_front(rows, ["higher", "lower"])]


def build(documents: Documents) -> Section | None:
    """Sentences, charts, a table of the values and one of the features; None if no run asks."""
    part = _gather(documents["tradeoff"])
    if part is None:
        return None
    swept = GAMMA in part.sweep["keys"] and len({part.value(i)["settings"][GAMMA] for i in part.runs}) > 1
    front = part.front()
    tradeoff = _tradeoff(part, front)
    said = f"Lines through the marks are the {interval_name(part.sweep)}."
    if swept:
        said = (
            "Gamma weighs the prediction against the sensitive attribute: at 1 only the prediction counts, "
            "at 0 only that the attribute cannot be inferred. Dashed lines across show the same model with "
            f"all features that it may ask for. {said}"
        )
    if tradeoff:
        said += (
            " In the last chart the dashed line joins the Pareto front; the square is the same model with "
            "all features, as the mean over the runs."
        )
    charts = [*(_curves(part) if swept else []), *tradeoff]
    blocks: list[Block] = [*_findings(part), said, Charts(charts, large=True)]
    return Section("asked", "What is asked", [*blocks, _table(part, front), *_features(part)])


def _gather(sweep: Json) -> _Asked | None:
    runs: dict[int, list[Json]] = {}
    for point in sweep["points"]:
        if point.get("acquisition") is not None:
            runs.setdefault(point["value"], []).append(point["acquisition"])
    if not runs:
        return None
    every = [run for found in runs.values() for run in found]
    gap = f"demographic_parity_difference.{every[0]['attributes'][0]}"
    full = {name: mean([run["full_information"].get(name) for run in every]) for name in ("auc", gap)}
    full["features_asked"] = mean([sum(group["allowed"] for group in run["groups"]) for run in every])
    asked = {
        index: summarise(
            [run["asked"]["mean"] for run in found],
            level=sweep["level"],
            single=(found[0]["asked"]["low"], found[0]["asked"]["high"]),
        )
        for index, found in runs.items()
    }
    return _Asked(sweep, dict(sorted(runs.items())), gap, asked, full)


def _shares(part: _Asked) -> dict[str, dict[int, float | None]]:
    """Mean share asked over the seeds, by feature and value; features that may not be asked are left out."""
    seeds: dict[str, dict[int, list[float | None]]] = {}
    for index, runs in part.runs.items():
        for group in (group for run in runs for group in run["groups"] if group["allowed"]):
            seeds.setdefault(group["name"], {}).setdefault(index, []).append(group["share"])
    return {name: {i: mean(shares.get(i, [])) for i in part.runs} for name, shares in seeds.items()}


def _findings(part: _Asked) -> list[str]:
    means = {index: found.mean for index, found in part.asked.items() if found.mean is not None}
    sentences = []
    if len(means) > 1:
        least, most = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
        sentences.append(
            f"Fewest features are asked at {part.value(least)['name']} ({formats.number(means[least])} a "
            f"person on average), most at {part.value(most)['name']} ({formats.number(means[most])})."
        )
    shares = {name: [s for s in line.values() if s is not None] for name, line in _shares(part).items()}
    often = [name for name, line in shares.items() if line and min(line) >= OFTEN]
    rarely = [name for name, line in shares.items() if line and max(line) <= RARELY]
    where = "every value" if len(part.runs) > 1 else "this value"
    if often:
        sentences.append(f"Asked of at least half of people at {where}: {formats.join(often)}.")
    if rarely:
        sentences.append(f"Asked of at most {RARELY:.0%} at {where}: {formats.join(rarely)}.")
    return sentences


def _number(part: _Asked, index: int, name: str) -> Json | None:
    """A value's estimate; that of the features asked is cut at none and at all."""
    if name != "features_asked":
        return estimate(part.value(index), name)
    found, most = part.asked[index], part.full[name]
    if found.mean is None:
        return None
    if found.low is None or found.high is None or most is None:
        return {"value": found.mean, "low": None, "high": None}
    return {"value": found.mean, "low": max(found.low, 0.0), "high": min(found.high, most)}


def _curves(part: _Asked) -> list[Chart]:
    """AUC, disparity and features asked against gamma, a line for each setting of the other keys."""
    charts = []
    order = sorted(part.runs, key=lambda index: float(part.value(index)["settings"][GAMMA]))
    for name in ("auc", part.gap, "features_asked"):
        rows = [
            {
                "setting": f"{float(part.value(index)['settings'][GAMMA]):g}",
                "series": settings_text(part.value(index)["settings"], [GAMMA]),
                "best": False,
                **found,
            }
            for index in order
            if (found := _number(part, index, name)) is not None
        ]
        data = {"rows": rows, "x_title": "gamma (1: only the prediction counts)", "level": part.full[name]}
        described = "Means with intervals. The table below has every number."
        if rows:
            charts.append(
                Chart("tradeoffs.by_setting", data, f"{title(name)} against gamma", described, title(name))
            )
    return charts


def _tradeoff(part: _Asked, front: Sequence[int]) -> list[Chart]:
    rows: list[dict[str, Any]] = []
    for index in part.runs:
        x, y = _number(part, index, part.gap), _number(part, index, "auc")
        if x is not None and y is not None:
            ends = {f"{axis}_{end}": e[end] for axis, e in (("x", x), ("y", y)) for end in ("low", "high")}
            kind = "front" if index in front else "other"
            rows.append({"label": part.value(index)["mark"], "series": "", "kind": kind, **ends})
            rows[-1] |= {"x": x["value"], "y": y["value"]}
    if not rows:
        return []
    described = f"On the Pareto front: {formats.join([part.value(index)['label'] for index in front])}."
    if part.full["auc"] is not None and part.full[part.gap] is not None:
        ends = dict.fromkeys(("x_low", "x_high", "y_low", "y_high"))
        place = {"x": part.full[part.gap], "y": part.full["auc"]}
        rows.append({"label": "all features", "series": "", "kind": "reference", **ends, **place})
        described += " The square is the same model with all features."
    data = {"rows": rows, "x_title": of_axis(part.gap), "y_title": of_axis("auc")}
    text = f"{title('auc')} against {title(part.gap)}"
    return [Chart("tradeoffs.tradeoff", data, text, described, text)]


def _table(part: _Asked, front: Sequence[int]) -> Table:
    """A row a value, and one for the model with all features."""
    names = ("auc", part.gap, "features_asked")
    rows: list[list[Any]] = []
    for index in part.runs:
        cells = [_number(part, index, name) for name in names]
        shown = [
            Cell(formats.number(found["value"]), (formats.interval(found["low"], found["high"]),))
            if found
            else Cell(formats.MISSING)
            for found in cells
        ]
        rows.append([part.value(index)["label"], *shown, "yes" if index in front else "no"])
    rows.append(["All features", *(formats.number(part.full[name]) for name in names), "to compare with"])
    caption = "Ranking, gap and features asked at each value"
    return Table(caption, [*heads(part.sweep["keys"], names), "On the front"], rows)


def _features(part: _Asked) -> list[Block]:
    """Share of people asked by feature and value; features that are asked most often come first."""
    shares = _shares(part)
    if not shares:
        return []
    order = sorted(shares, key=lambda name: -(mean(list(shares[name].values())) or 0.0))
    seeds = ", as the mean over the seeds" if len(part.sweep["seeds"]) > 1 else ""
    rows: list[list[Any]] = [
        [name, *(Cell(formats.percent(share), bar=share or 0.0) for share in shares[name].values())]
        for name in order
    ]
    columns = ["Feature", *(part.value(index)["label"] for index in part.runs)]
    return [
        Heading("Feature by feature"),
        f"The share of people who are asked for each feature{seeds}. Features that are asked most often come "
        "first.",
        Table("Share of people asked, by feature and value", columns, rows),
    ]
