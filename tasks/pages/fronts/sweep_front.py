"""The page of a sweep: methods and trade-offs, all numbers, the runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from evenhand.fairlib.catalogue import better, describe, direction, spoken, title
from evenhand.tasks.pages import formats, texts
from evenhand.tasks.pages.page_model import (
    Block,
    Cell,
    Chart,
    Charts,
    Documents,
    Front,
    Heading,
    Json,
    Section,
    Table,
)
from evenhand.tasks.pages.sections.controls_section import answered, verdict
from evenhand.tasks.pages.sections.metrics_section import difference_cell, finding
from evenhand.tasks.pages.texts import GATE_STATUS, lack

NEEDS = ("tradeoff",)
MOST_DRAWN = 24
# The smallest mean that three decimals show.
LEAST = 0.001
# Values beside their control: more columns cannot be read.
MOST = 12
# Few seeds make the intervals of proxies so wide that all marks would lie in a corner.
PROXY_PERFORMANCE = "imbalance"
PROXY_WIDENING = 1.0
PROXIES = (
    "Each chart shows how far the kept rows are from the target shares against the largest "
    "difference within "
    "a proxy group: first on held-out rows, then on the training rows, on which the limit alpha "
    "holds. Both "
    "have the same axes. The first is what to expect of new rows."
)


def front(documents: Documents) -> Front:
    """Build the front; a sweep with failed runs is marked as refused."""
    run = documents["run"]
    sweep = documents["tradeoff"]
    failed = sum(value["failed"] for value in sweep["values"])
    badge = ("passed", "\u2713", "All runs finished")
    if failed:
        badge = ("refused", "\u2715", f"{failed} of {len(sweep['points'])} runs failed")
    named = f"{sweep['job']} over {formats.join(sweep['keys'])}"
    meta = [f"Job {sweep['job']}", f"sweep {run['id']}"]
    return Front("sweep report", named, meta, headline(sweep), run["created"], badge=badge)


def interval_name(sweep: Json) -> str:
    """Name the intervals and say what they are of."""
    if len(sweep["seeds"]) == 1:
        return f"{texts.interval_name(sweep)} of the one run (bootstrap over its test rows)"
    return (
        f"{texts.interval_name(sweep)} of the mean over {len(sweep['seeds'])} seeds (Student’s t)"
    )


def headline(sweep: Json) -> list[str]:
    """Say what was swept, and what is traded for what."""
    values = sweep["values"]
    failed = sum(value["failed"] for value in values)
    runs = formats.plural(sum(value["runs"] for value in values), "run")
    seeds = formats.plural(len(sweep["seeds"]), "seed") + (" each" if len(values) > 1 else "")
    swept = f"{formats.plural(len(values), 'value')} of {formats.join(sweep['keys'])}, {seeds}."
    lost = f" {formats.plural(failed, 'run')} failed." if failed else ""
    return [f"{runs} of {sweep['job']}: {swept}{lost}", *_ends(sweep)]


def _ends(sweep: Json) -> list[str]:
    """The value with the best performance, the fairest one, and the difference between them.

    Fairness is that of a consistency, a gap, or any metric.
    """
    names = plain_metrics(sweep["fronts"])
    kinds = [
        name for kind in ("consistency.", "gap_max.") for name in names if name.startswith(kind)
    ]
    performance = sweep["performance"]
    fairness = next(iter([*kinds, *names]), "")
    pair = (performance, fairness)
    known = [value for value in sweep["values"] if all(estimate(value, name) for name in pair)]
    if len(known) < 2:
        return []
    good, fair = (
        max(known, key=lambda v: (1 if better(n) == "higher" else -1) * v["metrics"][n]["mean"])
        for n in pair
    )
    # the performance and the fairness of the value that performs best, and of the fairest
    best, cost, price, fairest = (
        formats.number(value["metrics"][name]["mean"]) for value in (good, fair) for name in pair
    )
    label = within(performance)
    other = within(fairness)
    if good is fair:
        return [
            f"{good['name']} has both the best {label} ({best}) and the best “{other}” ({cost}): "
            "here there "
            "is no trade-off between the two."
        ]
    sentence = (
        f"{title(performance)} is best at {good['name']} ({best}), where “{other}” is {cost}; that "
        "is best "
        f"at {fair['name']} ({fairest}), where {label} is {price}."
    )
    close = [
        within(name) for name in pair if texts.overlap(good["metrics"][name], fair["metrics"][name])
    ]
    if close:
        sentence += (
            f" Their intervals overlap in {formats.join(close)}: that difference may be chance."
        )
    return [sentence]


def within(name: str) -> str:
    """A metric's title within a sentence."""
    text = title(name)
    return text if text[1:2].isupper() else text[0].lower() + text[1:]


