"""Membership inference against the shipped jobs: ``python -m benchmarks.studies.membership_study``.

Writes ``results/membership.json``. Jobs that are in it are not run again; remove it to start anew.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

from benchmarks.common import (
    log,
    provenance,
    read_whole,
    rounded,
    run_unpublished,
    write_result,
)
from benchmarks.summaries import only
from evenhand.fairlib.arrays import Float, Int
from evenhand.fairlib.evaluation import membership as attack
from evenhand.fairlib.evaluation.membership import WARNED_AUC, stronger_attack
from evenhand.fairlib.execution import derive_seed, generator
from evenhand.fairlib.methods.registry import METHODS, proxy_class
from evenhand.flows.engine import DirectEngine, Steps, new_run_id
from evenhand.flows.job_file import load_job, shipped_jobs
from evenhand.flows.resolved_job import resolve
from evenhand.flows.run import execute, prepare
from evenhand.tasks.execution.dataset import read_dataset
from evenhand.tasks.execution.store import Store

NAME = "membership"
FIRST = ("german", "compas", "hiring", "loans", "bank", "adult", "tweets", "templates")


def main() -> None:
    """Attack the jobs that the file lacks, the small tables first."""
    parser, every = argparse.ArgumentParser(), attacked()
    parser.add_argument("--shadows", type=int, default=16)
    parser.add_argument("--jobs", nargs="*", default=every)
    chosen = parser.parse_args()
    rows: dict[str, Any] = read_whole(NAME, {"rows": {}})["rows"]
    with tempfile.TemporaryDirectory() as folder:
        for job in chosen.jobs:
            if job in rows:
                continue
            rows[job] = measure(Store(folder), job, chosen.shadows)
            log(job, rows[job]["attacks"])
            ordered = {name: rows[name] for name in every if name in rows}
            command = f"python -m benchmarks.studies.membership_study --shadows {chosen.shadows}"
            content = {**provenance(command), "limit": WARNED_AUC, "rows": ordered}
            write_result(NAME, content, summarise)


def summarise(content: Mapping[str, Any]) -> dict[str, Any]:
    """Every attack with its AUC, and the best-predicted group of every job."""
    rows = {job: shown(row) for job, row in content["rows"].items()}
    return {**content, "rows": rounded(rows)}


def shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the summary has of one job."""
    attacks = {
        name: {
            "auc": only(found["auc"], ["value", "low", "high"]),
            "true_positive_rate": found["true_positive_rate"],
        }
        for name, found in row["attacks"].items()
    }
    best = best_predicted(row)
    attributes = [] if best is None else [best]
    numbers = {name: item for name, item in row.items() if name not in ("attacks", "attributes")}
    return {**numbers, "attacks": attacks, "attributes": attributes}


def best_predicted(row: Mapping[str, Any]) -> Any:
    """The sensitive group that the score alone predicts best; None without any."""
    by_score = [item for item in row["attributes"] if item["source"] == "score"]
    return max(by_score, key=lambda item: item["auc"], default=None)


def attacked() -> list[str]:
    """Names of the shipped jobs, small tables first; attacks are on models of two labels."""
    jobs = [name for name in shipped_jobs() if name.partition("-")[0] in FIRST]
    return sorted(jobs, key=lambda name: (FIRST.index(name.partition("-")[0]), name))


def measure(store: Store, job: str, shadows: int) -> dict[str, Any]:
    """Result of the attacks on the job's own split, and the CPU seconds that the run took."""
    started, loaded = time.process_time(), load_job(job)[0]
    if loaded.balance is not None:
        proxy = resolve(*load_job(loaded.balance.proxy))
        execute(proxy, store, new_run_id(loaded.balance.proxy), DirectEngine(store))
    if loaded.method["name"] in METHODS:
        _, steps = run_unpublished(store, job, [f"evaluate.membership.shadows={shadows}"])
        found: dict[str, Any] = steps.read("membership", "membership")
    else:
        found = attack_proxy(store, job, shadows)
    return found | {"cpu_seconds": round(time.process_time() - started, 1)}


