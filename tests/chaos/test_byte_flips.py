"""A byte that was changed, anywhere: refused or repaired, and never another answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evenhand.fairlib.file_digests import is_of_others, model_faults
from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.client import damaged_files, fetch_bundle, registry_client
from tests.flows.people import JOB, Bench, run_all

MODEL = "people-gbdt"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_all(Bench(tmp_path_factory.mktemp("flips")), JOB).store


def flip(path: Path, rng: np.random.Generator) -> bytes:
    """Change one bit of a file; return what it was."""
    kept = path.read_bytes()
    place = int(rng.integers(len(kept)))
    changed = bytes([kept[place] ^ (1 << int(rng.integers(8)))])
    path.write_bytes(kept[:place] + changed + kept[place + 1 :])
    return kept


@pytest.mark.long
def test_every_flip_in_a_model_is_refused(store: Path, tmp_path: Path) -> None:
    uri, rng = f"sqlite:///{store}/mlflow.db", np.random.default_rng(0)
    with registry_client(uri) as client:
        root = Path(client.get_model_version_download_uri(MODEL, "1"))
    files = sorted(
        path
        for path in root.rglob("*")
        if path.is_file()
        and path.stat().st_size
        and not is_of_others(path.relative_to(root).as_posix())
    )
    assert damaged_files(uri, MODEL, "1") == []
    for number in range(200):
        path = files[int(rng.integers(len(files)))]
        kept = flip(path, rng)
        (fault, *_) = damaged_files(uri, MODEL, "1") or [""]
        assert path.relative_to(root).as_posix() in fault
        with pytest.raises(InputError, match="is not what was published"):
            fetch_bundle(uri, MODEL, "1", tmp_path / str(number))
        # the model's own check knows the files that its list has; a changed list differs from the
        # files
        if path.parent != root or path.name == "model_code.py":
            assert model_faults(root)
        path.write_bytes(kept)
    assert damaged_files(uri, MODEL, "1") == []
    assert model_faults(root) == []
    assert model_faults(root / "artifacts" / "bundle") == []


@pytest.mark.long
def test_every_flip_in_the_cache_is_found(store: Path) -> None:
    opened, rng = Store(str(store)), np.random.default_rng(1)
    records = sorted(store.glob("steps/*/*.json"))
    for _ in range(200):
        record = records[int(rng.integers(len(records)))]
        step, key = record.parent.name, record.stem
        found = opened.find(step, key)
        assert found is not None
        artifacts = [artifact for artifact in found.outputs.values() if artifact.size]
        if not artifacts:
            continue
        artifact = artifacts[int(rng.integers(len(artifacts)))]
        path = Path(artifact.uri)
        members = [item for item in path.rglob("*") if item.is_file() and item.stat().st_size] or [
            path
        ]
        member = members[int(rng.integers(len(members)))]
        kept = flip(member, rng)
        assert opened.find(step, key) is None
        with pytest.raises(NotCarriedOut, match="missing from the store or damaged"):
            opened.fetch(artifact)
        member.write_bytes(kept)


@pytest.mark.long
def test_a_record_of_prefect_is_never_read(store: Path) -> None:
    """Finding 2.9: nothing of ours lies in Prefect's result storage, whose records name their
    reader.
    """
    assert not list((store / "prefect").glob("storage/*"))
    from evenhand.flows.prefect_engine import STEP_TASKS
    from evenhand.tasks.execution.step import STEPS

    assert {STEP_TASKS[name].persist_result for name in STEPS} == {False}
