"""Workers of a Dask cluster that train one model together, each with a share of the rows."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import evenhand.flows.workers
from evenhand.flows.engine import DirectEngine
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.flows.run import execute
from evenhand.flows.workers import _run_step
from evenhand.tasks.classifier_training import HeldOut
from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.execution.dataset import Dataset
from evenhand.tasks.execution.step import STEPS, run_step
from evenhand.tasks.execution.store import Artifact, StepRecord, Store
from tests.tasks.steps_of_rows import write_dataset

pytestmark = [pytest.mark.flow, pytest.mark.long]

N = 6000
# Largest difference of two probabilities, as docs/scale.md says.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def client(cluster: Any) -> Iterator[Any]:
    from distributed import Client

    with Client(cluster) as client:
        # so that no test waits for it
        client.run(exec, "import evenhand.tasks.steps.train_step, xgboost, sklearn.model_selection")
        yield client


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


@pytest.fixture
def inputs(store: Store, tmp_path: Path) -> dict[str, Artifact]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 8)).astype(np.float32)
    X[:, 3:] = np.eye(5, dtype=np.float32)[rng.integers(0, 5, N)]
    y = (rng.random(N) < expit(2 * X[:, 0] + X[:, 1] * X[:, 2] - X[:, 4])).astype(np.int64)
    names, groups = [f"x{j}" for j in range(8)], {f"x{j}": [j] for j in range(8)}
    sensitive = {"group": np.where(X[:, 2] > 0, "a", "b").astype(object)}
    data = Dataset(X, y, np.arange(N), names, groups, sensitive, {})
    write_dataset(tmp_path / "train", data, dict.fromkeys(groups, "number"))
    return {"train": store.put(tmp_path / "train", "dataset")}


def parameters(method: str, **arguments: Any) -> dict[str, Any]:
    given = {"n_steps": 15, **arguments}
    return {"method": method, "arguments": given, "seed": 0, "on_disk": "rows", "validate": True}


def together(
    client: Any, store: Store, given: dict[str, Any], inputs: dict[str, Artifact]
) -> StepRecord:
    work = (str(store.local), "train", "together", given, inputs, 2)
    client.submit(_run_step, *work, pure=False).result()
    found = store.find("train", "together")
    assert found is not None
    return found


def alone(store: Store, given: dict[str, Any], inputs: dict[str, Artifact]) -> StepRecord:
    return run_step(store, STEPS["train"], "alone", given, inputs)[0]


def difference(store: Store, one: StepRecord, other: StepRecord) -> float:
    """Largest difference of the probabilities of held-out rows."""
    found, known = (
        HeldOut.read(store.fetch(record.outputs["held_out"])) for record in (one, other)
    )
    assert np.array_equal(found.rows, known.rows)
    assert len(found.rows) > 800
    assert known.probability.std() > 0.1
    return float(np.abs(found.probability - known.probability).max())


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("gbdt", {}), ("gbdt", {"max_depth": 3}), ("reweigh", {"max_depth": 3})],
)
def test_workers_together_train_the_model_of_one(
    client: Any, store: Store, inputs: dict[str, Artifact], method: str, arguments: dict[str, Any]
) -> None:
    given = parameters(method, **arguments)
    found = together(client, store, given, inputs)
    assert not list(store.scratch().iterdir())
    known = alone(store, given, inputs)
    assert (found.facts["workers"], known.facts.get("workers")) == (2, None)
    assert difference(store, found, known) < TOLERANCE


def killing(victim: int, flag: str) -> None:
    """Have the worker of a rank kill itself at its fifth step, once."""
    import xgboost

    update = xgboost.Booster.update

    def dying(booster: Any, matrix: Any, step: int) -> None:
        if step == 5 and xgboost.collective.get_rank() == victim and not Path(flag).exists():
            Path(flag).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        update(booster, matrix, step)

    xgboost.Booster.update = dying


@pytest.mark.parametrize("victim", [0, 1])
def test_a_training_begins_again_when_a_worker_is_killed(
    client: Any, store: Store, inputs: dict[str, Artifact], tmp_path: Path, victim: int
) -> None:
    client.wait_for_workers(2)
    client.run(killing, victim, str(tmp_path / "killed"))
    given = parameters("gbdt", max_depth=3)
    found = together(client, store, given, inputs)
    assert (tmp_path / "killed").exists()
    assert found.facts["workers"] == 2
    assert difference(store, found, alone(store, given, inputs)) < TOLERANCE


def staying(flag: str) -> None:
    """Keep a worker busy."""
    Path(flag).touch()
    time.sleep(8)


def test_one_line_says_why_a_training_did_not_begin_or_failed(
    client: Any, store: Store, inputs: dict[str, Artifact], tmp_path: Path
) -> None:
    client.wait_for_workers(2)
    # an error of all, here of XGBoost, is that of one
    with pytest.raises(InputError, match="^method gbdt: .*value -1 for Parameter learning_rate"):
        together(client, store, parameters("gbdt", eta=-1), inputs)
    client.run(exec, "import evenhand.flows.workers as w; w.BEGIN_S = 2")
    first, second = sorted(client.scheduler_info()["workers"])
    busy = client.submit(staying, str(tmp_path / "began"), workers=[second], pure=False)
    while not (tmp_path / "began").exists():  # a worker runs what a task submits before what waits
        time.sleep(0.05)
    work = (str(store.local), "train", "late", parameters("gbdt"), inputs, 2)
    with pytest.raises(
        NotCarriedOut, match="2 Dask workers did not begin a training together within 2 sec"
    ):
        client.submit(_run_step, *work, workers=[first], pure=False).result()
    busy.result()
    client.run(exec, "import evenhand.flows.workers as w; w.BEGIN_S = 300")


def test_a_run_whose_rows_are_in_files_trains_on_all_workers(
    client: Any, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evenhand.flows.workers, "SMALL", 0)
    client.wait_for_workers(2)
    # 1,200 training rows would need 700.4 MB in memory
    settings = [
        "table.rows=1500",
        "memory=700.2MB",
        "evaluate.draws=20",
        "publish.without_policy=true",
    ]
    settings += ["method.n_steps=4", f"engine.dask={client.scheduler.address}"]
    found = execute(resolve(*load_job("loans-gbdt", settings)), store, "r", DirectEngine(store))
    assert found.status == "published"
    said = [
        note for note in found.notes if note.startswith("2 Dask workers trained the model together")
    ]
    assert len(said) == 1
