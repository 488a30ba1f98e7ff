"""A server that refuses its client: one line with the variables that cure it, and no second try."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from evenhand.tasks.errors import NotCarriedOut, NotPermitted
from evenhand.tasks.registry.client import ServiceAway, check_access, published, registry_client

PAIR = "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"


class Refusing(http.server.ThreadingHTTPServer):
    """Answers as MLflow's basic-auth app does, with the status that it is set to."""

    status = 401

    def __init__(self) -> None:
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                content = b"You are not authenticated."
                if server.status == 403:
                    content = b"Permission denied"
                if server.status == 500:
                    content = json.dumps({"error_code": "INTERNAL_ERROR"}).encode()
                self.send_response(server.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        super().__init__(("127.0.0.1", 0), Handler)


@contextmanager
def refusing() -> Iterator[Refusing]:
    """Start the server, and stop it at the end."""
    server = Refusing()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def server() -> Iterator[Refusing]:
    with refusing() as server:
        yield server


@pytest.mark.parametrize(
    ("status", "pair", "words"),
    [
        (401, None, f"asks for a name and a password: set {PAIR}, then run again."),
        (401, ("ann", "hush"), f"refused the name 'ann' with its password: correct {PAIR}, then"),
        (403, ("ann", "hush"), "does not permit the user 'ann' to do this: ask its administrator"),
        (403, None, "does not permit this user to do this"),
    ],
)
def test_a_refusal_is_one_line_with_its_cure(
    monkeypatch: pytest.MonkeyPatch,
    server: Refusing,
    status: int,
    pair: tuple[str, str] | None,
    words: str,
) -> None:
    for end, value in zip(("USERNAME", "PASSWORD"), pair or ("", ""), strict=True):
        monkeypatch.setenv(f"MLFLOW_TRACKING_{end}", value)
    server.status = status
    address = f"http://127.0.0.1:{server.server_port}"
    with pytest.raises(NotPermitted) as caught:
        published(address, "m", "champion")
    text = str(caught.value)
    assert words in text
    assert address in text
    assert "hush" not in text
    assert "\n" not in text
    # what another try would not cure
    assert caught.value.exit_code == 2
    assert not isinstance(caught.value, ServiceAway)


def download(address: str) -> None:
    with registry_client(address):
        import mlflow

        mlflow.artifacts.download_artifacts("mlflow-artifacts:/1", tracking_uri=address)


def test_a_refused_download_is_a_refusal_too(
    monkeypatch: pytest.MonkeyPatch, server: Refusing
) -> None:
    """MLflow raises an error of `requests` for files."""
    monkeypatch.delenv("MLFLOW_TRACKING_USERNAME", raising=False)
    with pytest.raises(NotCarriedOut, match="asks for a name"):
        download(f"http://127.0.0.1:{server.server_port}")


def test_a_servers_fault_is_no_refusal(server: Refusing) -> None:
    server.status = 500
    address = f"http://127.0.0.1:{server.server_port}"
    with pytest.raises(NotCarriedOut, match="gave no valid answer"):
        published(address, "m", "champion")
    # a server that is away is waited for when something is published, and not before
    check_access(address, "m")
