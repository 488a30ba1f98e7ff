"""Figure 3 of DADI on Adult, one difference at a time.

``python -m benchmarks.reproductions.dadi_differences`` trains agents of the figure's three trade-offs
on the first fold, with fewer iterations and steps of attention than printed, and once more with one
of our other differences undone. A margin needs no training: a question must then earn so much more
than stopping. Agents are kept one by one in ``benchmarks/results/papers_dadi_differences.json``.
"""

from __future__ import annotations

import math
import time
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.common import code_state, log, provenance, read_result, rounded, write_result
from benchmarks.reproductions.dadi_paper import Table, adult, fit, margin_of, measured, split
from evenhand.fairlib.methods.dadi import DADIClassifier

RESULT = "papers_dadi_differences"
FOLD = 0
SHOWN = (0.1, 0.5, 0.9)
# What the agents of all variants have; the rate is the printed one.
SHORT: dict[str, Any] = {
    "n_iterations": 4000,
    "pretrain_iterations": 2000,
    "processing_steps": 1,
    "learning_rate": 5e-4,
    "trees_weight": 0,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "4,000 iterations, one step of attention": {},
    "the same, exploration ends at .1, as printed": {"exploration_end": 0.1},
    "the same, a constant rate, as printed": {"final_learning_rate": 5e-4},
}
# In nats.
MARGINS = (0.0, 0.002, 0.005, 0.01)
FEATURES = (
    *("relationship", "marital-status", "occupation", "hours-per-week", "native-country", "race"),
    *("education-num", "age", "capital-gain"),
)


def measure(table: Table, gamma: float, changes: dict[str, Any]) -> dict[str, Any]:
    """Train an agent; return what it asks with every margin, and how well it predicts."""
    test, train = split(table, FOLD)[FOLD]
    started = time.process_time()
    settings = {**SHORT, **changes}
    model = fit(DADIClassifier(**settings, gamma=gamma, random_state=FOLD), table, train)
    seconds = time.process_time() - started
    rows = []
    for margin in MARGINS:
        with margin_of(model, margin):
            acquired = model.acquire(table.X[test])
        shares = dict(zip(model.groups_, acquired.known.mean(axis=0).tolist(), strict=True))
        values = measured(acquired.probability, table.label[test], table.group[test])
        rows.append(
            {
                "margin": margin,
                "auc": values["auc"],
                "disparity": values["disparity"],
                "selected": {name: shares[name] for name in FEATURES},
            }
        )
    return {"gamma": gamma, "margins": rows, "seconds": seconds}


def main(minutes: float = math.inf) -> None:
    """Measure the agents that the results lack; begin none after so many minutes."""
    code_state()
    end = time.monotonic() + 60 * minutes
    rows: dict[str, dict[str, Any]] = read_result(RESULT).get("rows", {})
    table = adult()
    for name, changes in VARIANTS.items():
        for gamma in SHOWN:
            if str(gamma) in rows.setdefault(name, {}):
                continue
            if time.monotonic() > end:
                return
            log(f"dadi, figure 3: {name}: gamma {gamma}")
            with threadpool_limits(1):
                rows[name][str(gamma)] = rounded(measure(table, gamma, changes), 3)
            document = provenance("python -m benchmarks.reproductions.dadi_differences")
            document |= {"settings": SHORT, "rows": rows}
            document["whole"] = all(len(rows.get(other, ())) == len(SHOWN) for other in VARIANTS)
            write_result(RESULT, document)


if __name__ == "__main__":
    main()
