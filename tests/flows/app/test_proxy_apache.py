"""The Apache file of deploy/app between an OpenID Connect provider and a real app: people sign in at
the provider, have the roles of their groups, and nobody gets in past it.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from evenhand.flows.app.proxy import GROUPS_HEADER, NAME_HEADER, SECRET_HEADER
from tests.flows.app.oidc_provider import CLIENT_SECRET, FORGER, OidcProvider, provider_running
from tests.flows.app.proxied_app import SITE, app_running, certified, free_port
from tests.flows.app.test_proxy import ROOT, SECRET, written
from tests.flows.app.test_server import readable

APACHE = shutil.which("apache2")
MODULES = Path("/usr/lib/apache2/modules")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not (APACHE and shutil.which("openssl") and (MODULES / "mod_auth_openidc.so").exists()),
        reason="needs apache2, libapache2-mod-auth-openidc and openssl",
    ),
]
LOADED = ("mpm_event", "authz_core", "authz_user", "authn_core", "headers", "reqtimeout", "proxy")
LOADED += ("proxy_http", "ssl", "socache_shmcb", "auth_openidc", "alias", "env")


class Site:
    """The addresses of Apache, the app and the provider, and people who sign in."""

    def __init__(self, apache: int, app: int, provider: OidcProvider) -> None:
        self.apache = f"https://127.0.0.1:{apache}"
        self.app = f"http://127.0.0.1:{app}"
        self.provider = provider

    def visit(self, client: httpx.Client, place: str, **headers: str) -> httpx.Response:
        """One request to Apache, as a browser of the site sends it."""
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return client.get(self.apache + place, headers={"host": SITE, **named})

    def sign_in(self, client: httpx.Client, name: str) -> httpx.Response:
        """Go from the first screen to the provider and back; the last answer."""
        first = self.visit(client, "/runs")
        assert first.status_code == 302, first.text
        assert first.headers["location"].startswith(f"{self.provider.issuer}/authorize?")
        signed_in = httpx.get(f"{first.headers['location']}&login={name}")
        assert signed_in.headers["location"].startswith(f"https://{SITE}/oauth2/callback?")
        answer = self.visit(client, path_of(signed_in))
        for _ in range(4):
            if answer.status_code not in (302, 303):
                break
            answer = self.visit(client, path_of(answer))
        return answer


def path_of(answer: httpx.Response) -> str:
    """The path and query of the place that an answer leads to."""
    parts = urlsplit(answer.headers["location"])
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


@contextmanager
def person(site: Site) -> Iterator[httpx.Client]:
    """A browser; it sends the cookies of the site whatever its port is."""
    with httpx.Client(verify=False, follow_redirects=False, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Start the provider, the app and Apache."""
    folder = tmp_path_factory.mktemp("site")
    apache_port = free_port()
    proxy_file = written(folder, addresses=["127.0.0.1"])
    with app_running(folder, proxy_file) as app_port, provider_running() as provider:
        apache = start_apache(folder, apache_port, app_port, provider)
        try:
            yield Site(apache_port, app_port, provider)
        finally:
            apache.terminate()
            apache.wait(20)


