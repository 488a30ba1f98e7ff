"""The file that says who is told: read, checked, and nothing brought anywhere without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evenhand.flows.run_events import EVENTS
from evenhand.flows.services import ALERTS, Notifications, automations_of, read_notifications
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


def test_alerts_that_are_switched_off_stay_off(tmp_path: Path) -> None:
    path = tmp_path / "notify.yaml"
    path.write_text("alerts: []\nrun_again: false\n")
    notifications = read_notifications(path)
    assert (notifications.alerts, notifications.run_again) == ([], False)
    path.write_text("alerts: [late, drifts]\n")
    with pytest.raises(InputError, match="alerts"):
        read_notifications(path)
    assert read_notifications(SHIPPED) == Notifications()


def test_each_alert_is_an_automation_of_its_name() -> None:
    from prefect.events.actions import DoNothing

    def notify(subject: str, body: str) -> list[Any]:
        return [DoNothing()]

    automations = automations_of(Notifications(), notify)
    names = [
        "lost-runs",
        "stuck-runs",
        "run-again",
        "late",
        "no-worker",
        "refused",
        "drift",
        "no-evidence",
    ]
    expected = ["evenhand", *(f"evenhand-{name}" for name in [*names, "overdue"])]
    assert sorted(item.name for item in automations) == sorted(expected)
    # without a channel nobody is notified, and lost runs end and run again all the same
    names = [item.name for item in automations_of(Notifications(), lambda *_: [])]
    assert names == ["evenhand-lost-runs", "evenhand-stuck-runs", "evenhand-run-again"]
    few = Notifications(alerts=["late"], run_again=False)
    names = [item.name for item in automations_of(few, notify)]
    assert names == ["evenhand-lost-runs", "evenhand-stuck-runs", "evenhand", "evenhand-late"]


def test_every_alert_is_on_the_page_for_those_on_call() -> None:
    page = (SHIPPED.parents[1] / "docs" / "how-to" / "on-call.md").read_text()
    for name in (*ALERTS, "Failed", "Crashed", "TimedOut", *EVENTS):
        assert f"`{name}`" in page, name


def test_a_published_challenger_starts_its_evaluation(tmp_path: Path) -> None:
    from uuid import uuid4

    from evenhand.flows.services import _challenger_block, _on_challenger

    path = tmp_path / "notify.yaml"
    path.write_text("challenger_webhook: ci.example.org\n")
    with pytest.raises(InputError, match="challenger_webhook is not an http"):
        read_notifications(path)
    address = "https://api.github.com/repos/acme/people/dispatches"
    path.write_text(f"challenger_webhook: {address}\nchallenger_token: secret-1\n")
    block = _challenger_block(read_notifications(path))
    assert block.headers["Authorization"] == "Bearer {{token}}"
    assert block.secrets.get_secret_value() == {"address": address, "token": "secret-1"}
    automation = _on_challenger(uuid4())
    trigger = automation.trigger.model_dump(mode="json")
    assert trigger["expect"] == ["evenhand.version.published"]
    assert trigger["match"]["evenhand.alias"] == ["challenger"] or (
        trigger["match"]["evenhand.alias"] == "challenger"
    )
    assert automation.actions[0].body.startswith("models:/")
