"""Whether limits that `evenhand tune` keeps on validation rows are kept on test rows.

    python -m benchmarks.studies.tuned_limits [--splits N] [--tables T ...]

Each table is divided at random many times. Logistic regressions with and without the sensitive
columns, with the default penalty and random ones, are judged on folds of the training rows, as a
search judges them, under their balanced threshold and thresholds by group at all tolerances. The
best trial is chosen once by the chance of .9 that unseen rows keep the limit, and once by the value
alone. Both are trained on all training rows and measured on the test rows.

Random divisions of one small table are no independent evidence: training rows that happen to have a
small gap leave test rows with a large one. So some tables are small ones that are drawn from a
large table, none of whose rows is in two of them. A split that has a result is not repeated.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common import log, provenance, read_result, rounded, write_result
from benchmarks.summaries import by_column
from evenhand.fairlib.arrays import Bool, Int
from evenhand.fairlib.evaluation.evaluate import evaluate
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.execution import derive_seed, generator
from evenhand.fairlib.methods.row_groups import fold_of_rows
from evenhand.fairlib.tuning.study import BY_VALUE, Aim, Trial, best, nearest
from evenhand.flows.engine import DirectEngine, Steps
from evenhand.flows.run import prepare
from evenhand.flows.tune_alternatives import (
    UTILITY_CONFIDENCE,
    Alternative,
    NoWorse,
    against_champion,
    better_alternatives,
    held_alternative,
)
from evenhand.flows.tune_plan import TunePlan, make_plan
from evenhand.flows.tune_search import Rows, judging
from evenhand.flows.tune_space import LEAVE_OUT
from evenhand.tasks.classifier_training import HeldOut
from evenhand.tasks.execution.dataset import Dataset, read_dataset
from evenhand.tasks.execution.step import StepContext
from evenhand.tasks.execution.store import Store
from evenhand.tasks.tuning.folds import cells_of
from evenhand.tasks.tuning.judge import (
    Predictions,
    cross_decided,
    decided,
    measured,
    predictions,
)
from evenhand.tasks.tuning.trial_search import DEFAULT, Candidate, random_candidate

NAME = "tuned_limits"
COMMAND = "python -m benchmarks.studies.tuned_limits"
OBJECTIVE = "balanced_accuracy"


class Judged(NamedTuple):
    """A trial, its decisions about the training rows, their labels, and its metrics on test rows."""

    trial: Trial
    decisions: Bool
    labels: Int
    test: Mapping[str, Any]


class Table(NamedTuple):
    """A table of the study, or a large one from which small tables are drawn."""

    job: str
    settings: tuple[str, ...]
    attribute: str  # whose largest gap is limited
    limits: tuple[float, ...]
    rows: int | None = None  # of a small table; None: the whole table each time


TABLES = {
    "hiring": Table("hiring-gbdt", (), "gender", (0.1, 0.15)),
    "loans": Table("loans-gbdt", ("table.rows=6000",), "group", (0.1, 0.15)),
    "german": Table("german-gbdt", (), "age", (0.1, 0.15)),
    "compas": Table("compas-gbdt", (), "sex", (0.1, 0.15)),
    "adult": Table("adult-gbdt", (), "sex", (0.05, 0.1)),
    "adult, 1,000 rows": Table("adult-gbdt", (), "sex", (0.1, 0.15), 1000),
    "adult, 4,000 rows": Table("adult-gbdt", (), "sex", (0.05, 0.1), 4000),
    "bank, 1,000 rows": Table("bank-gbdt", (), "age", (0.15, 0.2), 1000),
    "hiring, 1,000 rows": Table("hiring-gbdt", ("table.rows=45000",), "gender", (0.1, 0.15), 1000),
    "loans, 1,000 rows": Table("loans-gbdt", ("table.rows=45000",), "group", (0.1, 0.15), 1000),
}
RANDOM_MODELS = 3
# By how much an alternative may be worse.
TOLERANCES = (0.005, 0.02)
FOLDS = 5
# A choice with fewer splits is not shown.
LEAST_SPLITS = 5
METHOD = "logistic"
TEST_SHARE = 0.3
# By name: the confidence that a choice asks for; None is the default, which falls back.
CHOICES: Mapping[str, float | None] = {"chance .9": 0.9, "default": None, "value": 0.5}


def main() -> None:
    """Divide and measure every table, and write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--seconds", type=float, default=float("inf"), help="CPU time, at most")
    options = parser.parse_args()
    stored = read_result(NAME)
    rows: list[dict[str, Any]] = list(stored.get("rows", []))
    alternatives: list[dict[str, Any]] = list(stored.get("alternatives", []))
    for table in options.tables:
        finished = {row["split"] for row in rows if row["table"] == table}
        missing = [split for split in range(options.splits) if split not in finished]
        for of_split, of_alternatives in study_table(table, missing):
            rows += of_split
            alternatives += of_alternatives
            content = {"rows": by_column(rounded(rows)), "notes": NOTES}
            content["summary"] = rounded(summary_of(rows))
            content["alternatives"] = by_column(rounded(alternatives))
            content["utility"] = rounded(utility_of(alternatives))
            write_result(NAME, content | provenance(COMMAND))
            if time.process_time() > options.seconds:
                return
    for line in summary_of(rows):
        log(line)


