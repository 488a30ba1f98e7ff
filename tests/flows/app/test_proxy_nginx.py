"""The nginx file of deploy/app before a real app: who is signed in, and what forged headers do."""

from __future__ import annotations

import http.server
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from evenhand.flows.app.proxy import NAME_HEADER, SECRET_HEADER
from tests.flows.app.proxied_app import SITE, app_running, certified, free_port
from tests.flows.app.test_proxy import ROOT, SECRET, written
from tests.flows.app.test_server import readable

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not (shutil.which("nginx") and shutil.which("openssl")), reason="needs nginx and openssl"
    ),
]


class Provider(http.server.BaseHTTPRequestHandler):
    """Answers nginx as oauth2-proxy does: the person of a cookie is signed in."""

    def do_GET(self) -> None:
        name = self.headers.get("cookie", "").partition("signed_in=")[2].partition(";")[0]
        self.send_response(202 if name else 401)
        if name:
            self.send_header("X-Auth-Request-Email", f"{name}@example.org")
            self.send_header("X-Auth-Request-Groups", "staff,approvers")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        """Write nothing."""


@pytest.fixture
def ports(tmp_path: Path) -> Iterator[dict[str, int]]:
    """Start the provider, the app and nginx; give their ports."""
    provider = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=provider.serve_forever, daemon=True).start()
    try:
        with app_running(tmp_path, written(tmp_path)) as app_port:
            ports = {
                "provider": provider.server_address[1],
                "app": app_port,
                "nginx": free_port(),
            }
            nginx = start_nginx(tmp_path, ports)
            try:
                yield ports
            finally:
                nginx.terminate()
                nginx.wait(20)
    finally:
        provider.shutdown()
        provider.server_close()


def start_nginx(folder: Path, ports: dict[str, int]) -> subprocess.Popen[bytes]:
    certificate, key = certified(folder)
    (folder / "secret.conf").write_text(f'proxy_set_header {SECRET_HEADER} "{SECRET}";\n')
    site = (ROOT / "deploy" / "app" / "nginx.conf").read_text()
    for before, after in {
        "listen 443": f"listen 127.0.0.1:{ports['nginx']}",
        "/etc/nginx/models.example.org.pem": str(certificate),
        "/etc/nginx/models.example.org.key": str(key),
        "/etc/nginx/evenhand-secret.conf": str(folder / "secret.conf"),
        "127.0.0.1:4180": f"127.0.0.1:{ports['provider']}",
        "127.0.0.1:8080": f"127.0.0.1:{ports['app']}",
    }.items():
        assert before in site
        site = site.replace(before, after)
    paths = "".join(
        f"{kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole = folder / "nginx.conf"
    whole.write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log;\nevents {{}}\n"
        f"http {{ access_log off;\n{paths}{site}\n}}\n"
    )
    started = subprocess.Popen(["nginx", "-c", str(whole), "-e", str(folder / "error.log")])
    for _ in range(400):
        try:
            httpx.get(f"http://127.0.0.1:{ports['nginx']}/")
        except httpx.TransportError:
            assert started.poll() is None, (folder / "error.log").read_text()
            time.sleep(0.05)
        else:
            return started
    raise AssertionError("nginx does not answer")


def ask(ports: dict[str, int], place: str, name: str = "", **headers: str) -> httpx.Response:
    sent = {"host": SITE} | {key.replace("_", "-"): text for key, text in headers.items()}
    cookies = {"signed_in": name} if name else {}
    with httpx.Client(verify=False, cookies=cookies, follow_redirects=False) as client:
        address = f"https://127.0.0.1:{ports['nginx']}"
        answer = client.get(address + place, headers=sent)
        if answer.status_code == 303:
            cookie = answer.headers["set-cookie"].partition(";")[0]
            sent["cookie"] = f"{cookie}; signed_in={name}"
            answer = client.get(address + answer.headers["location"], headers=sent)
        return answer


def test_nginx_signs_people_in_and_forged_headers_nobody(ports: dict[str, int]) -> None:
    page = ask(ports, "/runs", "ben")
    assert page.status_code == 200
    assert "ben@example.org, approver" in readable(page.text)
    # a client's own headers are replaced
    forged = ask(
        ports, "/runs", "ben", X_Auth_Request_Email="ana@example.org", X_Auth_Request_Groups="root"
    )
    assert "ben@example.org, approver" in readable(forged.text)
    nobody = ask(ports, "/runs", X_Auth_Request_Email="ana@example.org")
    assert nobody.status_code == 302
    assert (
        nobody.headers["location"].startswith("/oauth2/start?rd=")
        or "/oauth2/start" in (nobody.headers["location"])
    )
    # past nginx
    direct = httpx.get(
        f"http://127.0.0.1:{ports['app']}/runs",
        headers={"host": SITE, NAME_HEADER: "ana@example.org", SECRET_HEADER: "guess"},
    )
    assert direct.status_code == 403
