"""Reaching the model registry leaves this process as it was."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from evenhand.tasks.errors import NotCarriedOut, ServiceAway
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.client import (
    DIGEST_TAG,
    Published,
    published,
    published_version,
    registry_client,
    tracking_uri,
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
    with registry_client(uri) as client:
        client.create_registered_model("people")
        tags = {DIGEST_TAG: "abc"}
        client.create_model_version("people", str(tmp_path / "model"), tags=tags)
        client.set_registered_model_alias("people", "champion", "1")
    assert published(uri, "people", "champion") == Published("1", "abc")
    assert published(uri, "people", "challenger") is None
    assert published(uri, "nobody", "champion") is None
    assert published_version(uri, "people", "1") == Published("1", "abc")
    assert published_version(uri, "people", "2") is None


def test_only_a_service_can_be_away(tmp_path: Path) -> None:
    with pytest.raises(ServiceAway), registry_client("http://127.0.0.1:9"):
        raise ConnectionError("refused")
    with pytest.raises(NotCarriedOut) as caught, registry_client(f"sqlite:///{tmp_path}/x.db"):
        raise ConnectionError("refused")
    assert type(caught.value) is NotCarriedOut
