"""What the app does with texts of others: in its pages, in addresses, and in temporary folders."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evenhand.flows.app import person_views, web
from evenhand.flows.app.person_views import MOST_OPEN_MODELS, OpenModels
from evenhand.flows.app.registry_views import _records
from evenhand.flows.app.sessions import Sessions
from evenhand.flows.app.web import AppSettings
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.ledger import Chain, Record


def test_no_page_has_characters_that_reorder_it(tmp_path: Path) -> None:
    """A reason or a name of somebody who writes records is shown, and never obeyed."""
    settings = AppSettings("uri", Store(str(tmp_path)), Sessions({}), frozenset())
    text = "refused\u202e\x1b[2J <b>by</b> ada"
    page = bytes(web.message_page(settings, None, 409, "Refused", text).body).decode()
    assert "refused\ufffd\ufffd[2J &lt;b&gt;by&lt;/b&gt; ada" in page


def test_models_that_are_closed_leave_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else whoever asks for one version after another fills the disk."""
    monkeypatch.setattr(person_views, "open_model", lambda *_: SimpleNamespace())
    models = OpenModels(Store(str(tmp_path)))
    for version in range(1, MOST_OPEN_MODELS + 4):
        with models.using("people", str(version)):
            pass
    assert len(list(Path(models._folder).iterdir())) == MOST_OPEN_MODELS


@pytest.mark.parametrize("version", ["01", "\uff11", "1 ", "../1"])
def test_a_version_has_one_spelling(tmp_path: Path, version: str) -> None:
    models = OpenModels(Store(str(tmp_path)))
    with pytest.raises(InputError, match="has no version"), models.using("people", version):
        pass


def test_a_false_signature_is_not_called_one() -> None:
    fields: dict[str, Any] = {"number": 1, "when": "2026-11-28T12:00:00+00:00", "who": "ada"}
    fields |= {"kind": "approval", "previous": "", "content": {"version": "1"}}
    fields |= {"record_key": "ab" * 32, "record_signature": "cd" * 64}
    record = Record.read(json.dumps(fields))
    assert record is not None
    section = _records(Chain("people", [record]))
    assert "its signature is false" in str(section)
