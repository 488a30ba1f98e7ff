"""The measured part of docs/choose-a-method.md: cost and effect of each method."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.dadi_page import over_folds
from benchmarks.faias_page import ATTRIBUTES

BEGIN = "<!-- measured: made by `python -m benchmarks.page`, do not edit below -->"
END = "<!-- measured: end -->"

TABLES = ("Adult", "German", "COMPAS", "Bank")
KNOWN = ("auc", "disparity")
Summary = tuple[float, float]  # mean and standard deviation over the splits
Row = Mapping[str, Summary]


@dataclass(frozen=True)
class Change:
    """A metric without a method and with it, both over the same splits."""

    name: str
    before: Summary
    after: Summary
    more_is_better: bool

    @property
    def difference(self) -> float:
        """Mean with the method less mean without."""
        return self.after[0] - self.before[0]

    @property
    def exceeds_spread(self) -> bool:
        """Whether it is more than the larger of the two standard deviations over the splits."""
        return abs(self.difference) > max(self.before[1], self.after[1])

    @property
    def is_better(self) -> bool:
        """Whether it is better by more than the spread of the splits."""
        return self.exceeds_spread and (self.difference > 0) == self.more_is_better

    @property
    def is_worse(self) -> bool:
        """Whether it is worse by more than the spread of the splits."""
        return self.exceeds_spread and not self.is_better

    def cost(self) -> str:
        """The difference alone, in brackets if it is within the spread."""
        text = f"{self.difference:+.3f}".replace("-", "−")
        return text if self.exceeds_spread else f"({text})"

    def text(self) -> str:
        """Values without and with the method, in brackets if the difference is within the spread."""
        text = f"{self.name} {self.before[0]:.3f} → {self.after[0]:.3f}"
        if self.is_worse:
            return f"**worse:** {text}"
        return text if self.exceeds_spread else f"({text})"


@dataclass(frozen=True)
class Effect:
    """Cost and effects of a method on one table."""

    cost: Change
    changes: tuple[Change, ...]

    @property
    def helps(self) -> bool:
        """Whether anything improved by more than the spread of the splits."""
        return any(change.is_better for change in self.changes)


@dataclass(frozen=True)
class Choice:
    """A method, the plain model that it is compared with, and its effects by table."""

    method: str
    baseline: str
    effects: Mapping[str, Effect]


# ------------------------------------------------------------------------------------- reading the results


def comparable_treatment(row: Row, baseline: Row) -> Effect:
    """Balanced accuracy (accuracy if a paper prints only that), the smallest consistency and every gap."""
    shared = [name for name in baseline if name in row]
    performance = "balanced_accuracy" if "balanced_accuracy" in shared else "accuracy"
    consistencies = [name for name in shared if name.startswith("consistency.")]

    def least(found: Row) -> Summary:
        return min((found[name] for name in consistencies), key=lambda summary: summary[0])

    gaps = [
        Change(f"gap by {name.partition('.')[2]}", baseline[name], row[name], False)
        for name in sorted(shared)
        if name.startswith("gap_max.")
    ]
    return Effect(
        Change(performance.replace("_", " "), baseline[performance], row[performance], True),
        (Change("consistency", least(baseline), least(row), True), *gaps),
    )


def group_rates(
    table: str, runs: Sequence[Mapping[str, Any]], baseline: Sequence[Mapping[str, Any]]
) -> Effect:
    """Balanced accuracy, and the differences in selection rates and in errors."""

    def over_splits(found: Sequence[Mapping[str, Any]], metric: str) -> Summary:
        numbers = [run[metric] for run in found]
        return statistics.fmean(numbers), statistics.stdev(numbers)

    def change(name: str, metric: str, more_is_better: bool) -> Change:
        return Change(name, over_splits(baseline, metric), over_splits(runs, metric), more_is_better)

    attribute = ATTRIBUTES[table]
    return Effect(
        change("balanced accuracy", "balanced_accuracy", True),
        (
            change("selection rates", f"demographic_parity_difference.{attribute}", False),
            change("odds", f"average_odds_difference.{attribute}", False),
        ),
    )


def trees(tables: Mapping[str, Any], budro: Mapping[str, Any]) -> list[Choice]:
    """Boosted trees against plain boosting."""
    rows = {name: row["ours"] for name, row in tables["rows"].items()}
    rows |= {name: row["ours"] for name, row in budro["rows"]["result"].items()}
    return [_choice(method, "gbdt", rows) for method in ("budro", "project", "reweigh")]


def networks(sensei: Mapping[str, Any]) -> list[Choice]:
    """Networks against the plain one."""
    rows = {name: row["ours"] for name, row in sensei["rows"]["result"].items()}
    return [_choice(method, "nn", rows) for method in ("sensei", "sensr", "clp")]


def _choice(method: str, baseline: str, rows: Mapping[str, Row]) -> Choice:
    effects = {}
    for table in TABLES:
        own, plain = f"{table.lower()}-{method}", f"{table.lower()}-{baseline}"
        if own in rows and plain in rows:
            effects[table] = comparable_treatment(rows[own], rows[plain])
    return Choice(method, baseline, effects)


def comparators(faias: Mapping[str, Any]) -> list[Choice]:
    """Methods that equalise group rates, against logistic regression."""
    found = faias["tables"]["result"]
    titles = {table.lower(): table for table in TABLES}
    methods = [
        name for name in found["german"] if name not in ("logistic", "reweigh") and "faias," not in name
    ]
    return [
        Choice(
            method,
            "logistic",
            {
                titles[table]: group_rates(table, runs[method], runs["logistic"])
                for table, runs in found.items()
            },
        )
        for method in sorted(methods, key=lambda name: name != "faias")
    ]


# ------------------------------------------------------------------------------------------------ the text

QUESTIONS = {
    "budro": "The same prediction for comparable people, with trees.",
    "project": "The same, with features that do not reveal the attribute linearly.",
    "sensei": "The same with a network, with a chosen loss of accuracy.",
    "sensr": "The same with a network, trained on its worst case.",
    "clp": "The same prediction for listed copies only.",
    "reweigh": "Similar group rates, with trees and without tuning.",
    "faias": "No effect of the attribute; which features reveal it.",
    "reweigh-logistic": "Similar group rates, with an interpretable model.",
    "adversarial-debiasing": "An output that does not predict the group.",
    "logistic, thresholds by group": "One equal rate, by a threshold for each group after training.",
    "exponentiated-gradient": "A limit on one rate difference in training.",
}
PAGES = {"project": "methods", "reweigh": "methods", "logistic, thresholds by group": "decisions"}
OWN_PAGES = ("budro", "sensei", "sensr", "clp", "faias")


def _link(method: str) -> str:
    page = method if method in OWN_PAGES else PAGES.get(method, "comparators")
    return f"[`{method}`]({page}.md)"


def decision_table(choices: Iterable[Choice]) -> str:
    """Aim, method, cost on each table, and effects."""
    lines = [
        f"| aim | method | instead of | {' | '.join(f'cost, {table}' for table in TABLES)} | effect |",
        f"|---|---|---|{'---|' * len(TABLES)}---|",
    ]
    for choice in choices:
        costs = [choice.effects[table].cost.cost() if table in choice.effects else "" for table in TABLES]
        effects = "<br>".join(
            f"{table}: {', '.join(change.text() for change in effect.changes)}"
            for table, effect in choice.effects.items()
        )
        lines.append(
            f"| {QUESTIONS[choice.method]} | {_link(choice.method)} | `{choice.baseline}` "
            f"| {' | '.join(costs)} | {effects} |"
        )
    return "\n".join(lines) + "\n"


def without_help(choices: Iterable[Choice]) -> str:
    """Tables on which nothing improved, or something became worse."""
    nothing, worse = [], []
    for choice in choices:
        for table, effect in choice.effects.items():
            losses = [change for change in effect.changes if change.is_worse]
            if not effect.helps:
                nothing.append(_item(choice.method, table, effect.changes))
            elif losses:
                worse.append(_item(choice.method, table, losses))
    parts = ["## Where a method did not help\n"]
    if nothing:
        parts += ["No metric of its aim improved by more than the spread of the splits:\n", *nothing, ""]
    if worse:
        parts += ["One metric improved, and these got worse:\n", *worse, ""]
    return "\n".join(parts)


def _item(method: str, table: str, changes: Iterable[Change]) -> str:
    words = ", ".join(f"{item.name} {item.before[0]:.3f} → {item.after[0]:.3f}" for item in changes)
    return textwrap.fill(f"- `{method}` on {table}: {words}.", 120, subsequent_indent="  ")


def weights_note(sensei: Mapping[str, Any], faias: Mapping[str, Any]) -> str:
    """Tables on which class weights or thresholds, and not the method, cause the cost."""
    rows = {name: row["ours"] for name, row in sensei["rows"]["result"].items()}
    plain, invariant = rows["adult-nn"], rows["adult-sensei"]
    bank = faias["tables"]["result"]["bank"]

    def accuracy(method: str) -> float:
        return statistics.fmean(run["accuracy"] for run in bank[method])

    return f"""\
