"""The file that says who is told: read, checked, and nothing brought anywhere without a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from evenhand.flows.services import read_notifications
from evenhand.tasks.errors import InputError

SHIPPED = Path(__file__).resolve().parents[2] / "deploy" / "notify.yaml"


def test_what_the_environment_lacks_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENHAND_WEBHOOK", raising=False)
    monkeypatch.setenv("EVENHAND_EMAIL", "mailtos://u:p@smtp.example.org?to=team@example.org")
    found = read_notifications(SHIPPED)
    assert found.webhook is None
    assert found.email == "mailtos://u:p@smtp.example.org?to=team@example.org"
    assert found.states == ["Failed", "Crashed", "TimedOut"]
    assert found.lost_after_seconds == 120


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("webhok: https://x.org", "webhok"),
        ("states: [Lost]", "states"),
        ("states: []", ""),
        ("webhook: ftp://x.org", "webhook is not an http"),
        ("email: someone@example.org", "email is not an Apprise address"),
        ("lost_after_seconds: 5", "lost_after_seconds"),
        ("[1, 2]", "must be a mapping"),
        ("a: [", "not valid YAML"),
    ],
)
def test_a_wrong_file_gets_one_line(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "notify.yaml"
    path.write_text(content)
    if content == "states: []":  # as good as left out
        assert read_notifications(path).states == ["Failed", "Crashed", "TimedOut"]
        return
    with pytest.raises(InputError, match=words):
        read_notifications(path)


def test_a_secret_is_not_told(tmp_path: Path) -> None:
    path = tmp_path / "notify.yaml"
    path.write_text("webhook: token-1234")
    with pytest.raises(InputError) as caught:
        read_notifications(path)
    assert "1234" not in str(caught.value)


def test_without_a_server_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    from evenhand.flows.cli import app

    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    done = CliRunner().invoke(app, ["notify", str(SHIPPED)])
    assert done.exit_code == 2
    assert "set PREFECT_API_URL" in done.stderr
