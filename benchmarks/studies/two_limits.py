"""What thresholds for crossed groups add where `evenhand tune` has limits on two attributes.

    python -m benchmarks.studies.two_limits [--splits N] [--tables T ...]

Each table is divided at random several times. The default logistic regression, with and without the
sensitive columns, is judged on folds of the training rows, as a search judges it, under its balanced
threshold and under thresholds by group of each attribute and of the crossed attributes, at all
tolerances. The best trial that keeps both limits with a chance of .9 is chosen, or else the nearest,
once among all trials, once among those without crossed groups, and once among those without any
thresholds by group. They are trained on all training rows and measured on the test rows. A split that has a result is not repeated.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.common import log, provenance, read_result, rounded, write_result
from benchmarks.studies.tuned_limits import OBJECTIVE, Judged, judged_on, parts_of, rows_of_plan
from evenhand.fairlib.execution import generator
from evenhand.fairlib.tuning.study import CONFIDENCE, best, nearest, standings
from evenhand.flows.commands.init_command import init
from evenhand.flows.tune_plan import TunePlan, make_plan
from evenhand.flows.tune_search import Rows
from evenhand.flows.tune_space import LEAVE_OUT
from evenhand.tasks.execution.dataset import Dataset
from evenhand.tasks.tuning.trial_search import DEFAULT, Candidate

NAME = "two_limits"
COMMAND = "python -m benchmarks.studies.two_limits"
METHOD = "logistic"
FOLDS = 5
LIMIT = 0.1


class Table(NamedTuple):
    """A job, or the rows that `init` gets, and the two attributes whose largest gaps are limited."""

    attributes: tuple[str, str]
    job: str | None = None
    read: Callable[[], pd.DataFrame] | None = None


def two_biases() -> pd.DataFrame:
    """Return made-up people of whom a score is biased by sex, and another one by region."""
    rng = generator(0, "two biases")
    n = 12_000
    sex = rng.integers(0, 2, n)
    region = rng.choice(3, n, p=(0.5, 0.35, 0.15))
    skill = rng.normal(size=n)
    test_score = skill + 0.9 * sex + 0.6 * rng.normal(size=n)
    handicap = np.array([0.0, 0.8, 1.2])
    interview = skill - handicap[region] + 0.6 * rng.normal(size=n)
    merit = skill + 0.5 * sex - 0.4 * (region > 0) + 0.7 * rng.normal(size=n)
    return pd.DataFrame(
        {
            "test_score": test_score.round(3),
            "interview": interview.round(3),
            "sex": np.array(["f", "m"])[sex],
            "region": np.array(["north", "south", "east"])[region],
            "hired": np.where(merit > 0.3, "yes", "no"),
        }
    )


TABLES = {
    "two biases": Table(("sex", "region"), read=two_biases),
    "adult": Table(("sex", "race"), job="adult-gbdt"),
    "compas": Table(("sex", "race"), job="compas-gbdt"),
}
# The trials that are chosen from, by the attributes of their thresholds: none is plain and blind
# with one threshold for all.
NONE, ONE, CROSSED = "none", "one attribute", "crossed too"
POOLS = (NONE, ONE, CROSSED)


def main() -> None:
    """Divide and measure every table, and write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=list(TABLES))
    options = parser.parse_args()
    rows: list[dict[str, Any]] = list(read_result(NAME).get("rows", []))
    for table in options.tables:
        finished = {row["split"] for row in rows if row["table"] == table}
        missing = [split for split in range(options.splits) if split not in finished]
        if not missing:
            continue
        with tempfile.TemporaryDirectory() as folder:
            plan, search_rows, whole = prepared(TABLES[table], Path(folder))
            for split in missing:
                log(table, split)
                for row in chosen_of(plan, search_rows, whole, split):
                    rows.append({"table": table, "split": split, **row})
                content = {"rows": rounded(rows), "limit": LIMIT, "confidence": CONFIDENCE}
                write_result(NAME, content | provenance(COMMAND))


def prepared(table: Table, folder: Path) -> tuple[TunePlan, Rows, Dataset]:
    """Return the checked search of a table, its rows, and training and test rows as one table."""
    job = table.job
    if table.read is not None:
        job = _initialised(table.read(), table.attributes, folder)
    assert job is not None, "a table has a job or rows"
    limits = ", ".join(f'"gap_max.{name} <= {LIMIT}"' for name in table.attributes)
    overrides = [
        f"tune.maximize=[{OBJECTIVE}]",
        f"tune.where=[{limits}]",
        f"tune.methods=[{METHOD}]",
        f"tune.folds={FOLDS}",
        "evaluate.counterfactuals={}",
        # the chances do not depend on their number
        "evaluate.draws=20",
    ]
    plan = make_plan(job, overrides, force=True)
    return plan, *rows_of_plan(plan, folder)