NOTES = (
    "kept: share of splits in which the test rows keep the limit; cost: balanced accuracy of the "
    "choice by the value less that of this choice, on the same test rows"
)


def study_table(
    table: str, splits: Sequence[int]
) -> Iterator[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """Choose and measure on random splits of one table; give the results by limit and choice, and
    those of alternatives.
    """
    if not splits:
        return
    job, settings, attribute, values, size = TABLES[table]
    metric = f"gap_max.{attribute}"
    with tempfile.TemporaryDirectory() as folder:
        plan, rows, whole = prepared(job, settings, metric, values, Path(folder))
        for split in splits:
            pools = split_results(plan, rows, drawn_table(whole, size, split), split)
            results = []
            for value in values:
                for row in choices_of(plan, pools, metric, value):
                    results.append({"table": table, "split": split, "limit": value, **row})
            log(table, split)
            alternatives = alternatives_of(pools, metric, plan.resolved.contract.label)
            for row in alternatives:
                row |= {"table": table, "split": split}
            yield results, alternatives


def drawn_table(whole: Dataset, rows: int | None, number: int) -> Dataset:
    """Return the small table of this number, whose rows no other has; or the whole table."""
    if rows is None:
        return whole
    order = generator(0, "small tables").permutation(len(whole.y))
    chosen = order[number * rows : (number + 1) * rows]
    if len(chosen) < rows:
        raise ValueError(f"there are {len(order) // rows} tables of {rows} rows: use fewer splits.")
    return whole.take(np.sort(chosen))


def prepared(
    job: str, settings: Sequence[str], metric: str, values: Sequence[float], folder: Path
) -> tuple[TunePlan, Rows, Dataset]:
    """Return the checked search of a job, its rows, and training and test rows as one table."""
    where = ", ".join(f'"{metric} <= {value}"' for value in values)
    overrides = [
        *settings,
        f"tune.where=[{where}]",
        f"tune.methods=[{METHOD}]",
        f"split.test={TEST_SHARE}",
        f"tune.folds={FOLDS}",
        "evaluate.counterfactuals={}",
        # the chances do not depend on their number
        "evaluate.draws=20",
        # each limit has the tolerances that are shares of it
        f"tune.space.tolerance={tolerances(values)}",
    ]
    plan = make_plan(job, overrides, force=True)
    return plan, *rows_of_plan(plan, folder)


def rows_of_plan(plan: TunePlan, folder: Path) -> tuple[Rows, Dataset]:
    """Return the rows of a search, and training and test rows as one table."""
    store = Store(str(folder / "store"))
    steps = Steps(store, DirectEngine(store))
    prepare(plan.resolved, steps)
    rows = Rows.read(plan, steps)
    train = read_dataset(store.fetch(rows.train))
    test = read_dataset(store.fetch(steps.output("preprocess", "test")))
    return rows, train.with_rows_of(test)


def tolerances(values: Sequence[float]) -> list[float]:
    """Return the shares of all limits that a search tries."""
    shares = (0.2, 0.4, 0.55, 0.7, 0.85, 1.0)
    return sorted({round(share * value, 4) for share in shares for value in values})


def split_results(plan: TunePlan, rows: Rows, whole: Dataset, split: int) -> list[Judged]:
    """Return the trials of a random split, and the metrics of each on its test rows."""
    train, test = parts_of(whole, split)
    pools = []
    for model, candidate in enumerate(candidates_of(plan, rows)):
        pools += judged_on(plan, rows, candidate, train, test, model, split)
    return pools


def parts_of(whole: Dataset, split: int) -> tuple[Dataset, Dataset]:
    """Return the training rows and the test rows of a random split."""
    part = fold_of_rows(cells_of(whole), 10, derive_seed(split, "limits"), whole.people)
    is_test = part < round(10 * TEST_SHARE)
    return whole.take(np.flatnonzero(~is_test)), whole.take(np.flatnonzero(is_test))


def candidates_of(plan: TunePlan, rows: Rows) -> list[Candidate]:
    """Return the models of a search: the default with and without the sensitive columns, and random
    settings.
    """
    space = plan.methods[METHOD]
    defaults = {name: item.default for name, item in space.items()}
    candidates = [Candidate(DEFAULT, METHOD, defaults)]
    hidden = space.get(LEAVE_OUT)
    if hidden is not None:
        for columns in hidden.values:  # type: ignore[union-attr]
            if columns:
                candidates.append(Candidate(DEFAULT, METHOD, {**defaults, LEAVE_OUT: columns}))
    for place in range(RANDOM_MODELS):
        candidates.append(replace(random_candidate(rows.plan, place), kind=DEFAULT))
    return candidates


def judged_on(
    plan: TunePlan,
    rows: Rows,
    candidate: Candidate,
    train: Dataset,
    test: Dataset,
    model: int,
    split: int,
) -> list[Judged]:
    """Judge a model on folds of the training rows, and measure it on the test rows, by rule."""
    parameters, _ = judging(plan, rows, candidate, plan.rules, part=1)
    context = StepContext(parameters, {}, Path(), lambda *_: None)
    # the same folds for all models, as in a search
    fold = fold_of_rows(cells_of(train), rows.folds, derive_seed(split, "tune"), train.people)
    parts = []
    order = []
    for number in range(rows.folds):
        trained = np.flatnonzero(fold != number)
        held = np.flatnonzero(fold == number)
        parts.append(predictions(context, train.take(trained), train.take(held)))
        order.append(held)
    judged_rows = train.take(np.concatenate(order))
    of_folds = Predictions.concatenate(parts)
    on_folds = cross_decided(parameters, judged_rows, of_folds, np.sort(fold))
    validation = measured(parameters, judged_rows, on_folds)
    of_test = predictions(context, train, test, as_run=True)
    everybody = np.arange(len(judged_rows.y))
    held_out = HeldOut(everybody, judged_rows.y, of_folds.answers.score[0], of_folds.shift)
    nobody_divided = np.zeros(len(test.y), np.int64)
    on_test = decided(parameters, judged_rows, test, of_test, nobody_divided, [held_out])
    results = []
    for place, content in enumerate(validation):
        decisions = on_test[place]
        by_folds = on_folds[place]
        if "metrics" not in content or isinstance(decisions, str) or isinstance(by_folds, str):
            continue
        rule = plan.rules[place]
        trial = Trial(
            model,
            DEFAULT,
            "judged",
            rule=place,
            method=METHOD,
            decision=rule.decision,
            tolerance=rule.tolerance,
            metrics=content["metrics"],
        )
        sensitive = {name: values.astype(str) for name, values in test.sensitive.items()}
        outcomes = Outcomes(test.y, decisions.predicted, decisions.score, sensitive)
        metrics = evaluate(outcomes, draws=0).metrics
        results.append(Judged(trial, by_folds.predicted == 1, judged_rows.y, metrics))
    return results


def choices_of(
    plan: TunePlan,
    pools: Sequence[Judged],
    metric: str,
    value: float,
) -> list[dict[str, Any]]:
    """Return what each choice is within one limit, on validation and on test rows."""
    limits = tuple(limit for limit in plan.aim.limits if limit.value == value)
    trials = [item.trial for item in pools]
    of_trial = {item.trial.number: item.test for item in pools}
    rows = []
    for name, confidence in CHOICES.items():
        aim = replace(plan.aim, objectives=(OBJECTIVE,), limits=limits, confidence=confidence)
        chosen = best(aim, trials)
        is_within = chosen is not None
        chosen = chosen or nearest(aim, trials)
        assert chosen is not None
        test = of_trial[chosen.number]
        rows.append(
            {
                "choice": name,
                "within": is_within,
                "chance": Aim.chance(aim, limits[0], chosen.metrics),
                "validation_gap": chosen.metrics[metric]["value"],
                "test_gap": test[metric].value,
                # too few people of the test rows may be comparable
                "kept": None if test[metric].value is None else test[metric].value <= value,
                "accuracy": test[OBJECTIVE].value,
            }
        )
    return rows


def alternatives_of(pools: Sequence[Judged], metric: str, label: Any) -> list[dict[str, Any]]:
    """Return whether alternatives to the first model under its first rule keep its balanced
    accuracy on test rows: the best one by the values, and the best one by the chance of .9.
    """
    champion = pools[0]
    trials = [item.trial for item in pools]
    trials[0] = replace(champion.trial, kind="job")
    by_number = {item.trial.number: item for item in pools}
    rows = []
    for by in TOLERANCES:
        alternative = Alternative("", "", (NoWorse(OBJECTIVE, by),))
        aim = against_champion(
            Aim((metric,), (alternative.no_worse[0].widest,), BY_VALUE),
            alternative,
            champion.trial.metrics,
        )
        candidates = better_alternatives(aim, trials, 1)
        held = held_alternative(
            alternative,
            candidates,
            lambda trial: by_number[trial.number].decisions,
            champion.decisions,
            champion.labels,
            level=UTILITY_CONFIDENCE,
            unseen=TEST_SHARE / (1 - TEST_SHARE),
            favourable=label.favourable_code,
            seed=0,
        )
        choices: dict[str, Trial | None] = {"value": None, "chance .9": None}
        if candidates:
            choices["value"] = candidates[0]
        if held is not None:
            choices["chance .9"] = held.trial
        for choice, trial in choices.items():
            row: dict[str, Any] = {"by": by, "choice": choice, "kept": None, "gap": None}
            if trial is not None:
                test = by_number[trial.number].test
                change = test[OBJECTIVE].value - champion.test[OBJECTIVE].value
                row["kept"] = bool(change >= -by)
                row["gap"] = (
                    champion.trial.metrics[metric]["value"] - trial.metrics[metric]["value"]
                )
            rows.append(row)
    return rows


def utility_of(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return by tolerance and choice how many alternatives keep the utility on test rows."""
    lines = []
    for table in dict.fromkeys(row["table"] for row in rows):
        for by in TOLERANCES:
            for choice in ("value", "chance .9"):
                chosen = []
                for row in rows:
                    if (row["table"], row["by"], row["choice"]) == (table, by, choice):
                        chosen.append(row)
                kept = [row["kept"] for row in chosen if row["kept"] is not None]
                gaps = [row["gap"] for row in chosen if row["gap"] is not None]
                line = {"table": table, "by": by, "choice": choice, "searches": len(chosen)}
                line |= {"alternatives": len(kept), "kept": None, "gap": None}
                if kept:
                    line["kept"] = float(np.mean(kept))
                    line["gap"] = float(np.mean(gaps))
                lines.append(line)
    return lines


def summary_of(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return by table and choice how often limits are kept, and what that costs."""
    lines = []
    for table in dict.fromkeys(row["table"] for row in rows):
        of_table = [row for row in rows if row["table"] == table]
        by_value = {}
        for row in of_table:
            if row["choice"] == "value":
                by_value[row["split"], row["limit"]] = row["accuracy"]
        for choice in CHOICES:
            chosen = []
            for row in of_table:
                if row["choice"] == choice and row["test_gap"] is not None:
                    chosen.append(row)
            if len({row["split"] for row in chosen}) < LEAST_SPLITS:
                continue
            cost = [by_value[row["split"], row["limit"]] - row["accuracy"] for row in chosen]
            certain = [row["kept"] for row in chosen if row["within"]]
            kept_share = None
            if certain:
                kept_share = float(np.mean(certain))
            lines.append(
                {
                    "table": table,
                    "choice": choice,
                    "answers": len(chosen),
                    "within": len(certain),
                    "stated": float(np.mean([row["chance"] for row in chosen])),
                    "kept_of_within": kept_share,
                    "kept": float(np.mean([row["kept"] for row in chosen])),
                    **kept_less_stated(chosen),
                    "cost": float(np.mean(cost)),
                }
            )
    return lines


def kept_less_stated(rows: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Return by how much the kept share is above the stated chances, and its standard error.

    The limits of a split share its rows, so they count as one.
    """
    differences: dict[int, list[float]] = {}
    for row in rows:
        differences.setdefault(row["split"], []).append(row["kept"] - row["chance"])
    means = [float(np.mean(values)) for values in differences.values()]
    error = None
    if len(means) > 1:
        error = float(np.std(means, ddof=1) / np.sqrt(len(means)))
    return {"difference": float(np.mean(means)), "error": error}


HEAD = """\
## Limits on unseen rows

Whether limits on the largest gap in error rates are kept on test rows, where a search chose by the chance of .9,
by its default (.9, or else the next lower chance that a trial reaches), or by the value of the validation rows. Each
table is divided at random, 30 % of the rows for the test; logistic regressions with and without the sensitive columns,
with the default and random penalties, are judged on folds of the other rows under all tolerances of thresholds by
group. Tables "of 1,000 rows" and the like are drawn from the large table, none of whose rows is in two of them: they are
independent evidence. Divisions of one small table are not: where its training rows happen to have a small gap, its
test rows have a large one.

- Answers: those whose metric has a value on the test rows; where too few people are comparable there, it has none.
  Choices with fewer than five splits are not shown.
- Within: answers that keep the limit with the confidence; the others are compromises. Held: share of these whose test
  rows keep the limit.
- Stated: mean of the chances that are stated of all answers. Kept: share of all answers whose test rows keep the limit.
- Kept less stated: the mean difference and its standard error over the splits. Stated chances are too high where it is
  below zero by more than two of these.
- Cost: balanced accuracy of the choice by the value less that of this choice, on the same test rows.
"""


def sections(content: Mapping[str, Any], provenance: Callable[[Any], str]) -> list[str]:
    """The table of how often limits are kept; nothing without results."""
    if not content:
        return []
    heads = ["table", "chosen by", "answers", "within", "held", "stated", "kept"]
    heads += ["kept less stated", "cost"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in content["summary"]:
        held = "none"
        if row["kept_of_within"] is not None:
            held = f"{100 * row['kept_of_within']:.0f}%"
        difference = f"{row['difference']:+.2f}"
        if row["error"] is not None:
            difference += f" ± {row['error']:.2f}"
        cells = [
            row["table"],
            row["choice"],
            str(row["answers"]),
            str(row["within"]),
            held,
            f"{row['stated']:.2f}",
            f"{row['kept']:.2f}",
            difference,
            f"{row['cost']:.3f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    total = _total_line(content["summary"])
    return [
        HEAD,
        provenance(content),
        *lines,
        total,
        UTILITY_HEAD,
        *_utility_lines(content["utility"]),
    ]


def _total_line(summary: Sequence[Mapping[str, Any]]) -> str:
    """Say how many answers with a chance of .9 keep their limit, on all tables together."""
    within = 0
    kept = 0.0
    for row in summary:
        if row["choice"] == "chance .9" and row["within"]:
            within += row["within"]
            kept += row["within"] * row["kept_of_within"]
    return f"\nOf {within} answers within by the chance of .9, {kept:.0f} keep their limit on the test rows."


UTILITY_HEAD = """
### Alternatives on unseen rows

Whether less discriminatory alternatives to the default logistic regression, found in the same trials, are no worse on
the test rows than the tolerance allows: the alternative with the smallest gap by the values of the folds, and the one
that is no worse with a chance of .9, which `tune --alternative-to` writes.

- Alternatives: searches that have one. Kept: of these, those whose balanced accuracy on the test rows is no worse.
- Gap: by how much the alternative's largest gap in error rates is smaller on the folds, on average.
"""


def _utility_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The table of alternatives that keep their utility."""
    heads = ["table", "tolerance", "chosen by", "searches", "alternatives", "kept", "gap"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in rows:
        cells = [row["table"], f"{row['by']:g}", row["choice"], str(row["searches"])]
        cells += [str(row["alternatives"]), "none", ""]
        if row["kept"] is not None:
            cells[-2:] = [f"{100 * row['kept']:.0f}%", f"{row['gap']:.3f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    main()