def plain_metrics(names: Iterable[str]) -> list[str]:
    """Metrics that charts show: those of intersections stand in tables only."""
    return [name for name in names if "&" not in name]


def of_axis(name: str, *, short: bool = False) -> str:
    """Title of an axis or a column: the metric, `short` without its subject, and which way it is
    better.
    """
    way = direction(name)
    text = describe(name)[0].title if short and "." in name else title(name)
    return f"{text} ({f'{way} is better' if way else 'to compare with'})"


def by_subject(names: Iterable[str]) -> dict[str, list[str]]:
    """Metrics by what they are about, so that each table is narrow enough to read."""
    groups: dict[str, list[str]] = {}
    for name in names:
        info, subject = describe(name)
        about = f"By {spoken(subject)}" if info.subject == "attribute" else info.title
        about = about if subject else "Overall"
        groups.setdefault(
            "Certificate" if info.name.startswith("certificate") else about, []
        ).append(name)
    return groups


def estimate(value: Json, name: str) -> dict[str, float | None] | None:
    """A mean with its interval, cut where the metric cannot be; None where no run has the
    number.
    """
    found = value["metrics"].get(name)
    if found is None or found["mean"] is None:
        return None
    low = found["low"]
    high = found["high"]
    if low is None or high is None:
        return {"value": found["mean"], "low": None, "high": None}
    bottom, top = describe(name)[0].domain
    low = low if bottom is None else max(low, bottom)
    high = high if top is None else min(high, top)
    return {"value": found["mean"], "low": low, "high": high}


def mark(label: str, kind: str, x: Json, y: Json, series: str = "") -> dict[str, object]:
    """A mark of a trade-off chart: two estimates with their intervals."""
    ends = {
        f"{axis}_{end}": found[end]
        for axis, found in (("x", x), ("y", y))
        for end in ("low", "high")
    }
    return {
        "label": label,
        "series": series,
        "kind": kind,
        "x": x["value"],
        "y": y["value"],
        **ends,
    }


def tradeoff_chart(
    x: str, y: str, rows: list[dict[str, Any]], said: str, caption: str = "", **more: Any
) -> Chart:
    """Marks of one metric against another; `more` are further arguments of the plot."""
    data = {"rows": rows, "x_title": of_axis(x), "y_title": of_axis(y), **more}
    return Chart("tradeoffs.tradeoff", data, f"{title(y)} against {title(x)}", said, caption)


def build(documents: Documents) -> Iterator[Section]:
    """Methods side by side, if they are swept; the controls, the trade-offs, all numbers,
    the runs.
    """
    sweep = documents["tradeoff"]
    if sweep["comparison"] is not None:
        yield Section("methods", "Methods side by side", _methods(sweep, sweep["comparison"]))
    yield Section("over-blind", "Beside the blind control", _controls(sweep["values"]))
    yield Section("tradeoffs", "Trade-offs", _tradeoffs(sweep))
    yield Section("numbers", "All numbers", _numbers(sweep))
    yield Section("runs", "The runs", _runs(sweep))


def _methods(sweep: Json, comparison: Json) -> list[Block]:
    """Sentences, a chart a metric, and tables of means and of differences from the reference."""
    entries: list[Json] = [
        {**sweep["values"][entry["value"]], **entry} for entry in comparison["values"]
    ]
    compared = [entry for entry in entries if entry["against"] is not None]
    names = comparison["metrics"]
    several = comparison["splits"] > 1
    against = f"{comparison['reference']}, the reference"
    if any(len(entry["settings"]) > 1 for entry in entries):
        against += ", at the same values of the other keys"
    found = f"One split: the differences from {against}, may come from it alone; sweep over several seeds."
    explained = "Marks are the numbers of the one run of each method."
    if several:
        told = [
            f"{entry['label']}: {verdict(_valued(entry['differences']), names)}"
            for entry in compared
        ]
        found = f"Compared with {against}, on the same {comparison['splits']} splits. {'. '.join(told)}."
        explained = (
            "Marks are means over the seeds, and bars reach one standard deviation to either side. "
            "The "
            "intervals of differences allow for rows that the splits share (Nadeau and Bengio "
            "2003) and for "
            "the number of methods (Bonferroni). n.s. marks a difference that is not significant; "
            "with few "
            "splits only large ones are, so it does not say that two methods are alike."
        )
    blocks: list[Block] = [found, f"{explained} The upright line is the mean of the reference."]
    for text, way in (("Performance", "higher"), ("Differences and inequality", "lower")):
        drawn = [name for name in plain_metrics(names) if direction(name) == way]
        charts = [
            _chart(sweep["values"], entries[:MOST_DRAWN], name, several=several) for name in drawn
        ]
        blocks += [Heading(text), Charts(charts, large=True)] if charts else []
    left = len(entries) - MOST_DRAWN
    if left > 0:
        blocks.append(
            f"The charts show the first values; the numbers of {left} more are in the tables."
        )
    return [
        *blocks,
        *_differences(compared, "differences", names, "Differences from the reference"),
    ]


