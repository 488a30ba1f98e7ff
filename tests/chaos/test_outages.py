"""The registry or the orchestrator is away: a run waits, publishes once, or ends with exit code 4
in time.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from filelock import FileLock, Timeout

from evenhand.tasks import errors
from evenhand.tasks.errors import InputError, NotCarriedOut, ServiceAway, waits_for_service
from evenhand.tasks.registry.client import registry_client
from tests.chaos.away import Proxy, Tunnel, mlflow_server, prefect_server, proxy_of
from tests.chaos.kill_points import PUBLISHED, Ended, attempt, empty_registry, make_bench

RUN = ("run", "job.yaml", "--direct", "--json")


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "PAUSE_S", 0.01)
    monkeypatch.setenv("EVENHAND_WAIT", "60")


@pytest.mark.usefixtures("no_pause")
def test_waiting_says_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for count, lines in ((0, 0), (1, 0), (2, 1), (5, 1)):
        faults = [ServiceAway("the registry gave no answer: check it.")] * count

        @waits_for_service
        def work(number: int, faults: list[Exception] = faults) -> int:
            if faults:
                raise faults.pop()
            return number

        assert work(7) == 7
        told = capsys.readouterr().err
        assert told == "evenhand: waiting, 60 s at most: the registry gave no answer.\n" * lines


@pytest.mark.usefixtures("no_pause")
def test_waiting_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    @waits_for_service
    def inner() -> None:
        calls.append(1)
        raise ServiceAway("no answer: check it.")

    monkeypatch.setenv("EVENHAND_WAIT", "0.05")
    with pytest.raises(NotCarriedOut, match=r"no answer: check it\.") as caught:
        waits_for_service(inner)()  # what has waited in vain is not repeated
    assert type(caught.value) is NotCarriedOut
    assert caught.value.exit_code == 4
    assert 2 <= len(calls) <= 7
    monkeypatch.setenv("EVENHAND_WAIT", "long")
    with pytest.raises(InputError, match="EVENHAND_WAIT is 'long'"):
        inner()


def test_only_what_may_pass_is_an_outage(tmp_path: Path) -> None:
    import mlflow
    import requests
    import sqlalchemy.exc
    from mlflow.protos.databricks_pb2 import RESOURCE_DOES_NOT_EXIST, TEMPORARILY_UNAVAILABLE

    answer = requests.Response()
    passing = [
        mlflow.MlflowException("API request failed with exception"),
        mlflow.MlflowException("x", error_code=TEMPORARILY_UNAVAILABLE),
        requests.ConnectionError("refused"),
        ConnectionResetError("reset"),
        sqlalchemy.exc.OperationalError("select", {}, Exception("away")),
    ]
    answer.status_code = 503
    passing.append(requests.HTTPError("x", response=answer))
    refused = requests.Response()
    refused.status_code = 403
    lasting = [
        requests.HTTPError("x", response=refused),
        mlflow.MlflowException("x", error_code=RESOURCE_DOES_NOT_EXIST),
        mlflow.MlflowException.invalid_parameter_value("x"),
        mlflow.exceptions.InvalidUrlException("x"),
        OSError(28, "No space left on device"),
    ]
    server, file = "http://127.0.0.1:9", f"sqlite:///{tmp_path}/m.db"
    for error in (*passing, *lasting):
        for uri in (server, file):
            with pytest.raises(NotCarriedOut) as caught, registry_client(uri):
                raise error
            assert isinstance(caught.value, ServiceAway) == (uri == server and error in passing), (
                error
            )


# a real MLflow server


@pytest.fixture(scope="module")
def mlflow_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with mlflow_server(tmp_path_factory.mktemp("mlflow")) as port, proxy_of(port) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose job has run; the registry in which it was published is not used further."""
    made = tmp_path_factory.mktemp("outages")
    folder = make_bench(made / "w", empty_registry(made / "empty.db"))
    assert attempt(folder).code == 0
    return folder


def publish(folder: Path, proxy: Proxy, model: str, wait: int = 300) -> Ended:
    variables = {"MLFLOW_TRACKING_URI": proxy.address, "EVENHAND_WAIT": str(wait)}
    return attempt(
        folder, *RUN, "--set", f"publish.model={model}", variables=variables, model=model
    )


