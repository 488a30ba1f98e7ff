"""Membership inference against the shipped jobs: ``python -m benchmarks.membership``.

Writes ``results/membership.json``. Jobs that are in it are not run again; remove it to start anew.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.common import RESULTS, log, provenance, run_unpublished, write_result
from evenhand.fairlib.evaluation.membership import WARNED_AUC
from evenhand.fairlib.methods.registry import METHODS
from evenhand.flows.job_file import load_job, shipped_jobs
from evenhand.tasks.store import Store

FIRST = ("german", "compas", "hiring", "loans", "bank", "adult")


def main() -> None:
    """Attack the jobs that the file lacks, the small tables first."""
    parser, every = argparse.ArgumentParser(), classifiers()
    parser.add_argument("--shadows", type=int, default=16)
    parser.add_argument("--jobs", nargs="*", default=every)
    chosen = parser.parse_args()
    known = RESULTS / "membership.json"
    rows: dict[str, Any] = json.loads(known.read_text())["rows"] if known.is_file() else {}
    with tempfile.TemporaryDirectory() as folder:
        for job in chosen.jobs:
            if job in rows:
                continue
            rows[job] = measure(Store(folder), job, chosen.shadows)
            log(job, rows[job]["attacks"])
            ordered = {name: rows[name] for name in every if name in rows}
            command = f"python -m benchmarks.membership --shadows {chosen.shadows} --jobs {' '.join(ordered)}"
            write_result("membership", {**provenance(command), "limit": WARNED_AUC, "rows": ordered})


def classifiers() -> list[str]:
    """Names of the shipped jobs that train a classifier, small tables first."""
    methods = {name: load_job(name)[0].method["name"] for name in shipped_jobs()}
    kept = [name for name, method in methods.items() if method in METHODS]
    return sorted(kept, key=lambda name: (FIRST.index(name.partition("-")[0]), name))


def measure(store: Store, job: str, shadows: int) -> dict[str, Any]:
    """Result of the attacks on the job's own split, and the CPU seconds that the run took."""
    started = time.process_time()
    _, steps = run_unpublished(store, job, [f"evaluate.membership.shadows={shadows}"])
    found: dict[str, Any] = steps.read("membership", "membership")
    return found | {"cpu_seconds": round(time.process_time() - started, 1)}


HEAD = """\
## Membership inference

How well the likelihood-ratio attack with shadow models tells training rows of each shipped job from test
rows, on the job's own split ([protocol](trust.md#what-outputs-disclose)). Rows: attacked training rows, and
as many test rows. Found: share of these training rows that are found at 1% false alarms. Without shadow
models an attacker has only the probability of the true label. The last column is the sensitive group that
the score tells best, with its AUC.
"""


def sections(content: Mapping[str, Any], provenance: Callable[[Any], str]) -> list[str]:
    """The table of the jobs that were attacked, and those that were not; nothing without results."""
    if not content:
        return []
    above = [job for job, row in content["rows"].items() if _auc(row, "online")["value"] > content["limit"]]
    lacking = [name for name in classifiers() if name not in content["rows"]]
    said = f"Above {content['limit']}: {', '.join(above) or 'none'}."
    said += f" Not measured yet: {', '.join(lacking)}." if lacking else ""
    return [
        HEAD,
        provenance(content),
        "| job | shadows | rows | AUC | interval | found | without shadows | group told by score |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(job, row) for job, row in content["rows"].items()),
        f"\n{said}\n",
    ]


def _auc(row: Mapping[str, Any], attack: str) -> dict[str, Any]:
    found: dict[str, Any] = row["attacks"][attack]["auc"]
    return found


def _row(job: str, row: Mapping[str, Any]) -> str:
    online = _auc(row, "online")
    told = max(
        (item for item in row["attributes"] if item["source"] == "score"),
        key=lambda item: item["auc"],
        default=None,
    )
    cells = [
        job,
        row["shadows"],
        f"{row['members']:,}",
        f"{online['value']:.3f}",
        f"{online['low']:.3f} to {online['high']:.3f}",
        f"{row['attacks']['online']['true_positive_rate']:.3f}",
        f"{_auc(row, 'threshold')['value']:.3f}",
        "" if told is None else f"{told['attribute']} {told['group']}: {told['auc']:.3f}",
    ]
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
