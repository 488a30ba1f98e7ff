"""The one function that decides whether a model's folder is what was published."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from pathlib import Path

import pytest

from evenhand.fairlib.file_digests import (
    BUNDLE,
    FORBIDDEN,
    LIST,
    is_allowed,
    model_faults,
    other_code,
    read_regular,
    sized_digests,
)

FILES = {f"{BUNDLE}/inputs.json": "{}", f"{BUNDLE}/model/trees.ubj": "x", "code/evenhand/a.py": "1"}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model's folder with a list of its files, and MLflow's own file."""
    root = tmp_path / "model"
    listed = {path: digest(text) for path, text in FILES.items()}
    texts = {**FILES, "MLmodel": "m", f"{BUNDLE}/{LIST}": json.dumps(listed)}
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def test_what_was_published_has_no_fault_whole_or_alone(model: Path) -> None:
    assert model_faults(model) == []
    assert model_faults(model / BUNDLE) == []


def test_the_copy_has_the_bundle_alone(model: Path, tmp_path: Path) -> None:
    assert model_faults(model, copy_to=tmp_path / "copy") == []
    copied = sorted(
        path.relative_to(tmp_path / "copy").as_posix() for path in (tmp_path / "copy").rglob("*.*")
    )
    assert copied == [LIST, "inputs.json", "model/trees.ubj"]
    assert model_faults(tmp_path / "copy") == []


def test_the_registrys_digests_cover_mlflows_files(model: Path) -> None:
    outer = {
        f"{BUNDLE}/{LIST}": digest((model / BUNDLE / LIST).read_text()),
        "MLmodel": digest("m"),
    }
    assert model_faults(model, json.dumps(outer)) == []
    (model / "MLmodel").write_text("other")
    assert model_faults(model, json.dumps(outer)) == ["MLmodel was changed"]
    assert model_faults(model) == []
    (model / "conda.yaml").write_text("")
    assert "conda.yaml was added" in (model_faults(model, json.dumps(outer)) or [])
    (model / BUNDLE / LIST).write_text("{}")
    assert model_faults(model, json.dumps(outer)) == [f"{BUNDLE}/{LIST} was changed"]


@pytest.mark.parametrize("text", ["[]", "{", "1", '"x"'])
def test_a_list_that_is_none_is_a_fault(model: Path, text: str) -> None:
    (model / BUNDLE / LIST).write_text(text)
    assert model_faults(model) == [f"{BUNDLE}/{LIST} was changed"]


def test_links_and_devices_are_faults_that_nothing_opens(model: Path, tmp_path: Path) -> None:
    (model / "code" / "loop").symlink_to(model)
    (model / "code" / "nowhere").symlink_to(tmp_path / "nowhere")
    os.mkfifo(model / BUNDLE / "pipe")
    # the path of a socket may have a hundred characters
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.open(model, os.O_RDONLY)
        listening.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
        faults = model_faults(model)
    assert sorted(faults or []) == [
        f"{BUNDLE}/pipe is no regular file",
        "code/loop is a link",
        "code/nowhere is a link",
        "socket is no regular file",
    ]


def test_of_an_added_folder_only_the_folder_is_named(model: Path) -> None:
    (model / "code" / "xgboost" / "core").mkdir(parents=True)
    (model / "code" / "xgboost" / "core" / "a.py").write_text("")
    (model / "code" / "sitecustomize.py").write_text("")
    assert model_faults(model) == ["code/sitecustomize.py was added", "code/xgboost was added"]


def test_bytecode_is_a_fault_but_that_of_the_running_file(model: Path) -> None:
    (model / "__pycache__").mkdir()
    (model / "__pycache__" / "model_code.cpython-311.pyc").write_bytes(b"")
    (fault,) = model_faults(model) or []
    assert "__pycache__ was added: delete bytecode" in fault
    assert model_faults(model, running="model_code") == []
    (model / "__pycache__" / "other.cpython-311.pyc").write_bytes(b"")
    assert len(model_faults(model, running="model_code") or []) == 1


def test_a_folder_without_a_list_is_not_compared(model: Path) -> None:
    """It is compared where it must have a list."""
    (model / BUNDLE / LIST).unlink()
    assert model_faults(model) is None
    assert model_faults(model, json.dumps({"MLmodel": digest("m")})) == [
        f"{BUNDLE}/{LIST} is missing"
    ]
    (model / BUNDLE / "evaluation.json").write_text('{"files_listed": true}')
    assert model_faults(model) == [f"{BUNDLE}/{LIST} is missing"]
    assert model_faults(model / BUNDLE) == [f"{LIST} is missing"]


@pytest.mark.parametrize(
    ("name", "text", "missing"),
    [
        ("evaluation.json", '{"files_listed": true}', True),
        ("evaluation.json", '{"evenhand": "0.2.0"}', True),
        ("evaluation.json", '{"job": "evenhand", "contract": {"files_listed": 1}}', False),
        ("reference.json", '{"membership": {}}', True),
        ("reference.json", '{"columns": {}}', False),
        ("training_rows.json", '{"format": 2}', True),
        ("evaluation.json", "{", True),
    ],
)
@pytest.mark.parametrize("whole", [True, False])
def test_a_list_is_missing_where_its_release_wrote_lists(
    model: Path, name: str, text: str, missing: bool, whole: bool
) -> None:
    """Of a bundle alone as of a whole model, without the code that checks."""
    (model / BUNDLE / LIST).unlink()
    (model / BUNDLE / name).write_text(text)
    folder = model if whole else model / BUNDLE
    place = f"{BUNDLE}/{LIST}" if whole else LIST
    expected = [f"{place} is missing"] if missing else None
    assert model_faults(folder) == expected