def _initialised(people: pd.DataFrame, attributes: Sequence[str], folder: Path) -> str:
    """Write the job that `init` makes of a table; return its path."""
    table = folder / "people.csv"
    people.to_csv(table, index=False)
    with contextlib.redirect_stdout(sys.stderr):
        init(
            str(table), "hired", list(attributes), positive="yes", favourable=None, identifier=None,
            name="people", method="gbdt", folder=folder, force=True, use_sensitive=True, sql=None,
            connection=None, as_json=False, text=None, terms=None, encoding=None, decimal=None,
            dates=None, ignore=None, sheet=None, join_spellings=False,
        )  # fmt: skip
    return str(folder / "people.yaml")


def chosen_of(plan: TunePlan, rows: Rows, whole: Dataset, split: int) -> list[dict[str, Any]]:
    """Return the choices of one random split, on validation and on test rows."""
    train, test = parts_of(whole, split)
    space = plan.methods[METHOD]
    defaults = {name: item.default for name, item in space.items()}
    candidates = [Candidate(DEFAULT, METHOD, defaults)]
    if LEAVE_OUT in space:
        attributes = tuple(column.name for column in plan.resolved.contract.sensitive)
        candidates.append(Candidate(DEFAULT, METHOD, {**defaults, LEAVE_OUT: attributes}))
    judged: list[Judged] = []
    for model, candidate in enumerate(candidates):
        judged += judged_on(plan, rows, candidate, train, test, model, split)
    choices = []
    for name in POOLS:
        pool = [item for item in judged if _takes_part(item.trial.decision, name)]
        choices.append({"thresholds": name, **_choice(plan, pool)})
    return choices


def _takes_part(decision: str, pool: str) -> bool:
    """Whether a rule of decisions is among those of a pool."""
    if "&" in decision:
        return pool == CROSSED
    if " by " in decision:
        return pool != NONE
    return True


def _choice(plan: TunePlan, pool: Sequence[Judged]) -> dict[str, Any]:
    """Return the best trial of a pool, or the nearest, and what it is on the test rows."""
    trials = [item.trial for item in pool]
    aim = replace(plan.aim, confidence=CONFIDENCE)
    chosen = best(aim, trials)
    is_within = chosen is not None
    if chosen is None:
        chosen = nearest(aim, trials)
    assert chosen is not None, "every trial may win"
    test = next(item.test for item in pool if item.trial.number == chosen.number)
    gaps = [test[limit.metric].value for limit in aim.limits]
    return {
        "within": is_within,
        "decision": chosen.decision,
        "chance": min(row.chance or 0.0 for row in standings(aim, chosen.metrics)),
        "test_gap": max(gaps),
        "kept": max(gaps) <= LIMIT,
        "accuracy": test[OBJECTIVE].value,
    }


HEAD = """\
## Limits on two attributes

Whether a search finds a model that keeps two limits: the largest gap in error rates by either attribute at most {limit:g}. The default
logistic regression, with and without the sensitive columns, is judged as a search judges it, on random divisions of each table; the
best trial is chosen that keeps both limits with a chance of {confidence:g}, or else the nearest. Thresholds by group are none (the
controls plain and blind), those of one attribute, or those of the crossed attributes too. The table "two biases" is made up: one score is biased by sex, the other by region.

- Within: divisions with a trial that keeps both limits with that chance. Chance: mean of the smaller one of the chosen trial's chances.
- Kept: divisions in which the test rows keep both limits. Gap: mean of the larger one of both gaps on the test rows.
"""


def sections(content: Mapping[str, Any], provenance_text: Callable[[Any], str]) -> list[str]:
    """The table of how often two limits are kept; nothing without results."""
    if not content:
        return []
    head = HEAD.format(limit=content["limit"], confidence=content["confidence"])
    columns = ["table", "thresholds", "divisions", "within", "chance", "kept", "gap"]
    columns.append("balanced accuracy")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    rows = content["rows"]
    for table in dict.fromkeys(row["table"] for row in rows):
        for name in POOLS:
            chosen = [row for row in rows if (row["table"], row["thresholds"]) == (table, name)]

            def mean(key: str, of: Sequence[Mapping[str, Any]] = chosen) -> float:
                return float(np.mean([row[key] for row in of]))

            within = sum(row["within"] for row in chosen)
            kept = sum(row["kept"] for row in chosen)
            cells = [table, name, str(len(chosen)), str(within), f"{mean('chance'):.2f}"]
            cells += [str(kept), f"{mean('test_gap'):.3f}", f"{mean('accuracy'):.4f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return [head, provenance_text(content), *lines, ""]


if __name__ == "__main__":
    main()
