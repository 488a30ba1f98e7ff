"""Reaching the model registry leaves this process as it was."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evenhand.tasks import errors
from evenhand.tasks.errors import NotCarriedOut, ServiceAway
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry import client
from evenhand.tasks.registry.client import (
    BUNDLE,
    DIGEST_TAG,
    Published,
    current_aliases,
    fetch_bundle,
    published,
    published_version,
    registered,
    registry_client,
    tracking_uri,
    value_names,
)

ADDRESSES = ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI")


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Store, Store]:
    for name in ADDRESSES:
        monkeypatch.delenv(name, raising=False)
    return Store(str(tmp_path / "one")), Store(str(tmp_path / "two"))


def test_a_store_opened_after_another_has_a_registry_of_its_own(
    stores: tuple[Store, Store],
) -> None:
    first, second = stores
    with registry_client(tracking_uri(first)):
        # for what MLflow starts in the meantime
        assert os.environ["MLFLOW_TRACKING_URI"] == tracking_uri(first)
    assert tracking_uri(second).endswith("/two/mlflow.db")
    assert not set(ADDRESSES) & set(os.environ)


def test_the_users_own_registry_stays_the_address(
    stores: tuple[Store, Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with pytest.raises(NotCarriedOut), registry_client(f"sqlite:///{tmp_path}/elsewhere.db"):
        raise OSError("out of reach")
    assert tracking_uri(stores[0]) == "http://127.0.0.1:9"


def test_a_registry_error_is_one_line_without_its_password(
    stores: tuple[Store, Store], tmp_path: Path
) -> None:
    uri = "http://me:secret@127.0.0.1:9"
    with pytest.raises(NotCarriedOut) as caught, registry_client(uri):
        raise OSError(f"no answer from {uri} " + "x" * 300 + "\nsecond line")
    shown = "http://127.0.0.1:9"
    reason = f"no answer from {shown} " + "x" * 300
    assert str(caught.value) == (
        f"the model registry at {shown} gave no valid answer (OSError: {reason[:200]}): "
        "check MLFLOW_TRACKING_URI and the server, then run again."
    )
    assert type(caught.value) is NotCarriedOut
    with pytest.raises(NotCarriedOut, match=r"\(OSError: \)"), registry_client(uri):
        raise OSError
    # what is no error of a registry is not taken for one
    with pytest.raises(ZeroDivisionError), registry_client(f"sqlite:///{tmp_path}/x.db"):
        raise ZeroDivisionError


def test_versions_by_alias_and_by_number(tmp_path: Path, registry: Path) -> None:
    shutil.copyfile(registry, tmp_path / "mlflow.db")
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    (tmp_path / "model").mkdir()
    with registry_client(uri) as created:
        created.create_registered_model("people")
        tags = {DIGEST_TAG: "abc"}
        created.create_model_version("people", str(tmp_path / "model"), tags=tags)
        created.set_registered_model_alias("people", "champion", "1")
    assert published(uri, "people", "champion") == Published("1", "abc")
    assert published(uri, "people", "challenger") is None
    assert published(uri, "nobody", "champion") is None
    assert published_version(uri, "people", "1") == Published("1", "abc")
    assert published_version(uri, "people", "2") is None


def test_parameters_of_a_version_without_a_list_are_copied(tmp_path: Path, registry: Path) -> None:
    # an older evenhand published it; one without parameter files gives an empty place
    shutil.copyfile(registry, tmp_path / "mlflow.db")
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    bundle = tmp_path / "model" / BUNDLE
    bundle.mkdir(parents=True)
    (bundle / "weights.json").write_text("[1]")
    (tmp_path / "bare").mkdir()
    with registry_client(uri) as created:
        created.create_registered_model("people")
        for folder in ("model", "bare"):
            created.create_model_version("people", str(tmp_path / folder))
    fetched = fetch_bundle(uri, "people", "1", tmp_path / "first")
    assert (fetched / "weights.json").read_text() == "[1]"
    assert not list(fetch_bundle(uri, "people", "2", tmp_path / "second").glob("*"))


def test_only_a_service_can_be_away(tmp_path: Path) -> None:
    with pytest.raises(ServiceAway), registry_client("http://127.0.0.1:9"):
        raise ConnectionError("refused")
    with pytest.raises(NotCarriedOut) as caught, registry_client(f"sqlite:///{tmp_path}/x.db"):
        raise ConnectionError("refused")
    assert type(caught.value) is NotCarriedOut


@pytest.mark.parametrize(
    "question",
    [
        lambda uri: published(uri, "people", "champion"),
        lambda uri: value_names(uri, "people", "1"),
        lambda uri: registered(uri, "people"),
        lambda uri: current_aliases(uri, ["people"]),
    ],
)
def test_questions_wait_for_a_registry_that_is_away(
    question: Callable[[str], Any],
    tmp_path: Path,
    registry: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.copyfile(registry, tmp_path / "mlflow.db")
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    with registry_client(uri) as created:
        created.create_registered_model("people")
        created.create_model_version("people", str(tmp_path))
        created.set_registered_model_alias("people", "champion", "1")
    expected = question(uri)
    calls: list[str] = []
    reach = registry_client

    def away_at_first(address: str) -> Any:
        calls.append(address)
        if len(calls) == 1:
            raise ServiceAway("the registry is away: start it.")
        return reach(address)

    monkeypatch.setattr(client, "registry_client", away_at_first)
    monkeypatch.setattr(client, "ask_once", lambda uri, what, ask: ask())
    monkeypatch.setenv("EVENHAND_WAIT", "60")
    monkeypatch.setattr(errors, "PAUSE_S", 0.0)
    assert question(uri) == expected
    assert len(calls) == 2