def test_a_path_outside_of_the_folder_is_a_fault(model: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x")
    listed = json.loads((model / BUNDLE / LIST).read_text()) | {
        f"{BUNDLE}/../../../outside": digest("x")
    }
    (model / BUNDLE / LIST).write_text(json.dumps(listed))
    assert model_faults(model, copy_to=tmp_path / "copy") == [
        f"{BUNDLE}/../../../outside {FORBIDDEN}"
    ]


def test_a_list_has_sizes_and_a_larger_file_is_not_read(model: Path) -> None:
    """The list of today; that of an older version has digests alone."""
    place = model / BUNDLE / LIST
    place.unlink()
    listed = {}
    for path, entry in sized_digests(model).items():
        if path in FILES:
            listed[path] = entry
    assert listed[f"{BUNDLE}/inputs.json"] == {"sha256": digest("{}"), "bytes": 2}
    place.write_text(json.dumps(listed))
    assert model_faults(model) == []
    listed[f"{BUNDLE}/inputs.json"]["bytes"] = 3
    place.write_text(json.dumps(listed))
    assert model_faults(model) == [f"{BUNDLE}/inputs.json was changed"]
    for entry in ({"sha256": digest("{}")}, {"bytes": 2}, {"sha256": "", "bytes": "two"}):
        place.write_text(json.dumps({**listed, f"{BUNDLE}/inputs.json": entry}))
        assert model_faults(model) == [f"{BUNDLE}/{LIST} was changed"]


ALLOWED = (
    "MLmodel",
    "model_code.py",
    "code/evenhand/__init__.py",
    "code/evenhand/fairlib/py.typed",
    "code/evenhand/fairlib/methods/gbdt.py",
    f"{BUNDLE}/model/booster.ubj",
    f"{BUNDLE}/model/network.safetensors",
    f"{BUNDLE}/training_rows.json",
    f"{BUNDLE}/sentence_encoder/.gitattributes",
    f"{BUNDLE}/sentence_encoder/1_Pooling/config.json",
)
FORBIDDEN_FILES = (
    "setup.py",
    "evil.pth",
    "code/xgboost.py",
    "code/evenhand/fairlib/a.so",
    "code/evenhand/fairlib/a.pth",
    "code/evenhand/fairlib/a.pyc",
    "code/evenhand/fairlib/.hidden.py",
    "code/evenhand/../a.py",
    f"{BUNDLE}/model/weights.pkl",
    f"{BUNDLE}/model/weights.pt",
    f"{BUNDLE}/model/a.py",
    f"{BUNDLE}/.hidden.json",
    f"{BUNDLE}/a\nb.json",
    f"{BUNDLE}/sentence_encoder/pytorch_model.bin",
    f"{BUNDLE}/sentence_encoder/modeling.py",
    "artifacts/other.json",
    "/MLmodel",
    "",
)


def test_files_are_allowed_by_name_and_place() -> None:
    assert [path for path in ALLOWED if not is_allowed(path)] == []
    assert [path for path in FORBIDDEN_FILES if is_allowed(path)] == []


@pytest.mark.parametrize("path", ["code/evenhand/a.so", "evil.pth", f"{BUNDLE}/model/a.pkl"])
def test_a_listed_file_of_a_forbidden_kind_is_a_fault(model: Path, path: str) -> None:
    """Whoever rewrites the list cannot add such a file either."""
    (model / path).write_text("x")
    listed = json.loads((model / BUNDLE / LIST).read_text()) | {path: digest("x")}
    (model / BUNDLE / LIST).write_text(json.dumps(listed))
    assert model_faults(model) == [f"{path} {FORBIDDEN}"]
    if path.startswith(f"{BUNDLE}/"):
        assert model_faults(model / BUNDLE) == [f"{path.removeprefix(f'{BUNDLE}/')} {FORBIDDEN}"]


def test_only_a_regular_file_is_read(model: Path) -> None:
    assert read_regular(model / "MLmodel") == b"m"
    os.mkfifo(model / "pipe")
    (model / "link").symlink_to(model / "MLmodel")
    for name in ("pipe", "link", "none", "code"):
        with pytest.raises(OSError, match=name):
            read_regular(model / name)


FLAVOR = {
    "code": "code",
    "loader_module": "mlflow.pyfunc.model",
    "model_code_path": "/a/model_code.py",
}


def test_a_description_by_mlflow_names_the_listed_code_alone() -> None:
    assert other_code({"flavors": {"python_function": FLAVOR}}) is None
    for changed in (
        {"code": "../evil"},
        {"loader_module": "evil"},
        {"model_code_path": "b.py"},
        {"data": "x"},
    ):
        assert "other code" in str(
            other_code({"flavors": {"python_function": {**FLAVOR, **changed}}})
        )
    for described in (None, [], {}, {"flavors": {"python_function": FLAVOR, "sklearn": {}}}):
        assert "another kind of model" in str(other_code(described))


@pytest.mark.parametrize("text", ["[" * 100_000, "{}", "[]", '{"a": 1}'])
def test_a_list_that_cannot_be_read_is_a_fault(model: Path, text: str) -> None:
    """Brackets nested so deep that the parser gives up are a fault of the list, like other text."""
    (model / BUNDLE / LIST).write_text(text)
    assert model_faults(model)
