"""What is asked, in a sweep of acquisition: against gamma, as a trade-off, and feature by feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evenhand.fairlib.catalogue import title
from evenhand.fairlib.evaluation.tradeoff import pareto_front
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.fronts.sweep import estimate, interval_name, mark, mean, of_axis, tradeoff_chart
from evenhand.tasks.pages.model import Block, Cell, Chart, Charts, Documents, Heading, Json, Section, Table
from evenhand.tasks.pages.texts import estimate_cell

PAGES = {"sweep": 30}
NEEDS = ("tradeoff",)

GAMMA = "method.gamma"
# Asked of most people, and of hardly any.
OFTEN, RARELY = 0.5, 0.05

Shares = Mapping[str, Sequence[float | None]]


def build(documents: Documents) -> Section | None:
    """Sentences, charts, a table of the values and one of the features; None if no run asks."""
    sweep = documents["tradeoff"]
    runs: dict[int, list[Json]] = {}
    for point in sweep["points"]:
        if point.get("acquisition") is not None:
            runs.setdefault(point["value"], []).append(point["acquisition"])
    if not runs:
        return None
    every = [run for found in runs.values() for run in found]
    names = ("auc", f"demographic_parity_difference.{every[0]['attributes'][0]}", "features_asked")
    full = {name: mean(run["full_information"].get(name) for run in every) for name in names[:2]}
    full[names[2]] = mean(sum(group["allowed"] for group in run["groups"]) for run in every)
    values = []
    for index in sorted(runs):
        numbers = {name: estimate(sweep["values"][index], name) for name in names}
        values.append({**sweep["values"][index], "numbers": numbers, "front": False})
    asked = [(value, found) for value in values if (found := value["numbers"][names[2]])]
    for _, found in asked:
        # nobody is asked for more than all features
        if found["high"] is not None:
            found["high"] = min(found["high"], full[names[2]])
    pairs = ([(value["numbers"][name] or {}).get("value") for name in names[:2]] for value in values)
    for place in pareto_front(np.array(list(pairs), np.float64), ["higher", "lower"]):
        values[place]["front"] = True
    shares = _shares([runs[index] for index in sorted(runs)])
    swept = GAMMA in sweep["keys"] and len({value["settings"][GAMMA] for value in values}) > 1
    tradeoff = _tradeoff(values, full, *names[:2])
    said = f"Lines through the marks are the {interval_name(sweep)}."
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
    charts = Charts([*(_curves(values, full) if swept else []), *tradeoff], large=True)
    blocks: list[Block] = [*_findings(asked, shares), said, charts, _table(sweep, values, full)]
    return Section("asked", "What is asked", [*blocks, *_features(sweep, values, shares)])


def _shares(runs: Sequence[Sequence[Json]]) -> Shares:
    """Mean share over the seeds by feature that may be asked and value, those asked most often first."""
    seeds: dict[str, list[list[float | None]]] = {}
    for place, found in enumerate(runs):
        for group in (group for run in found for group in run["groups"] if group["allowed"]):
            seeds.setdefault(group["name"], [[] for _ in runs])[place].append(group["share"])
    shares = {name: [mean(own) for own in line] for name, line in seeds.items()}
    return dict(sorted(shares.items(), key=lambda item: -(mean(item[1]) or 0.0)))


def _findings(asked: Sequence[tuple[Json, Json]], shares: Shares) -> list[str]:
    sentences = []
    if len(asked) > 1:
        ends = [found(asked, key=lambda pair: float(pair[1]["value"])) for found in (min, max)]
        least, most = ((value["name"], formats.number(found["value"])) for value, found in ends)
        sentences.append(
            f"Fewest features are asked at {least[0]} ({least[1]} a person on average), most at {most[0]} "
            f"({most[1]})."
        )
    known = {name: [share for share in line if share is not None] for name, line in shares.items()}
    where = "every value" if any(len(line) > 1 for line in shares.values()) else "this value"
    often = [name for name, line in known.items() if line and min(line) >= OFTEN]
    rarely = [name for name, line in known.items() if line and max(line) <= RARELY]
    if often:
        sentences.append(f"Asked of at least half of people at {where}: {formats.join(often)}.")
    if rarely:
        sentences.append(f"Asked of at most {RARELY:.0%} at {where}: {formats.join(rarely)}.")
    return sentences


def _curves(values: Sequence[Json], full: Json) -> list[Chart]:
    """AUC, disparity and features asked against gamma, a line for each setting of the other keys."""
    charts = []
    for name, level in full.items():
        rows = []
        for value in sorted(values, key=lambda value: float(value["settings"][GAMMA])):
            others = {key.rpartition(".")[2]: v for key, v in value["settings"].items() if key != GAMMA}
            series = ", ".join(f"{key}={text}" for key, text in formats.flatten(others))
            row = {"setting": f"{float(value['settings'][GAMMA]):g}", "series": series, "best": False}
            if value["numbers"][name] is not None:
                rows.append({**row, **value["numbers"][name]})
        data = {"rows": rows, "x_title": "gamma (1: only the prediction counts)", "level": level}
        text = f"{title(name)} against gamma"
        if rows:
            charts.append(Chart("tradeoffs.by_setting", data, text, "Means with intervals.", title(name)))
    return charts


def _tradeoff(values: Sequence[Json], full: Json, performance: str, gap: str) -> list[Chart]:
    rows = []
    for value in values:
        x, y = (value["numbers"][name] for name in (gap, performance))
        if x is not None and y is not None:
            rows.append(mark(value["mark"], "front" if value["front"] else "other", x, y))
    if not rows:
        return []
    described = f"On the Pareto front: {formats.join([v['label'] for v in values if v['front']])}."
    if full[performance] is not None and full[gap] is not None:
        x, y = ({"value": full[name], "low": None, "high": None} for name in (gap, performance))
        rows.append(mark("all features", "reference", x, y))
        described += " The square is the same model with all features."
    text = f"{title(performance)} against {title(gap)}"
    return [tradeoff_chart(gap, performance, rows, described, text, limits={})]


def _table(sweep: Json, values: Sequence[Json], full: Json) -> Table:
    """A row a value, and one for the model with all features."""
    rows: list[list[Any]] = []
    for value in values:
        cells = [estimate_cell(found) if found else None for found in value["numbers"].values()]
        rows.append([value["label"], *cells, "yes" if value["front"] else "no"])
    rows.append(["All features", *full.values(), "to compare with"])
    columns = [", ".join(sweep["keys"]), *map(of_axis, full), "On the front"]
    return Table("Ranking, gap and features asked at each value", columns, rows)


def _features(sweep: Json, values: Sequence[Json], shares: Shares) -> list[Block]:
    """Share of people asked by feature and value."""
    seeds = ", as the mean over the seeds" if len(sweep["seeds"]) > 1 else ""
    rows: list[list[Any]] = [
        [name, *(Cell(formats.percent(share), bar=share or 0.0) for share in line)]
        for name, line in shares.items()
    ]
    text = f"The share of people who are asked for each feature{seeds}."
    text += " Features that are asked most often come first."
    columns = ["Feature", *(value["label"] for value in values)]
    table = Table("Share of people asked, by feature and value", columns, rows)
    return [Heading("Feature by feature"), text, table] if rows else []
