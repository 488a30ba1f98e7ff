"""Whether the bounds of `evenhand tune --alternative-to` cover what a longer search finds.

    python -m benchmarks.studies.alternative_bounds [--settings N] [--tables T ...] [--draws N] [--seconds S]
    python -m benchmarks.studies.alternative_bounds --mean-gain

For each table a pool of independent random settings is judged, as a search judges those of its
stream. Searches are then drawn from the pool's distribution, linear between the values of the pool:
so many settings, and ten times as many for the longer search. The bound on the share of better
settings is right if it is at least the share of the distribution that is better than the best of
the shorter search; also at all of its lengths together. The bound on the gain is right if it is at
least what the longer search gains. The bound on the mean gain is right if it is at least the mean
gain of one further setting, over the distribution. With ``--mean-gain`` only this one is measured,
with the pools that there are, and the others' numbers stay.

A judgement is made cheap: boosting of 20 steps without a search for their number, and logistic
regression, on two folds, with three rules of decisions. It takes about 0.06 CPU seconds. The pools
are kept in ``results/alternative_pools.json``, and a run goes on with them. Three tables are
generated.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from benchmarks.common import RESULTS, log, provenance, read_result, rounded, write_result
from benchmarks.studies.tune_under_load import ODD_TABLES, write_odd_tables
from benchmarks.summaries import text_of
from evenhand.fairlib.arrays import Float
from evenhand.fairlib.execution import generator
from evenhand.fairlib.tuning.budget import Budget
from evenhand.fairlib.tuning.further_search import gain_bound, mean_gain_bound, share_bound
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
CHEAP = (
    "tune.folds=2",
    "tune.methods=[gbdt, logistic]",
    "tune.space={tolerance: [0.02, 0.1]}",
    "tune.confidence=0.5",
    "tune.workers=1",
    "method.n_steps=20",
    "method.n_iter_no_change=null",
    "evaluate.draws=0",
    "evaluate.counterfactuals={}",
)
# A calibration that is chosen takes most of a judgement.
GENERATED = ("calibration=none",)
# Job, and further settings that make a judgement cheap; those of the last three are generated.
TABLES: Mapping[str, Sequence[str]] = {
    "german-gbdt": (),
    "hiring-gbdt": ("table.rows=800",),
    "loans-gbdt": ("table.rows=800",),
    "compas-gbdt": (),
    "few-rows": GENERATED,
    "two-attributes": GENERATED,
    "tiny-group": GENERATED,
}
POOLS = "alternative_pools"
# Merits are kept with so many digits.
DIGITS = 5
# Smaller pools are not drawn from.
SMALLEST_POOL = 500
# So many settings are judged between two writings of the pools.
WRITTEN_AFTER = 50
LENGTHS = (50, 100, 200, 400)
# Places of the distribution over which the gain is averaged.
GRID = 20_001
LONGER = 10.0


def main() -> None:
    """Enlarge the pools that are too small, draw searches from them, and write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--settings", type=int, default=2000)
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of all judgements")
    parser.add_argument("--mean-gain", action="store_true", help="measure this bound alone")
    options = parser.parse_args()
    if options.mean_gain:
        content = read_result(NAME)
        content["mean_gain"] = mean_gain_rows(options.draws) | provenance(f"{COMMAND} --mean-gain")
        write_result(NAME, content)
        return
    until = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as folder:
        write_odd_tables(Path(folder), [name for name in options.tables if name in ODD_TABLES])
        for table in options.tables:
            enlarge(table, Path(folder), options.settings, until)
    pools = read_pools()
    rows = []
    sizes = {}
    for table in TABLES:
        if len(pools.get(table, ())) < SMALLEST_POOL:
            continue
        merits = np.array(
            [np.nan if item is None else item for item in pools[table]], dtype=np.float64
        )
        sizes[table] = {"settings": len(merits), "counted": int(np.isfinite(merits).sum())}
        for length in LENGTHS:
            rows.append({"table": table, **coverage(merits, length, options.draws)})
            log(rows[-1])
    content = {"pools": sizes, "rows": rounded(rows)} | provenance(COMMAND)
    content["mean_gain"] = mean_gain_rows(options.draws) | provenance(COMMAND)
    write_result(NAME, content)


