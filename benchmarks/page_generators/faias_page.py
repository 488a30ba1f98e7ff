"""The part of docs/benchmarks.md on FAIAS and the group-fairness comparators, and its pictures."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import picture
from benchmarks.page_generators.panels import bar_panels
from benchmarks.summaries import standard_error
from evenhand.fairlib.evaluation.comparison import holm
from tests.oracles.resampled_comparison import corrected_t_test

PERFORMANCE, FAIRNESS = "faias-performance.svg", "faias-fairness.svg"
REFERENCE = "logistic"
NAMES = {"german": "German, by sex", "compas": "COMPAS, by sex", "bank": "Bank, by age group"}
ATTRIBUTES = {"german": "sex", "compas": "sex", "bank": "age_group"}
# name, title, whether more is better
METRICS = (
    ("accuracy", "accuracy", True),
    ("balanced_accuracy", "balanced accuracy", True),
    ("equal_opportunity_difference", "equal opportunity difference", False),
    ("average_odds_difference", "average odds difference (AIF360)", False),
    ("balanced_accuracy_difference", "balanced accuracy difference (paper)", False),
    ("theil_index", "Theil index", False),
)
TEST_OVER_TRAIN = 0.25
SIGNIFICANCE = 0.05
AIF360_NOTE = (
    "The rows marked AIF360 are that library's own methods with a logistic regression, on the same "
    "splits "
    "(`benchmarks/peers/aif360_logistic.py`). They are no methods of Evenhand. Both need each "
    "person's group "
    "to predict, and the remover repairs the test rows as one table.\n"
)

BLIND_NOTE = (
    "The blind rows are the learners without the sensitive columns, on the same splits: logistic "
    "regression "
    "is that of `reweigh-logistic`, `exponentiated-gradient` and thresholds by group, trees are "
    "that of "
    "`reweigh`, and `nn` is a network for `adversarial-debiasing`, all with their defaults.\n"
)

Runs = Sequence[Mapping[str, Any]]


def sections(found: Mapping[str, Any], provenance: Callable[[dict[str, Any]], str]) -> list[str]:
    """Text of the parts that were measured."""
    makers: dict[str, Callable[[Any], str]] = {
        "changes": changes,
        "stand_ins": stand_ins,
        "planted": planted,
        "gradient": gradient,
        "speed": speed,
    }
    present = [name for name in makers if name in found]
    parts = (
        ["## FAIAS and the comparators of group fairness\n"] if "tables" in found or present else []
    )
    if "tables" in found:
        parts += [wrapped(tables(every_method(found))), provenance(found["tables"])]
    if "blind" in found:
        parts += [wrapped(BLIND_NOTE), provenance(found["blind"])]
    if "aif360" in found:
        parts += [wrapped(AIF360_NOTE), provenance(found["aif360"])]
    for name in present:
        parts += [wrapped(makers[name](found[name]["result"])), provenance(found[name])]
    return parts


def every_method(found: Mapping[str, Any]) -> dict[str, dict[str, Runs]]:
    """Runs of the blind controls, our methods and AIF360's on each table, by method."""
    blind, others = (found.get(part, {"result": {}})["result"] for part in ("blind", "aif360"))
    return {
        table: {**blind.get(table, {}), **own, **others.get(table, {})}
        for table, own in found["tables"]["result"].items()
    }


def wrapped(text: str) -> str:
    """Wrap paragraphs at 120 characters; tables, pictures and titles are unchanged."""
    lines = [
        line
        if line[:1] in "|!#" or len(line) <= 120
        else textwrap.fill(line, 120, break_long_words=False)
        for line in text.split("\n")
    ]
    return "\n".join(lines)


def write(found: Mapping[str, Any], folder: Path) -> None:
    """Draw what was measured."""
    if "tables" in found:
        # those of another library would need more colours than there are
        result = every_method({name: part for name, part in found.items() if name != "aif360"})
        (folder / PERFORMANCE).write_text(draw(result, METRICS[:2], "Accuracy of our methods"))
        (folder / FAIRNESS).write_text(
            draw(result, METRICS[2:], "Group differences of our methods")
        )


def values(runs: Runs, table: str, metric: str) -> list[float]:
    """A metric of one method on every split; differences are by the table's attribute."""
    name = values_name(metric, table)
    return [run[name] for run in runs]


def values_name(metric: str, table: str) -> str:
    """The key of a metric in a run on a table."""
    if metric.endswith("difference"):
        return f"{metric}.{ATTRIBUTES[table]}"
    return metric


def _ordered(methods: Mapping[str, Runs]) -> list[str]:
    """The reference first."""
    return sorted(methods, key=lambda name: name != REFERENCE)


# -----------------------------------------------------------------------------------------------
# the text


