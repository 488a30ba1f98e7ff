"""Toxic sentences beside other methods: ``python -m benchmarks.text``, into ``results/text.json``.

Each split trains every method on the same sentence embeddings and measures it on the same test sentences, as
a run of the shipped jobs does. Tweets are split at random, template sentences so that no word that makes one
toxic or not is in both parts.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from typing import Any

import numpy as np

from benchmarks.common import RESULTS, log, provenance, rounded, run_unpublished, write_result
from evenhand.tasks.store import Store

METRICS = ("balanced_accuracy", "auc", "consistency.identity", "token_gap.identity", "token_gap_p95.identity")
CLP = "method={name: clp, rho: 5, n_steps: 2000, batch_size: 256, learning_rate: 0.001}"
METHODS: dict[str, tuple[str, list[str]]] = {
    "nn": ("nn", []),
    "clp": ("nn", [CLP]),
    "project": ("nn", ["method={name: project, n_steps: 200, max_depth: 4}"]),
    "sensei": ("sensei", []),
}


def main() -> None:
    """Run the methods on each split, write the values by split, and print a table of means."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--tables", nargs="*", default=["tweets", "templates"])
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    chosen = parser.parse_args()
    known = RESULTS / "text.json"
    # those of other tables and methods stay
    rows: dict[str, Any] = json.loads(known.read_text())["rows"] if known.is_file() else {}
    with tempfile.TemporaryDirectory() as folder:
        for table in chosen.tables:
            for seed in range(chosen.splits):
                for method in chosen.methods:
                    found = measure(Store(folder), table, method, seed)
                    rows.setdefault(table, {}).setdefault(method, {})[str(seed)] = found
                    log(table, seed, method, found)
                    command = f"python -m benchmarks.text --splits {chosen.splits} --methods "
                    command += " ".join(chosen.methods)
                    write_result("text", rounded({**provenance(command), "rows": rows}), compact=True)
    print(as_table(rows))


def measure(store: Store, table: str, method: str, seed: int) -> dict[str, float]:
    """Metrics of one method on one split, and the seconds of its training."""
    job, overrides = METHODS[method]
    # intervals are over splits here, and the certificate's proof is another measurement
    overrides = [*overrides, f"seed={seed}", "evaluate.draws=0", "evaluate.proof_parts=0"]
    started = time.monotonic()
    _, steps = run_unpublished(store, f"{table}-{job}", overrides)
    metrics = steps.read("evaluate", "metrics")["metrics"]
    seconds = {"train_s": steps.seconds["train"], "all_s": time.monotonic() - started}
    return {name: metrics[name]["value"] for name in METRICS} | seconds


def as_table(rows: dict[str, Any]) -> str:
    """Means over the splits, and their range, as Markdown."""
    lines = [
        "| table | method | splits | balanced accuracy | AUC | consistency | token gap | 95th percentile |"
    ]
    lines.append("|---|---|---|---|---|---|---|---|")
    for table, methods in rows.items():
        for method, splits in methods.items():
            cells = []
            for name in METRICS:
                values = np.array([found[name] for found in splits.values()])
                cells.append(f"{values.mean():.3f} ({values.min():.3f}–{values.max():.3f})")
            lines.append(f"| {table} | `{method}` | {len(splits)} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
