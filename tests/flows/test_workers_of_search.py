"""A search whose models Dask workers judge, which may be of a running cluster elsewhere."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from evenhand.fairlib.tuning.budget import Budget
from evenhand.flows import tune_search, workers
from evenhand.flows.cli import app
from evenhand.flows.workers import DaskPool
from evenhand.tasks.errors import EvenhandError, InputError, NotCarriedOut, OutOfTime
from evenhand.tasks.execution.store import Store
from tests.flows.people import SMALL, Bench

ADDRESS = "tcp://scheduler:8786"
ROOT = Path(__file__).resolve().parents[2]


class FakeClient:
    """A running cluster of one worker, which says what it is asked for and runs nothing."""

    def __init__(self) -> None:
        self.versions = workers._versions()
        self.sees_store = True
        self.submitted: list[tuple[Any, ...]] = []

    def run(self, *_: Any) -> dict[str, Any]:
        return {"tcp://worker:1": (self.versions, self.sees_store, 5e9)}

    def nthreads(self) -> dict[str, int]:
        return {f"tcp://worker:{number}": 2 for number in range(1, 5)}

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {}}

    def submit(self, *arguments: Any, pure: bool) -> Any:
        self.submitted.append(arguments)
        return SimpleNamespace(result=lambda: None)


def pool_of(client: FakeClient, size: int = 1) -> Any:
    pool: Any = DaskPool.__new__(DaskPool)
    pool._client = client
    pool._cluster = None
    pool._cores = []
    pool.size = size
    return pool


def plan_of(**tune: Any) -> Any:
    return SimpleNamespace(
        tune=SimpleNamespace(address=ADDRESS, workers=None, trials=None, prefer=None, **tune),
        aim=None,
        methods={},
    )


@pytest.fixture
def without_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates are judged without the parameters that a table gives."""
    monkeypatch.setattr(tune_search, "judging", lambda *_, **__: ({}, {}))
    monkeypatch.setattr(tune_search, "_modules", lambda *_: [])


@pytest.mark.usefixtures("without_table")
def test_workers_get_the_absolute_path_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have another working folder, in which a relative store would be another one."""
    monkeypatch.chdir(tmp_path)
    client = FakeClient()
    store = Store("evenhand-store")
    judge: Any = tune_search.judge_in(plan_of(), None, store, pool_of(client), Budget())  # type: ignore[arg-type]
    judge(None, (), 1)
    (_, _, function, address, *_) = client.submitted[0]
    assert function is tune_search.judged
    assert address == str(tmp_path / "evenhand-store")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"versions": {}}, NotCarriedOut, r"the Dask worker tcp://worker:1 has Python missing"),
        ({"sees_store": False}, InputError, r"does not see the store .*: set EVENHAND_STORE"),
    ],
)
def test_an_unfit_cluster_is_refused_before_a_judgement(
    changes: dict[str, Any], error: type[EvenhandError], message: str, tmp_path: Path
) -> None:
    client = FakeClient()
    for name, value in changes.items():
        setattr(client, name, value)
    with pytest.raises(error, match=message) as caught:
        tune_search.judge_in(plan_of(), None, Store(str(tmp_path)), pool_of(client), Budget())  # type: ignore[arg-type]
    assert len(str(caught.value).splitlines()) == 1
    assert not client.submitted


def test_as_many_models_at_a_time_as_the_cluster_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in each process; the cores of this machine do not limit them."""
    monkeypatch.setattr(tune_search, "cores", lambda: [0])
    given: dict[str, Any] = {}
    study: Any = SimpleNamespace(
        answered=lambda aim: [], search=lambda *_, **keys: given.update(keys)
    )
    rows: Any = SimpleNamespace(plan=None)
    store = Store(str(tmp_path))
    for size, expected in ((8, 4), (3, 3)):
        pool = pool_of(FakeClient(), size)
        tune_search.search(plan_of(), rows, study, store, lambda *_: None, pool=pool)
        assert given["workers"] == expected


def test_the_check_asks_for_the_path_that_workers_get(tmp_path: Path) -> None:
    """A link to the store's folder may lead elsewhere on another machine."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    client = FakeClient()
    asked: list[str] = []
    answer = client.run()

    def run(_: Any, probe: str) -> dict[str, Any]:
        asked.append(probe)
        return answer

    client.run = run  # type: ignore[method-assign]
    pool_of(client).check(Store(str(tmp_path / "link")))
    assert Path(asked[0]).parent == tmp_path / "disk" / "tmp"


def write_number_and_work(file: str) -> None:
    """Write the number of this process, and go on for long."""
    Path(file).write_text(str(os.getpid()))
    ends_at = time.monotonic() + 20
    while time.monotonic() < ends_at:
        time.sleep(0.05)


def stopped_number(pool: DaskPool, file: Path) -> int:
    """Number of the process whose call is stopped as soon as it has begun."""
    with pytest.raises(OutOfTime):
        pool.run_until(
            lambda: file.exists() and file.read_text() != "", write_number_and_work, str(file)
        )
    return int(file.read_text())


def is_running(process: int) -> bool:
    """Whether a process runs; the system may still keep the entry of an ended one."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


@pytest.mark.long
def test_a_dask_worker_started_here_is_killed_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Dask starts another one for the next call, and says nothing on the terminal."""
    pytest.importorskip("distributed")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with DaskPool(None, 1) as pool:
        killed = stopped_number(pool, tmp_path / "number")
        for _ in range(100):
            if not is_running(killed):
                break
            time.sleep(0.05)
        assert not is_running(killed)
        assert pool.run(os.getpid) != killed
    assert capfd.readouterr().err == ""


@pytest.mark.long
def test_workers_of_a_running_cluster_are_not_killed(cluster: Any, tmp_path: Path) -> None:
    """They may have work of others, so the next call waits for a free one."""
    with DaskPool(cluster.scheduler_address, None) as pool:
        number = stopped_number(pool, tmp_path / "number")
        # the other worker is free
        assert pool.run(os.getpid) != number
        assert is_running(number)


@pytest.mark.long
def test_a_running_cluster_in_another_folder_judges_here(
    cluster: Any, publishing: Bench, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With a relative store; the judgements are in the store of the command, and nowhere else."""
    from distributed import Client

    elsewhere = tmp_path_factory.mktemp("elsewhere")
    with Client(cluster.scheduler_address) as client:
        client.run(os.chdir, str(elsewhere))
    publishing.job["method"] = {"name": "gbdt", **SMALL}
    publishing.job["evaluate"]["min_cell"] = 2
    publishing.job["tune"] = {
        "trials": 5, "folds": 2, "where": ["gap_max.sex <= 0.9"],
        "engine": "dask", "address": cluster.scheduler_address,
    }  # fmt: skip
    relative = os.path.relpath(publishing.store)
    given = ["tune", str(publishing.write()), "--direct", "--json", "--store", relative]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.stderr
    trials = json.loads(done.stdout)["tuning"]["trials"]
    models = {trial["model"] for trial in trials}
    assert len(models) == 5
    assert len(list((publishing.store / "steps" / "judge").glob("*.json"))) == len(models)
    assert not list(elsewhere.iterdir())
