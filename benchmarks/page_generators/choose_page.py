"""The measured part of docs/choose-a-method.md: planted worlds, cost and effect of each method."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.page_generators import fronts_section, planted_section
from benchmarks.page_generators.faias_page import ATTRIBUTES
from benchmarks.page_generators.markdown_lines import shorten
from benchmarks.studies.judged_proxies import TREE_FAMILIES
from benchmarks.studies.method_fronts import Paired, interval, paired, signed
from benchmarks.summaries import standard_error

BEGIN = "<!-- measured: made by `python -m benchmarks.page_generators.benchmark_pages`, do not edit below -->"
END = "<!-- measured: end -->"

TABLES = ("Adult", "German", "COMPAS", "Bank")


@dataclass(frozen=True)
class Change:
    """A metric without a method and with it, both over the same splits."""

    name: str
    before: tuple[float, ...]  # a number a split
    after: tuple[float, ...]
    more_is_better: bool

    @property
    def paired(self) -> Paired:
        """The paired difference, with the method less without."""
        return paired(self.after, self.before)

    @property
    def is_better(self) -> bool:
        """Whether it is better, beyond the interval of the paired differences."""
        return self.paired.is_distinct and (self.paired.difference > 0) == self.more_is_better

    @property
    def is_worse(self) -> bool:
        """Whether it is worse, beyond that interval."""
        return self.paired.is_distinct and not self.is_better

    def text(self) -> str:
        """Means without and with the method and the interval of their difference, in brackets if
        it includes 0.
        """
        means = f"{statistics.fmean(self.before):.3f} → {statistics.fmean(self.after):.3f}"
        text = f"{self.name} {means}, {interval(self.paired)}"
        if self.is_worse:
            return f"**worse:** {text}"
        return text if self.paired.is_distinct else f"({text})"


@dataclass(frozen=True)
class Effect:
    """Cost and effects of a method on one table."""

    cost: Change
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Choice:
    """A method, the plain model that it is compared with, and its effects by table."""

    method: str
    baseline: str
    effects: Mapping[str, Effect]


# ------------------------------------------------------------------------------------- reading the
# results


def group_rates(
    table: str, runs: Sequence[Mapping[str, Any]], baseline: Sequence[Mapping[str, Any]]
) -> Effect:
    """Balanced accuracy, and the differences in selection rates and in errors."""

    def over_splits(found: Sequence[Mapping[str, Any]], metric: str) -> tuple[float, ...]:
        name = metric if metric in found[0] else f"{metric}.{ATTRIBUTES[table]}"
        return tuple(run[name] for run in found)

    def change(name: str, metric: str, more_is_better: bool) -> Change:
        return Change(
            name, over_splits(baseline, metric), over_splits(runs, metric), more_is_better
        )

    return Effect(
        change("balanced accuracy", "balanced_accuracy", True),
        (
            change("selection rates", "demographic_parity_difference", False),
            change("odds", "average_odds_difference", False),
        ),
    )


def selector(faias: Mapping[str, Any]) -> Choice:
    """FAIAS beside its network without the sensitive columns."""
    runs = {table: found for table, found in faias["changes"]["result"].items() if len(found) > 1}
    titles = {table.lower(): table for table in TABLES}
    effects = {
        titles[table]: group_rates(
            table, *([run[family] for run in found] for family in ("faias", "blind"))
        )
        for table, found in runs.items()
    }
    return Choice("faias", "its network, blind", effects)


# ------------------------------------------------------------------------------------------------
# the text

QUESTIONS = {
    "faias": "No effect of the sensitive feature; a ranking of the features that reveal it.",
}


def _link(method: str) -> str:
    return f"[`{method}`]({method}.md)"


def effect_list(choices: Iterable[Choice]) -> str:
    """What each method is for, and the fairness metrics of its baseline and of it by table."""
    lines = []
    for choice in choices:
        lines.append(f"- {_link(choice.method)}: {QUESTIONS[choice.method]}")
        for table, effect in choice.effects.items():
            changes = ", ".join(change.text() for change in (effect.cost, *effect.changes))
            splits = len(effect.cost.before)
            lines.append(f"    - {table} ({splits} splits): {changes}")
    return "\n".join(lines) + "\n"


def asking(dadi: Mapping[str, Any]) -> str:
    """The agents that ask, beside the same features of everybody and all features."""
    lines = [
        """\
## Measured: which features to ask for

[`dadi`](dadi.md) is for data that is still to be collected: it chooses for each person which features to ask for.
The table compares it with one set of features for everybody, which was chosen on the same people within the same
limit of the adversary, and with all features but the attribute. *Adversary* is the AUC with which the answers predict sex
(Adult) or age (Bank, German); on the test people it may be above the limit that the choice kept on others, and then the
AUC is bought with it. All figures are means over the seeds; in brackets the paired difference of the set or of all
features from `dadi`, ± its standard error. Of Bank the seeds are 3 to 5, as the candidates were changed after
the first three; on seed 5 the chosen agent asked nothing of the people of the choice, and 13 features of the test people.