def enlarge(table: str, folder: Path, settings: int, until: float) -> None:
    """Judge independent random settings until a table's pool has so many, or the time is up.

    The pool has the merit of each, and None for one that is worse than the job's own model.
    """
    values = list(read_pools().get(table, ()))
    if len(values) >= settings or time.monotonic() > until:
        return
    job = table
    if table in ODD_TABLES:
        job = str(folder / f"{table}.yaml")
    # the job's name, and not its path: the champion has the overrides too
    overrides = [*CHEAP, *TABLES[table], f"tune.alternative_to={table}"]
    store = Store(f"{folder}/{table}-store")
    plan = make_plan(job, overrides, force=True)
    steps = Steps(store, DirectEngine(store))
    prepare(plan.resolved, steps)
    rows = Rows.read(plan, steps)
    judge = judge_in(plan, rows, store, None, Budget())
    champion = Candidate(JOB)
    metrics = judge(champion, rows.plan.rules(champion), ALL).results[0]["metrics"]
    assert plan.alternative is not None
    aim = against_champion(plan.aim, plan.alternative, metrics)
    for place in range(len(values), settings):
        candidate = random_candidate(rows.plan, place)
        results = judge(candidate, rows.plan.rules(candidate), ALL).results
        trials = []
        for rule, result in enumerate(results):
            if "metrics" in result:
                trials.append(Trial(place, RANDOM, "judged", rule=rule, metrics=result["metrics"]))
        merit = float(merits_of(aim, trials, [place])[0])
        values.append(round(merit, DIGITS) if np.isfinite(merit) else None)
        is_over = time.monotonic() > until
        if len(values) % WRITTEN_AFTER == 0 or len(values) == settings or is_over:
            write_pool(table, values)
        if is_over:
            return


def read_pools() -> dict[str, list[float | None]]:
    """Return the merits of the settings that were judged so far, by table."""
    pools: dict[str, list[float | None]] = read_result(POOLS).get("pools", {})
    return pools


def write_pool(table: str, values: Sequence[float | None]) -> None:
    """Write a table's pool; those of other tables may grow in other processes meanwhile.

    A process that is killed leaves a whole file.
    """
    path = RESULTS / f"{POOLS}.json"
    with FileLock(Path(tempfile.gettempdir(), "alternative-pools.lock")):
        pools = read_pools()
        pools[table] = list(values)
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(text_of({"pools": pools} | provenance(COMMAND)))
        unfinished.replace(path)
    log(table, len(values))


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
        # a gap is never below 0
        bound = gain_bound(values, best, LONGER, most=abs(best), seed=number)
        if bound.gain is None:
            continue
        further = merits_at(rng.random(int((LONGER - 1) * length)), worse, pool)
        gain = max(0.0, float(np.nanmax(further)) - best)
        gains.append(gain)
        bounds.append(bound.gain)
        covered += gain <= bound.gain + 1e-12
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


def mean_gain_rows(draws: int) -> dict[str, Any]:
    """Draw searches from all pools, and measure the bound on the mean gain of one further setting."""
    rows = []
    pools = read_pools()
    for table in TABLES:
        if len(pools.get(table, ())) < SMALLEST_POOL:
            continue
        merits = np.array(
            [np.nan if item is None else item for item in pools[table]], dtype=np.float64
        )
        for length in LENGTHS:
            rows.append({"table": table, **mean_gain_coverage(merits, length, draws)})
            log(rows[-1])
    return {"rows": rounded(rows)}


