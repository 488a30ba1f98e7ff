"""The part of docs/choose-a-method.md on equal balanced accuracy and fronts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.studies.judged_methods import CASES
from benchmarks.studies.method_fronts import Paired, interval, paired_of
from evenhand.fairlib.catalogue import better

INTRO = """\
## Measured at equal balanced accuracy

Each method compared with *blind*, the same learner without the sensitive columns: where it is no better, no method is
needed. For each metric the candidate and the threshold were chosen on other people, among those with the balanced
accuracy of *blind* at its best threshold, less .01 (tolerance .005), and then measured on test people. *Better by* and
*worse by*: the 95 % interval of the paired differences over the seeds excludes 0; the other differences are in
brackets. *Accuracy*: the mean difference from *blind* of the balanced accuracy on the test people, of the points that were
chosen by each metric; far below 0 the comparison is not at equal accuracy. Degenerate models (on the test people, best
balanced accuracy below .52, or probabilities of a standard deviation below .02, as those of very small learning rates)
are counted, and not averaged. German has 200 test rows. Thresholds by group and the methods that train with groups use
sex on Adult, age on German and race on COMPAS. [All figures](benchmarks/operating-point.md).

What to keep in mind:

- *Thresholds by group* are fitted on the people by whom they are chosen, so on the test people they are less accurate
  than there, and there are fewer of them than thresholds of the others: they miss the level more often.
