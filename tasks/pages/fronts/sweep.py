"""The front of a sweep's page, methods side by side, and the numbers that several of its sections show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from evenhand.fairlib.catalogue import better, describe, direction, spoken, title
from evenhand.tasks.pages import formats, texts
from evenhand.tasks.pages.model import (
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

NEEDS = ("tradeoff",)
MOST_DRAWN = 24
# The smallest mean that three decimals show.
LEAST = 0.001
SHORT = {"not significant": "n.s."}


def front(documents: Documents) -> Front:
    """Build the front; a sweep whose goal no value meets is marked as refused."""
    run, sweep = documents["run"], documents["tradeoff"]
    failed = sum(value["failed"] for value in sweep["values"])
    badge = ("passed", "\u2713", "All runs finished")
    if failed:
        badge = ("refused", "\u2715", f"{failed} of {len(sweep['points'])} runs failed")
    elif sweep["goal"] and not sweep["best"]:
        badge = ("refused", "\u2715", "No value is good enough")
    named = f"{sweep['job']} over {formats.join(sweep['keys'])}"
    meta = [f"Job {sweep['job']}", f"sweep {run['id']}"]
    return Front("sweep report", named, meta, headline(sweep), run["created"], badge=badge)


def interval_name(sweep: Json) -> str:
    """Name the intervals and say what they are of."""
    if len(sweep["seeds"]) == 1:
        return f"{texts.interval_name(sweep)} of the one run (bootstrap over its test rows)"
    return f"{texts.interval_name(sweep)} of the mean over {len(sweep['seeds'])} seeds (Student’s t)"


def headline(sweep: Json) -> list[str]:
    """Say what was swept, which value is best under the limits, and what is traded for what."""
    values, best = sweep["values"], sweep["best"]
    failed = sum(value["failed"] for value in values)
    runs = formats.plural(sum(value["runs"] for value in values), "run")
    seeds = formats.plural(len(sweep["seeds"]), "seed") + (" each" if len(values) > 1 else "")
    swept = f"{formats.plural(len(values), 'value')} of {formats.join(sweep['keys'])}, {seeds}."
    lost = f" {formats.plural(failed, 'run')} failed." if failed else ""
    sentences = [f"{runs} of {sweep['job']}: {swept}{lost}"]
    if best:
        means = {name: formats.number(best["metrics"][name]["mean"]) for name in sweep["goal_metrics"]}
        numbers = [f"{within(name)} {mean}" for name, mean in means.items()]
        sentences.append(f"Best for “{sweep['goal']}”: {best['name']}, with {formats.join(numbers)}.")
    elif sweep["miss"]:
        sentences.append(formats.sentence(sweep["miss"]))
    sentences += _ends(sweep)
    if best:
        sentences.append(
            "The value was chosen on the rows that also measure it, so its numbers are too good: measure it "
            "again on seeds that had no part in the choice."
        )
    return sentences


def _ends(sweep: Json) -> list[str]:
    """The value with the best performance, the fairest one, and the difference between them.

    Fairness is that of the goal, else of a consistency, a gap, or any metric.
    """
    names = plain_metrics(sweep["fronts"])
    limited = [name for name in names if name in sweep["limits"]]
    kinds = [name for kind in ("consistency.", "gap_max.") for name in names if name.startswith(kind)]
    performance, fairness = sweep["performance"], next(iter([*limited, *kinds, *names]), "")
    pair = (performance, fairness)
    known = [value for value in sweep["values"] if all(estimate(value, name) for name in pair)]
    if len(known) < 2:
        return []
    good, fair = (
        max(known, key=lambda v: (1 if better(n) == "higher" else -1) * v["metrics"][n]["mean"]) for n in pair
    )
    # the performance and the fairness of the value that performs best, and of the fairest
    best, cost, price, fairest = (
        formats.number(value["metrics"][name]["mean"]) for value in (good, fair) for name in pair
    )
    label, other = within(performance), within(fairness)
    if good is fair:
        return [
            f"{good['name']} has both the best {label} ({best}) and the best “{other}” ({cost}): here there "
            "is no trade-off between the two."
        ]
    sentence = (
        f"{title(performance)} is best at {good['name']} ({best}), where “{other}” is {cost}; that is best "
        f"at {fair['name']} ({fairest}), where {label} is {price}."
    )
    close = [within(name) for name in pair if texts.overlap(good["metrics"][name], fair["metrics"][name])]
    if close:
        sentence += f" Their intervals overlap in {formats.join(close)}: that difference may be chance."
    return [sentence]


def within(name: str) -> str:
    """A metric's title within a sentence."""
    text = title(name)
    return text if text[1:2].isupper() else text[0].lower() + text[1:]


