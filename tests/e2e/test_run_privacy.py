"""What must not leave the table does not leave it, and nothing leaves the machine."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLANTED_ID = "planted-person-4711"
PLANTED_NUMBER = "31415.92653"
TABLES = ("raw", "checked", "quarantine", "dataset", "source")


def files_outside_tables(store: Path) -> list[Path]:
    found = [path for path in store.rglob("*") if path.is_file()]
    return [
        path
        for path in found
        if not any(store / "artifacts" / kind in path.parents for kind in TABLES)
    ]


def texts(path: Path) -> bytes:
    """Bytes of a file; a database's rows in plain, for pages may split them."""
    if path.suffix != ".db":
        return path.read_bytes()
    with sqlite3.connect(path) as opened:
        dump = "\n".join(opened.iterdump()).encode()
    opened.close()
    return dump + path.read_bytes()


@pytest.mark.parametrize("method", [pytest.param("nn", marks=pytest.mark.long), "budro"])
def test_nobodys_id_or_row_is_in_anything_but_the_tables(publishing: Any, method: str) -> None:
    publishing.put("key", 7, PLANTED_ID)
    publishing.put("income", 7, float(PLANTED_NUMBER))
    publishing.job["method"] = {"name": method, "n_steps": 3}
    publishing.job["gates"] = {}
    done = publishing.run("--json")
    assert done.code == 0, done.err
    searched = files_outside_tables(publishing.store)
    assert len(searched) > 40
    for path in searched:
        content = texts(path)
        assert PLANTED_ID.encode() not in content, path
        assert PLANTED_NUMBER.encode() not in content, path
    # the search can fail: the tables do hold them
    raw = publishing.folder / "people.csv"
    assert PLANTED_ID in raw.read_text()
    assert PLANTED_NUMBER in raw.read_text()


@pytest.mark.parametrize("method", ["proxy", pytest.param("naive-tree", marks=pytest.mark.long)])
def test_nobodys_id_or_row_is_in_what_a_proxy_leaves(proxies: Any, method: str) -> None:
    proxies.put("key", 7, PLANTED_ID)
    proxies.put("income", 7, float(PLANTED_NUMBER))
    proxies.put("sex", 8, "F")
    proxies.job["method"] = {"name": method}
    proxies.job["gates"] = {}
    done = proxies.run("--json")
    assert done.code == 0, done.err
    searched = files_outside_tables(proxies.store)
    assert len(searched) > 40
    for path in searched:
        content = texts(path)
        assert PLANTED_ID.encode() not in content, path
        assert PLANTED_NUMBER.encode() not in content, path


def test_nobodys_id_or_row_is_in_what_an_agent_leaves(agents: Any) -> None:
    agents.put("key", 7, PLANTED_ID)
    agents.put("income", 7, float(PLANTED_NUMBER))
    done = agents.run("--json")
    assert done.code == 0, done.err
    searched = files_outside_tables(agents.store)
    assert [path for path in searched if "acquisition" in path.parts]
    for path in searched:
        content = texts(path)
        assert PLANTED_ID.encode() not in content, path
        assert PLANTED_NUMBER.encode() not in content, path


@pytest.mark.parametrize("on_violation", ["stop", "quarantine"])
def test_a_violation_names_no_id_and_no_sensitive_value(bench: Any, on_violation: str) -> None:
    bench.put("sex", 7, PLANTED_ID)
    bench.put("key", 8, None)
    bench.set(
        "age", [200 if row == 9 else age for row, age in enumerate(bench.table["age"].to_pylist())]
    )
    bench.properties["age"]["logicalTypeOptions"] = {"maximum": 120}
    bench.contract["customProperties"] = [{"property": "onViolation", "value": on_violation}]
    done = bench.run("--set", "gates={accuracy: {min: 1.5}}")
    assert done.code == (2 if on_violation == "stop" else 1)
    searched = files_outside_tables(bench.store)
    assert searched
    for path in searched:
        assert PLANTED_ID.encode() not in path.read_bytes(), path
    assert PLANTED_ID not in done.err + done.out


def test_rows_set_aside_are_kept_apart(bench: Any) -> None:
    import pyarrow.parquet as pq

    bench.put("job", 7, "astronaut")
    bench.contract["customProperties"] = [{"property": "onViolation", "value": "quarantine"}]
    done = bench.run("--set", "gates={accuracy: {min: 1.5}}", "--json")
    assert done.code == 1, done.err
    assert pq.read_table(done.json["artifacts"]["contract.quarantine"])["job"].to_pylist() == [
        "astronaut"
    ]
    assert (
        pq.read_table(done.json["artifacts"]["contract.checked"]).num_rows == len(bench.table) - 1
    )


WATCH = """
import socket, sys
real = socket.socket.connect
def connect(self, address):
    host = address[0] if isinstance(address, tuple) else address
    if self.family in (socket.AF_INET, socket.AF_INET6) and host not in ("127.0.0.1", "::1", "localhost"):
        print("CONNECT", address, file=sys.stderr)
        raise OSError("no network here")
    return real(self, address)
def getaddrinfo(host, *rest, **more):
    if host not in (None, "127.0.0.1", "::1", "localhost", socket.gethostname()):
        print("RESOLVE", host, file=sys.stderr)
        raise OSError("no network here")
    return looked_up(host, *rest, **more)
looked_up = socket.getaddrinfo
socket.socket.connect = connect
socket.socket.connect_ex = connect
socket.getaddrinfo = getaddrinfo
"""


@pytest.mark.long
def test_a_run_asks_nothing_of_the_network(publishing: Any) -> None:
    """In a process of its own, where telemetry would not be silenced by the tests' environment."""
    publishing.write()
    (publishing.folder / "sitecustomize.py").write_text(WATCH)
    publishing.store.mkdir()
    (publishing.store / "mlflow.db").write_bytes(publishing.database.read_bytes())
    silenced = ("DO_NOT_TRACK", "PREFECT_", "GX_", "MLFLOW_", "CI", "PYTEST_")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(silenced)
    }
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from evenhand.flows.cli import main; main()",
            "run",
            "job.yaml",
            "--direct",
            "--store",
            str(publishing.store),
        ],
        cwd=publishing.folder,
        env={**environment, "PYTHONPATH": f"{publishing.folder}{os.pathsep}{ROOT}"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    # a slow machine gets a line after 20 seconds of one step
    assert not [line for line in done.stderr.splitlines() if "running for" not in line]
    assert "published people-gbdt version 1" in done.stdout


def test_the_watch_would_notice(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WATCH)
    code = (
        "import contextlib, socket, urllib.request\n"
        "for url in ('http://192.0.2.1/', 'http://example.invalid/'):\n"
        "    with contextlib.suppress(OSError):\n"
        "        urllib.request.urlopen(url, timeout=1)\n"
        "with contextlib.suppress(OSError):\n"
        "    socket.create_connection(('127.0.0.1', 9), timeout=1)\n"
        "for call in ('connect', 'connect_ex'):\n"
        "    with contextlib.suppress(OSError):\n"
        "        getattr(socket.socket(), call)(('192.0.2.2', 80))"
    )
    environment = {k: v for k, v in os.environ.items() if "proxy" not in k.lower()}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "PYTHONPATH": str(tmp_path)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.stderr.splitlines() == [
        "RESOLVE 192.0.2.1",
        "RESOLVE example.invalid",
        *["CONNECT ('192.0.2.2', 80)"] * 2,
    ]