- The trees of `reweigh`, `project` and `budro` have settings of their own, not those of *plain* and *blind*.
- Columns that predict the attribute are left out in [planted worlds](#what-decides-whether-the-metric-finds-the-proxy-features)
  and on [real tables](#on-real-and-generated-tables), not here; networks have no reweighing here.
- The candidates of German trees were changed after the first three seeds had been seen. These are left out, but their
  test people are about half of those of each later seed.
"""

FRONTS = """\
## Measured as fronts

Difference from *blind* of the area below the front of balanced accuracy and a metric, over all candidates and
thresholds, with half of its 95 % interval (1 is perfect). First the consistency of the table's first counterfactual, then
the largest gap (`gap_max`) by the attribute that methods with groups use. Bold: the interval excludes 0. Seeds on which
all models of a method are degenerate have no area. Candidates are chosen on other people, but the front of the chosen ones is
drawn on the test people: that favours methods with several candidates (*blind* has one) by up to about .01. Last, the
CPU seconds of a training on each table.
"""

QUESTIONS = {
    "plain": "No mitigation: the sensitive columns are used.",
    "thresholds by group": "Equal error rates, by a threshold for each group after training.",
    "budro": "The same prediction for comparable people, with trees.",
    "project": "The same prediction for comparable people, with features that do not reveal the attribute "
    "linearly.",
    "sensei": "The same prediction for comparable people, with a network and a chosen loss of accuracy.",
    "sensr": "The same prediction for comparable people, with a network trained on its worst case.",
    "clp": "The same prediction for listed copies only.",
    "reweigh": "Similar group rates, with trees and without tuning.",
    "reweigh-logistic": "Similar group rates, with an interpretable model.",
    "adversarial-debiasing": "A linear output that does not predict the group, given the label.",
    "exponentiated-gradient": "A limit on one rate difference in training, with linear models.",
}
PAGES = {
    "plain": "methods",
    "project": "methods",
    "reweigh": "methods",
    "thresholds by group": "decisions",
    "budro": "budro",
    "sensei": "sensei",
    "sensr": "sensr",
    "clp": "clp",
}


@dataclass(frozen=True)
class Measured:
    """One metric of a method on one table, compared with blind."""

    metric: str
    result: Paired

    @property
    def is_better(self) -> bool:
        """Whether it is better than blind beyond the interval."""
        return self.result.is_distinct and self._is_good

    @property
    def is_worse(self) -> bool:
        """Whether it is worse than blind beyond the interval."""
        return self.result.is_distinct and not self._is_good

    @property
    def _is_good(self) -> bool:
        return (self.result.difference > 0) == (better(self.metric) == "higher")

    def text(self) -> str:
        """The metric with its difference in words."""
        size = f"{abs(self.result.difference):.3f}"
        if not self.result.is_distinct:
            return f"({self.metric} {interval(self.result)})"
        verdict = "better by" if self._is_good else "**worse by**"
        return f"{self.metric} {verdict} {size} ± {self.result.half:.3f}"


def link(method: str) -> str:
    """Return a link to the page of a method."""
    return f"[`{method}`]({PAGES.get(method, 'comparators')}.md)"


def cases_of(fronts: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    """Yield method, table, learner and case, methods in the order of the questions."""
    for method in QUESTIONS:
        for name, case in fronts["cases"].items():
            table, _, learner = name.partition(", ")
            if method in case["families"]:
                yield method, table, learner, case


def shown_metrics(case: Mapping[str, Any]) -> list[int]:
    """Return the numbers of the consistencies and of the largest gaps."""
    numbers = []
    for number, metric in enumerate(case["metrics"]):
        if metric.partition(".")[0] in ("consistency", "gap_max"):
            numbers.append(number)
    return numbers


def at_equal_accuracy(method: str, case: Mapping[str, Any]) -> list[Measured]:
    """Return the metrics of a method that reaches the level on some seed."""
    equal = case["families"][method]["equal"]
    return [
        Measured(case["metrics"][number], paired_of(equal, number))
        for number in shown_metrics(case)
        if equal["seeds"][number]
    ]


def equal_list(fronts: Mapping[str, Any]) -> list[str]:
    """Return what each method is for, and its differences by table."""
    lines: list[str] = []
    last = ""
    for method, table, learner, case in cases_of(fronts):
        if method != last:
            lines.append(f"- {link(method)}: {QUESTIONS[method]}")
            last = method
        metrics = at_equal_accuracy(method, case)
        words = ", ".join(metric.text() for metric in metrics)
        seeds = _seeds(metrics, case)
        if metrics:
            words += f"; {accuracy_words(method, case)}"
        degenerate = case["families"][method]["degenerate"]
        if degenerate:
            words = f"{words}; {degenerate} degenerate models" if words else ""
        lines.append(f"    - {table}, {learner} ({seeds}): {words or 'not reached'}")
    return [*lines, ""]


def accuracy_words(method: str, case: Mapping[str, Any]) -> str:
    """Return the range of the accuracies on test people, less those of blind."""
    equal = case["families"][method]["equal"]
    found = [equal["accuracy"][number] for number in shown_metrics(case) if equal["seeds"][number]]
    least, most = (f"{value:+.3f}".replace("-", "−") for value in (min(found), max(found)))
    return f"accuracy {least}" if least == most else f"accuracy {least} to {most}"


def _seeds(metrics: list[Measured], case: Mapping[str, Any]) -> str:
    reached = max((metric.result.seeds for metric in metrics), default=0)
    if reached == case["seeds"]:
        return f"{reached} seeds" if reached != 1 else "1 seed"
    return f"reached on {reached} of {case['seeds']} seeds"


def front_table(fronts: Mapping[str, Any]) -> list[str]:
    """Return the differences of areas by method, table and learner."""
    lines = [
        "| method | table | seeds | consistency | gap | CPU seconds |",
        "|---|---|---|---|---|---|",
    ]
    for method, table, learner, case in cases_of(fronts):
        name = f"{table}, {learner}"
        areas = case["families"][method]["area"]
        gap = case["metrics"].index(f"gap_max.{CASES[name].attribute}")
        texts = []
        for number in (0, gap):
            result = paired_of(areas, number)
            text = interval(result) if result.seeds else "degenerate"
            texts.append(f"**{text}**" if result.seeds and result.is_distinct else text)
        counted = sorted({areas["seeds"][number] for number in (0, gap)})
        seeds = " and ".join(map(str, counted))
        if counted != [case["seeds"]]:
            seeds = f"{seeds} of {case['seeds']}"
        seconds = case["families"][method]["seconds"]
        lines.append(f"| {link(method)} | {name} | {seeds} | {' | '.join(texts)} | {seconds:.1f} |")
    return [*lines, ""]


def without_help(fronts: Mapping[str, Any]) -> list[str]:
    """Return where no metric is better than blind at equal balanced accuracy."""
    lines = [
        "## Where a method did not help\n",
        "At equal balanced accuracy, no consistency and no largest gap is better than that of *blind* beyond",
        "the 95 % interval:\n",
    ]
    for method, table, learner, case in cases_of(fronts):
        metrics = at_equal_accuracy(method, case)
        if method == "plain" or case["seeds"] < 2 or any(item.is_better for item in metrics):
            continue
        worse = ", ".join(item.metric for item in metrics if item.is_worse)
        suffix = f"; worse: {worse}" if worse else ""
        lines.append(f"- `{method}` on {table}, {learner}{suffix}")
    return [*lines, ""]


def open_cases(fronts: Mapping[str, Any]) -> list[str]:
    """Return which tables and learners are not measured yet."""
    missing = [name for name in CASES if name not in fronts["cases"]]
    if not missing:
        return []
    return [
        f"Not measured by this protocol yet: {'; '.join(missing)}. The earlier rows of each are on",
        "[the page of all figures](benchmarks/operating-point.md).\n",
    ]


def section(fronts: Mapping[str, Any]) -> str:
    """Return the part of the page; `fronts` is the summary of the study."""
    lines = [
        INTRO,
        *open_cases(fronts),
        *equal_list(fronts),
        FRONTS,
        *front_table(fronts),
        *without_help(fronts),
    ]
    return "\n".join(lines)
