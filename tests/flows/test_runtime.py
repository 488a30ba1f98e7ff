"""The temporary Prefect server: a start that fails is tried again, and only its user may use it."""

from __future__ import annotations

import base64
import http.server
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import pytest
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from evenhand.flows import runtime as server
from evenhand.tasks.errors import NotCarriedOut
from tests.e2e.real_services import free_ports

NOBODY = 65534
OTHER = "http://elsewhere.example"
# Starts a server as `evenhand serve` does, and ends when its input ends.
SERVE = """
import json, os, sys
from evenhand.flows import runtime
home = runtime.prepare_environment()
runtime.prepare_prefect_home(home)
runtime.start_temporary_server(runtime.SERVER_START_S)()
names = ("PREFECT_API_URL", "PREFECT_API_AUTH_STRING")
print(json.dumps([os.environ.get(name, "") for name in names]), flush=True)
sys.stdin.read()
"""
# What lists, changes or starts something.
REQUESTS = (
    ("POST", "deployments/filter", {}),
    ("POST", "flow_runs/filter", {}),
    ("POST", "flows/", {"name": "theirs"}),
    (
        "PATCH",
        "deployments/00000000-0000-0000-0000-000000000000",
        {"entrypoint": "/tmp/theirs.py:run"},
    ),
    ("POST", "deployments/00000000-0000-0000-0000-000000000000/create_flow_run", {}),
    ("POST", "block_documents/filter", {}),
    ("GET", "admin/settings", None),
    ("GET", "health/../admin/settings", None),
)


class Guarded:
    """A running temporary server: its address, its password, and the process that started it."""

    def __init__(self, store: Path) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE],
            env={**kept, "EVENHAND_STORE": str(store)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.url, self.password = json.loads(self.process.stdout.readline())

    def ask(
        self, method: str, path: str, content: Any, **headers: str
    ) -> tuple[int, dict[str, str]]:
        """Status and headers of an answer."""
        data = None if content is None else json.dumps(content).encode()
        sent = {
            "Content-Type": "application/json",
            **{k.replace("_", "-"): v for k, v in headers.items()},
        }
        request = urllib.request.Request(f"{self.url}/{path}", data, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, {
                    name.lower(): value for name, value in answer.headers.items()
                }
        except urllib.error.HTTPError as error:
            return error.code, {name.lower(): value for name, value in error.headers.items()}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    # some six seconds: the start of a real server, which all tests of this module share
    started = Guarded(tmp_path_factory.mktemp("guarded") / "store")
    yield started
    with started.process as process:
        assert process.stdin is not None
        process.stdin.close()


def test_a_server_that_keeps_ending_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = []

    def ends_at_once(self: server._Server) -> subprocess.Popen[bytes]:
        starts.append(self.port)
        process = subprocess.Popen([sys.executable, "-c", ""])
        process.wait()
        return process

    monkeypatch.setattr(server._Server, "_start", ends_at_once)
    monkeypatch.setattr(server.time, "sleep", lambda seconds: None)
    with pytest.raises(NotCarriedOut, match="--direct"):
        server._Server(free_ports(1)[0]).wait(60)
    assert len(starts) == server.MAX_STARTS
    assert len(set(starts)) == 1


def attack_as_nobody(answers: Connection, guarded: Guarded, processes: list[int]) -> None:
    """What another user of this machine gets: statuses of requests, and who can read the
    environment.
    """
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    statuses = [guarded.ask(*request)[0] for request in REQUESTS]
    environments = []
    for process in processes:
        try:
            environments.append(Path(f"/proc/{process}/environ").read_text())
        except PermissionError:
            environments.append("")
    lines = [Path(f"/proc/{process}/cmdline").read_text() for process in processes]
    answers.send((statuses, environments, lines))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_lists_changes_and_starts_nothing(guarded: Guarded) -> None:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    children = psutil.Process(guarded.process.pid).children(recursive=True)
    processes = [guarded.process.pid, *(child.pid for child in children)]
    process = context.Process(target=attack_as_nobody, args=(theirs, guarded, processes))
    process.start()
    theirs.close()
    statuses, environments, lines = ours.recv()
    process.join()
    assert statuses == [401] * len(REQUESTS)
    assert len(environments) > 1
    assert set(environments) == {""}
    secret = guarded.password.partition(":")[2]
    assert len(secret) > 40
    assert any("prefect" in line for line in lines)
    assert not any(secret in line for line in lines)


def test_a_page_of_another_origin_changes_and_starts_nothing(guarded: Guarded) -> None:
    """It lists nothing either."""
    for method, path, content in REQUESTS:
        code, headers = guarded.ask(method, path, content, Origin=OTHER)
        assert (code, headers.get("access-control-allow-origin")) == (401, None)
        # a browser asks before it sends anything but the simplest requests
        code, headers = guarded.ask(
            "OPTIONS", path, None, Origin=OTHER, Access_Control_Request_Method=method
        )
        assert code in (400, 401)
        assert headers.get("access-control-allow-origin") is None
        # the simplest need no question
        code, _ = guarded.ask(method, path, content, Origin=OTHER, Content_Type="text/plain")
        assert code == 401
    for path in ("events/in", "events/out", "logs/out"):
        address = f"{guarded.url.replace('http', 'ws', 1)}/{path}"
        with pytest.raises((WebSocketException, OSError)):
            listen(address)


def listen(address: str) -> None:
    with connect(address, origin=OTHER) as socket:
        socket.send("{}")
        socket.recv(timeout=20)


def test_its_user_may_use_it(guarded: Guarded) -> None:
    token = base64.b64encode(guarded.password.encode()).decode()
    code, _ = guarded.ask("POST", "deployments/filter", {}, Authorization=f"Basic {token}")
    assert code == 200
    wrong = base64.b64encode(b"evenhand:").decode()
    assert guarded.ask("POST", "deployments/filter", {}, Authorization=f"Basic {wrong}")[0] == 401


def test_every_server_has_another_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server._Server, "_start", lambda self: None)
    assert server._Server(1).password != server._Server(1).password


def test_a_port_that_another_user_took_gets_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server._Server, "_start", lambda self: None)
    (port,) = free_ports(1)
    one = server._Server(port)
    with server.socket.socket() as squatter:
        squatter.bind(("127.0.0.1", port))
        squatter.listen()
        one._check_owner()
        monkeypatch.setattr(server.os, "getuid", lambda: 12345)
        with pytest.raises(NotCarriedOut, match="another user took port"):
            one._check_owner()


def test_the_password_is_in_a_file_of_its_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_AUTH_STRING", raising=False)
    assert server.write_password(tmp_path / "prefect") is None
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "evenhand:secret")
    path = server.write_password(tmp_path / "prefect")
    assert path is not None
    assert path.read_text() == "evenhand:secret\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_users_own_server_keeps_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "mine")
    assert server.start_temporary_server(1.0) is server.check_server
    assert os.environ["PREFECT_API_AUTH_STRING"] == "mine"


@pytest.mark.parametrize(("version", "fits"), [("3.0.1", True), ("2.20.4", False), ("4.1", False)])
def test_a_server_of_another_version_gets_one_line(
    version: str, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = json.dumps(version if self.path.endswith("/version") else True).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{listening.server_port}/api")
        if fits:
            server.check_server()
        else:
            with pytest.raises(NotCarriedOut, match=rf"is version {version}, and this client is 3"):
                server.check_server()
        listening.shutdown()
