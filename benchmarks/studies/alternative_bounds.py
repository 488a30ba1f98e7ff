"""Whether the bounds of `evenhand tune --alternative-to` cover what a longer search finds.

    python -m benchmarks.studies.alternative_bounds [--settings N] [--tables T ...] [--draws N]

For each table a pool of independent random settings is judged, as a search judges those of its
stream. Searches are then drawn from the pool's distribution, linear between the values of the pool:
so many settings, and ten times as many for the longer search. The bound on the share of better
settings is right if it is at least the share of the distribution that is better than the best of
the shorter search; also at all of its lengths together. The bound on the gain is right if it is at
least what the longer search gains.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.common import log, provenance, read_result, rounded, write_result
from evenhand.fairlib.arrays import Float
from evenhand.fairlib.execution import generator
from evenhand.fairlib.tuning.budget import Budget
from evenhand.fairlib.tuning.further_search import gain_bound, share_bound
from evenhand.fairlib.tuning.study import Trial
from evenhand.flows.engine import DirectEngine, Steps
from evenhand.flows.run import prepare
from evenhand.flows.tune_alternatives import against_champion, merits_of
from evenhand.flows.tune_plan import make_plan
from evenhand.flows.tune_search import Rows, judge_in
from evenhand.tasks.execution.store import Store
from evenhand.tasks.tuning.trial_search import ALL, JOB, RANDOM, Candidate, random_candidate

NAME = "alternative_bounds"
COMMAND = "python -m benchmarks.studies.alternative_bounds"
# Job, and further settings that make a judgement cheap.
CHEAP = ("tune.folds=2", "evaluate.draws=0", "evaluate.counterfactuals={}", "tune.confidence=0.5")
TABLES: Mapping[str, Sequence[str]] = {
    "german-gbdt": ("method.n_steps=30",),
    "hiring-gbdt": ("method.n_steps=30", "table.rows=3000"),
    "loans-gbdt": ("method.n_steps=30", "table.rows=3000"),
    "compas-gbdt": ("method.n_steps=30",),
}
LENGTHS = (50, 100, 200, 400)
LONGER = 10.0


def main() -> None:
    """Build the pools that are missing, draw searches from them, and write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--settings", type=int, default=300)
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--draws", type=int, default=200)
    options = parser.parse_args()
    earlier = read_result(NAME)
    pools: dict[str, list[float | None]] = dict(earlier.get("pools", {}))
    for table in options.tables:
        if len(pools.get(table, ())) < options.settings:
            pools[table] = pool_of(table, options.settings)
        merits = np.array([np.nan if item is None else item for item in pools[table]])
        log(table, len(merits), int(np.isfinite(merits).sum()))
    rows = []
    for table, pool in pools.items():
        merits = np.array([np.nan if item is None else item for item in pool], dtype=np.float64)
        for length in LENGTHS:
            rows.append({"table": table, **coverage(merits, length, options.draws)})
            log(rows[-1])
    content = {"pools": rounded(pools), "rows": rounded(rows)} | provenance(COMMAND)
    write_result(NAME, content)


def pool_of(table: str, settings: int) -> list[float | None]:
    """Judge so many independent random settings; None for one that is worse than the champion."""
    overrides = [*CHEAP, *TABLES[table], f"tune.alternative_to={table}", "tune.workers=1"]
    with tempfile.TemporaryDirectory() as folder:
        store = Store(f"{folder}/store")
        plan = make_plan(table, overrides, force=True)
        steps = Steps(store, DirectEngine(store))
        prepare(plan.resolved, steps)
        rows = Rows.read(plan, steps)
        judge = judge_in(plan, rows, store, None, Budget())
        champion = Candidate(JOB)
        metrics = judge(champion, rows.plan.rules(champion), ALL)[0]["metrics"]
        assert plan.alternative is not None
        aim = against_champion(plan.aim, plan.alternative, metrics)
        values: list[float | None] = []
        for place in range(settings):
            candidate = random_candidate(rows.plan, place)
            results = judge(candidate, rows.plan.rules(candidate), ALL)
            trials = []
            for rule, result in enumerate(results):
                if "metrics" in result:
                    trials.append(
                        Trial(place, RANDOM, "judged", rule=rule, metrics=result["metrics"])
                    )
            merit = float(merits_of(aim, trials, [place])[0])
            values.append(round(merit, 6) if np.isfinite(merit) else None)
            if place % 50 == 0:
                log(table, place, merit)
    return values


