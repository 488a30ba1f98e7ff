"""The temporary Prefect server under a browser's page of another origin, and under hostile clients.

A real server and a real browser: minutes, so in the long suite. What this server cannot do by
itself (it keeps silent connections open) is what deploy/nginx.conf is for.
"""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import queue
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from prometheus_client import CollectorRegistry

from evenhand.flows.metrics_server import Answer, MetricsServer
from tests.flows.test_runtime import Guarded, guarded

__all__ = ["guarded"]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.long
NONE = "00000000-0000-0000-0000-000000000000"
# Each attempt of the page: what a script of another origin gets of it, or that it gets nothing.
PAGE = """<!doctype html><script>
const api = %(api)s, metrics = %(metrics)s, results = [];
const attempts = [
  [api + "/deployments/filter", {method: "POST", headers: {"Content-Type": "application/json"}, body: "{}"}],
  [api + "/deployments/filter", {method: "POST", body: "{}"}],
  [api + "/deployments/filter", {method: "POST", body: "{}", credentials: "include"}],
  [api + "/flows/", {method: "POST", headers: {"Content-Type": "application/json"}, body: '{"name": "theirs"}'}],
  [api + "/flows/", {method: "POST", body: '{"name": "theirs"}', mode: "no-cors"}],
  [api + "/deployments/%(none)s/create_flow_run", {method: "POST", body: "{}", mode: "no-cors"}],
  [api + "/admin/settings", {}],
  [api + "/health", {}],
  [metrics + "/metrics", {}],
  [metrics + "/metrics", {mode: "no-cors"}],
];
async function attempt([address, options]) {
  try {
    const answer = await fetch(address, options);
    results.push(answer.type + " " + answer.status + " " + (await answer.text()).length);
  } catch (error) { results.push("nothing"); }
}
(async () => {
  for (const one of attempts) await attempt(one);
  for (const path of ["/events/in", "/logs/out"]) {
    await new Promise((done) => {
      const opened = new WebSocket(api.replace("http", "ws") + path);
      opened.onmessage = () => { results.push("message"); done(); };
      opened.onopen = () => opened.send("{}");
      opened.onclose = () => { results.push("nothing"); done(); };
    });
  }
  await fetch("/result", {method: "POST", body: JSON.stringify(results)});
})();
</script>"""


@contextlib.contextmanager
def page_server(content: bytes) -> Iterator[tuple[str, queue.Queue[list[str]]]]:
    """Serve one page, from an origin of its own, and receive what it found."""
    results: queue.Queue[list[str]] = queue.Queue()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self) -> None:
            results.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://localhost:{server.server_port}/", results
    server.shutdown()
    server.server_close()


def flows_of(guarded: Guarded) -> int:
    token = base64.b64encode(guarded.password.encode()).decode()
    assert guarded.ask("POST", "flows/filter", {}, Authorization=f"Basic {token}")[0] == 200
    command = ["curl", "-s", "-u", guarded.password, "-X", "POST", f"{guarded.url}/flows/count"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return int(done.stdout)


@pytest.mark.skipif(not CHROMIUM, reason="needs a browser: apt-get install chromium")
def test_a_page_in_a_browser_reads_and_starts_nothing(guarded: Guarded, tmp_path: Path) -> None:
    asked = []
    registry = CollectorRegistry()
    metrics = MetricsServer(0, registry, lambda: asked.append(1), lambda: Answer.text(200, "up"))
    metrics.start()
    before = flows_of(guarded)
    values = {"api": guarded.url, "metrics": f"http://127.0.0.1:{metrics.server_port}"}
    content = PAGE % {**{key: json.dumps(value) for key, value in values.items()}, "none": NONE}
    with page_server(content.encode()) as (address, results):
        command = [
            str(CHROMIUM),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path}",
            "--remote-debugging-port=0",
            address,
        ]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            outcomes = results.get(timeout=240)
        finally:
            browser.kill()
            browser.wait()
    metrics.shutdown()
    metrics.server_close()
    assert len(outcomes) == 12
    # an opaque answer has no status and no content for the page
    assert set(outcomes) <= {"nothing", "opaque 0 0"}
    assert flows_of(guarded) == before
    assert asked == []


def place_of(guarded: Guarded) -> tuple[str, int]:
    place = urlsplit(guarded.url)
    return str(place.hostname), int(place.port or 0)


def memory_of(guarded: Guarded) -> int:
    started = psutil.Process(guarded.process.pid)
    return sum(item.memory_info().rss for item in started.children(recursive=True))


def test_silent_and_slow_clients_do_not_keep_its_user_out(guarded: Guarded) -> None:
    """Two hundred connections that send nothing, or half a request, stay open; it still answers."""
    before = memory_of(guarded)
    clients = []
    for number in range(200):
        client = socket.create_connection(place_of(guarded), timeout=60)
        if number % 2:
            client.sendall(b"POST /api/flows/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n")
        clients.append(client)
    assert flows_of(guarded) >= 0
    for client in clients:
        client.close()
    assert memory_of(guarded) - before < 100 << 20


def test_a_large_body_without_the_password_is_not_kept(guarded: Guarded) -> None:
    before = memory_of(guarded)
    client = socket.create_connection(place_of(guarded), timeout=60)
    head = b"POST /api/flows/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    client.sendall(head + b"Content-Length: 1000000000\r\n\r\n")
    block = b" " * (1 << 20)
    with contextlib.suppress(OSError):  # the server may close the connection first
        for _ in range(200):
            client.sendall(block)
    with contextlib.suppress(OSError):
        assert b" 401 " in client.recv(4096).splitlines()[0]
    client.close()
    assert memory_of(guarded) - before < 100 << 20
    assert flows_of(guarded) >= 0


@pytest.mark.parametrize(
    "line",
    [
        b"X: a\x0bSet-Cookie: b=c",
        b"X: a\rSet-Cookie: b=c",
        b"Set-Cookie: b=c",
        b"Host: elsewhere.example\r\nSet-Cookie: b=c",
        b"Transfer-Encoding: chunked\r\nContent-Length: 4",
        b"A" * 100_000 + b": b",
    ],
)
def test_no_header_of_a_request_comes_back(guarded: Guarded, line: bytes) -> None:
    client = socket.create_connection(place_of(guarded), timeout=60)
    client.sendall(
        b"GET /api/health%0d%0aSet-Cookie:%20b=c HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        + line
        + b"\r\n\r\n"
    )
    head = client.recv(65536).partition(b"\r\n\r\n")[0].lower()
    client.close()
    assert b"set-cookie" not in head
    assert b"elsewhere" not in head
    assert b"access-control-allow-origin" not in head
