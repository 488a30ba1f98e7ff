"""Methods at equal balanced accuracy, and as fronts: ``python -m benchmarks.studies.method_fronts``.

For every judged seed each candidate of a family is trained twice: on selection people of another
seed (:mod:`benchmarks.protocol`), to choose with held-out ones, and on the judged seed's people, to
be measured on its test people.

- *Equal balanced accuracy*: for each fairness metric a family hands over the candidate and the
  threshold whose balanced accuracy on the held-out people is within .005 of a level and whose
  metric is best there. The level is that of the baseline without sensitive features at its best
  threshold, less .01.
- *Fronts*: the candidates and thresholds that no other one beats in both on the held-out people are
  measured on the test people; the area is that below their front, from a balanced accuracy of .5.

A model whose best balanced accuracy on the test people is below .52, or whose probabilities have a
standard deviation below .02, is degenerate: it is counted, and not averaged. What is in the file of
results is not run again. A checkout has the means over the seeds alone, to which no seed can be
added: a table that has them is left as it is, and ``--again`` measures it anew.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as students_t

from benchmarks.common import (
    log,
    provenance,
    read_result,
    read_whole,
    rounded,
    write_result,
)
from benchmarks.protocol import choosing_seed, inner_folds, selection_people
from benchmarks.studies.judged_methods import (
    CASES,
    SEEDS,
    Case,
    Predicted,
    Settings,
    Table,
    joined,
    measure,
    rules,
)
from evenhand.fairlib.catalogue import better
from evenhand.fairlib.evaluation.group_thresholds import GroupThresholds
from evenhand.tasks.execution.store import Store

NAME = "fronts"
TOLERANCE = 0.005
BELOW_BEST = 0.01
LEAST_ACCURACY = 0.52
LEAST_SPREAD = 0.02
CHANCE = 0.5
QUANTILES = 100
PERFORMANCE = "balanced_accuracy"
BY_GROUP = "thresholds by group"
BASELINE = "blind"

Point = Mapping[str, float]


@dataclass(frozen=True)
class Operating:
    """A candidate with a threshold: what is measured on held-out people and on test people."""

    candidate: int
    rule: str
    held: Point
    test: Point


# ------------------------------------------------------------------------------------ the choices


def quality(metric: str, value: float) -> float:
    """Return a metric as a number of which more is better: a gap counts as 1 less its value."""
    return value if better(metric) == "higher" else 1.0 - value


def at_level(points: Sequence[Operating], metric: str, level: float) -> Operating | None:
    """Return the point of the best metric among those at a balanced accuracy on held-out people.

    Parameters
    ----------
    points
        Candidates with thresholds.
    metric
        A fairness metric.
    level
        Balanced accuracy; points within ``TOLERANCE`` of it can be chosen.

    Returns
    -------
    Operating or None
        None where no point has this balanced accuracy. Of equal ones the first.
    """
    near = [point for point in points if abs(point.held[PERFORMANCE] - level) <= TOLERANCE + 1e-12]
    if not near:
        return None
    return max(near, key=lambda point: quality(metric, point.held[metric]))


def front(points: Sequence[Point], metric: str) -> list[int]:
    """Return the numbers of the points that no other one beats in accuracy and metric.

    They are in the order of falling balanced accuracy.
    """
    order = sorted(
        range(len(points)),
        key=lambda number: (-points[number][PERFORMANCE], -quality(metric, points[number][metric])),
    )
    reached: list[int] = []
    best = -math.inf
    for number in order:
        value = quality(metric, points[number][metric])
        if value > best:
            reached.append(number)
            best = value
    return reached


def area(points: Sequence[Point], metric: str) -> float:
    """Return the area below a front, as a share: 1 is perfect accuracy and fairness.

    The share of the rectangle between a balanced accuracy of .5 and 1, and a quality of 0 and 1,
    that some point dominates.
    """
    total = 0.0
    start = CHANCE
    for number in reversed(front(points, metric)):
        right = max(points[number][PERFORMANCE], CHANCE)
        if right > start:
            total += (right - start) * quality(metric, points[number][metric])
            start = right
    return total / (1.0 - CHANCE)


def is_degenerate(test_points: Sequence[Point], spread: float) -> bool:
    """Whether a model does not distinguish people at any threshold."""
    best = max(point[PERFORMANCE] for point in test_points)
    return best < LEAST_ACCURACY or spread < LEAST_SPREAD


# --------------------------------------------------------------------------------------- a seed


def thresholds(family: str, held: Predicted, attribute: str) -> Sequence[float | GroupThresholds]:
    """Return what can be chosen: quantiles of the held-out probabilities, or thresholds by group.

    Quantiles suit models whose probabilities are close to each other, too.
    """
    if family == BY_GROUP:
        return rules(family, held, attribute)
    shares = (np.arange(QUANTILES) + 0.5) / QUANTILES
    return sorted({float(value) for value in np.quantile(held.own, shares)})


def operating_points(
    case: Case, family: str, candidate: int, held: Predicted, test: Predicted, seed: int
) -> list[Operating]:
    """Return every threshold of a trained candidate, measured on held-out and on test people."""
    points = []
    for number, rule in enumerate(thresholds(family, held, case.attribute)):
        name = f"{rule:.4g}" if isinstance(rule, float) else f"rule {number}"
        points.append(
            Operating(
                candidate,
                name,
                measure(held, rule, seed)[0],
                measure(test, rule, seed)[0],
            )
        )
    return points


class Seed:
    """The people of one judged seed and of the seed that chooses for it."""

    def __init__(self, store: Store, case: Case, seed: int) -> None:
        self.case = case
        self.seed = seed
        self.judged = Table(store, case, seed)
        self.choosing = Table(store, case, choosing_seed(seed, SEEDS))
        rows = selection_people(self.choosing.train.rows, self.judged.test.rows)
        self.people = self.choosing.train.take(rows)
        self.plain: tuple[Predicted, Predicted] | None = None

    def predictions(self, family: str, settings: Settings) -> tuple[Predicted, Predicted, float]:
        """Train a candidate for both; return held-out and test predictions, and CPU seconds."""
        if family == BY_GROUP:
            assert self.plain is not None
            return (*self.plain, 0.0)
        parts = []
        folds = inner_folds(self.people.y, self.seed)
        for training, out in itertools.islice(folds, self.case.folds):
            model, _ = self.choosing.fit(family, settings, self.people.take(training))
            parts.append(self.choosing.predict(family, model, self.people.take(out)))
        model, seconds = self.judged.fit(family, settings, self.judged.train)
        test = self.judged.predict(family, model, self.judged.test)
        held = joined(parts)
        if family == "plain":
            self.plain = (held, test)
        return held, test, seconds

    def family(self, family: str, candidates: Sequence[Settings]) -> dict[str, Any]:
        """Return the points of all candidates, those that are degenerate, and the seconds."""
        points: list[Operating] = []
        degenerate = []
        seconds = []
        for candidate, settings in enumerate(candidates):
            held, test, spent = self.predictions(family, settings)
            of_candidate = operating_points(self.case, family, candidate, held, test, self.seed)
            spread = float(np.std(test.own))
            if is_degenerate([point.test for point in of_candidate], spread):
                degenerate.append(candidate)
            else:
                points += of_candidate
            seconds.append(spent)
        return {"points": points, "degenerate": degenerate, "seconds": statistics.fmean(seconds)}


def fairness_metrics(point: Point) -> list[str]:
    """Return the names of the fairness metrics of a point."""
    return [
        name for name in point if name.partition(".")[0] in ("consistency", "gap_max", "gap_rms")
    ]


def judged(store: Store, case: Case, seed: int) -> dict[str, Any]:
    """Return by family the test values at equal balanced accuracy, and the areas of the fronts."""
    people = Seed(store, case, seed)
    families = {}
    for family, candidates in case.families.items():
        families[family] = people.family(family, candidates)
        log("  ", family, "degenerate:", families[family]["degenerate"])
    blind = families[BASELINE]["points"]
    level = max(point.held[PERFORMANCE] for point in blind) - BELOW_BEST
    result: dict[str, Any] = {"level": level, "families": {}}
    for family, measured in families.items():
        result["families"][family] = {
            "degenerate": len(measured["degenerate"]),
            "seconds": measured["seconds"],
            **_judged_family(measured["points"], level, case.families[family]),
        }
    return rounded(result, 4)


def _judged_family(
    points: Sequence[Operating], level: float, candidates: Sequence[Settings]
) -> dict[str, Any]:
    equal: dict[str, Any] = {}
    fronts: dict[str, Any] = {}
    if not points:
        return {"equal": equal, "area": fronts}
    for metric in fairness_metrics(points[0].held):
        chosen = at_level(points, metric, level)
        if chosen is not None:
            equal[metric] = {
                "value": chosen.test[metric],
                PERFORMANCE: chosen.test[PERFORMANCE],
                "settings": dict(candidates[chosen.candidate]),
                "threshold": chosen.rule,
            }
        on_front = front([point.held for point in points], metric)
        fronts[metric] = area([points[number].test for number in on_front], metric)
    return {"equal": equal, "area": fronts}


# ---------------------------------------------------------------------------------------- summary


@dataclass(frozen=True)
class Paired:
    """Mean of paired differences and its standard error; the interval is Student's.

    The training people of the seeds overlap, so both are too small.
    """

    seeds: int
    difference: float
    error: float

    @property
    def half(self) -> float:
        """Half of the 95 % interval; infinite of one seed."""
        if self.seeds < 2:
            return math.inf
        return float(students_t.ppf(0.975, self.seeds - 1)) * self.error

    @property
    def is_distinct(self) -> bool:
        """Whether the interval excludes 0."""
        return abs(self.difference) > self.half


def paired(values: Sequence[float], others: Sequence[float]) -> Paired:
    """Return the mean of paired differences and its standard error."""
    differences = [value - reference for value, reference in zip(values, others, strict=True)]
    error = 0.0
    if len(differences) > 1:
        error = statistics.stdev(differences) / math.sqrt(len(differences))
    return Paired(len(differences), statistics.fmean(differences), error)


def summarise(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the means over the seeds of each case and family, one number a metric."""
    cases = {}
    for name, case in content["cases"].items():
        runs = [case["seeds"][seed] for seed in sorted(case["seeds"], key=int)]
        if not runs:
            continue
        families = runs[0]["families"]
        cases[name] = {
            "seeds": len(runs),
            "level": round(statistics.fmean(run["level"] for run in runs), 4),
            "metrics": list(families[BASELINE]["area"]),
            "families": {family: _summary(runs, family) for family in families},
        }
    return {**content, "cases": cases}