def coverage(merits: Float, length: int, draws: int) -> dict[str, Any]:
    """Draw searches of a length, and count how often the bounds cover."""
    rng = generator(length, "alternative-bounds")
    pool = np.sort(merits[np.isfinite(merits)])
    worse = 1.0 - len(pool) / len(merits)  # share of settings that do not count
    share_covered = 0
    always_covered = 0
    gains = []
    covered = 0
    bounds = []
    allowed = np.array([share_bound(place + 1) for place in range(length)])
    for number in range(draws):
        places = rng.random(length)
        # share of the distribution that is better than the best of the first settings
        better = 1.0 - np.maximum(np.maximum.accumulate(places), worse)
        share_covered += bool(better[-1] <= allowed[-1])
        always_covered += bool(np.all(better <= allowed))
        values = merits_at(places, worse, pool)
        if not np.isfinite(values).any():
            continue
        best = float(np.nanmax(values))
        bound = gain_bound(values, best, LONGER, seed=number)
        if bound.gain is None:
            continue
        further = merits_at(rng.random(int((LONGER - 1) * length)), worse, pool)
        gain = max(0.0, float(np.nanmax(further)) - best)
        # a gap is never below 0
        limit = min(bound.gain, abs(best))
        gains.append(gain)
        bounds.append(limit)
        covered += gain <= limit + 1e-12
    return {
        "length": length,
        "draws": draws,
        "share_covered": share_covered / draws,
        "always_covered": always_covered / draws,
        "told": len(gains),
        "gain_covered": covered / len(gains) if gains else None,
        "gain": float(np.mean(gains)) if gains else None,
        "gain_bound": float(np.mean(bounds)) if bounds else None,
    }


def merits_at(places: Float, worse: float, pool: Float) -> Float:
    """Merits at places of the distribution; NaN of those that do not count."""
    shares = np.clip((places - worse) / (1.0 - worse), 0.0, 1.0)
    merits = np.interp(shares, np.linspace(0.0, 1.0, len(pool)), pool)
    return np.where(places < worse, np.nan, merits)


HEAD = """\
## Bounds on what a longer search could gain

Searches of so many independent random settings, drawn from the distribution of a stored pool of judged settings for
each table, and what ten times as many find. The pools are small: a larger one may have a longer tail. The objective is the largest gap in error rates, with balanced accuracy no worse than that of
the job's model by more than .005.

- Share: the bound on the share of better settings covers the share of the distribution, at the end of the search / at all of
  its lengths together (the goal is 95 %).
- Bounded: searches of which a bound on the gain is given. Covered: of these, how often it is at least the gain of the
  longer search (the goal is 90 %). Gain and bound: their means.
"""


def sections(content: Mapping[str, Any], provenance: Callable[[Any], str]) -> list[str]:
    """The table of coverages; nothing without results."""
    if not content:
        return []
    lines = ["| table | pool | settings | share | bounded | covered | gain | bound |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for row in content["rows"]:
        cells = [row["table"], str(len(content["pools"][row["table"]])), str(row["length"])]
        cells.append(f"{row['share_covered']:.0%} / {row['always_covered']:.0%}")
        cells.append(f"{row['told']} of {row['draws']}")
        if row["gain_covered"] is None:
            cells += ["none", "", ""]
        else:
            cells += [
                f"{row['gain_covered']:.0%}",
                f"{row['gain']:.4f}",
                f"{row['gain_bound']:.4f}",
            ]
        lines.append(f"| {' | '.join(cells)} |")
    return [HEAD, provenance(content), *lines]


if __name__ == "__main__":
    main()