def is_of_proxies(sweep: Json) -> bool:
    """Whether all that was swept are proxies."""
    return bool(sweep["performance"] == "imbalance")


def plain_metrics(names: Iterable[str]) -> list[str]:
    """Metrics that charts show: those of intersections stand in tables only."""
    return [name for name in names if "&" not in name]


def of_axis(name: str, *, short: bool = False) -> str:
    """Title of an axis or a column: the metric, `short` without its subject, and which way it is better."""
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
        groups.setdefault("Certificate" if info.name.startswith("certificate") else about, []).append(name)
    return groups


def estimate(value: Json, name: str) -> dict[str, float | None] | None:
    """A mean with its interval, cut where the metric cannot be; None where no run has the number."""
    found = value["metrics"].get(name)
    if found is None or found["mean"] is None:
        return None
    low, high = found["low"], found["high"]
    if low is None or high is None:
        return {"value": found["mean"], "low": None, "high": None}
    bottom, top = describe(name)[0].domain
    low, high = low if bottom is None else max(low, bottom), high if top is None else min(high, top)
    return {"value": found["mean"], "low": low, "high": high}


def mark(label: str, kind: str, x: Json, y: Json, series: str = "") -> dict[str, object]:
    """A mark of a trade-off chart: two estimates with their intervals."""
    ends = {f"{axis}_{end}": found[end] for axis, found in (("x", x), ("y", y)) for end in ("low", "high")}
    return {"label": label, "series": series, "kind": kind, "x": x["value"], "y": y["value"], **ends}


def tradeoff_chart(
    x: str, y: str, rows: list[dict[str, Any]], said: str, caption: str = "", *, limits: Json, **more: Any
) -> Chart:
    """Marks of one metric against another, with lines across at the `limits` of each."""
    data = {"rows": rows, "x_title": of_axis(x), "y_title": of_axis(y), **more}
    data |= {"x_limits": limits.get(x, ()), "y_limits": limits.get(y, ())}
    return Chart("tradeoffs.tradeoff", data, f"{title(y)} against {title(x)}", said, caption)


