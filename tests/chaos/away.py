"""Servers of a test's own, and a proxy through which one goes away at a chosen request."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.e2e.real_services import free_ports

DROPPED = {
    "connection",
    "keep-alive",
    "transfer-encoding",
    "content-length",
    "host",
    "date",
    "server",
}


class Proxy(ThreadingHTTPServer):
    """Forwards requests to a server on this machine; away, it refuses connections.

    `away_at` is the number of the request at which it goes away for `seconds`. With `carry_out` the
    server still carries this request out, and the answer is lost."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target, self.count = port, 0
        self.away_at: int | None = None
        self.seconds, self.carry_out, self.until = 0.0, False, 0.0

    def leave(self) -> None:
        """Refuse connections for a while: in a thread, because it ends those that serve."""
        self.until = time.monotonic() + self.seconds
        threading.Thread(target=self._return, daemon=True).start()

    def _return(self) -> None:
        self.shutdown()
        self.server_close()
        time.sleep(max(0.0, self.until - time.monotonic()))
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.server_bind()
        self.server_activate()
        self.serve_forever()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of the test."""

    def go_away(self, at: int | None, seconds: float, *, carry_out: bool = False) -> None:
        self.count, self.away_at, self.seconds, self.carry_out = 0, at, seconds, carry_out


class _Handler(BaseHTTPRequestHandler):
    server: Proxy

    def forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        while "Transfer-Encoding" in self.headers and (
            size := int(self.rfile.readline() or b"0", 16)
        ):
            body += self.rfile.read(size + 2)[:size]
        del self.headers["Transfer-Encoding"]
        proxy = self.server
        lost = time.monotonic() < proxy.until
        if not lost:
            if proxy.count == proxy.away_at:
                lost = not proxy.carry_out
                proxy.leave()
            proxy.count += 1
        if lost:
            self.close_connection = True
            return
        with contextlib.closing(
            http.client.HTTPConnection("127.0.0.1", proxy.target, timeout=300)
        ) as server:
            server.request(self.command, self.path, body, dict(self.headers))
            answer = server.getresponse()
            content = answer.read()
        if time.monotonic() < proxy.until:  # the answer is lost
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in DROPPED:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = forward  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


class Tunnel:
    """Forwards connections to a port of this machine; away, it closes them and refuses others."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.sockets: list[socket.socket] = []
        self.port = 0
        self.listen()

    def listen(self) -> None:
        listener = socket.create_server(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        self.sockets.append(listener)
        threading.Thread(target=self.accept, args=(listener,), daemon=True).start()

    def accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                ours = listener.accept()[0]
                theirs = socket.create_connection(("127.0.0.1", self.target))
                self.sockets += [ours, theirs]
                for source, target in ((ours, theirs), (theirs, ours)):
                    threading.Thread(
                        target=self.forward, args=(source, target), daemon=True
                    ).start()

    def forward(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        self.close([source, target])

    @staticmethod
    def close(sockets: list[socket.socket]) -> None:
        for item in sockets:
            with contextlib.suppress(OSError):
                item.shutdown(socket.SHUT_RDWR)
            item.close()

    def leave(self, seconds: float) -> None:
        self.close(self.sockets)
        self.sockets.clear()
        time.sleep(seconds)
        self.listen()


@contextlib.contextmanager
def proxy_of(port: int) -> Iterator[Proxy]:
    with Proxy(port) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        yield proxy
        proxy.shutdown()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except (urllib.error.URLError, OSError):
        return False


@contextlib.contextmanager
def running(
    command: list[str], health: str, log: Path, **variables: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A server process, from its first answer to its end."""
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("MLFLOW_", "PREFECT_"))
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            env={**environment, "MLFLOW_DISABLE_TELEMETRY": "true", **variables},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + 240
        while True:
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline
            if answers(health):
                break
            time.sleep(0.2)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()


@contextlib.contextmanager
def prefect_server(folder: Path) -> Iterator[int]:
    """Port of a Prefect server with its database in a folder."""
    (port,) = free_ports(1)
    command = [
        "prefect",
        "server",
        "start",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--no-services",
    ]
    home = {"PREFECT_HOME": str(folder)}
    with running(command, f"http://127.0.0.1:{port}/api/health", folder / "prefect.log", **home):
        yield port


@contextlib.contextmanager
def mlflow_server(folder: Path) -> Iterator[int]:
    """Port of an MLflow server with its files in a folder."""
    (port,) = free_ports(1)
    command = ["mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db"]
    command += ["--artifacts-destination", str(folder / "files")]
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with running(command, f"http://127.0.0.1:{port}/health", folder / "mlflow.log", **quiet):
        yield port
