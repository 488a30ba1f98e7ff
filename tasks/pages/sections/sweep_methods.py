"""Methods side by side, in a sweep over methods: means, standard deviations and paired tests."""

from __future__ import annotations

from typing import Any

from evenhand.fairlib.catalogue import direction, title
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.fronts.sweep import by_subject, of_axis, plain_metrics, within
from evenhand.tasks.pages.model import Block, Cell, Chart, Charts, Documents, Heading, Json, Section, Table

PAGES = {"sweep": 10}
NEEDS = ("tradeoff",)

MOST_DRAWN = 24
# The smallest mean that three decimals show.
LEAST = 0.001
SHORT = {"not significant": "n.s."}


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
