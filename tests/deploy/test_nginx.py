"""The example of a reverse proxy, run by nginx itself where it is installed, with servers of ours
behind it.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import http.server
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.real_services import free_ports

ROOT = Path(__file__).resolve().parents[2]
NGINX = os.environ.get("EVENHAND_NGINX") or shutil.which("nginx") or "/usr/sbin/nginx"
pytestmark = [
    pytest.mark.long,  # a real proxy with a certificate, and seconds of slow clients
    pytest.mark.skipif(not Path(NGINX).is_file(), reason="needs nginx: apt-get install nginx"),
]
NAME = "evenhand.example"
LOGIN = f"Basic {base64.b64encode(b'ada:a word').decode()}"


class Behind(http.server.BaseHTTPRequestHandler):
    """A server behind the proxy: it answers with the length of the body and the login it sees."""

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        while length > 0:
            length -= len(self.rfile.read(min(length, 1 << 16))) or length
        content = str(self.headers.get("Authorization")).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_PUT = do_GET

    def log_message(self, *_: object) -> None:
        pass


class Proxy(NamedTuple):
    """The ports of the proxy of Prefect and of that of MLflow."""

    prefect: int
    mlflow: int

    def ask(
        self, port: int, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, bytes]:
        context = ssl._create_unverified_context()
        opened = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
        sent = {"Host": NAME, **{key.replace("_", "-"): text for key, text in headers.items()}}
        opened.request(method, path, body, sent)
        answer = opened.getresponse()
        content = answer.read()
        opened.close()
        return answer.status, content


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("nginx")
    key = ("-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem")
    subject = ("-subj", f"/CN={NAME}", "-days", "2")
    command = ["openssl", "req", "-x509", *key, *subject]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    behind = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Behind) for _ in range(2)]
    for server in behind:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    ports = free_ports(2)
    text = (ROOT / "deploy" / "nginx.conf").read_text()
    changes = {
        "listen 443 ssl": f"listen 127.0.0.1:{ports[0]} ssl",
        "listen 8443 ssl": f"listen 127.0.0.1:{ports[1]} ssl",
        "/etc/nginx/evenhand.pem": str(folder / "cert.pem"),
        "/etc/nginx/evenhand.key": str(folder / "key.pem"),
        "proxy_pass http://127.0.0.1:4200": f"proxy_pass http://127.0.0.1:{behind[0].server_port}",
        "proxy_pass http://127.0.0.1:5000": f"proxy_pass http://127.0.0.1:{behind[1].server_port}",
        # shorter, for the test alone
        "client_header_timeout 10s": "client_header_timeout 2s",
        "client_body_timeout 15s": "client_body_timeout 2s",
        "http {": "http { access_log off;\n"
        + "".join(
            f"{kind}_temp_path {folder}/{kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        ),
    }
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    head = f"user root;\ndaemon off;\npid {folder}/pid;\nerror_log {folder}/log;\n"
    if os.getuid() != 0:
        head = head.removeprefix("user root;\n")
    (folder / "nginx.conf").write_text(head + text)
    command = [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf")]
    tested = subprocess.run([*command, "-t"], capture_output=True, text=True)
    assert tested.returncode == 0, tested.stderr
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", ports[0]), timeout=1).close()
            break
        except OSError:
            time.sleep(0.1)
    yield Proxy(*ports)
    process.terminate()
    process.wait()
    for server in behind:
        server.shutdown()
        server.server_close()


def test_its_users_pass(proxy: Proxy) -> None:
    # both servers ask for passwords themselves
    for port, path in ((proxy.prefect, "/api/health"), (proxy.mlflow, "/health")):
        assert proxy.ask(port, "GET", path, Authorization=LOGIN) == (200, LOGIN.encode())
    own = f"https://{NAME}"
    assert proxy.ask(proxy.prefect, "POST", "/api/x", b"{}", Origin=own)[0] == 200
    files = "/api/2.0/mlflow-artifacts/artifacts/x"
    assert proxy.ask(proxy.mlflow, "PUT", files, b" " * (9 << 20), Authorization=LOGIN)[0] == 200


def test_other_sites_and_large_bodies_do_not(proxy: Proxy) -> None:
    for port in proxy:
        assert proxy.ask(port, "POST", "/x", b"{}", Origin="https://elsewhere.example")[0] == 403
        assert proxy.ask(port, "POST", "/x", b"{}", Origin="null")[0] == 403
        assert proxy.ask(port, "GET", "/x", Sec_Fetch_Site="cross-site")[0] == 403
        assert proxy.ask(port, "GET", "/x", Host="elsewhere.example")[0] == 421
    large = b" " * (9 << 20)
    # or it was closed before the body was sent
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        assert proxy.ask(proxy.prefect, "POST", "/api/x", large)[0] == 413


@pytest.mark.parametrize("start", [b"", b"GET / HTTP/1.1\r\nHost: x\r\nA: ", b"head"])
def test_silent_and_slow_clients_are_cut(proxy: Proxy, start: bytes) -> None:
    if start == b"head":
        start = f"POST /api/x HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 9\r\n\r\n".encode()
    raw = socket.create_connection(("127.0.0.1", proxy.prefect), timeout=60)
    client = ssl._create_unverified_context().wrap_socket(raw)
    client.sendall(start)
    received = b""
    try:
        while chunk := client.recv(4096):
            received += chunk
    except ConnectionResetError:
        pass
    client.close()
    assert not received or b" 408 " in received.splitlines()[0]
