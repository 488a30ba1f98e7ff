"""All numbers of a sweep: each metric against the swept key, and tables of means with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.fairlib.catalogue import describe, spoken, title
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.fronts.sweep import interval_name
from evenhand.tasks.pages.model import Block, Cell, Chart, Charts, Documents, Json, Section, Table
from evenhand.tasks.pages.sweep_numbers import estimate, heads, of_axis, plain_metrics
from evenhand.tasks.pages.texts import GATE_STATUS

PAGES = {"sweep": 60}
NEEDS = ("tradeoff",)


def build(documents: Documents) -> list[Section]:
    """Metric by metric, all numbers, the runs."""
    sweep = documents["tradeoff"]
    charts = _profiles(sweep)
    by_metric = Section(
        "profiles",
        "Metric by metric",
        [
            f"Every metric at each value of `{sweep['keys'][0]}`, in rising order and evenly spaced. Upright "
            f"lines are the {interval_name(sweep)}.",
            Charts(charts, large=True),
        ],
    )
    return [*([by_metric] if charts else []), *_numbers(sweep), Section("runs", "The runs", _runs(sweep))]


def _profiles(sweep: Json) -> list[Chart]:
    """Every metric against the swept key, where that is one number."""
    key, *others = sweep["keys"]
    swept = [value["settings"][key] for value in sweep["values"]]
    if others or len(swept) < 2 or not all(type(item) in (int, float) for item in swept):
        return []
    order = sorted(range(len(swept)), key=lambda index: swept[index])
    best = sweep["best"]["value"] if sweep["best"] else None
    none = {"value": None, "low": None, "high": None}
    charts = []
    for name in plain_metrics(sweep["metrics"]):
        rows = [
            {
                "setting": sweep["values"][index]["label"],
                "series": "",
                "best": index == best,
                **(estimate(sweep["values"][index], name) or none),
            }
            for index in order
        ]
        data = {"rows": rows, "x_title": key, "limits": sweep["limits"].get(name, ())}
        said = "; ".join(f"{row['setting']}: {formats.number(row['value'])}" for row in rows)
        charts.append(
            Chart("tradeoffs.by_setting", data, f"{title(name)} by {key}", f"{said}.", of_axis(name))
        )
    return charts


def _groups(sweep: Json) -> dict[str, list[str]]:
    """Metrics by what they are about, so that each table is narrow enough to read."""
    groups: dict[str, list[str]] = {}
    for name in sweep["metrics"]:
        info, subject = describe(name)
        about = (
            f"By {spoken(subject)}" if info.subject == "attribute" else info.title if subject else "Overall"
        )
        groups.setdefault("Certificate" if info.name.startswith("certificate") else about, []).append(name)
    return groups


def _numbers(sweep: Json) -> list[Section]:
    best = sweep["best"]["value"] if sweep["best"] else None
    blocks: list[Block] = [f"The mean over the seeds, and below it the {interval_name(sweep)}."]
    for caption, names in _groups(sweep).items():
        rows = [
            [
                Cell(value["label"], ("the best value",) if index == best else ()),
                *(_cell(value["metrics"][name], "mean") for name in names),
            ]
            for index, value in enumerate(sweep["values"])
        ]
        blocks.append(Table(caption, heads(sweep["keys"], names, caption), rows))
    without = [f"{title(name)} (`{name}`)" for name in sweep["without_evidence"]]
    if without:
        blocks.append(f"Left out, because no run had enough evidence: {', '.join(without)}.")
    if len(plain_metrics(sweep["metrics"])) < len(sweep["metrics"]):
        blocks.append("The metrics of intersections of attributes stand in the tables only.")
    return [Section("numbers", "All numbers", blocks)] if sweep["metrics"] else []


def _cell(found: Json | None, key: str) -> Cell:
    if found is None or found[key] is None:
        return Cell("no number", kind="lack")
    return Cell(formats.number(found[key]), (formats.interval(found["low"], found["high"]),))


def _runs(sweep: Json) -> list[Block]:
    key, values = ", ".join(sweep["keys"]), sweep["values"]
    gates = Table(
        "How many runs of each value finished, and passed the job’s gates",
        [key, "Runs", "Failed", "Passed the gates"],
        [[value["label"], value["runs"], value["failed"], value["passed"]] for value in values],
    )
    rows: list[Sequence[Any]] = []
    for point in sweep["points"]:
        verdict = GATE_STATUS.get(point["verdict"], ("", ""))[1] if point["status"] == "done" else "Failed"
        label = Cell(values[point["value"]]["label"], (point["error"],) if point["error"] else ())
        cached = f"{len(point['cached'])} of {len(point['seconds'])}"
        rows.append([label, point["seed"], verdict, formats.seconds(sum(point["seconds"].values())), cached])
    caption = f"All {len(rows)} runs, in the order in which they started"
    blocks: list[Block] = [
        gates,
        Table(caption, [key, "Seed", "Gates", "Time", "Reused steps"], rows, folded=True),
    ]
    for about, names in _groups(sweep).items():
        found = [
            [
                values[point["value"]]["label"],
                point["seed"],
                *(_cell(point["metrics"].get(n), "value") for n in names),
            ]
            for point in sweep["points"]
            if point["metrics"]
        ]
        first, *columns = heads(sweep["keys"], names, about)
        caption = f"{about}: each run with its own interval (bootstrap over its test rows)"
        blocks.append(Table(caption, [first, "Seed", *columns], found, folded=True))
    return blocks
