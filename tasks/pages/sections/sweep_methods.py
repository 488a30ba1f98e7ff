"""Methods side by side, in a sweep over methods: means, standard deviations and paired tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.fairlib.catalogue import direction, spoken, title
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.fronts.sweep import within
from evenhand.tasks.pages.model import Block, Cell, Chart, Charts, Documents, Heading, Json, Section, Table
from evenhand.tasks.pages.sweep_numbers import heads, of_axis, plain_metrics

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
    blocks: list[Block] = [_findings(sweep), _explained(comparison)]
    shown = comparison["values"][:MOST_DRAWN]
    for text, way in (("Performance", "higher"), ("Differences and inequality", "lower")):
        names = [name for name in plain_metrics(comparison["metrics"]) if direction(name) == way]
        if names:
            blocks += [Heading(text), Charts([_chart(sweep, shown, name) for name in names], large=True)]
    left = len(comparison["values"]) - len(shown)
    if left:
        blocks.append(f"The charts show the first values; {left} more are in the tables.")
    blocks += _tables(sweep)
    if comparison["splits"] > 1:
        blocks.append(_tests(sweep))
    return Section("methods", "Methods side by side", blocks)


def _findings(sweep: Json) -> str:
    """What is significantly better or worse than the reference method, and in what."""
    comparison = sweep["comparison"]
    against = f"{comparison['reference']}, the reference"
    if any(len(value["settings"]) > 1 for value in sweep["values"]):
        against += ", at the same values of the other keys"
    if comparison["splits"] < 2:
        return (
            f"One split: no test. The differences from {against}, may come from the split alone; sweep over "
            "several seeds to tell."
        )
    sentences: list[str] = []
    even: list[str] = []
    untested: list[str] = []
    for entry in comparison["values"]:
        if entry["against"] is None:
            continue
        label, verdicts = _label(sweep, entry), {test["verdict"] for test in entry["tests"].values()}
        parts = [
            f"significantly {verdict} in "
            + formats.join([within(n) for n, test in entry["tests"].items() if test["verdict"] == verdict])
            for verdict in ("better", "worse")
            if verdict in verdicts
        ]
        if parts:
            sentences.append(f"{label} is {', and '.join(parts)}.")
        else:
            (even if "not significant" in verdicts else untested).append(label)
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


def _label(sweep: Json, entry: Json) -> str:
    return str(sweep["values"][entry["value"]]["label"])


def _number(sweep: Json, entry: Json, name: str) -> Json:
    found: Json = sweep["values"][entry["value"]]["metrics"][name]
    return found


def _verdict(sweep: Json, entry: Json, name: str) -> str:
    """The verdict of one test; nothing for the reference, and where there is one split."""
    if entry["against"] is None or sweep["comparison"]["splits"] < 2:
        return ""
    verdict = entry["tests"][name]["verdict"]
    return SHORT.get(verdict, verdict)


def _mean_and_sd(found: Json) -> str:
    if found["mean"] is None:
        return "no number"
    mean, sd = found["mean"], found["sd"]
    if sd is None:
        return formats.number(mean)
    # as many decimals in both
    return f"{mean:.3f} ± {sd:.3f}" if mean >= LEAST else f"{formats.number(mean)} ± {formats.number(sd)}"


def _chart(sweep: Json, entries: Sequence[Json], name: str) -> Chart:
    rows, said = [], []
    for entry in entries:
        found, verdict = _number(sweep, entry, name), _verdict(sweep, entry, name)
        mean, sd = found["mean"], found["sd"]
        reference = entry if entry["against"] is None else {"value": entry["against"]}
        note = (
            "the reference" if entry["against"] is None else verdict if verdict in ("n.s.", "no test") else ""
        )
        label = _label(sweep, entry)
        rows.append(
            {
                "label": f"{label} ({note})" if note else label,
                "value": mean,
                "low": None if mean is None or sd is None else mean - sd,
                "high": None if mean is None or sd is None else mean + sd,
                "limit": _number(sweep, reference, name)["mean"],
            }
        )
        said.append(f"{label} {_mean_and_sd(found)}{f' ({verdict})' if verdict else ''}")
    names = {"value": "mean", "limit": "mean of the reference"}
    data = {"rows": rows, "interval": "one standard deviation", "names": names}
    described = f"{'; '.join(said)}. The tables below have every number."
    return Chart(
        "intervals.metric_intervals", data, f"{title(name)}, method by method", described, of_axis(name)
    )


def _tables(sweep: Json) -> list[Table]:
    """Mean and standard deviation of all that is compared, by what it is about."""
    comparison = sweep["comparison"]
    groups: dict[str, list[str]] = {}
    for name in comparison["metrics"]:
        groups.setdefault(name.partition(".")[2], []).append(name)
    spread = " ± standard deviation over the seeds" if comparison["splits"] > 1 else ""
    tables = []
    for about, names in groups.items():
        rows: list[list[Any]] = []
        for entry in comparison["values"]:
            note = ("the reference",) if entry["against"] is None else ()
            cells = [
                Cell(_mean_and_sd(_number(sweep, entry, name)), _under(sweep, entry, name)) for name in names
            ]
            rows.append([Cell(_label(sweep, entry), note), *cells])
        caption = f"{f'By {spoken(about)}' if about else 'Overall'}: mean{spread}"
        tables.append(Table(caption, heads(sweep["keys"], names, about), rows))
    return tables


def _under(sweep: Json, entry: Json, name: str) -> tuple[str, ...]:
    """The test's verdict, and on how many splits where some are missing."""
    verdict, total = _verdict(sweep, entry, name), sweep["comparison"]["splits"]
    if not verdict:
        return ()
    n = entry["tests"][name]["n"]
    return (verdict if n == total else f"{verdict} ({n} of {formats.plural(total, 'split')})",)


def _tests(sweep: Json) -> Table:
    rows: list[list[Any]] = []
    for entry in sweep["comparison"]["values"]:
        for name, test in entry["tests"].items():
            against = sweep["values"][entry["against"]]["label"]
            numbers = [
                "–" if test[key] is None else formats.number(test[key]) for key in ("t", "p", "p_holm")
            ]
            change = "–" if test["difference"] is None else formats.signed(test["difference"])
            rows.append(
                [_label(sweep, entry), title(name), against, change, *numbers, test["n"], test["verdict"]]
            )
    columns = ["Metric", "Against", "Mean difference", "t", "p", "p after Holm", "Splits", "Result"]
    caption = "Every difference from the reference, and how it was tested"
    return Table(caption, [", ".join(sweep["keys"]), *columns], rows, folded=True)