def start_apache(
    folder: Path, port: int, app_port: int, provider: OidcProvider
) -> subprocess.Popen[bytes]:
    certificate, key = certified(folder)
    (folder / "secret.conf").write_text(f'RequestHeader set {SECRET_HEADER} "{SECRET}"\n')
    (folder / "oidc.conf").write_text(
        f'OIDCClientSecret "{CLIENT_SECRET}"\nOIDCCryptoPassphrase "{"p" * 40}"\n'
    )
    text = (ROOT / "deploy" / "app" / "apache.conf").read_text()
    for before, after in {
        "<VirtualHost *:443>": f"<VirtualHost 127.0.0.1:{port}>",
        "/etc/apache2/models.example.org.pem": str(certificate),
        "/etc/apache2/models.example.org.key": str(key),
        "/etc/apache2/evenhand-oidc-secret.conf": str(folder / "oidc.conf"),
        "/etc/apache2/evenhand-secret.conf": str(folder / "secret.conf"),
        "https://login.example.org/realms/staff": provider.issuer,
        "http://127.0.0.1:8080/": f"http://127.0.0.1:{app_port}/",
    }.items():
        assert before in text
        text = text.replace(before, after)
    modules = "".join(
        f"LoadModule {name}_module {MODULES}/mod_{name}.so\n"
        for name in LOADED
        if (MODULES / f"mod_{name}.so").exists()
    )
    whole = folder / "apache.conf"
    whole.write_text(
        f"ServerRoot {folder}\nServerName {SITE}\nListen 127.0.0.1:{port}\n{modules}"
        f"PidFile {folder}/apache.pid\nErrorLog {folder}/error.log\n"
        f"DefaultRuntimeDir {folder}\nMutex file:{folder}\nUser www-data\nGroup www-data\n{text}"
    )
    folder.chmod(0o755)
    started = subprocess.Popen([str(APACHE), "-f", str(whole), "-D", "FOREGROUND"])
    for _ in range(400):
        try:
            httpx.get(f"https://127.0.0.1:{port}/", verify=False)
        except httpx.TransportError:
            assert started.poll() is None, (folder / "error.log").read_text()
            time.sleep(0.05)
        else:
            return started
    raise AssertionError("Apache does not answer")


def test_people_have_the_roles_of_their_groups(site: Site) -> None:
    for name, role in (("ana", "owner"), ("ben", "viewer")):
        with person(site) as client:
            page = site.sign_in(client, name)
            assert page.status_code == 200, page.text
            assert f"{name}@example.org, {role}" in readable(page.text)
            # what a client sends by the names of the headers is replaced
            forged = {NAME_HEADER: "ana@example.org", GROUPS_HEADER: "approvers"}
            again = site.visit(client, "/runs", **forged)
            assert f"{name}@example.org, {role}" in readable(again.text)
    with person(site) as client:
        assert site.sign_in(client, "cleo").status_code == 403


def test_who_signed_in_nowhere_is_sent_to_the_provider(site: Site) -> None:
    forged = {NAME_HEADER: "ana@example.org", SECRET_HEADER: SECRET}
    with person(site) as client:
        answer = site.visit(client, "/runs", **forged)
        assert answer.status_code == 302
        assert answer.headers["location"].startswith(site.provider.issuer)


def test_a_token_of_another_key_signs_nobody_in(site: Site) -> None:
    with person(site) as client:
        # a page of Apache's, whose status is 200
        answer = site.sign_in(client, FORGER)
        assert "OpenID Connect Provider error" in answer.text
        assert "example.org" not in answer.text
        assert site.visit(client, "/runs").status_code == 302


def test_nobody_gets_in_past_the_proxy(site: Site) -> None:
    headers = {"host": SITE, NAME_HEADER: "ana@example.org"}
    believed = {**headers, SECRET_HEADER: SECRET}
    assert httpx.get(f"{site.app}/runs", headers=believed).status_code == 303
    assert httpx.get(f"{site.app}/runs", headers=headers).status_code == 403
    wrong = {**headers, SECRET_HEADER: "x" * 40}
    assert httpx.get(f"{site.app}/runs", headers=wrong).status_code == 403
    # the right secret from an address that is not listed
    elsewhere = httpx.HTTPTransport(local_address="127.0.0.2")
    with httpx.Client(transport=elsewhere) as client:
        assert client.get(f"{site.app}/runs", headers=believed).status_code == 403


def test_signing_out_ends_the_session_of_apache(site: Site) -> None:
    with person(site) as client:
        assert site.sign_in(client, "ben").status_code == 200
        out = site.visit(client, f"/oauth2/callback?logout=https%3A%2F%2F{SITE}%2F")
        assert out.status_code == 302
        assert site.visit(client, "/runs").status_code == 302