def mean(values: Iterable[float | None]) -> float | None:
    """Mean of the known numbers; None where none is known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def build(documents: Documents) -> Section | None:
    """Sentences, a chart a metric, tables of numbers and tests; None where no methods are swept."""
    sweep, comparison = documents["tradeoff"], documents["tradeoff"].get("comparison")
    if comparison is None:
        return None
    entries: list[Json] = [{**sweep["values"][entry["value"]], **entry} for entry in comparison["values"]]
    if comparison["splits"] < 2:
        entries = [{**entry, "tests": {}} for entry in entries]
    blocks: list[Block] = [_findings(comparison, entries), _explained(comparison)]
    for text, way in (("Performance", "higher"), ("Differences and inequality", "lower")):
        names = [name for name in plain_metrics(comparison["metrics"]) if direction(name) == way]
        charts = [_chart(sweep["values"], entries[:MOST_DRAWN], name) for name in names]
        if charts:
            blocks += [Heading(text), Charts(charts, large=True)]
    left = len(entries) - MOST_DRAWN
    if left > 0:
        blocks.append(f"The charts show the first values; {left} more are in the tables.")
    blocks += _tables(sweep, comparison, entries)
    if comparison["splits"] > 1:
        blocks.append(_tests(sweep, entries))
    return Section("methods", "Methods side by side", blocks)


def _findings(comparison: Json, entries: list[Json]) -> str:
    """What is significantly better or worse than the reference method, and in what."""
    against = f"{comparison['reference']}, the reference"
    if any(len(entry["settings"]) > 1 for entry in entries):
        against += ", at the same values of the other keys"
    if comparison["splits"] < 2:
        return (
            f"One split: no test. The differences from {against}, may come from the split alone; sweep over "
            "several seeds to tell."
        )
    sentences: list[str] = []
    even: list[str] = []
    untested: list[str] = []
    for entry in entries:
        if entry["against"] is None:
            continue
        found: dict[str, list[str]] = {}
        for name, test in entry["tests"].items():
            found.setdefault(test["verdict"], []).append(within(name))
        parts = [
            f"significantly {verdict} in {formats.join(found[verdict])}"
            for verdict in ("better", "worse")
            if verdict in found
        ]
        if parts:
            sentences.append(f"{entry['label']} is {', and '.join(parts)}.")
        else:
            (even if "not significant" in found else untested).append(entry["label"])
    if even:
        sentences.append(f"No significant difference was found for {formats.join(even)}.")
    if untested:
        sentences.append(f"Nothing could be tested for {formats.join(untested)}.")
    return f"Compared with {against}, on the same {comparison['splits']} splits: {' '.join(sentences)}"


def _explained(comparison: Json) -> str:
    tick = "The upright line is the mean of the reference."
    if comparison["splits"] < 2:
        return f"Marks are the numbers of the one run of each method. {tick}"
    return (
        f"Marks are means over the {comparison['splits']} seeds, and bars reach one standard deviation to "
        f"either side. {tick} A difference from it is tested on the splits that both have a number for, by "
        "the corrected resampled t-test (Nadeau and Bengio 2003), which allows for rows that the splits "
        "share, with Holm’s correction for the number of comparisons in each metric. n.s. marks a difference "
        f"that is not significant at {100 * comparison['significance']:g}%; with few splits only large "
        "differences are significant, so it does not say that two methods are alike."
    )


def _verdict(entry: Json, name: str, splits: int | None = None) -> str:
    """The verdict of one test, and on how many of the splits where some are missing; nothing without one."""
    test = entry["tests"].get(name, {"verdict": "", "n": splits})
    part = "" if splits in (None, test["n"]) else f" ({test['n']} of {formats.plural(splits, 'split')})"
    return SHORT.get(test["verdict"], test["verdict"]) + part


def _mean_and_sd(found: Json) -> str:
    mean, sd = found["mean"], found["sd"]
    if mean is None or sd is None:
        return "no number" if mean is None else formats.number(mean)
    # as many decimals in both
    return f"{mean:.3f} ± {sd:.3f}" if mean >= LEAST else f"{formats.number(mean)} ± {formats.number(sd)}"


def _chart(values: list[Json], entries: list[Json], name: str) -> Chart:
    rows, said = [], []
    for entry in entries:
        found, verdict, note = entry["metrics"][name], _verdict(entry, name), "the reference"
        mean, sd, reference = found["mean"], found["sd"], entry["value"]
        if entry["against"] is not None:
            reference, note = entry["against"], verdict if verdict in ("n.s.", "no test") else ""
        row = {"label": f"{entry['label']} ({note})" if note else entry["label"], "value": mean}
        known = mean is not None and sd is not None
        row |= {"low": mean - sd, "high": mean + sd} if known else {"low": None, "high": None}
        rows.append(row | {"limit": values[reference]["metrics"][name]["mean"]})
        said.append(f"{entry['label']} {_mean_and_sd(found)}{f' ({verdict})' if verdict else ''}")
    names = {"value": "mean", "limit": "mean of the reference"}
    data = {"rows": rows, "interval": "one standard deviation", "names": names}
    text, described = f"{title(name)}, method by method", f"{'; '.join(said)}."
    return Chart("intervals.metric_intervals", data, text, described, of_axis(name))


def _tables(sweep: Json, comparison: Json, entries: list[Json]) -> list[Table]:
    """Mean and standard deviation of all that is compared, by what it is about."""
    splits = comparison["splits"]
    spread = " ± standard deviation over the seeds" if splits > 1 else ""
    tables = []
    for about, names in by_subject(comparison["metrics"]).items():
        rows = []
        for entry in entries:
            note = ("the reference",) if entry["against"] is None else ()
            cells = [Cell(_mean_and_sd(entry["metrics"][n]), (_verdict(entry, n, splits),)) for n in names]
            rows.append([Cell(entry["label"], note), *cells])
        columns = [", ".join(sweep["keys"]), *(of_axis(name, short=True) for name in names)]
        tables.append(Table(f"{about}: mean{spread}", columns, rows))
    return tables


def _tests(sweep: Json, entries: list[Json]) -> Table:
    rows: list[list[Any]] = []
    for entry in entries:
        for name, test in entry["tests"].items():
            head = [entry["label"], title(name), sweep["values"][entry["against"]]["label"]]
            change = "–" if test["difference"] is None else formats.signed(test["difference"])
            numbers = ["–" if test[key] is None else test[key] for key in ("t", "p", "p_holm")]
            rows.append([*head, change, *numbers, test["n"], test["verdict"]])
    columns = ["Metric", "Against", "Mean difference", "t", "p", "p after Holm", "Splits", "Result"]
    caption = "Every difference from the reference, and how it was tested"
    return Table(caption, [", ".join(sweep["keys"]), *columns], rows, folded=True)
