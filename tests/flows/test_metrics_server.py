"""The server of /metrics under clients that are slow, silent, large or of another site."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Counter

from evenhand.flows.metrics_server import THREAD_NAME, Answer, MetricsServer

DEADLINE_S = 0.5


@pytest.fixture(scope="module")
def server() -> Iterator[MetricsServer]:
    registry = CollectorRegistry()
    Counter("evenhand_runs", "Runs.", registry=registry).inc(3)
    health = Answer(200, "application/json", b"{}")
    made = MetricsServer(
        0, registry, lambda: None, lambda: health, deadline_s=DEADLINE_S, most_connections=4
    )
    made.start()
    yield made
    made.shutdown()
    made.server_close()


def connected(server: MetricsServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=20)


def received(client: socket.socket) -> bytes:
    content = b""
    try:
        while chunk := client.recv(65536):
            content += chunk
    except ConnectionResetError:  # of a connection that was closed with unread bytes
        pass
    client.close()
    return content


def ask(server: MetricsServer, request: str) -> bytes:
    client = connected(server)
    client.sendall(request.encode("latin-1"))
    return received(client)


def threads_left(server: MetricsServer) -> list[threading.Thread]:
    """The server's threads that are alive once they had time to end; other tests have theirs."""
    name = f"{THREAD_NAME} {server.server_port}"
    left = [thread for thread in threading.enumerate() if thread.name == name]
    for thread in left:
        thread.join(timeout=20)
    return [thread for thread in left if thread.is_alive()]


def test_metrics_and_health_are_answered(server: MetricsServer) -> None:
    for path in ("/metrics", "/metrics?name[]=x", "/"):
        answer = ask(server, f"GET {path} HTTP/1.1\r\nHost: localhost:1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.0 200 ")
        assert b"evenhand_runs_total 3.0" in answer
    assert ask(server, "GET /healthz HTTP/1.0\r\n\r\n").endswith(b"\r\n\r\n{}")
    head = ask(server, "HEAD /metrics HTTP/1.1\r\n\r\n")
    assert head.endswith(b"\r\n\r\n")
    lines = head.decode().splitlines()
    assert "Cross-Origin-Resource-Policy: same-origin" in lines
    assert "Access-Control-Allow-Origin" not in head.decode()


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        ("GET /other HTTP/1.1\r\n\r\n", 404),
        ("GET /../etc/passwd HTTP/1.1\r\n\r\n", 404),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 501),
        ("OPTIONS /metrics HTTP/1.1\r\nOrigin: http://a.example\r\n\r\n", 501),
        ("GET /metrics HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        ("GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
        ("GET /metrics HTTP/1.1\r\nHost: rebound.example\r\n\r\n", 421),
        ("GET /metrics HTTP/1.1\r\nOrigin: http://elsewhere.example\r\n\r\n", 403),
        ("GET /metrics HTTP/1.1\r\nSec-Fetch-Site: cross-site\r\n\r\n", 403),
        ("GET /metrics HTTP/1.1\r\n" + "A: b\r\n" * 80 + "\r\n", 431),
        ("GET /metrics HTTP/1.1\r\n" + "A: b\r\n" * 5000 + "\r\n", 431),
        ("GET /" + "x" * 70_000 + " HTTP/1.1\r\n\r\n", 414),
        ("GET /metrics\r\nX: y HTTP/1.1\r\n\r\n", None),
        ("\0\1\2\r\n\r\n", None),
        ("GET /metrics FTP/1.1\r\n\r\n", None),
    ],
)
def test_nothing_else_is_answered(
    server: MetricsServer, request_text: str, status: int | None
) -> None:
    """None stands for a request so old, or so wrong, that its answer has no status."""
    answer = ask(server, request_text)
    if status is not None:
        # a long request may be answered, and closed, before it is read
        assert not answer or f" {status} ".encode() in answer.splitlines()[0]
    assert b"evenhand_runs_total" not in answer
    assert b"200" in ask(server, "GET /healthz HTTP/1.0\r\n\r\n").splitlines()[0]


@pytest.mark.parametrize("path", ["/x%0d%0aSet-Cookie:a=b", "/x\rSet-Cookie: a=b", "/é\x85"])
def test_no_header_can_be_injected(server: MetricsServer, path: str) -> None:
    """Nothing of a request stands in its answer."""
    answer = ask(server, f"GET {path} HTTP/1.1\r\nX: \x0bSet-Cookie: c=d\r\n\r\n")
    assert b"Set-Cookie" not in answer


def test_silent_and_slow_clients_are_cut(server: MetricsServer) -> None:
    """One that never sends, one that sends a byte now and then, and one that never reads."""
    silent = connected(server)
    slow = connected(server)
    ended = threading.Event()

    def drip() -> None:
        try:
            for byte in b"GET /metrics HTTP/1.1\r\n" * 400:
                slow.sendall(bytes([byte]))
                time.sleep(0.02)
        except OSError:
            ended.set()

    threading.Thread(target=drip, daemon=True).start()
    assert received(silent) == b""
    # the whole of the slow request would take minutes
    assert ended.wait(20)
    slow.close()


def test_more_connections_than_allowed_are_closed(server: MetricsServer) -> None:
    """And those that were open make room by themselves: none is kept for ever."""
    held = [connected(server) for _ in range(12)]
    closed = [received(client) for client in held]
    assert closed == [b""] * 12
    assert b"200" in ask(server, "GET /healthz HTTP/1.0\r\n\r\n").splitlines()[0]
    assert threads_left(server) == []


def test_a_connection_that_is_cut_off_leaves_nothing(
    server: MetricsServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(10):
        client = connected(server)
        client.sendall(b"GET /metr")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
    time.sleep(0.1)
    assert b"200" in ask(server, "GET /healthz HTTP/1.0\r\n\r\n").splitlines()[0]
    assert capsys.readouterr().err == ""
