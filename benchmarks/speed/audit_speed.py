"""`evenhand audit` of millions of predictions, and the same numbers by Fairlearn, AIF360 and
Aequitas.

Run ``python -m benchmarks.speed.audit_speed [--rows 10000000] [--shared 1000000] [--repeats 3] [--environments
FOLDER]``. The first part is the command in a process of its own: seconds of wall and processor, and
the largest memory. The second part is on the same arrays of fewer rows: `audit_predictions` with
1,000 bootstrap draws, and one pass of each library without intervals. Only Fairlearn has a
bootstrap, whose time for a few draws is kept; for the others 1,000 draws are 1,000 passes. Aequitas
runs in FOLDER/aequitas, an environment with ``peers/requirements-aequitas.txt``, where there is
one. Numbers whose definitions agree are compared. The third part, alone with ``--by-group``, is
`audit` in memory, by three attributes of the fewer rows.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.common import log, provenance, read_result, write_result

DRAWS = 1000
AGES = ("below 25", "25 to 40", "40 to 60", "60 and more")
FEW_DRAWS = 3
START = "from evenhand.flows.cli import main; main()"
FLAGS = ("--label", "hired", "--prediction", "score", "--sensitive", "gender,race")
RACES = ("white", "black", "asian", "latino", "other")
AEQUITAS = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import pandas as pd
from aequitas.group import Group
frame = pd.read_parquet(sys.argv[1])
rows = frame[["gender", "race"]].assign(score=(frame.score >= 0.5).astype(float), label_value=frame.hired)
started = time.perf_counter()
found, _ = Group().get_crosstabs(rows, attr_cols=["gender", "race"])
seconds = time.perf_counter() - started
found = found.set_index(["attribute_name", "attribute_value"])
values = {f"{a}.{g}": [row.pprev, row.tpr, row.fpr] for (a, g), row in found.iterrows()}
print(json.dumps({"seconds": seconds, "values": values}))
"""


def main() -> None:
    """Measure both parts and keep the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--shared", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--environments", type=Path)
    parser.add_argument("--by-group", action="store_true", help="measure the third part alone")
    given = parser.parse_args()
    if given.by_group:
        write_result("audit", {**read_result("audit"), "by_group": by_group(given.shared)})
        return
    warnings.simplefilter("ignore")
    result: dict[str, Any] = provenance(
        shlex.join(["python", "-m", "benchmarks.speed.audit_speed", *sys.argv[1:]])
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "predictions.parquet"
        people(given.rows).to_parquet(path)
        log("command")
        runs = [command(path, Path(folder) / str(number)) for number in range(given.repeats)]
        middle = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        result["command_of"] = {"rows": given.rows, "draws": DRAWS, **middle, "runs": runs}
        shared = people(given.shared)
        shared.to_parquet(path)
        result["shared"] = {
            "rows": given.shared,
            **beside(shared, path, given.repeats, given.environments),
        }
    log("by group")
    result["by_group"] = by_group(given.shared)
    write_result("audit", result)


def by_group(rows: int) -> dict[str, Any]:
    """Processor seconds of `audit` by three attributes, their pairs and all together, with gaps."""
    from evenhand.fairlib.evaluation.group_audit import audit

    frame = people(rows)
    rng = np.random.default_rng(1)
    attributes = frame[["gender", "race"]].assign(age=rng.choice(AGES, len(frame)))
    decided = (frame["score"] >= 0.5).astype(int)
    weights = rng.random(len(frame))
    persons = rng.integers(0, len(frame) // 2, len(frame))
    kinds: dict[str, dict[str, Any]] = {
        "decisions": {"y_pred": decided},
        "probabilities": {"y_score": frame["score"]},
        "decisions, weights": {"y_pred": decided, "sample_weight": weights},
        "decisions, weights, people": {
            "y_pred": decided,
            "sample_weight": weights,
            "people": persons,
        },
    }
    seconds = {}
    for kind, arguments in kinds.items():
        started = time.process_time()
        found = audit(frame["hired"], sensitive_features=attributes, **arguments)
        found.to_html()
        seconds[kind] = time.process_time() - started
    command = f"python -m benchmarks.speed.audit_speed --by-group --shared {rows}"
    return {**provenance(command), "rows": rows, "cpu_seconds": seconds}


def people(n: int) -> pd.DataFrame:
    """Scores that differ by group, and labels drawn with these probabilities."""
    rng = np.random.default_rng(0)
    gender, race = rng.integers(0, 2, n), rng.choice(len(RACES), n, p=[0.5, 0.2, 0.15, 0.1, 0.05])
    score = 1 / (1 + np.exp(0.8 - rng.normal(size=n) - 0.5 * gender - 0.3 * (race == 0)))
    return pd.DataFrame(
        {
            "hired": (rng.random(n) < score).astype(np.int8),
            "score": score,
            "gender": np.array(["female", "male"])[gender],
            "race": np.array(RACES)[race],
        }
    )


def command(path: Path, store: Path) -> dict[str, float]:
    """Run the command once; wall and processor seconds, and the largest resident memory in
    bytes.
    """
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", START, "audit", str(path), *FLAGS, "--json"],
        env=os.environ | {"EVENHAND_STORE": str(store)},
        stdout=subprocess.DEVNULL,
    )
    memory = 0
    while process.poll() is None:
        memory = max(memory, resident(process.pid))
        time.sleep(0.05)
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert process.returncode == 0
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": seconds, "cpu_seconds": used, "bytes": memory}


def resident(process: int) -> int:
    """Largest resident memory of a process so far, in bytes; 0 once it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def beside(
    frame: pd.DataFrame, path: Path, repeats: int, environments: Path | None
) -> dict[str, Any]:
    """Median seconds of each library, and the largest difference of a rate from ours."""
    from evenhand.fairlib.evaluation import audit_predictions

    def ours() -> Any:
        return audit_predictions(
            frame["score"],
            frame[["gender", "race"]],
            frame["hired"],
            intersections=False,
            draws=DRAWS,
        )

    audit = ours()
    own = {
        f"{name}.{group}": [row["selected"], row["tpr"], 1 - row["tnr"]]
        for name in ("gender", "race")
        for group, row in audit.rates(name).iterrows()
    }
    ratio = audit.evaluation.metrics["impact_ratio.race"].value
    found: dict[str, Any] = {f"ours, {DRAWS} draws": {"seconds": seconds_of(ours, repeats)}}
    log("fairlearn")
    frames = fairlearn(frame, None)
    values = {
        f"{name}.{group}": list(row)
        for name in frames
        for group, row in frames[name].by_group.iterrows()
    }
    found["fairlearn, no interval"] = {
        "seconds": seconds_of(lambda: fairlearn(frame, None), repeats),
        "largest_difference": largest(own, values),
        "difference_of_impact_ratio": abs(
            float(frames["race"].ratio()["selected"]) - float(ratio or 0)
        ),
    }
    found[f"fairlearn, {FEW_DRAWS} draws"] = {
        "seconds": seconds_of(lambda: fairlearn(frame, FEW_DRAWS), 1)
    }
    log("aif360")
    found["aif360, no interval"] = {
        "seconds": seconds_of(lambda: aif360(frame), repeats),
        "largest_difference": largest(
            {"gender": [own["gender.female"][0] / own["gender.male"][0]]}, aif360(frame)
        ),
    }
    if environments is not None:
        log("aequitas")
        python = environments / "aequitas" / "bin" / "python"
        runs = [
            json.loads(
                subprocess.check_output(
                    [python, "-c", AEQUITAS, str(path)], text=True
                ).splitlines()[-1]
            )
            for _ in range(repeats)
        ]
        found["aequitas, no interval"] = {
            "seconds": statistics.median(run["seconds"] for run in runs),
            "largest_difference": largest(own, runs[0]["values"]),
        }
    return found