def tables(result: Mapping[str, Mapping[str, Runs]]) -> str:
    """Every method on every table; significant differences from the reference are marked."""
    some = next(iter(result.values()))
    splits = len(next(iter(some.values())))
    lines = [
        "### Three tables\n",
        f"{splits} splits, 20% for testing. Methods "
        "that tune or stop early use a quarter of the other rows for it; the others train on all "
        "of them "
        "(the logistic baseline has more rows than in the paper). Nothing was chosen: all methods "
        "have their "
        "defaults. "
        "Mean ± standard deviation; ↑ and ↓: significantly higher or "
        "lower than the logistic regression (corrected resampled t-test, Holm over the methods, "
        "5%).\n",
        f"![Accuracy and balanced accuracy of our methods on three tables]({PERFORMANCE})\n",
        f"![Group differences and Theil index of our methods on three tables]({FAIRNESS})\n",
    ]
    for table, methods in result.items():
        lines += [
            f"**{NAMES[table]}**\n",
            "| method | " + " | ".join(name for _, name, _ in METRICS) + " |",
        ]
        lines.append("|---" * (len(METRICS) + 1) + "|")
        marks = {name: _marks(methods, table, name) for name, _, _ in METRICS}
        for method in _ordered(methods):
            runs, cells = methods[method], []
            for name, _, _ in METRICS:
                found = values(runs, table, name)
                cells.append(
                    f"{statistics.fmean(found):.3f} ± "
                    f"{statistics.stdev(found):.3f}{marks[name][method]}"
                )
            lines.append(f"| {method} | " + " | ".join(cells) + " |")
        lines.append("")
    lines.append(
        "On German about 40 of the test rows are women with good credit: chance alone gives "
        "absolute "
        "differences of .05 there.\n"
    )
    return "\n".join(lines)


def _marks(methods: Mapping[str, Runs], table: str, metric: str) -> dict[str, str]:
    others = [name for name in methods if name != REFERENCE]
    tests = [
        corrected_t_test(
            values(methods[name], table, metric),
            values(methods[REFERENCE], table, metric),
            ratio=TEST_OVER_TRAIN,
        )
        for name in others
    ]
    found = {REFERENCE: ""}
    for name, test, p in zip(others, tests, holm([test.p for test in tests]), strict=True):
        sure = p is not None and p < SIGNIFICANCE and test.difference is not None
        found[name] = (" ↑" if (test.difference or 0) > 0 else " ↓") if sure else ""
    return found


def changes(result: Mapping[str, Runs]) -> str:
    """The paper's method and changes of it compared with the blind network."""
    lines = [
        "### Variants of FAIAS compared with the blind network\n",
        "Short trainings: all networks of a table have the same layers and epochs. Settings are "
        "chosen by "
        "`benchmarks/protocol.py` with another seed, in two folds of its training people who are "
        "not judged: "
        "of a family's candidates (two weights of the sensitivity loss or of the penalty, four "
        "tolerances of "
        "the thresholds) the one with the least average odds difference at an accuracy at most .01 "
        "below "
        "blind's. So a choice was made once for every judged seed. Mean over the seeds, and in "
        "brackets the "
        "mean difference from blind ± its standard error.\n",
    ]
    for table, runs in result.items():
        lines += [f"**{NAMES[table]}** ({len(runs)} {'seed' if len(runs) == 1 else 'seeds'})\n"]
        names = (
            "accuracy",
            "balanced_accuracy",
            "equal_opportunity_difference",
            "average_odds_difference",
        )
        lines += beside_blind(runs, names)
    return "\n".join(lines)


def stand_ins(result: Mapping[str, Runs]) -> str:
    """Generated tables with proxy features."""
    lines = [
        "### Proxy features on generated tables\n",
        "2,000 people; the label is unfair to one group, and four merits are independent of the "
        "group. "
        "The proxy features are copies of the sensitive column with a share of the values flipped. Settings "
        "are "
        "chosen in two folds of the training people: the least demographic parity difference at an "
        "accuracy "
        "at most .07 below blind's, because the unfair labels cannot be met without the proxy features. "
        "Measured "
        "on 10,000 new people; fair labels are those without the unfairness. In brackets the mean "
        "difference "
        "from blind ± its standard error.\n",
    ]
    names = ("accuracy", "accuracy_on_fair_labels", "demographic_parity_difference")
    for case, runs in result.items():
        lines += [
            f"**{case}** ({len(runs)} {'table' if len(runs) == 1 else 'tables'})\n",
            *beside_blind(runs, names),
        ]
    return "\n".join(lines)


def beside_blind(runs: Runs, names: Sequence[str]) -> list[str]:
    """A row per family of settings that was measured in every run."""
    return comparison_table(compared_with_blind(runs, names), names, len(runs))


