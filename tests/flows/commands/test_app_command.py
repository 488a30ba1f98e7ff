"""How the app is started: who may reach it, and what is said where it cannot start."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evenhand.flows.app.people import is_password


def call(*arguments: str, **more: Any) -> Any:
    from evenhand.flows.cli import app

    return CliRunner().invoke(app, ["app", *arguments], **more)


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "users.yaml"
    path.write_text("users:\n- {name: ana, role: viewer, password: 'a$b$c$d$e$f'}\n")
    path.chmod(0o600)
    return path


def test_a_password_is_hashed() -> None:
    done = call("--hash-password", input="correct horse battery\n")
    assert done.exit_code == 0
    assert is_password("correct horse battery", done.stdout.strip())
    short = call("--hash-password", input="short\n")
    assert (short.exit_code, short.stdout) == (2, "")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "models.example.org", "192.168.1.7"])
def test_other_machines_need_names(host: str) -> None:
    done = call("--host", host)
    assert done.exit_code == 2
    assert "give --users FILE" in done.stderr


def test_one_key_signs_for_one_person_only(users: Path) -> None:
    done = call("--users", str(users), "--key", "ana.pem")
    assert done.exit_code == 2
    assert "give each person a key in that file" in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--users", "u.yaml", "--proxy", "p.yaml"], "give either --users or --proxy"),
        (["--proxy", "p.yaml", "--key", "ana.pem"], "with --proxy, give each person a key"),
        (["--jobs", "none"], "--jobs none: there is no such folder"),
        (["--proxy", "none.yaml"], "--proxy none.yaml: there is no such file"),
        (["--demo", "--store", "memory://store"], "--demo needs a store on this machine"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: list[str], words: str) -> None:
    done = call(*options)
    assert done.exit_code == 2, done.stderr
    assert words in done.stderr


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = call("--port", str(port), "--store", str(tmp_path / "store"))
    assert done.exit_code == 4
    assert f"--port {port}: nothing can listen there" in done.stderr


@pytest.mark.parametrize(
    ("host", "names", "is_secure"),
    [("127.0.0.1", [], False), ("127.0.0.1", ["Models.example.org"], True)],
)
def test_the_server_answers_to_its_names(
    publishing: Any, monkeypatch: pytest.MonkeyPatch, host: str, names: list[str], is_secure: bool
) -> None:
    servers = []
    monkeypatch.setattr("uvicorn.Server.run", lambda server, sockets: servers.append(server))
    options = [part for name in names for part in ("--hostname", name)]
    done = call("--host", host, "--store", str(publishing.store), *options)
    assert done.exit_code == 0, done.stderr
    assert "changes   none: it only shows" in done.stdout
    config = servers[0].config
    assert config.access_log is False
    settings = config.app.state.settings
    assert settings.secure is is_secure
    assert {name.lower() for name in names} <= settings.hosts
    assert f"/sign-in?token={settings.sessions.one_time_token}" in done.stdout


def test_people_of_a_file_get_no_link(
    publishing: Any, users: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("uvicorn.Server.run", lambda server, sockets: None)
    done = call("--users", str(users), "--store", str(publishing.store), "--json")
    assert done.exit_code == 0, done.stderr
    assert "token" not in done.stdout
    assert '"allow_changes": false' in done.stdout
