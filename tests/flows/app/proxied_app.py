"""An app that runs behind a proxy of its site, for the tests of deploy/app's files of proxies."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from evenhand.flows.app.proxy import read_proxy
from evenhand.flows.app.server import build_app
from evenhand.flows.app.sessions import Sessions
from evenhand.flows.app.web import AppSettings
from evenhand.flows.commands.app_command import listen
from evenhand.tasks.execution.store import Store

SITE = "models.example.org"


def free_port() -> int:
    """A port that nothing listens at."""
    with listen("127.0.0.1", 0) as listener:
        port: int = listener.getsockname()[1]
    return port


def certified(folder: Path) -> tuple[Path, Path]:
    """Write a certificate of the site, and its key."""
    certificate = folder / "site.pem"
    key = folder / "site.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-subj", f"/CN={SITE}", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


@contextmanager
def app_running(folder: Path, proxy_file: Path) -> Iterator[int]:
    """Run the app of an empty store behind a proxy; give its port."""
    listener = listen("127.0.0.1", 0)
    settings = AppSettings(
        registry=f"sqlite:///{folder}/mlflow.db",
        store=Store(str(folder / "store")),
        sessions=Sessions({}),
        hosts=frozenset({SITE}),
        proxy=read_proxy(proxy_file),
        secure=True,
    )
    config = uvicorn.Config(build_app(settings), log_level="critical", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
