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
# Values compared with their control: more columns cannot be read.
MOST = 12
# Few seeds make the intervals of proxies so wide that all marks would lie in a corner.
PROXY_PERFORMANCE = "imbalance"
PROXY_WIDENING = 1.0
PROXIES = (
    "Each chart shows how far the kept rows are from the target shares against the largest "
    "difference within a proxy group: first on held-out rows, then on the training rows, on "
    "which the limit alpha holds. Both have the same axes. The first is what to expect of new "
    "rows."
)
# How the page was made is folded.
FOLDS = True


def front(documents: Documents) -> Front:
    """Build the front; a sweep with failed runs is marked as refused."""
    run = documents["run"]
    sweep = documents["tradeoff"]
    failed = sum(value["failed"] for value in sweep["values"])
    badge = ("passed", "\u2713", "All runs finished")
    if failed:
        badge = ("refused", "\u2715", f"{failed} of {len(sweep['points'])} runs failed")
    subject = f"{sweep['job']} over {formats.join(sweep['keys'])}"
    meta = [f"Job {sweep['job']}", f"sweep {run['id']}"]
    return Front("sweep report", subject, meta, headline(sweep), run["created"], badge=badge)


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
    seeds = formats.plural(len(sweep["seeds"]), "seed")
    if len(values) > 1:
        seeds += " each"
    swept = f"{formats.plural(len(values), 'value')} of {formats.join(sweep['keys'])}, {seeds}."
    sentence = f"{runs} of {sweep['job']}: {swept}"
    if failed:
        sentence += f" {formats.plural(failed, 'run')} failed."
    return [sentence, *_ends(sweep)]


def _ends(sweep: Json) -> list[str]:
    """The value with the best performance, the fairest one, and the difference between them."""
    performance = sweep["performance"]
    fairness = _fairness_metric(sweep)
    measured = [
        value
        for value in sweep["values"]
        if estimate(value, performance) and estimate(value, fairness)
    ]
    if len(measured) < 2:
        return []
    good = _best_value(measured, performance)
    fair = _best_value(measured, fairness)
    performance_of_good = formats.number(good["metrics"][performance]["mean"])
    fairness_of_good = formats.number(good["metrics"][fairness]["mean"])
    label = within(performance)
    fairness_label = within(fairness)
    if good is fair:
        return [
            f"{good['name']} has both the best {label} ({performance_of_good}) and the best "
            f"“{fairness_label}” ({fairness_of_good}): here there is no trade-off between the two."
        ]
    performance_of_fair = formats.number(fair["metrics"][performance]["mean"])
    fairness_of_fair = formats.number(fair["metrics"][fairness]["mean"])
    sentence = (
        f"{title(performance)} is best at {good['name']} ({performance_of_good}), where "
        f"“{fairness_label}” is {fairness_of_good}; that is best at {fair['name']} "
        f"({fairness_of_fair}), where {label} is {performance_of_fair}."
    )
    close = [
        within(name)
        for name in (performance, fairness)
        if texts.overlap(good["metrics"][name], fair["metrics"][name])
    ]
    if close:
        sentence += (
            f" Their intervals overlap in {formats.join(close)}: that difference may be chance."
        )
    return [sentence]


def _fairness_metric(sweep: Json) -> str:
    """Fairness metric of the headline: a consistency, else a gap, else any; empty if none."""
    names = plain_metrics(sweep["fronts"])
    for kind in ("consistency.", "gap_max."):
        for name in names:
            if name.startswith(kind):
                return name
    return next(iter(names), "")


def _best_value(values: Sequence[Json], name: str) -> Json:
    """The first value with the best mean of a metric."""
    choose = max if better(name) == "higher" else min
    return choose(values, key=lambda value: value["metrics"][name]["mean"])


def within(name: str) -> str:
    """A metric's title within a sentence."""
    text = title(name)
    if text[1:2].isupper():
        return text
    return text[0].lower() + text[1:]


def plain_metrics(names: Iterable[str]) -> list[str]:
    """Metrics that charts show: those of intersections are in tables only."""
    return [name for name in names if "&" not in name]


def of_axis(name: str, *, short: bool = False) -> str:
    """Title of an axis or a column: the metric, `short` without its subject, and which way it is
    better.
    """
    text = title(name)
    if short and "." in name:
        text = describe(name)[0].title
    way = direction(name)
    remark = f"{way} is better" if way else "to compare with"
    return f"{text} ({remark})"