def attack_proxy(store: Store, job: str, shadows: int) -> dict[str, Any]:
    """Attack a proxy as the step `membership` attacks a classifier, by the acceptance probability
    of a row.

    The attacker knows a row with its groups; groups stand in the place of the label.
    """
    resolved, steps = resolve(*load_job(job)), Steps(store, DirectEngine(store))
    prepare(resolved, steps)
    train, test = (
        read_dataset(store.fetch(steps.output("preprocess", part))) for part in ("train", "test")
    )
    data = train.with_rows_of(test)
    member, seed = np.isin(data.rows, train.rows), resolved.job.seed
    groups = np.array(["|".join(row) for row in zip(*data.sensitive.values(), strict=True)])
    code = np.unique(groups, return_inverse=True)[1]
    rng = generator(seed, "membership")
    pool = attack.balanced_pool(code, member, rng)
    included, outside = (
        attack.random_halves(code[pool], shadows, rng),
        np.setdiff1d(np.flatnonzero(member), pool),
    )
    learner = proxy_class(resolved.method)(**resolved.arguments)

    def confidences(rows: Int, number: int) -> Float:
        proxy = clone(learner)
        if "random_state" in proxy.get_params():
            proxy.set_params(random_state=derive_seed(seed, "membership", str(number)))
        chosen = data.take(rows)
        proxy.fit(chosen.X, sensitive_features=chosen.sensitive)
        return attack.confidences(proxy.acceptance(data.X[pool]), 1)

    found = [confidences(np.union1d(outside, pool[rows]), n) for n, rows in enumerate(included)]
    observed = confidences(np.flatnonzero(member), shadows)
    online, offline = attack.likelihood_ratios(observed, np.stack(found), included)
    settings: dict[str, Any] = {"draws": 1000, "level": 0.95, "min_cell": 5, "seed": seed}
    scores = {"online": online, "offline": offline, "threshold": observed}
    return {
        "shadows": shadows,
        "members": len(pool) // 2,
        "trained_on": len(train.y),
        "false_positive_rate": attack.FALSE_POSITIVE_RATE,
        "attacks": {
            name: attack.measure_attack(s, member[pool], **settings) for name, s in scores.items()
        },
        "attributes": [],
    }


HEAD = """\
## Membership inference

How well the likelihood-ratio attack with shadow models distinguishes training rows of each shipped job from test
rows, on the job's own split ([protocol](trust.md#what-outputs-disclose)). Rows: attacked training rows, and
as many test rows. The AUC is the larger one of online and offline. Found: share of the attacked training
rows that are found at 1% false alarms. Without shadow models an attacker has only the probability of the true
label. The last column is the best-predicted sensitive group, with its AUC. Of a proxy the
acceptance probability is attacked.
"""


def sections(content: Mapping[str, Any], provenance: Callable[[Any], str]) -> list[str]:
    """The table of the jobs that were attacked, and those that were not; nothing without
    results.
    """
    if not content:
        return []
    above = [job for job, row in content["rows"].items() if membership_auc(row) > content["limit"]]
    lacking = [name for name in attacked() if name not in content["rows"]]
    said = f"Above {content['limit']}: {', '.join(above) or 'none'}."
    said += f" Not measured yet: {', '.join(lacking)}." if lacking else ""
    return [
        HEAD,
        provenance(content),
        "| job | shadows | rows | AUC | interval | found | online | offline | without shadows "
        "| best-predicted group |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(_row(job, row) for job, row in content["rows"].items()),
        f"\n{said}\n",
    ]


def membership_auc(row: Mapping[str, Any]) -> float:
    """Value of the metric for one job."""
    return float(stronger_attack(row["attacks"])["auc"]["value"])


def _row(job: str, row: Mapping[str, Any]) -> str:
    best, attacks = stronger_attack(row["attacks"]), row["attacks"]
    told = best_predicted(row)
    cells = [
        job,
        row["shadows"],
        f"{row['members']:,}",
        f"{best['auc']['value']:.3f}",
        f"{best['auc']['low']:.3f} to {best['auc']['high']:.3f}",
        f"{best['true_positive_rate']:.3f}",
        *(f"{attacks[name]['auc']['value']:.3f}" for name in ("online", "offline", "threshold")),
        "" if told is None else f"{told['attribute']} {told['group']}: {told['auc']:.3f}",
    ]
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
