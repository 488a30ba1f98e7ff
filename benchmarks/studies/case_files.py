"""Case files: seconds, replays, proofs and recourse on published models.

Run ``python -m benchmarks.studies.case_files --store STORE [--people 200] [--replays 1000] [--job
JOB]`` with a store in which the jobs below are published and kept (``evenhand run JOB``). People
are adverse decisions of the job's table, drawn with a fixed seed. Seconds are of the processor and
of one case. ``--job`` measures one job and keeps the others of the file.

The minutes of a whole table are those of ``evenhand case`` without proofs on its first rows, scaled
to 10,000 rows.

The fair metric is that of the job's run, or where it had none the same kind with the sensitive
inputs as indicators. Brute force asks the model about every combination of the values of up to
three columns, in coarse steps, at most 4,000; the search has the same values.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

# as the command line does, before the numeric libraries are loaded
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import pandas as pd
import pyarrow.csv
import pyarrow.dataset

from benchmarks.common import RESULTS, log, provenance, write_result
from evenhand.fairlib.distances.sensitive_subspace import LearnedDirection, SensitiveSubspace
from evenhand.fairlib.explanations.choices import choices_of
from evenhand.fairlib.explanations.recourse import Recourse, RecourseSearch
from evenhand.flows.case import BLOCK, CaseOptions, _content, pages, replayed
from evenhand.tasks.cases.case_store import CaseStore
from evenhand.tasks.cases.explained_model import ExplainedModel, Wanted, metric_of_version
from evenhand.tasks.execution.dataset import read_dataset
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.bundle import open_bundle

# What a person could change, by job.
CREDIT = {
    "month": "down",
    "credit_amount": "down",
    "savings": "free",
    "status": "free",
    "purpose": "free",
}
TERMS: dict[str, dict[str, str]] = {
    "adult-gbdt": {
        "education-num": "up",
        "hours-per-week": "free",
        "occupation": "free",
        "workclass": "free",
        "capital-gain": "up",
    },
    "german-budro": CREDIT,
    "german-nn": CREDIT,
    "german-sensei": CREDIT,
}
# Columns and steps of brute force.
GRIDS = {
    "adult-gbdt": {"education-num": 2.0, "hours-per-week": 10.0, "workclass": None},
    "german-budro": {"month": 6.0, "credit_amount": 500.0, "savings": None},
    "german-nn": {"month": 6.0, "credit_amount": 500.0, "savings": None},
    "german-sensei": {"month": 6.0, "credit_amount": 500.0, "savings": None},
}
# Rows of the table whose adverse decisions are all explained, and rows that they are scaled to.
TABLE_ROWS = 1000
WHOLE_ROWS = 10_000
NAME = "case_files"
MOST_COMBINATIONS = 4000
RADIUS = 0.1
SEED = 7


def main() -> None:
    """Measure all jobs and keep the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default=os.environ.get("EVENHAND_STORE"))
    parser.add_argument("--people", type=int, default=200)
    parser.add_argument("--replays", type=int, default=1000)
    parser.add_argument("--job", choices=list(TERMS))
    arguments = parser.parse_args()
    store = Store(arguments.store)
    results = {}
    if arguments.job is not None and (RESULTS / f"{NAME}.json").is_file():
        results = json.loads((RESULTS / f"{NAME}.json").read_text())["jobs"]
    for job in [arguments.job] if arguments.job else TERMS:
        with store.workdir() as scratch:
            results[job] = measure(job, store, scratch, arguments.people, arguments.replays)
        log(f"{job}: {json.dumps(results[job])}")
    command = "python -m benchmarks.studies.case_files --store STORE"
    settings = {"people": arguments.people, "replays": arguments.replays, "radius": RADIUS}
    write_result(NAME, {**provenance(command), "settings": settings, "jobs": results})


