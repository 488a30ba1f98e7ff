"""A version is measured again by its policy, so that its promotion rests on no record of others.

The measurement uses a new, empty store: neither a cached step nor an evaluation in the chain that
somebody else wrote has an influence on it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evenhand.flows.engine import DirectEngine, Verdict, new_run_id
from evenhand.flows.evaluate import execute_recorded, plan_evaluation
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.client import without_kept_answers
from evenhand.tasks.registry.ledger import Record
from evenhand.tasks.registry.policy_terms import terms_of
from evenhand.tasks.registry.row_digests import KEY_VARIABLE, key_file

REGISTRY = "MLFLOW_TRACKING_URI"


def remeasure(
    registry: str, name: str, version: str, policy: Mapping[str, Any] | None, store: Store
) -> tuple[Verdict, Record]:
    """Measure a version by its policy; return the verdict and its record in the chain.

    - `registry`: address of the registry that has the version
    - `policy`: content of the policy in force
    - `store`: gets the report; only the key of its records of training rows is read

    Raises `InputError` if there is no policy, or it has no holdout.
    """
    if policy is None:
        raise InputError(
            f"--remeasure: the model {name!r} has no policy: `evenhand policy set` sets one."
        )
    holdout = policy["holdout"]
    if not holdout:
        raise InputError(
            f"--remeasure: the policy of {name} names no rows to measure on: set it again with "
            "--holdout."
        )
    overrides = [*holdout["overrides"], *terms_of(policy).overrides()]
    plan = plan_evaluation(
        f"models:/{name}/{version}",
        holdout["data"],
        policy["gates"],
        None,
        overrides,
        None,
        record=True,
    )
    run_id = new_run_id(plan.run_name)
    key = str(key_file(store).resolve())
    with (
        tempfile.TemporaryDirectory() as folder,
        _variable(REGISTRY, registry),
        _variable(KEY_VARIABLE, key),
        without_kept_answers(),
    ):
        fresh = Store(str(Path(folder) / "store"))
        verdict, record = execute_recorded(plan, fresh, run_id, DirectEngine(fresh))
        _keep_report(fresh, store, run_id)
    assert record is not None
    return verdict, record


@contextlib.contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """Set a variable of the environment, and restore it at the end."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _keep_report(fresh: Store, store: Store, run_id: str) -> None:
    """Copy the files of the run to the store, the verdict last, because a run without one has
    failed.
    """
    source = fresh.local / "runs" / run_id
    files = [path for path in sorted(source.rglob("*")) if path.is_file()]
    files.sort(key=lambda path: path.name == "verdict.json")
    for file in files:
        place = file.relative_to(source)
        with store.workdir() as scratch:
            copy = scratch / file.name
            shutil.copyfile(file, copy)
            if file.name == "verdict.json":
                copy.write_text(copy.read_text().replace(fresh.uri("runs"), store.uri("runs")))
            store.move_in(copy, "runs", run_id, *place.parts)