def _summary(runs: Sequence[Mapping[str, Any]], family: str) -> dict[str, Any]:
    mine = [run["families"][family] for run in runs]
    blind = [run["families"][BASELINE] for run in runs]
    equal: dict[str, list[float]] = {}
    areas: dict[str, list[float]] = {}
    for metric in blind[0]["area"]:
        both = [
            (own["equal"][metric], other["equal"][metric])
            for own, other in zip(mine, blind, strict=True)
            if metric in own["equal"] and metric in other["equal"]
        ]
        values = [(own["value"], other["value"]) for own, other in both]
        _add(equal, values)
        accuracies = [own[PERFORMANCE] - other[PERFORMANCE] for own, other in both]
        change = statistics.fmean(accuracies) if both else 0.0
        equal.setdefault("accuracy", []).append(change)
        pairs = [
            (own["area"][metric], other["area"][metric])
            for own, other in zip(mine, blind, strict=True)
            if metric in own["area"] and metric in other["area"]
        ]
        _add(areas, pairs)
    summary: dict[str, Any] = {
        "degenerate": sum(item["degenerate"] for item in mine),
        "seconds": statistics.fmean(item["seconds"] for item in mine),
        "equal": equal,
        "area": areas,
    }
    shortened: dict[str, Any] = rounded(summary, 4)
    return shortened