Some differences have other causes than the method:

- Balanced accuracy depends on class weights. On Adult `gbdt`, `nn` and `clp` give the classes equal
  weight, `project`, `reweigh` and `sensei` do not, `budro` and `sensr` in part. From `nn` to `sensei` the
  accuracy changes from {plain["accuracy"][0]:.3f} to {invariant["accuracy"][0]:.3f}.
- `reweigh-logistic` chooses its threshold for balanced accuracy, plain `logistic` takes 0.5. On Bank the
  accuracy of the former is {accuracy("reweigh-logistic"):.3f}, of the latter {accuracy("logistic"):.3f}.
- German has 200 test rows. Differences of some hundredths are within chance there.
"""


def asking(dadi: Mapping[str, Any]) -> str:
    """The agent that asks: three trade-offs, one of them the largest gamma that halves the disparity."""
    result = dadi["curve"]["result"]
    folds, gammas = result["folds"], result["gammas"]
    full = {key: statistics.fmean(fold["full_information"][key] for fold in folds) for key in KNOWN}

    def mean(index: int, key: str) -> float:
        return statistics.fmean(over_folds(result, index, key))

    halved = [i for i in range(len(gammas)) if mean(i, "disparity") <= full["disparity"] / 2]
    lines = [
        f"""\
## Which features to ask for