def _differences(
    values: Sequence[Json], key: str, names: Sequence[str], caption: str
) -> list[Block]:
    """A table of mean differences, a column a value."""
    shown = [_valued(value[key]) for value in values[:MOST]]
    rows: list[list[Any]] = [
        [texts.metric_cell(name), *(difference_cell(name, found.get(name)) for found in shown)]
        for name in names
    ]
    if len(values) > MOST:
        caption += f": the first {MOST} of {len(values)} values"
    return (
        [Table(caption, ["Metric", *(value["label"] for value in values[:MOST])], rows)]
        if rows
        else []
    )


def _valued(differences: Json) -> dict[str, Json]:
    """Mean differences as estimates."""
    return {name: {**found, "value": found["mean"]} for name, found in differences.items()}


def _mean_and_sd(found: Json) -> str:
    mean = found["mean"]
    sd = found["sd"]
    if mean is None or sd is None:
        return "no number" if mean is None else formats.number(mean)
    # as many decimals in both
    return (
        f"{mean:.3f} ± {sd:.3f}"
        if mean >= LEAST
        else f"{formats.number(mean)} ± {formats.number(sd)}"
    )


def _chart(values: list[Json], entries: list[Json], name: str, *, several: bool) -> Chart:
    rows = []
    said = []
    for entry in entries:
        found = entry["metrics"][name]
        note = " (the reference)"
        reference = entry["value"]
        mean = found["mean"]
        sd = found["sd"]
        if entry["against"] is not None:
            reference = entry["against"]
            kind = finding(name, _valued(entry["differences"])[name])
            note = " (n.s.)" if several and kind in ("unclear", "lacking", "same") else ""
        row = {"label": f"{entry['label']}{note}", "value": mean}
        known = mean is not None and sd is not None
        row |= {"low": mean - sd, "high": mean + sd} if known else {"low": None, "high": None}
        rows.append(row | {"limit": values[reference]["metrics"][name]["mean"]})
        said.append(f"{entry['label']} {_mean_and_sd(found)}{note}")
    names = {"value": "mean", "limit": "mean of the reference"}
    data = {"rows": rows, "interval": "one standard deviation", "names": names}
    text = f"{title(name)}, method by method"
    described = f"{'; '.join(said)}."
    return Chart("intervals.metric_intervals", data, text, described, of_axis(name))


def _controls(values: Sequence[Json]) -> list[Block]:
    """A table of mean differences, a column a value."""
    known = {name for value in values for name in value["over_blind"]}
    names = [name for name in answered(dict.fromkeys(sorted(known))) if direction(name) is not None]
    if not names:
        return []
    text = (
        "Each run also trained the same learner without mitigation and without the sensitive "
        "columns "
        "(blind) on the same rows. The table has the mean difference from it over the seeds, with "
        "the "
        "interval of the mean where there are several. What is no better than blind buys nothing."
    )
    return [text, *_differences(values, "over_blind", names, "Differences from the blind control")]


def _tradeoffs(sweep: Json) -> list[Block]:
    """A chart a fairness metric, and a table of the fronts."""
    marks = {
        name: found for name in plain_metrics(sweep["fronts"]) if (found := _marks(sweep, name))
    }
    if not marks:
        return []
    lead = f"Each chart shows {within(sweep['performance'])} against a fairness metric."
    shared = {}
    if sweep["performance"] == PROXY_PERFORMANCE:
        reach = [[found[axis] for own in marks.values() for found in own] for axis in "xy"]
        lead = PROXIES
        shared = {"reach": reach, "widening": PROXY_WIDENING}
    charts = []
    fronts = []
    for name, found in marks.items():
        on_front = formats.join(
            [sweep["values"][index]["label"] for index in sweep["fronts"][name]]
        )
        said = f"{len(found)} values with intervals; on the Pareto front: {on_front}."
        charts.append(tradeoff_chart(name, _other(sweep, name), found, said, title(name), **shared))
        fronts.append((title(name), on_front))
    table = Table(
        "Values on the Pareto front of each chart", ["Metric", "On the front"], fronts, pairs=True
    )
    by_method = any(found["series"] for own in marks.values() for found in own)
    explained = _explained_marks(sweep, by_method=by_method)
    return [lead, explained, Charts(charts, large=True), table]