def mean_gain_coverage(merits: Float, length: int, draws: int) -> dict[str, Any]:
    """Draw searches of a length, and count how often the bound on the mean gain covers."""
    rng = generator(length, "mean-gain")
    pool = np.sort(merits[np.isfinite(merits)])
    worse = 1.0 - len(pool) / len(merits)  # share of settings that do not count
    grid = (np.arange(GRID) + 0.5) / GRID
    all_merits = np.nan_to_num(merits_at(grid, worse, pool), nan=-np.inf)
    gains = []
    bounds = []
    for _ in range(draws):
        values = merits_at(rng.random(length), worse, pool)
        if not np.isfinite(values).any():
            continue
        best = float(np.nanmax(values))
        gains.append(float(np.maximum(all_merits - best, 0.0).mean()))
        # a gap is never below 0
        bounds.append(mean_gain_bound(length, abs(best)))
    covered = np.array(gains) <= np.array(bounds) + 1e-12
    return {
        "length": length,
        "draws": draws,
        "told": len(gains),
        "covered": float(covered.mean()),
        "gain": float(np.mean(gains)),
        "bound": float(np.mean(bounds)),
    }


def merits_at(places: Float, worse: float, pool: Float) -> Float:
    """Merits at places of the distribution; NaN of those that do not count."""
    shares = np.clip((places - worse) / (1.0 - worse), 0.0, 1.0)
    merits = np.interp(shares, np.linspace(0.0, 1.0, len(pool)), pool)
    return np.where(places < worse, np.nan, merits)


HEAD = """\
## Bounds on what a longer search could gain

Searches of so many independent random settings, drawn from the distribution of a stored pool of judged settings for
each table, and what ten times as many find. To make so many judgements, boosting has 20 steps
and there are two folds. The objective is the largest gap in error rates, with balanced accuracy no worse than that of the job's
model by more than .005.

- Pool: its settings, of which so many are no worse. The goal is 2,000 on seven tables; tables whose pools have fewer than 500
  are not shown.

- Share: the bound on the share of better settings covers the share of the distribution, at the end of the search / at all of
  its lengths together (the goal is 95 %).
- Bounded: searches of which a bound on the gain is given: of the others the largest values do not have the assumed
  distribution. A search that found a gap of 0 has nothing to gain, and its bound is 0. Covered: of these, how often it is at least the gain of the
  longer search (the goal is 90 %). Gain and bound: their means.
"""


MEAN_GAIN_HEAD = """\

### The mean gain of one further random setting

In searches drawn as above: how much one further random setting gains on average, over the distribution of the pool, and the bound
on it, which assumes nothing. Both are means over the searches. Covered: searches whose bound is at least this gain (the goal is 95 %).
"""


def sections(content: Mapping[str, Any], provenance: Callable[[Any], str]) -> list[str]:
    """The table of coverages; nothing without results."""
    if not content:
        return []
    lines = ["| table | pool | settings | share | bounded | covered | gain | bound |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for row in content["rows"]:
        pool = content["pools"][row["table"]]
        cells = [row["table"], f"{pool['settings']:,} ({pool['counted']:,})", str(row["length"])]
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
    return [HEAD, provenance(content), *lines, *_mean_gain_lines(content, provenance)]


def _mean_gain_lines(content: Mapping[str, Any], provenance: Callable[[Any], str]) -> list[str]:
    """The table of the bound on the mean gain; nothing without results."""
    measured = content.get("mean_gain")
    if not measured:
        return []
    lines = [MEAN_GAIN_HEAD, provenance(measured)]
    lines.append("| table | settings | bounded | covered | mean gain | bound |")
    lines.append("|---|---|---|---|---|---|")
    for row in measured["rows"]:
        cells = [row["table"], str(row["length"]), f"{row['told']} of {row['draws']}"]
        cells += [f"{row['covered']:.0%}", f"{row['gain']:.5f}", f"{row['bound']:.5f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    main()