[`dadi`](dadi.md) is for data that is still to be collected. Adult, means over {len(folds)} folds; disparity
is the difference of the groups' selection rates. The middle row is the largest γ with at most half of it.

| γ | features asked | AUC | disparity |
|---|---|---|---|
| all known | 13 | {full["auc"]:.3f} | {full["disparity"]:.3f} |"""
    ]
    for i in sorted({1, max(halved, default=1), len(gammas) - 1}):
        lines.append(
            f"| {gammas[i]:g} | {mean(i, 'asked'):.1f} | {mean(i, 'auc'):.3f} | {mean(i, 'disparity'):.3f} |"
        )
    return "\n".join(lines) + "\n"


def balancing(proxies: Mapping[str, Any]) -> str:
    """Proxies: the share of rows kept, and their balance."""
    lines = [
        """\
## A balanced sample, without knowing anybody's group

A [proxy](proxies.md) filters rows instead of changing a model; the cost is rows. Means over 20 splits, on
rows that the proxy had not seen, with leaves of at least 300 rows. α limits the disclosivity on training
rows.

| table | method | α | rows kept | imbalance | the smallest group grows | disclosivity |
|---|---|---|---|---|---|---|"""
    ]
    points, curves = proxies["points"]["result"], proxies["curves"]["result"]
    for table, families in points.items():
        unfiltered = next(point for point in curves[table]["held-out"]["points"] if point["knob"] == 0)
        before = unfiltered["test"]["imbalance"][0]
        for point in families["held-out"]:
            test = point["test"]
            lines.append(
                f"| {table.title()} | `{point['method']}` | {point['knob']:g} | {100 * test['kept'][0]:.1f}% "
                f"| {before:.3f} → {test['imbalance'][0]:.3f} | {test['smallest_growth'][0]:.1f} times "
                f"| {test['disclosivity'][0]:.3f} |"
            )
    return "\n".join(lines) + "\n"


def measured(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Text between the markers; `results` are by the names of their files."""
    sensei, faias = results["sensei"], results["faias"]
    boosted, others = trees(results["tables"], results["budro"]), networks(sensei)
    choices = [boosted[0], boosted[1], *others, boosted[2], *comparators(faias)]
    return "\n".join(
        [
            INTRO,
            decision_table(choices),
            weights_note(sensei, faias),
            without_help(choices),
            asking(results["dadi"]),
            balancing(results["proxies"]),
        ]
    )


INTRO = """\
## Cost and effect

Cost: balanced accuracy with the method minus that of the plain model beside it; for trees on COMPAS accuracy,
as the paper prints. Effect: without the method → with it. All values are means over the same splits: 10, and
5 from `faias` on. Brackets mark differences below the standard deviation over the splits.

Consistency is the smallest of the job's counterfactuals, gap is `gap_max`, "selection rates" is the
demographic parity difference, "odds" the average odds difference ([metrics](reference/metrics.md)). `reweigh`
uses sex on Adult and race on COMPAS. German is by age, from `faias` on by sex; Bank is by age group.
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
    page.write_text(f"{head}{BEGIN}\n\n{measured(results)}\n{END}{tail}", encoding="utf-8")