def compared_with_blind(runs: Runs, names: Sequence[str]) -> dict[str, dict[str, list[float]]]:
    """Of every family and metric the mean over the runs, its standard deviation, the mean
    difference from blind, and the standard error of that.

    The two controls come first. A family that some runs lack is left out.
    """
    shared = [name for name in runs[0] if all(name in run for run in runs)]
    methods = [name for name in shared if name not in ("plain", "blind")]
    rows: dict[str, dict[str, list[float]]] = {}
    for family in ["plain", "blind", *methods]:
        row: dict[str, list[float]] = {"mean": [], "deviation": [], "difference": [], "error": []}
        for name in names:
            numbers = [run[family][name] for run in runs]
            apart = [run[family][name] - run["blind"][name] for run in runs]
            row["mean"].append(statistics.fmean(numbers))
            row["deviation"].append(statistics.stdev(numbers) if len(runs) > 1 else 0.0)
            row["difference"].append(statistics.fmean(apart))
            row["error"].append(standard_error(apart))
        rows[family] = row
    return rows


def comparison_table(
    rows: Mapping[str, Mapping[str, Sequence[float]]], names: Sequence[str], runs: int
) -> list[str]:
    """A row a family: means, and in brackets the mean differences from blind."""
    head = " | ".join(name.replace("_", " ") for name in names)
    lines = [f"| method | {head} |", "|---" * (len(names) + 1) + "|"]
    for family, row in rows.items():
        cells = []
        numbers = zip(row["mean"], row["difference"], row["error"], strict=True)
        for mean, difference, error in numbers:
            cell = f"{mean:.3f}"
            if family != "blind":
                spread = f" ± {error:.3f}" if runs > 1 else ""
                cell += f" ({difference:+.3f}{spread})"
            cells.append(cell)
        lines.append(f"| {family} | {' | '.join(cells)} |")
    return [*lines, ""]


def planted(result: Mapping[str, Any]) -> str:
    """Selection on data with planted copies of the sensitive feature."""
    lines = [
        "### Planted proxy features\n",
        "2,000 people; feature 1 is sensitive, 2 and 3 are copies of it with a tenth flipped, 4 to "
        "6 are "
        "independent, and the label depends on 1, 4, 5 and 6. Mean final selection probability "
        "over ten "
        "seeds (initially 0.5), and the number of seeds in which both copies end below all "
        "independent "
        "features.\n",
        "| selector's gradient | 2 | 3 | 4 | 5 | 6 | in order |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, found in result.items():
        if name == "parameters":
            continue
        means = [statistics.fmean(column) for column in zip(*found["probabilities"], strict=True)]
        cells = " | ".join(f"{value:.2f}" for value in means)
        lines.append(
            f"| {name.replace('_', ' ')} | {cells} | {found['ordered']} of "
            f"{len(found['probabilities'])} |"
        )
    return "\n".join(lines) + "\n"


def gradient(result: Mapping[str, Any]) -> str:
    """Bias and spread of the estimators."""
    lines = [
        "### The selector's gradient\n",
        "Ten features, mini-batches of 64 people; relative to the length of the exact gradient, by "
        "enumeration of 1,024 selections. The bias is known up to the last column.\n",
        "| estimator | bias | standard deviation | error of the bias |",
        "|---|---|---|---|",
    ]
    keys = ("relative_bias", "relative_standard_deviation", "sampling_error_of_bias")
    for name, found in result.items():
        cells = " | ".join(f"{found[key]:.3f}" for key in keys)
        lines.append(f"| {name.replace('_', ' ')} | {cells} |")
    return "\n".join(lines) + "\n"


def speed(result: Mapping[str, Any]) -> str:
    """Time of a training on Bank."""
    fetch = result["fetch_an_epoch_seconds"]
    each = ", ".join(f"{seconds:.0f}" for seconds in result["seconds"])
    return (
        f"### Speed\n\n**{result['epochs']} epochs on Bank in {result['median_seconds']:.0f} s** "
        "on one core "
        f"(median of {each}): {result['rows']:,} rows of {result['features']} columns, a quarter "
        "of which "
        "judges every epoch over 32 selections. The rows stay in memory and are shuffled by index: "
        "to fetch "
        f"an epoch takes {fetch['index'] * 1000:.0f} ms, with a loader that collects row by row "
        f"{fetch['loader'] * 1000:.0f} ms.\n"
    )


# --------------------------------------------------------------------------------------------- the
# pictures


def draw(
    result: Mapping[str, Mapping[str, Runs]], metrics: Sequence[tuple[str, str, bool]], title: str
) -> str:
    """Bars with standard deviations: a row per metric, a column per table, a bar per method."""
    rows = []
    for metric, called, _ in metrics:
        for table, by_method in result.items():
            for method in _ordered(by_method):
                found = values(by_method[method], table, metric)
                mean, deviation = statistics.fmean(found), statistics.stdev(found)
                ends = {"value": mean, "low": max(mean - deviation, 0.0), "high": mean + deviation}
                rows.append({"row": called, "column": NAMES[table], "series": method, **ends})
    described = "Bars are means over the splits, lines one standard deviation to either side."
    return picture(bar_panels(rows, width=980), title, described)