def _explained_marks(sweep: Json, *, by_method: bool) -> str:
    keys = f" (of {', '.join(sweep['keys'])}, in this order)" if len(sweep["keys"]) > 1 else ""
    joined = "The dashed line joins the Pareto front"
    if by_method:
        joined = (
            "A line joins the values of one method in the given order, and large marks are on the "
            "Pareto "
            "front"
        )
    return (
        f"Each mark is one value{keys}; the thin lines through it are the {interval_name(sweep)}. "
        f"{joined}: the values for which no other value is better in one of the two and as good in "
        "the "
        "other. A label without room is left out, and an interval much wider than the spread of "
        "the "
        "marks is cut: the tables have every number."
    )


def _other(sweep: Json, name: str) -> str:
    """Metric that a front trades for this one: of proxies, the one on the same rows."""
    return "imbalance.train" if name == "disclosivity.train" else str(sweep["performance"])


def _marks(sweep: Json, name: str) -> list[dict[str, Any]]:
    named = [_method_and_rest(value) for value in sweep["values"]]
    methods = [method for method, _ in named]
    of_proxies = sweep["performance"] == PROXY_PERFORMANCE
    by_method = of_proxies and any(methods.count(method) > 1 for method in methods if method)
    marks: list[dict[str, Any]] = []
    for index, value in enumerate(sweep["values"]):
        x = estimate(value, name)
        y = estimate(value, _other(sweep, name))
        if x is not None and y is not None:
            kind = "front" if index in sweep["fronts"][name] else "other"
            method, rest = named[index] if by_method else ("", value["mark"])
            marks.append(mark(rest, kind, x, y, method))
    return marks


def _method_and_rest(value: Json) -> tuple[str, str]:
    """A value's method, where that is swept, and a label of what else it sets, or else of the
    method.
    """
    settings = formats.flatten(value["settings"])
    method = next((text for key, text in settings if key in ("method", "method.name")), "")
    rest = [text for key, text in settings if key not in ("method", "method.name")]
    return method, ", ".join(rest) or method


def _numbers(sweep: Json) -> list[Block]:
    """Tables of means, and the metrics that they lack."""
    if not sweep["metrics"]:
        return []
    blocks: list[Block] = [
        "The mean over the seeds ± their standard deviation, and below it the "
        f"{interval_name(sweep)}."
    ]
    for caption, names in by_subject(sweep["metrics"]).items():
        rows = [
            [value["label"], *(_cell(value["metrics"][name]) for name in names)]
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


def _cell(found: Json) -> Cell:
    if found["mean"] is None:
        return lack("no number")
    return Cell(_mean_and_sd(found), (formats.interval(found["low"], found["high"]),))


def _runs(sweep: Json) -> list[Block]:
    key = ", ".join(sweep["keys"])
    values = sweep["values"]
    counts = [[value[name] for name in ("label", "runs", "failed", "passed")] for value in values]
    caption = "How many runs of each value finished, and passed the job’s gates"
    gates = Table(caption, [key, "Runs", "Failed", "Passed the gates"], counts)
    rows: list[list[Any]] = []
    for point in sweep["points"]:
        verdict = (
            GATE_STATUS.get(point["verdict"], ("", ""))[1]
            if point["status"] == "done"
            else "Failed"
        )
        label = Cell(values[point["value"]]["label"], (point["error"],) if point["error"] else ())
        cached = f"{len(point['cached'])} of {len(point['seconds'])}"
        rows.append(
            [label, point["seed"], verdict, formats.seconds(sum(point["seconds"].values())), cached]
        )
    caption = f"All {len(rows)} runs, in the order in which they started"
    columns = [key, "Seed", "Gates", "Time", "Reused steps"]
    own = (
        "A sweep writes no page for each run. `evenhand run` with a run’s job, values and seed "
        "takes its "
        "finished steps from the store and writes its page. It also publishes the model if the "
        "gates pass."
    )
    return [gates, own, Table(caption, columns, rows, folded=True)]