| table | features | seeds | features asked | AUC | adversary |
|---|---|---|---|---|---|"""
    ]
    names = {
        "agent": "`dadi`",
        "everybody": "one set for everybody",
        "blind": "all but the attribute",
    }
    for job, runs in dadi["judged"]["result"].items():
        if not runs:
            continue
        for key, name in names.items():
            asked = statistics.fmean(run[key]["asked"] for run in runs)
            auc = _beside([run[key]["own"] for run in runs], [run["agent"]["own"] for run in runs])
            adversary = _beside(
                [run[key]["adversary"][0] for run in runs],
                [run["agent"]["adversary"][0] for run in runs],
            )
            table = job.partition("-")[0].title()
            lines.append(f"| {table} | {name} | {len(runs)} | {asked:.1f} | {auc} | {adversary} |")
    return "\n".join(lines) + "\n"


def _beside(values: Sequence[float], others: Sequence[float]) -> str:
    """A mean, and its paired difference from others with the standard error; the mean alone of
    the others themselves.
    """
    text = f"{statistics.fmean(values):.3f}"
    if list(values) == list(others):
        return text
    difference = paired(values, others)
    return f"{text} ({signed(difference.difference)} ± {difference.error:.3f})"


def balancing(proxies: Mapping[str, Any]) -> str:
    """Proxies: the share of rows kept, and their balance, by the protocol."""
    lines = [
        """\
## Measured: a balanced sample

A [balancing proxy](proxies.md) filters rows instead of changing a model; the filter reads no group. It costs rows,
and a model that is trained on the kept rows loses AUC compared with one of a random sample of equal size. α limits the
disclosivity on training rows. *With support*: at least .6 of the people are kept with a probability of more than a
tenth of the mean. All figures are means over ten splits, those of imbalance and lost AUC ± their standard errors, on
people that neither the proxy nor the [choice of its
settings](benchmarks/proxies.md#settings-chosen-on-other-people) had seen.

| table | method | α | rows kept | imbalance | the smallest group grows | disclosivity | AUC lost |
|---|---|---|---|---|---|---|---|"""
    ]
    for table, limits in proxies["result"].items():
        for alpha, found in limits.items():
            runs = found["seeds"]
            for family in TREE_FAMILIES:
                rows = [run[family] for run in runs]
                before = statistics.fmean(run["no filter"]["imbalance"] for run in runs)
                after = [row["imbalance"] for row in rows]
                lost = [row["auc_random"] - row["auc"] for row in rows]
                kept, growth, revealed = (
                    statistics.fmean(row[name] for row in rows)
                    for name in ("kept", "smallest_growth", "disclosivity")
                )
                lines.append(
                    f"| {table.title()} | `{family}` | {alpha} | {100 * kept:.1f}% "
                    f"| {before:.3f} → {_with_error(after)} | {growth:.1f} times | {revealed:.3f} "
                    f"| {_with_error(lost)} |"
                )
    return "\n".join(lines) + "\n"


def _with_error(values: Sequence[float]) -> str:
    """A mean and its standard error."""
    return f"{statistics.fmean(values):.3f} ± {standard_error(values):.3f}"


def measured(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Text between the markers; `results` are by the names of their files."""
    text = "\n".join(
        [
            planted_section.section(results["planted_worlds"]),
            planted_section.tables_section(results["real_tables"]),
            fronts_section.section(results["fronts"]),
            FAIAS,
            effect_list([selector(results["faias"])]),
            asking(results["dadi"]),
            balancing(results["proxies_judged"]),
        ]
    )
    return shorten(text)


FAIAS = """\
## Measured effect of FAIAS

Its network without the sensitive columns → `faias`, with short trainings and settings chosen on other people.
"Selection rates" is the demographic parity difference, "odds" the average odds difference
([metrics](reference/metrics.md)), by sex on German and COMPAS. Each with the paired difference and half of its 95 % interval
over the splits; in brackets where that includes 0.
"""


def write(page: Path, results: Mapping[str, Mapping[str, Any]]) -> None:
    """Replace the part of the page between its markers.

    Raises
    ------
    ValueError
        If the page lacks a marker.
    """
    text = page.read_text(encoding="utf-8")
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page.name} lacks the line {END if begin else BEGIN!r}: put it back")
    text = f"{head}{BEGIN}\n\n{measured(results)}\n{END}{tail}"
    page.write_text(text, encoding="utf-8")
