"""The addresses ``/metrics`` and ``/healthz`` of ``evenhand serve``, on this machine only.

Every account of the machine, and every page in a browser on it, can connect. So the server answers
GET and HEAD of these addresses alone, reads no body, ends each connection within seconds, whatever
arrives, and has a limited number of them at a time.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

# Seconds after which a connection is closed, whatever its request has sent.
DEADLINE_S = 10.0
MOST_CONNECTIONS = 32
MOST_HEADERS = 64
LOCAL_NAMES = ("127.0.0.1", "localhost")
# A thread that answers, or ends, a connection is called this and the server's port.
THREAD_NAME = "evenhand metrics"


class Answer(NamedTuple):
    """What a request gets."""

    status: int
    content_type: str
    body: bytes

    @classmethod
    def text(cls, status: int, text: str) -> Answer:
        """A line for people."""
        return cls(status, "text/plain; charset=utf-8", f"{text}\n".encode())


class MetricsServer(HTTPServer):
    """A server whose connections are few and short, each in a thread of its own."""

    request_queue_size = 16

    def __init__(
        self,
        port: int,
        registry: CollectorRegistry,
        before: Callable[[], None],
        health: Callable[[], Answer],
        *,
        deadline_s: float = DEADLINE_S,
        most_connections: int = MOST_CONNECTIONS,
    ) -> None:
        self.registry = registry
        self.before = before  # is called before the metrics are written
        self.health = health
        self.deadline_s = deadline_s
        self._free = threading.BoundedSemaphore(most_connections)
        super().__init__(("127.0.0.1", port), _Handler)

    def start(self) -> None:
        """Serve in a thread that ends with this process."""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, or close the connection where too many are open."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        answering = threading.Thread(
            target=self._answer,
            args=(request, client_address),
            name=f"{THREAD_NAME} {self.server_port}",
            daemon=True,
        )
        answering.start()

    def _answer(self, request: socket.socket, client_address: Any) -> None:
        # a client that sends a byte now and then would never exceed the time of one read
        deadline = threading.Timer(self.deadline_s, _cut, (request,))
        deadline.name = threading.current_thread().name
        deadline.daemon = True
        deadline.start()
        try:
            request.settimeout(self.deadline_s)
            self.finish_request(request, client_address)
        except OSError:  # the client is gone, or took too long
            pass
        finally:
            deadline.cancel()
            self.shutdown_request(request)
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: what a client sends is no fault of the server."""


def _cut(request: socket.socket) -> None:
    """End a connection, also while another thread reads from it."""
    try:
        request.shutdown(socket.SHUT_RDWR)
    except OSError:  # it has ended meanwhile
        return


class _Handler(BaseHTTPRequestHandler):
    server: MetricsServer
    server_version = "evenhand"
    sys_version = ""
    protocol_version = "HTTP/1.0"  # one request a connection

    def do_GET(self) -> None:
        """Answer a request for one of the two addresses."""
        answer = self._refusal() or self._asked_for()
        self._write(answer)

    do_HEAD = do_GET

    def _refusal(self) -> Answer | None:
        if self.request_version == "HTTP/0.9":  # it has no headers to judge it by
            return Answer.text(400, "this request cannot be answered")
        if len(self.headers) > MOST_HEADERS:
            return Answer.text(431, "too many headers")
        has_body = self.headers.get("Content-Length", "0").strip() != "0"
        if has_body or "Transfer-Encoding" in self.headers:
            return Answer.text(413, "no body is read here")
        # a page of another site may give its own name to this address
        name = self.headers.get("Host", LOCAL_NAMES[0]).strip().lower()
        if name.partition(":")[0] not in LOCAL_NAMES:
            return Answer.text(421, "this server has another name")
        if "Origin" in self.headers or self.headers.get("Sec-Fetch-Site", "none") not in (
            "none",
            "same-origin",
        ):
            return Answer.text(403, "pages of other sites get no answer")
        return None

    def _asked_for(self) -> Answer:
        path = self.path.partition("?")[0]
        if path == "/healthz":
            return self.server.health()
        if path not in ("/metrics", "/"):
            return Answer.text(404, "there are /metrics and /healthz")
        self.server.before()
        encode, content_type = choose_encoder(self.headers.get("Accept", ""))
        return Answer(200, content_type, encode(self.server.registry))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a request that cannot be read, without a word of it."""
        self._write(Answer.text(code, "this request cannot be answered"))

    def _write(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
        """Print nothing."""
