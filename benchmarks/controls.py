"""The shipped jobs beside their controls: ``python -m benchmarks.controls``, into ``results/controls.json``.

Each split trains the job's method, the same learner without mitigation (plain), and without the sensitive
columns too (blind), and measures all on the same test rows.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from typing import Any

import numpy as np

from benchmarks.common import RESULTS, log, provenance, run_unpublished, write_result
from evenhand.tasks.store import Store

JOBS = (
    *("german-budro", "german-sensei", "german-faias", "german-project"),
    *("compas-budro", "compas-sensei", "compas-faias", "compas-project", "compas-reweigh", "bank-faias"),
)
NAMES = ("accuracy", "balanced_accuracy", "consistency", "gap_max", "equal_opportunity_difference")
NAMES += ("average_odds_difference", "demographic_parity_difference", "theil_index", "certificate")


def main() -> None:
    """Run the jobs on each split and write means of the method, its controls and the differences."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--jobs", nargs="*", default=list(JOBS))
    chosen = parser.parse_args()
    known = RESULTS / "controls.json"
    # those of other jobs stay
    rows: dict[str, Any] = json.loads(known.read_text())["rows"] if known.is_file() else {}
    with tempfile.TemporaryDirectory() as folder:
        for job in chosen.jobs:
            rows[job] = measure(Store(folder), job, chosen.splits)
            log(job, {name: entry["over_blind"] for name, entry in rows[job].items()})
            command = f"python -m benchmarks.controls --splits {chosen.splits}"
            if set(rows) != set(JOBS):
                command += f" --jobs {' '.join(rows)}"
            write_result("controls", {**provenance(command), "splits": chosen.splits, "rows": rows})


def measure(store: Store, job: str, splits: int) -> dict[str, Any]:
    """By metric: means over the splits of the method, plain and blind, and of the difference from blind."""
    found: dict[str, list[list[float]]] = {}
    for seed in range(splits):
        # intervals are over splits here
        _, steps = run_unpublished(store, job, [f"seed={seed}", "evaluate.draws=0"])
        own = steps.read("evaluate", "metrics")["metrics"]
        controls = steps.read("evaluate", "controls")["controls"]
        for name, metric in own.items():
            others = [controls[control]["metrics"].get(name) for control in ("plain", "blind")]
            if name.partition(".")[0] in NAMES and metric["value"] is not None and None not in others:
                found.setdefault(name, []).append([metric["value"], *others])
    return {name: _summary(np.array(values)) for name, values in found.items()}


def _summary(values: Any) -> dict[str, Any]:
    method, plain, blind = values.mean(axis=0).tolist()
    difference = values[:, 0] - values[:, 2]
    spread = float(difference.std(ddof=1)) if len(difference) > 1 else None
    return {
        "splits": len(values),
        "method": method,
        "plain": plain,
        "blind": blind,
        "over_blind": float(difference.mean()),
        "sd_over_blind": spread,
    }


if __name__ == "__main__":
    main()