def measure(job: str, store: Store, scratch: Path, count: int, replays: int) -> dict[str, Any]:
    """All figures of one job."""
    bundle = open_bundle(job, store, scratch)
    terms = {name: {"changeable": direction} for name, direction in TERMS[job].items()}
    model = ExplainedModel(bundle, terms)
    verdict = verdict_of(store, job)
    table = pyarrow.dataset.dataset(verdict["artifacts"]["contract.checked"]).to_table()
    place = scratch / "people.csv"
    pyarrow.csv.write_csv(table, place)
    people = model.read(str(place)).people
    _, positive, _ = model.decide(people)
    adverse = [
        person
        for person, is_positive in zip(people, positive.tolist(), strict=True)
        if model.is_adverse(is_positive)
    ]
    order = np.random.default_rng(SEED).permutation(len(adverse))
    drawn = [adverse[place] for place in order[:count].tolist()]
    stored = metric_of_version(store, bundle.name, str(bundle.version))
    metric = sensitive_metric(model, verdict) if stored is None else stored[0]
    options = CaseOptions(model=job, rows="people.csv")
    plain = Wanted(proofs=False)
    proofs = Wanted(metric=metric, metric_digest="metric", radius=RADIUS)
    # compiled and read once
    list(model.explain(drawn[:1], proofs))
    with tempfile.TemporaryDirectory() as folder:
        cases = CaseStore(Path(folder) / "cases")
        without, contents = timed(model, drawn, plain, options, cases)
        with_proof, proved = timed(model, drawn, proofs, options, cases)
        wrong = cases.faults()
    return {
        "adverse": len(adverse),
        "people": len(drawn),
        "minutes_of_10000_rows": minutes_of_table(model, people[:TABLE_ROWS]),
        "seconds_without_proof": summary(without),
        "seconds_with_proof": summary(with_proof),
        "log_faults": len(wrong),
        "replays": replay_all(model, people, replays),
        "comparables": comparable_counts(proved),
        "recourse": dict(Counter(_recourse_kind(content) for content in contents)),
        "brute_force": compare_with_brute_force(model, job, drawn[: count // 2]),
    }


def verdict_of(store: Store, job: str) -> dict[str, Any]:
    """The newest verdict of a job's published run."""
    for place in reversed(list(store.runs_with("verdict.json").values())):
        verdict: dict[str, Any] = json.loads(store.filesystem.cat_file(place))
        if (verdict.get("model") or {}).get("name") == job:
            return verdict
    raise SystemExit(f"{job} is not published in this store: evenhand run {job}")


def sensitive_metric(model: ExplainedModel, verdict: dict[str, Any]) -> SensitiveSubspace:
    """The default metric of jobs, learned from the run's training rows."""
    data = read_dataset(Path(verdict["artifacts"]["preprocess.train"]))
    indicators: list[int] = []
    directions = []
    for name in data.sensitive:
        columns = list(data.groups.get(name, ()))
        indicators += columns
        directions.append(LearnedDirection(name, tuple(columns)))
    metric = SensitiveSubspace(indicators=indicators, learned=directions)
    return metric.fit(data.X, sensitive_features=dict(data.sensitive))


def timed(
    model: ExplainedModel, people: Any, wanted: Wanted, options: CaseOptions, cases: CaseStore
) -> tuple[list[float], list[dict[str, Any]]]:
    """Seconds of each case, from the row to the files in the case store, and the contents."""
    seconds = []
    contents = []
    for person in people:
        started = time.process_time()
        (parts,) = model.explain([person], wanted)
        content = _content(options, model, person, parts)
        files = pages(content, with_letter=True)
        with cases.writing():
            cases.add(content, files)
        seconds.append(time.process_time() - started)
        contents.append(content)
    return seconds, contents


def summary(seconds: list[float]) -> dict[str, float]:
    """Median, 95th percentile and largest."""
    return {
        "median": round(statistics.median(seconds), 3),
        "p95": round(float(np.quantile(seconds, 0.95)), 3),
        "max": round(max(seconds), 3),
    }


def minutes_of_table(model: ExplainedModel, people: Any) -> float:
    """Processor minutes of the cases of all adverse decisions of 10,000 rows, without proofs."""
    options = CaseOptions(model="model", rows="people.csv")
    started = time.process_time()
    _, positive, _ = model.decide(people)
    adverse = [
        person
        for person, is_positive in zip(people, positive.tolist(), strict=True)
        if model.is_adverse(is_positive)
    ]
    with tempfile.TemporaryDirectory() as folder:
        cases = CaseStore(Path(folder) / "cases")
        for start in range(0, len(adverse), BLOCK):
            block = adverse[start : start + BLOCK]
            with cases.writing():
                explained = model.explain(block, Wanted(proofs=False))
                for person, parts in zip(block, explained, strict=True):
                    content = _content(options, model, person, parts)
                    cases.add(content, pages(content, with_letter=False))
    seconds = time.process_time() - started
    return round(seconds / 60.0 * WHOLE_ROWS / len(people), 2)


def replay_all(model: ExplainedModel, people: Any, count: int) -> dict[str, int]:
    """Decide people of a written and read case again."""
    drawn = people[:count]
    identical = 0
    for person in drawn:
        content = {"inputs": model.inputs(person), "decision": model.decision(person)}
        outcome = replayed(model, json.loads(json.dumps(content)), {})
        identical += outcome.is_identical
    return {"replays": len(drawn), "identical": identical}


def comparable_counts(contents: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """How often each answer was given, by what people were compared by."""
    counts: dict[str, Counter[str]] = {}
    for content in contents:
        for item in content["comparables"]:
            counts.setdefault(item["compared_by"], Counter())[item["status"]] += 1
    return {name: dict(counter) for name, counter in counts.items()}


def _recourse_kind(content: dict[str, Any]) -> str:
    recourse = content["recourse"]
    if recourse["status"] == "found" and recourse["is_smallest"]:
        return "found, proved smallest"
    if recourse["status"] == "none" and recourse["is_smallest"]:
        return "none, proved"
    return str(recourse["status"])


def compare_with_brute_force(model: ExplainedModel, job: str, people: Any) -> dict[str, int]:
    """Recourse against all combinations of coarse grids, by the same model."""
    changeable = []
    for item in model.changeable():
        if item.column in GRIDS[job]:
            changeable.append(replace(item, step=GRIDS[job][item.column]))
    search = RecourseSearch(
        model.classifier, model.encoder, changeable, favourable=model.favourable
    )
    counts = Counter[str]()
    for person in people:
        row = model._row(person)
        frame = pd.DataFrame({name: [value] for name, value in row.items()})
        encoded = model.encoder.transform(frame)[0]
        choices = choices_of(model.encoder, row, encoded, changeable)
        sizes = [len(column) for column in choices]
        if not sizes or np.prod(sizes) > MOST_COMBINATIONS:
            counts["too many combinations"] += 1
            continue
        grids = np.meshgrid(*[np.arange(size) for size in sizes], indexing="ij")
        picks = np.stack([grid.ravel() for grid in grids], axis=1)
        rows = np.repeat(encoded[None], len(picks), axis=0)
        costs = np.zeros(len(picks))
        for place, column in enumerate(choices):
            rows[:, column.places] = column.encoded[picks[:, place]]
            costs += column.costs[picks[:, place]]
        decided = search._favourable(rows)
        least = float(np.min(costs[decided], initial=np.inf))
        found = search.find(row)
        counts["compared"] += 1
        counts["brute force finds one"] += bool(np.isfinite(least))
        if np.isfinite(least):
            counts["found too"] += found.status == "found"
            counts["verified by the model"] += is_favourable_after(model, person, found)
            counts["of the same cost"] += abs((found.cost or np.inf) - least) < 1e-6
        else:
            counts["none in both"] += found.status == "none"
    return dict(counts)


def is_favourable_after(model: ExplainedModel, person: Any, recourse: Recourse) -> bool:
    """Whether the published model decides favourably about the changed values."""
    changed = dict(person.values)
    for change in recourse.changes:
        changed[change.column] = change.after
    return bool(model.decision(model.person_of(changed))["favourable"])


if __name__ == "__main__":
    main()