def by_subject(names: Iterable[str]) -> dict[str, list[str]]:
    """Metrics by what they are about, so that each table is narrow enough to read."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_about(name), []).append(name)
    return groups


def _about(name: str) -> str:
    """Caption of the table that a metric is in."""
    info, subject = describe(name)
    if info.name.startswith("certificate"):
        return "Certificate"
    if not subject:
        return "Overall"
    if info.subject == "attribute":
        return f"By {spoken(subject)}"
    return info.title


def estimate(value: Json, name: str) -> dict[str, float | None] | None:
    """A mean with its interval, cut where the metric cannot be; None where no run has the
    number.
    """
    measured = value["metrics"].get(name)
    if measured is None or measured["mean"] is None:
        return None
    low = measured["low"]
    high = measured["high"]
    if low is None or high is None:
        return {"value": measured["mean"], "low": None, "high": None}
    bottom, top = describe(name)[0].domain
    if bottom is not None:
        low = max(low, bottom)
    if top is not None:
        high = min(high, top)
    return {"value": measured["mean"], "low": low, "high": high}


def mark(label: str, kind: str, x: Json, y: Json, series: str = "") -> dict[str, object]:
    """A mark of a trade-off chart: two estimates with their intervals."""
    return {
        "label": label,
        "series": series,
        "kind": kind,
        "x": x["value"],
        "y": y["value"],
        "x_low": x["low"],
        "x_high": x["high"],
        "y_low": y["low"],
        "y_high": y["high"],
    }


def tradeoff_chart(
    x: str, y: str, rows: list[dict[str, Any]], text: str, caption: str = "", **more: Any
) -> Chart:
    """Marks of one metric against another; `more` are further arguments of the plot."""
    data = {"rows": rows, "x_title": of_axis(x), "y_title": of_axis(y), **more}
    return Chart("tradeoffs.tradeoff", data, f"{title(y)} against {title(x)}", text, caption)


def build(documents: Documents) -> Iterator[Section]:
    """Methods side by side, if they are swept; the controls, the trade-offs, all numbers,
    the runs.
    """
    sweep = documents["tradeoff"]
    if sweep["comparison"] is not None:
        yield Section("methods", "Methods side by side", _methods(sweep, sweep["comparison"]))
    yield Section("over-blind", "Compared with the blind control", _controls(sweep["values"]))
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
    reference = f"{comparison['reference']}, the reference"
    if any(len(entry["settings"]) > 1 for entry in entries):
        reference += ", at the same values of the other keys"
    several = comparison["splits"] > 1
    if several:
        verdicts = [
            f"{entry['label']}: {verdict(_valued(entry['differences']), names)}"
            for entry in compared
        ]
        summary = (
            f"Compared with {reference}, on the same {comparison['splits']} splits. "
            f"{'. '.join(verdicts)}."
        )
        explained = (
            "Marks are means over the seeds, and bars reach one standard deviation to either side. "
            "The intervals of differences allow for rows that the splits share (Nadeau and Bengio "
            "2003) and for the number of methods (Bonferroni). n.s. marks a difference that is not "
            "significant; with few splits only large ones are, so it does not say that two methods "
            "are alike."
        )
    else:
        summary = (
            f"One split: the differences from {reference}, may come from it alone; sweep over "
            "several seeds."
        )
        explained = "Marks are the numbers of the one run of each method."
    blocks: list[Block] = [summary, f"{explained} The upright line is the mean of the reference."]
    for text, way in (("Performance", "higher"), ("Differences and inequality", "lower")):
        drawn = [name for name in plain_metrics(names) if direction(name) == way]
        charts = [
            _chart(sweep["values"], entries[:MOST_DRAWN], name, several=several) for name in drawn
        ]
        if charts:
            blocks += [Heading(text), Charts(charts, large=True)]
    hidden = len(entries) - MOST_DRAWN
    if hidden > 0:
        blocks.append(
            f"The charts show the first values; the numbers of {hidden} more are in the tables."
        )
    blocks += _differences(compared, "differences", names, "Differences from the reference")
    return blocks


def _differences(
    values: Sequence[Json], key: str, names: Sequence[str], caption: str
) -> list[Block]:
    """A table of mean differences, a column a value."""
    if not names:
        return []
    columns = ["Metric"]
    estimates = []
    for value in values[:MOST]:
        columns.append(value["label"])
        estimates.append(_valued(value[key]))
    rows: list[list[Any]] = []
    for name in names:
        cells = [difference_cell(name, differences.get(name)) for differences in estimates]
        rows.append([texts.metric_cell(name), *cells])
    if len(values) > MOST:
        caption += f": the first {MOST} of {len(values)} values"
    return [Table(caption, columns, rows)]


def _valued(differences: Json) -> dict[str, Json]:
    """Mean differences as estimates."""
    return {
        name: {**difference, "value": difference["mean"]}
        for name, difference in differences.items()
    }


def _mean_and_sd(measured: Json) -> str:
    mean = measured["mean"]
    sd = measured["sd"]
    if mean is None:
        return "no number"
    if sd is None:
        return formats.number(mean)
    if mean >= LEAST:
        # as many decimals in both
        return f"{mean:.3f} ± {sd:.3f}"
    return f"{formats.number(mean)} ± {formats.number(sd)}"


def _chart(values: list[Json], entries: list[Json], name: str, *, several: bool) -> Chart:
    rows = []
    described = []
    for entry in entries:
        measured = entry["metrics"][name]
        if entry["against"] is None:
            note = " (the reference)"
            reference = entry["value"]
        else:
            reference = entry["against"]
            kind = finding(name, _valued(entry["differences"])[name])
            unclear = several and kind in ("unclear", "lacking", "same")
            note = " (n.s.)" if unclear else ""
        mean = measured["mean"]
        sd = measured["sd"]
        row = {"label": f"{entry['label']}{note}", "value": mean, "low": None, "high": None}
        if mean is not None and sd is not None:
            row["low"] = mean - sd
            row["high"] = mean + sd
        row["limit"] = values[reference]["metrics"][name]["mean"]
        rows.append(row)
        described.append(f"{entry['label']} {_mean_and_sd(measured)}{note}")
    names = {"value": "mean", "limit": "mean of the reference"}
    data = {"rows": rows, "interval": "one standard deviation", "names": names}
    text = f"{title(name)}, method by method"
    return Chart(
        "intervals.metric_intervals", data, text, f"{'; '.join(described)}.", of_axis(name)
    )


def _controls(values: Sequence[Json]) -> list[Block]:
    """A table of mean differences, a column a value."""
    measured = {name for value in values for name in value["over_blind"]}
    names = [
        name for name in answered(dict.fromkeys(sorted(measured))) if direction(name) is not None
    ]
    if not names:
        return []
    text = (
        "Each run also trained the same learner without mitigation and without the sensitive "
        "columns (blind) on the same rows. The table has the mean difference from it over the "
        "seeds, with the interval of the mean where there are several. What is no better than "
        "blind has no effect."
    )
    return [text, *_differences(values, "over_blind", names, "Differences from the blind control")]


def _tradeoffs(sweep: Json) -> list[Block]:
    """A chart a fairness metric, and a table of the fronts."""
    marks = {}
    for name in plain_metrics(sweep["fronts"]):
        drawn = _marks(sweep, name)
        if drawn:
            marks[name] = drawn
    if not marks:
        return []
    all_marks = [drawn for of_metric in marks.values() for drawn in of_metric]
    lead = f"Each chart shows {within(sweep['performance'])} against a fairness metric."
    shared = {}
    if sweep["performance"] == PROXY_PERFORMANCE:
        lead = PROXIES
        reach = [[drawn[axis] for drawn in all_marks] for axis in "xy"]
        shared = {"reach": reach, "widening": PROXY_WIDENING}
    charts = []
    fronts = []
    for name, drawn in marks.items():
        labels = [sweep["values"][index]["label"] for index in sweep["fronts"][name]]
        on_front = formats.join(labels)
        described = f"{len(drawn)} values with intervals; on the Pareto front: {on_front}."
        charts.append(
            tradeoff_chart(name, _other(sweep, name), drawn, described, title(name), **shared)
        )
        fronts.append((title(name), on_front))
    table = Table(
        "Values on the Pareto front of each chart", ["Metric", "On the front"], fronts, pairs=True
    )
    by_method = any(drawn["series"] for drawn in all_marks)
    explained = _explained_marks(sweep, by_method=by_method)
    return [lead, explained, Charts(charts, large=True), table]


def _explained_marks(sweep: Json, *, by_method: bool) -> str:
    keys = ""
    if len(sweep["keys"]) > 1:
        keys = f" (of {', '.join(sweep['keys'])}, in this order)"
    joined = "The dashed line joins the Pareto front"
    if by_method:
        joined = (
            "A line joins the values of one method in the given order, and large marks are on the "
            "Pareto front"
        )
    return (
        f"Each mark is one value{keys}; the thin lines through it are the {interval_name(sweep)}. "
        f"{joined}: the values for which no other value is better in one of the two and as good in "
        "the other. A label without room is left out, and an interval much wider than the spread "
        "of the marks is cut: the tables have every number."
    )


def _other(sweep: Json, name: str) -> str:
    """Metric that a front trades for this one: of proxies, the one on the same rows."""
    return "imbalance.train" if name == "disclosivity.train" else str(sweep["performance"])


def _marks(sweep: Json, name: str) -> list[dict[str, Any]]:
    labels = [_method_and_rest(value) for value in sweep["values"]]
    methods = [method for method, _ in labels]
    of_proxies = sweep["performance"] == PROXY_PERFORMANCE
    by_method = of_proxies and any(methods.count(method) > 1 for method in methods if method)
    on_front = sweep["fronts"][name]
    marks: list[dict[str, Any]] = []
    for index, value in enumerate(sweep["values"]):
        x = estimate(value, name)
        y = estimate(value, _other(sweep, name))
        if x is None or y is None:
            continue
        kind = "front" if index in on_front else "other"
        if by_method:
            method, label = labels[index]
            marks.append(mark(label, kind, x, y, method))
        else:
            marks.append(mark(value["mark"], kind, x, y))
    return marks


def _method_and_rest(value: Json) -> tuple[str, str]:
    """A value's method, where that is swept, and a label of what else it sets, or else of the
    method.
    """
    methods = []
    settings = []
    for key, text in formats.flatten(value["settings"]):
        if key in ("method", "method.name"):
            methods.append(text)
        else:
            settings.append(text)
    method = next(iter(methods), "")
    return method, ", ".join(settings) or method


def _numbers(sweep: Json) -> list[Block]:
    """Tables of means, and the metrics that they lack."""
    if not sweep["metrics"]:
        return []
    blocks: list[Block] = [
        "The mean over the seeds ± their standard deviation, and below it the "
        f"{interval_name(sweep)}."
    ]
    for caption, names in by_subject(sweep["metrics"]).items():
        rows: list[list[Any]] = []
        for value in sweep["values"]:
            cells = [_cell(value["metrics"][name]) for name in names]
            rows.append([value["label"], *cells])
        columns = [of_axis(name, short=True) for name in names]
        blocks.append(Table(caption, [", ".join(sweep["keys"]), *columns], rows))
    without = [f"{title(name)} (`{name}`)" for name in sweep["without_evidence"]]
    if without:
        blocks.append(f"Left out, because no run had enough evidence: {', '.join(without)}.")
    if len(plain_metrics(sweep["metrics"])) < len(sweep["metrics"]):
        blocks.append("The metrics of intersections of attributes are in the tables only.")
    return blocks


def _cell(measured: Json) -> Cell:
    if measured["mean"] is None:
        return lack("no number")
    return Cell(_mean_and_sd(measured), (formats.interval(measured["low"], measured["high"]),))


def _runs(sweep: Json) -> list[Block]:
    key = ", ".join(sweep["keys"])
    values = sweep["values"]
    counts = [(value["label"], value["runs"], value["failed"], value["passed"]) for value in values]
    caption = "How many runs of each value finished, and passed the job’s gates"
    gates = Table(caption, [key, "Runs", "Failed", "Passed the gates"], counts)
    rows: list[list[Any]] = []
    for point in sweep["points"]:
        gate_verdict = "Failed"
        if point["status"] == "done":
            gate_verdict = GATE_STATUS.get(point["verdict"], ("", ""))[1]
        error = (point["error"],) if point["error"] else ()
        label = Cell(values[point["value"]]["label"], error)
        time = formats.seconds(sum(point["seconds"].values()))
        cached = f"{len(point['cached'])} of {len(point['seconds'])}"
        rows.append([label, point["seed"], gate_verdict, time, cached])
    caption = f"All {len(rows)} runs, in the order in which they started"
    columns = [key, "Seed", "Gates", "Time", "Reused steps"]
    advice = (
        "A sweep writes no page for each run. `evenhand run` with a run’s job, values and seed "
        "takes its finished steps from the store and writes its page. It also publishes the model "
        "if the gates pass."
    )
    return [gates, advice, Table(caption, columns, rows, folded=True)]