def seconds_of(work: Callable[[], Any], repeats: int) -> float:
    """Median seconds of several calls."""
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def largest(own: dict[str, list[float]], other: dict[str, list[float]]) -> float:
    """Largest difference between numbers of the same name; all of ours must be there."""
    return max(abs(a - b) for name in own for a, b in zip(own[name], other[name], strict=True))


def fairlearn(frame: pd.DataFrame, draws: int | None) -> dict[str, Any]:
    """Selection rate, TPR and FPR by gender and by race."""
    from fairlearn.metrics import (
        MetricFrame,
        false_positive_rate,
        selection_rate,
        true_positive_rate,
    )

    rates = {"selected": selection_rate, "tpr": true_positive_rate, "fpr": false_positive_rate}
    more: Any = (
        {}
        if draws is None
        else {"n_boot": draws, "ci_quantiles": [0.025, 0.975], "random_state": 0}
    )
    return {
        name: MetricFrame(
            metrics=rates,
            y_true=frame["hired"],
            y_pred=frame["score"] >= 0.5,
            sensitive_features=frame[name],
            **more,
        )
        for name in ("gender", "race")
    }


def aif360(frame: pd.DataFrame) -> dict[str, list[float]]:
    """Disparate impact by gender; its data sets take numbers only."""
    from aif360.datasets import BinaryLabelDataset
    from aif360.metrics import ClassificationMetric

    rows = pd.DataFrame(
        {"label": frame["hired"], "gender": (frame["gender"] == "male").astype(float)}
    )
    true = BinaryLabelDataset(df=rows, label_names=["label"], protected_attribute_names=["gender"])
    given = true.copy()
    given.labels = (frame["score"].to_numpy() >= 0.5).astype(float)[:, None]
    metric = ClassificationMetric(true, given, [{"gender": 0}], [{"gender": 1}])
    metric.equal_opportunity_difference()
    return {"gender": [float(metric.disparate_impact())]}


if __name__ == "__main__":
    main()