def _add(columns: dict[str, list[float]], pairs: Sequence[tuple[float, float]]) -> None:
    """Add one metric's number of seeds, mean, difference and error; zeros without a seed."""
    mean = 0.0
    result = Paired(0, 0.0, 0.0)
    if pairs:
        mean = statistics.fmean(ours for ours, _ in pairs)
        result = paired([ours for ours, _ in pairs], [theirs for _, theirs in pairs])
    columns.setdefault("seeds", []).append(result.seeds)
    columns.setdefault("mean", []).append(mean)
    columns.setdefault("difference", []).append(result.difference)
    columns.setdefault("error", []).append(result.error)


def paired_of(columns: Mapping[str, Sequence[float]], number: int) -> Paired:
    """Return the paired comparison of the metric with this number."""
    return Paired(
        int(columns["seeds"][number]), columns["difference"][number], columns["error"][number]
    )


# ------------------------------------------------------------------------------------- the page

HEAD = """\
## Each method at equal balanced accuracy, and as fronts

Settings and thresholds by `benchmarks/protocol.py`: every candidate is trained on two thirds of the people of another
seed who are not judged, and predicts the others. For each metric a method hands over the candidate and threshold of the
best metric among those whose balanced accuracy there is within .005 of a level: the best of *blind*, less .01. It is
trained again on the judged seed's people and measured once. *Difference* is that from *blind* ± its standard error,
paired by seed; *accuracy* is the balanced accuracy on the test people, less that of *blind*. *Area*: share of the
rectangle between a balanced accuracy of .5 and 1 and a metric of its worst and best value that lies below the front of
the method's candidates and thresholds. They are chosen on the same held-out people, but the front is drawn on the test
people, which favours methods with several candidates by up to about .01; its difference from *blind* has a 95 %
interval, paired by seed. *Degenerate* models (on the test people, best balanced accuracy below .52, or probabilities of a
standard deviation below .02) are counted, and not averaged. Thresholds by group are fitted on the held-out people by whom
they are chosen, which makes them less accurate on the test people. *Plain* is the learner without mitigation, *blind* the same without the
sensitive columns, *thresholds by group* are those of plain with equal error rates. One seed has no error.
"""


