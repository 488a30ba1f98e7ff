"""A server on this machine that answers with odd states, headers and bodies, by the number in the address."""

from __future__ import annotations

import contextlib
import functools
import gzip
import http.server
import random
import threading
from collections.abc import Iterator
from typing import Any

from tests.chaos.fuzz import Case

# How the server answers, by the number of a case.
KINDS = (
    "refusal",
    "no HTTP",
    "truncated",
    "no length",
    "false encoding",
    "false chunks",
    "web page",
    "long header",
    "gzip bomb",
    "endless",
    "redirect to itself",
    "redirect to a file",
    "closed",
    "wrong ranges",
    "negative length",
    "hanging",
)
# An endless answer is one that goes on for longer than any table that is read here.
ENDLESS_BYTES = 200 << 20


@functools.cache
def bomb() -> bytes:
    """Much text in a small file; made when it is asked for, since that takes a second."""
    return gzip.compress(bytes(200 << 20), 9)


class Answers(http.server.BaseHTTPRequestHandler):
    """The answers; `table` is what a right one would hold."""

    table: bytes = b""
    over = threading.Event()

    def do_GET(self) -> None:
        """Answer by the number that the address begins with."""
        number = int(self.path.split("/")[1])
        chance = random.Random(number)
        kind = KINDS[number % len(KINDS)]
        self.close_connection = True
        with contextlib.suppress(OSError):
            if kind == "refusal":
                self.send_error(chance.choice((400, 401, 403, 404, 410, 416, 429, 500, 503)))
            elif kind == "no HTTP":
                self.wfile.write(chance.randbytes(200))
            elif kind == "hanging":
                self._hang(chance)
            elif kind.startswith("redirect"):
                self._redirect(kind)
            elif kind != "closed":
                self._answer(kind, chance)

    do_HEAD = do_GET

    def _redirect(self, kind: str) -> None:
        self.send_response(302)
        target = self.path
        if kind == "redirect to a file":
            target = "file:///etc/passwd"
        self.send_header("Location", target)
        self.end_headers()

    def _hang(self, chance: random.Random) -> None:
        """Send a beginning and then nothing; the client has to give up."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.table)))
        self.end_headers()
        self.wfile.write(self.table[: chance.randrange(len(self.table))])
        self.wfile.flush()
        self.over.wait(60)

    def _answer(self, kind: str, chance: random.Random) -> None:
        body = self.table
        self.send_response(200)
        if kind == "truncated":
            self.send_header("Content-Length", str(len(body) + 1000))
        elif kind == "negative length":
            self.send_header("Content-Length", chance.choice(("minus one", "-1", "9" * 30, "")))
        elif kind == "false encoding":
            self.send_header("Content-Encoding", chance.choice(("gzip", "br", "odd", "deflate")))
        elif kind == "false chunks":
            self.send_header("Transfer-Encoding", "chunked")
            body = chance.choice((b"zz\r\n", b"-5\r\n", b"ffffffffffffffff\r\n")) + body
        elif kind == "web page":
            body = b"<html>" + chance.randbytes(300)
        elif kind == "long header":
            self.send_header("X" * chance.choice((10, 9000)), "y" * 70_000)
        elif kind == "gzip bomb":
            self.send_header("Content-Encoding", "gzip")
            body = bomb()
        elif kind == "wrong ranges":
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Range", "bytes 5-1/3")
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body)
        sent = len(body)
        while kind == "endless" and sent < ENDLESS_BYTES:
            self.wfile.write(body * 100)
            sent += len(body) * 100

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextlib.contextmanager
def odd_server(table: bytes) -> Iterator[str]:
    """Serve while the block runs; gives the address."""
    Answers.table = table
    Answers.over.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        Answers.over.set()
        server.shutdown()
        server.server_close()


def answer_case(number: int, address: str) -> Case:
    """A table at an address that answers oddly."""
    url = f"{address}/{number}/people.csv"
    command = ["init", url, "--label", "paid", "--sensitive", "sex", "--output", "out"]
    return {"command": command}
