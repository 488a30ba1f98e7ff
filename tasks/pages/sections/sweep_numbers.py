"""All numbers of a sweep: each metric against the swept key, and tables of means with intervals."""

from __future__ import annotations

from typing import Any

from evenhand.fairlib.catalogue import title
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.fronts.sweep import by_subject, estimate, interval_name, of_axis, plain_metrics
from evenhand.tasks.pages.model import Block, Cell, Chart, Charts, Documents, Json, Section, Table
from evenhand.tasks.pages.texts import GATE_STATUS, lack

PAGES = {"sweep": 60}
NEEDS = ("tradeoff",)


def build(documents: Documents) -> list[Section]:
    """Metric by metric, all numbers, the runs."""
    sweep = documents["tradeoff"]
    charts, sections = _profiles(sweep), []
    if charts:
        lead = (
            f"Every metric at each value of `{sweep['keys'][0]}`, in rising order and evenly spaced. Upright "
            f"lines are the {interval_name(sweep)}."
        )
        sections.append(Section("profiles", "Metric by metric", [lead, Charts(charts, large=True)]))
    if sweep["metrics"]:
        sections.append(Section("numbers", "All numbers", _numbers(sweep)))
    return [*sections, Section("runs", "The runs", _runs(sweep))]


def _profiles(sweep: Json) -> list[Chart]:
    """Every metric against the swept key, where that is one number."""
    key, *others = sweep["keys"]
    swept = [value["settings"][key] for value in sweep["values"]]
    if others or len(swept) < 2 or not all(type(item) in (int, float) for item in swept):
        return []
    values = sorted(sweep["values"], key=lambda value: value["settings"][key])
    charts = []
    for name in plain_metrics(sweep["metrics"]):
        rows: list[dict[str, Any]] = []
        for value in values:
            found = estimate(value, name) or dict.fromkeys(("value", "low", "high"))
            rows.append({"setting": value["label"], **found})
        data = {"rows": rows, "x_title": key}
        said = "; ".join(f"{row['setting']}: {formats.number(row['value'])}" for row in rows)
        text = f"{title(name)} by {key}"
        charts.append(Chart("tradeoffs.by_setting", data, text, f"{said}.", of_axis(name)))
    return charts


def _numbers(sweep: Json) -> list[Block]:
    blocks: list[Block] = [f"The mean over the seeds, and below it the {interval_name(sweep)}."]
    for caption, names in by_subject(sweep["metrics"]).items():
        rows = [
            [value["label"], *(_cell(value["metrics"][name], "mean") for name in names)]
            for value in sweep["values"]
        ]
        columns = [of_axis(name, short=True) for name in names]
        blocks.append(Table(caption, [", ".join(sweep["keys"]), *columns], rows))
    without = [f"{title(name)} (`{name}`)" for name in sweep["without_evidence"]]
    if without:
        blocks.append(f"Left out, because no run had enough evidence: {', '.join(without)}.")
    if len(plain_metrics(sweep["metrics"])) < len(sweep["metrics"]):
        blocks.append("The metrics of intersections of attributes stand in the tables only.")
    return blocks


def _cell(found: Json | None, key: str) -> Cell:
    if found is None or found[key] is None:
        return lack("no number")
    return Cell(formats.number(found[key]), (formats.interval(found["low"], found["high"]),))


def _runs(sweep: Json) -> list[Block]:
    key, values = ", ".join(sweep["keys"]), sweep["values"]
    counts = [[value[name] for name in ("label", "runs", "failed", "passed")] for value in values]
    caption = "How many runs of each value finished, and passed the job’s gates"
    gates = Table(caption, [key, "Runs", "Failed", "Passed the gates"], counts)
    rows: list[list[Any]] = []
    for point in sweep["points"]:
        verdict = GATE_STATUS.get(point["verdict"], ("", ""))[1] if point["status"] == "done" else "Failed"
        label = Cell(values[point["value"]]["label"], (point["error"],) if point["error"] else ())
        cached = f"{len(point['cached'])} of {len(point['seconds'])}"
        rows.append([label, point["seed"], verdict, formats.seconds(sum(point["seconds"].values())), cached])
    caption = f"All {len(rows)} runs, in the order in which they started"
    columns = [key, "Seed", "Gates", "Time", "Reused steps"]
    own = (
        "A sweep writes no page for each run. `evenhand run` with a run’s job, values and seed takes its "
        "finished steps from the store and writes its page. It also publishes the model if the gates pass."
    )
    blocks: list[Block] = [gates, own, Table(caption, columns, rows, folded=True)]
    for about, names in by_subject(sweep["metrics"]).items():
        rows = []
        for point in sweep["points"]:
            if point["metrics"]:
                cells = [_cell(point["metrics"].get(name), "value") for name in names]
                rows.append([values[point["value"]]["label"], point["seed"], *cells])
        columns = [key, "Seed", *(of_axis(name, short=True) for name in names)]
        caption = f"{about}: each run with its own interval (bootstrap over its test rows)"
        blocks.append(Table(caption, columns, rows, folded=True))
    return blocks