def sections(content: Mapping[str, Any], provenance: Callable[[Any], str]) -> list[str]:
    """Return the text of the page; nothing without results."""
    if not content:
        return []
    parts = [HEAD, provenance(content)]
    for name, case in content["cases"].items():
        parts.append(f"### {name}, equal balanced accuracy\n")
        parts.append(f"{case['seeds']} seeds; level {case['level']:.3f}.\n")
        for number, metric in enumerate(case["metrics"]):
            parts += _table(metric, number, case["families"])
    return parts


def _table(metric: str, number: int, families: Mapping[str, Any]) -> list[str]:
    lines = [
        f"| {metric} | value | difference | accuracy | area | difference of areas | degenerate |",
        "|---|---|---|---|---|---|---|",
    ]
    for family, summary in families.items():
        equal = summary["equal"]
        value = "not reached | |"
        if equal["seeds"][number]:
            value = (
                f"{equal['mean'][number]:.3f} | {_with_error(paired_of(equal, number))} | "
                f"{signed(equal['accuracy'][number])}"
            )
        areas = summary["area"]
        of_front = " | "
        if areas["seeds"][number]:
            of_front = f"{areas['mean'][number]:.3f} | {interval(paired_of(areas, number))}"
        lines.append(f"| {family} | {value} | {of_front} | {summary['degenerate'] or ''} |")
    return [*lines, ""]


def _with_error(result: Paired) -> str:
    if result.seeds < 2:
        return signed(result.difference)
    return f"{signed(result.difference)} ± {result.error:.3f}"


def interval(result: Paired) -> str:
    """Return a difference with half of its 95 % interval, which one seed does not have."""
    if result.seeds < 2:
        return signed(result.difference)
    return f"{signed(result.difference)} ± {result.half:.3f}"


def signed(value: float) -> str:
    """Return a difference with its sign."""
    return f"{value:+.3f}".replace("-", "−")


def cases_to_measure(names: Sequence[str], is_again: bool) -> list[str]:
    """Return the cases whose measured seeds are all there, or that are measured anew.

    Parameters
    ----------
    names : sequence of str
    is_again : bool
        True: also those of which only the means over the seeds are kept.

    Returns
    -------
    list of str
    """
    runs = read_whole(NAME, {"cases": {}})["cases"]
    means = read_result(NAME).get("cases", {})
    cases = []
    for name in names:
        has_means_alone = name in means and not runs.get(name, {}).get("seeds")
        if has_means_alone and not is_again:
            log(
                f"{name}: {means[name]['seeds']} seeds, of which only means are kept: "
                "--again measures them anew"
            )
        else:
            cases.append(name)
    return cases


def main() -> None:
    """Measure what the file of results lacks, seed by seed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--again", action="store_true")
    chosen = parser.parse_args()
    store = Store(os.environ.get("EVENHAND_STORE"))
    cases = cases_to_measure(chosen.cases, chosen.again)
    for seed in range(chosen.seeds):
        for name in cases:
            content = read_whole(NAME, {"cases": {}})
            runs = content["cases"].setdefault(name, {"seeds": {}})["seeds"]
            if seed < CASES[name].first or str(seed) in runs:
                continue
            log(name, seed)
            runs[str(seed)] = judged(store, CASES[name], seed)
            content |= provenance("python -m benchmarks.studies.method_fronts")
            write_result(NAME, content, summarise)


if __name__ == "__main__":
    main()