@pytest.mark.long
def test_away_at_requests_of_a_publication(mlflow_proxy: Proxy, folder: Path) -> None:
    mlflow_proxy.go_away(None, 0)
    assert publish(folder, mlflow_proxy, "whole").registry == PUBLISHED
    failed = []
    # the requests that write come first: the files of the model follow each other, and the check
    # reads them
    numbers = (*range(1, 31, 3), *range(31, mlflow_proxy.count, mlflow_proxy.count // 8))
    for turn, number in enumerate(numbers):
        carry_out = turn % 2 == 1
        mlflow_proxy.go_away(number, 2, carry_out=carry_out)
        done = publish(folder, mlflow_proxy, f"m{number}")
        if (done.code, done.registry) != (0, PUBLISHED) or len(done.err.splitlines()) > 1:
            failed.append((number, carry_out, done.code, done.err, done.registry))
    assert failed == []


@pytest.mark.long
def test_away_at_requests_of_a_promotion(mlflow_proxy: Proxy, folder: Path) -> None:
    mlflow_proxy.go_away(None, 0)
    variables = {"MLFLOW_TRACKING_URI": mlflow_proxy.address, "EVENHAND_WAIT": "300"}
    assert publish(folder, mlflow_proxy, "two").code == 0
    more = (
        "--set",
        "method.n_steps=5",
        "--set",
        "publish.alias=challenger",
        "--set",
        "publish.model=two",
    )
    assert attempt(folder, *RUN, *more, variables=variables, model="two").code == 0
    to, back, moves = "2", "1", 1
    mlflow_proxy.go_away(None, 0)
    assert attempt(folder, "promote", "models:/two/2", variables=variables, model="two").code == 0
    for number in range(0, mlflow_proxy.count, max(1, mlflow_proxy.count // 12)):
        to, back, moves = back, to, moves + 1
        mlflow_proxy.go_away(number, 1, carry_out=number % 2 == 0)
        done = attempt(folder, "promote", f"models:/two/{to}", variables=variables, model="two")
        assert done.code == 0, (number, done.err)
        assert done.registry["aliases"]["champion"] == to
        assert done.registry["faults"] == []
        assert done.registry["records"].count("move") == moves + 2


@pytest.mark.long
@pytest.mark.parametrize("number", [10, 30])
def test_away_for_longer_than_the_limit(mlflow_proxy: Proxy, folder: Path, number: int) -> None:
    """One line says that it waits, one that it ended; the next run publishes, once."""
    mlflow_proxy.go_away(number, 30)
    done = publish(folder, mlflow_proxy, f"late{number}", wait=8)
    waiting, ended = done.err.splitlines()
    assert done.code == 4
    assert waiting.startswith("evenhand: waiting, 8 s at most: the model registry at http://127")
    assert ended.startswith("evenhand: the model registry at http://127.0.0.1")
    done = publish(folder, mlflow_proxy, f"late{number}", wait=90)
    assert (done.code, done.registry) == (0, PUBLISHED)
    assert len(done.err.splitlines()) <= 1


@pytest.mark.long
def test_a_champion_is_kept_while_the_registry_is_away(mlflow_proxy: Proxy, folder: Path) -> None:
    """A new model is published after an outage of two minutes, during which the old one stays
    champion.
    """
    mlflow_proxy.go_away(None, 0)
    assert publish(folder, mlflow_proxy, "kept").code == 0
    variables = {"MLFLOW_TRACKING_URI": mlflow_proxy.address, "EVENHAND_WAIT": "300"}
    mlflow_proxy.go_away(20, 120)
    more = ("--set", "method.n_steps=6", "--set", "publish.model=kept")
    done = attempt(folder, *RUN, *more, variables=variables, model="kept")
    assert (done.code, len(done.err.splitlines())) == (0, 1)
    assert done.registry["aliases"] == {"champion": "2"}
    assert (done.registry["versions"], done.registry["faults"]) == (["1", "2"], [])
    assert done.registry["under_way"] == 0


@pytest.mark.long
def test_a_database_that_is_away(postgres: str, folder: Path) -> None:
    """PostgreSQL as the registry: away at any moment of a publication, for 8 seconds."""
    tunnel = Tunnel(urlsplit(postgres).port or 0)
    address = postgres.replace(f":{tunnel.target}/", f":{tunnel.port}/")
    variables = {"MLFLOW_TRACKING_URI": address, "EVENHAND_WAIT": "300"}
    with registry_client(address) as client:
        client.search_registered_models()
    with ThreadPoolExecutor(1) as pool:
        for number, moment in enumerate(np.random.default_rng(2).uniform(0.5, 4, 5)):
            model = f"m{number}"
            more = (*RUN, "--set", f"publish.model={model}")
            running = pool.submit(attempt, folder, *more, variables=variables, model=model)
            time.sleep(moment)
            tunnel.leave(8)
            done = running.result()
            assert (done.code, done.registry) == (0, PUBLISHED), (moment, done.err)
            assert len(done.err.splitlines()) <= 1, done.err
    tunnel.close(tunnel.sockets)


# a real Prefect server


def flow_states(folder: Path) -> list[str]:
    """States of all flow runs, oldest first."""
    with contextlib.closing(sqlite3.connect(folder / "prefect.db")) as database:
        query = "select state_type from flow_run order by created"
        return [state for (state,) in database.execute(query)]


@pytest.mark.long
def test_prefect_away_for_a_minute_and_a_killed_flow_run(tmp_path: Path) -> None:
    for name in ("server", "client"):
        (tmp_path / name).mkdir()
    folder = make_bench(tmp_path / "w", empty_registry(tmp_path / "empty.db"))
    foreign = ("PREFECT_", "MLFLOW_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}

    def start() -> subprocess.Popen[str]:
        address = {"PREFECT_API_URL": f"http://127.0.0.1:{tunnel.port}/api", "EVENHAND_WAIT": "300"}
        code = "from evenhand.flows.cli import main; main()"
        return subprocess.Popen(
            [sys.executable, "-c", code, "run", "job.yaml", "--json"],
            cwd=folder,
            env={
                **kept,
                **address,
                "PREFECT_HOME": str(tmp_path / "client"),
                "EVENHAND_STORE": "store",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for(pattern: str, process: subprocess.Popen[str]) -> None:
        while not list(folder.glob(pattern)):
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)

    with prefect_server(tmp_path / "server") as port:
        tunnel = Tunnel(port)
        killed = start()
        wait_for("store/steps/contract/*", killed)
        killed.kill()
        killed.communicate()
        assert flow_states(tmp_path / "server") == ["RUNNING"]
        process = start()
        wait_for("store/steps/train/*", process)
        (lock,) = folder.glob("store/locks/flow-*")  # that of the killed run is gone
        with pytest.raises(Timeout):
            FileLock(lock, timeout=0).acquire()
        tunnel.leave(65)
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, err
        assert json.loads(out)["status"] == "published"
        assert len(err.splitlines()) <= 1, err
        assert flow_states(tmp_path / "server") == ["CRASHED", "COMPLETED"]
        tunnel.close(tunnel.sockets)
    assert not list(folder.glob("store/locks/flow-*"))
