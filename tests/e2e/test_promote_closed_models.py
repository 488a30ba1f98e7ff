"""A model is the regular files of its list: every other entry is refused before it is used."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evenhand.fairlib.file_digests import CHECKS, LISTED_KEYS
from evenhand.tasks.errors import InputError
from evenhand.tasks.sources.model_fetching import load_checked_model
from tests.flows.commands.test_promote_command import MODEL, call
from tests.flows.people import Done
from tests.tasks.registry.test_policy import folder_of, refused

BUNDLE = "artifacts/bundle"
# what a stranger's code leaves when it is executed
RAN = "ran.txt"


def link_to_code(root: Path, aside: Path) -> None:
    package = aside / "xgboost"
    package.mkdir()
    (package / "__init__.py").write_text(f"open({str(aside / RAN)!r}, 'w').close()")
    (root / "code" / "xgboost").symlink_to(package)


def link_to_equal_file(root: Path, aside: Path) -> None:
    file = root / BUNDLE / "encoder.json"
    shutil.move(file, aside / "encoder.json")
    file.symlink_to(aside / "encoder.json")


def linked_folder(root: Path, aside: Path) -> None:
    shutil.move(root / "code", aside / "code")
    (root / "code").symlink_to(aside / "code")


def linked_artifacts(root: Path, aside: Path) -> None:
    shutil.move(root / "artifacts", aside / "artifacts")
    (root / "artifacts").symlink_to(aside / "artifacts")


def linked_list(root: Path, aside: Path) -> None:
    shutil.move(root / BUNDLE / "digests.json", aside / "digests.json")
    (root / BUNDLE / "digests.json").symlink_to(aside / "digests.json")


def pipe(root: Path, aside: Path) -> None:
    os.mkfifo(root / BUNDLE / "model" / "pipe")


def pipe_as_list(root: Path, aside: Path) -> None:
    (root / BUNDLE / "digests.json").unlink()
    os.mkfifo(root / BUNDLE / "digests.json")


def added_file(root: Path, aside: Path) -> None:
    (root / "code" / "xgboost.py").write_text(f"open({str(aside / RAN)!r}, 'w').close()")


def added_folder(root: Path, aside: Path) -> None:
    (root / "code" / "empty").mkdir()


def bytecode(root: Path, aside: Path) -> None:
    folder = root / "code" / "evenhand" / "fairlib" / "__pycache__"
    folder.mkdir()
    (folder / "catalogue.cpython-311.pyc").write_bytes(b"\0")


def missing_file(root: Path, aside: Path) -> None:
    (root / BUNDLE / "encoder.json").unlink()


def missing_list(root: Path, aside: Path) -> None:
    (root / BUNDLE / "digests.json").unlink()


CHANGES: dict[Callable[[Path, Path], None], str] = {
    link_to_code: "code/xgboost is a link",
    link_to_equal_file: f"{BUNDLE}/encoder.json is a link",
    linked_folder: "code is a link",
    linked_artifacts: "artifacts is a link",
    linked_list: f"{BUNDLE}/digests.json is a link",
    pipe: f"{BUNDLE}/model/pipe is no regular file",
    pipe_as_list: f"{BUNDLE}/digests.json is no regular file",
    added_file: "code/xgboost.py was added",
    added_folder: "code/empty was added",
    bytecode: "__pycache__ was added",
    missing_file: f"{BUNDLE}/encoder.json is missing",
    missing_list: f"{BUNDLE}/digests.json is missing",
}


# most are long: each calls six commands, and the function that decides has a test of each change
QUICK = (link_to_code, missing_list)
EACH = [
    change if change in QUICK else pytest.param(change, marks=pytest.mark.long)
    for change in CHANGES
]


@pytest.mark.parametrize("change", EACH, ids=lambda change: change.__name__)
def test_every_command_refuses_a_version(champion: Any, change: Any, tmp_path: Path) -> None:
    """Takes a second: a store is copied, and six commands are called."""
    champion.write()
    aside = tmp_path / "aside"
    aside.mkdir()
    change(folder_of(champion.store, "1"), aside)
    words = CHANGES[change]
    done = call(champion.store, "verify", MODEL)
    assert (done.exit_code, words in done.stderr) == (1, True), done.stderr
    files = ("--input", "people.csv", "--output", "out")
    for command in (
        ("evaluate", MODEL, "--data", "people.csv", "--direct"),
        ("monitor", MODEL, "--data", "people.csv", "--direct"),
        ("predict", MODEL, *files, "--direct"),
        ("export", MODEL, "--to", "sql"),
        ("audit", "people.csv", "--model", f"models:/{MODEL}/1", "--sensitive", "sex"),
        ("promote", f"{MODEL}/1", "--to", "other"),
    ):
        refused(champion.store, words, arguments=command)
    assert not (aside / RAN).exists()
    assert not Path("out").exists()


@pytest.mark.parametrize("change", EACH, ids=lambda change: change.__name__)
def test_every_command_refuses_a_folder(champion: Any, change: Any, tmp_path: Path) -> None:
    champion.write()
    aside = tmp_path / "aside"
    aside.mkdir()
    shutil.copytree(folder_of(champion.store, "1"), "folder")
    change(Path("folder"), aside)
    words = CHANGES[change]
    for command in (
        ("evaluate", "folder", "--data", "people.csv", "--direct"),
        ("predict", "folder", "--input", "people.csv", "--output", "out", "--direct"),
        ("export", "folder", "--to", "sql"),
        ("ask", "folder"),
        ("audit", "people.csv", "--model", "folder", "--sensitive", "sex"),
    ):
        refused(champion.store, words, arguments=command)
    assert not (aside / RAN).exists()
    assert not Path("out").exists()


def test_swapped_labels_in_a_folder_are_refused(champion: Any) -> None:
    """Every prediction of `predict FOLDER` was inverted."""
    champion.write()
    shutil.copytree(folder_of(champion.store, "1") / BUNDLE, "bundle")
    predict = ("predict", "bundle", "--direct", "--input", "people.csv", "--output")
    done = call(champion.store, *predict, "out")
    assert done.exit_code == 0, done.stderr
    assert "cannot be checked" not in done.stdout
    inputs = Path("bundle/inputs.json")
    content = json.loads(inputs.read_text())
    inputs.write_text(json.dumps(content | {"label_values": content["label_values"][::-1]}))
    refused(champion.store, "inputs.json was changed", arguments=(*predict, "other"))
    Path("bundle/digests.json").unlink()
    refused(champion.store, "digests.json is missing", arguments=(*predict, "other"))
    assert not Path("other").exists()


def test_swapped_labels_are_refused_with_a_list_of_their_own(champion: Any) -> None:
    """Whoever rewrites the list too cannot swap the labels, which the contract has."""
    champion.write()
    shutil.copytree(folder_of(champion.store, "1") / BUNDLE, "bundle")
    inputs = Path("bundle/inputs.json")
    content = json.loads(inputs.read_text())
    inputs.write_text(json.dumps(content | {"label_values": content["label_values"][::-1]}))
    place = Path("bundle/digests.json")
    listed = json.loads(place.read_text())
    pinned = hashlib.sha256(place.read_bytes()).hexdigest()
    file = inputs.read_bytes()
    listed[f"{BUNDLE}/inputs.json"] = {
        "sha256": hashlib.sha256(file).hexdigest(),
        "bytes": len(file),
    }
    place.write_text(json.dumps(listed))
    predict = ("predict", "bundle", "--direct", "--input", "people.csv", "--output", "out")
    refused(champion.store, "its labels are not those of its contract", arguments=predict)
    words = "the SHA-256 of the list of files digests.json"
    predict = ("predict", f"bundle@sha256:{pinned}", *predict[2:])
    refused(champion.store, words, arguments=predict)
    assert not Path("out").exists()


def test_an_archive_is_used_in_place_of_a_name(champion: Any) -> None:
    """Takes a second or two: four commands, of which one loads the model by MLflow."""
    champion.write()
    export = ("export", MODEL, "--to", "bundle", "--output", "people.zip")
    done = call(champion.store, *export, "--json")
    assert done.exit_code == 0, done.stderr
    written = json.loads(done.stdout)
    pinned = hashlib.sha256(Path("people.zip").read_bytes()).hexdigest()
    assert (written["format"], written["sha256"]) == ("bundle", pinned)
    address = f"people.zip@sha256:{pinned}"
    predict = ("predict", address, "--direct", "--input", "people.csv", "--output", "out")
    done = call(champion.store, *predict)
    assert done.exit_code == 0, done.stderr
    assert "cannot be checked" not in done.stdout
    assert ", from an archive" in done.stdout
    again = call(champion.store, "export", address, "--to", "sql")
    assert again.exit_code == 0, again.stderr
    audit = ("audit", "people.csv", "--model", address, "--sensitive", "sex")
    done = call(champion.store, *audit)
    assert done.exit_code in (0, 1), done.stderr
    other = f"people.zip@sha256:{'0' * 64}"
    for command in (("predict", other, *predict[2:5], "--output", "o"), ("ask", other)):
        refused(champion.store, "is not the one that was given", arguments=command)
    Path("table.zip").write_bytes(b"PK")
    refused(champion.store, "is no archive of a model", arguments=("ask", "table.zip"))


def test_a_checked_load_refuses_before_mlflow_loads(champion: Any, tmp_path: Path) -> None:
    """`model_code.py`, which would run first, cannot change the check."""
    root = folder_of(champion.store, "1")
    model = load_checked_model(f"models:/{MODEL}/1", str(champion.store))
    assert "predict" in dir(model)
    shutil.copytree(root, "folder")
    code = Path("folder/model_code.py")
    code.write_text(f"open({str(tmp_path / RAN)!r}, 'w').close()\n{code.read_text()}")
    with pytest.raises(InputError, match=r"model_code.py was changed"):
        load_checked_model("folder", str(champion.store))
    as_of_an_older_version(Path("folder"))
    with pytest.raises(InputError, match="is not loaded"):
        load_checked_model("folder", str(champion.store))
    assert not (tmp_path / RAN).exists()


def test_verify_compares_code_with_its_release(champion: Any) -> None:
    root = folder_of(champion.store, "1")
    listed = json.loads((root / BUNDLE / "digests.json").read_text())
    evaluation = json.loads((root / BUNDLE / "evaluation.json").read_text())
    files = {}
    for path, entry in listed.items():
        if not path.startswith(f"{BUNDLE}/"):
            files[path] = entry["sha256"]
    content = {"version": evaluation["evenhand"], "files": files}
    Path("release.json").write_text(json.dumps(content))
    verify = ("verify", MODEL, "--code", "release.json")
    done = call(champion.store, *verify)
    assert done.exit_code == 0, done.stderr
    assert "code compared with that of the release: 1" in done.stdout
    files["code/evenhand/fairlib/catalogue.py"] = "0" * 64
    Path("release.json").write_text(json.dumps(content))
    done = call(champion.store, *verify)
    assert done.exit_code == 1
    assert "fairlib/catalogue.py is not that of evenhand" in done.stderr


def test_an_audit_loads_no_other_code_than_the_listed(champion: Any) -> None:
    """MLmodel, which no list of a folder has, could name a pickle or a folder of code anywhere."""
    champion.write()
    shutil.copytree(folder_of(champion.store, "1"), "folder")
    described = Path("folder/MLmodel")
    described.write_text(described.read_text().replace("code: code", "code: ../evil"))
    audit = ("audit", "people.csv", "--model", "folder", "--sensitive", "sex")
    refused(champion.store, "MLmodel was changed: it names other code", arguments=audit)


def as_of_an_older_version(root: Path) -> None:
    """Take out what only models with a list have."""
    (root / BUNDLE / "digests.json").unlink()
    (root / CHECKS).unlink()
    for name, keys in LISTED_KEYS.items():
        file = root / BUNDLE / name
        if file.exists():
            content = json.loads(file.read_text())
            for key in keys:
                content.pop(key, None)
            file.write_text(json.dumps(content))


def test_a_folder_of_an_older_version_is_used_with_a_warning(champion: Any) -> None:
    champion.write()
    shutil.copytree(folder_of(champion.store, "1"), "folder")
    as_of_an_older_version(Path("folder"))
    words = "the files of folder cannot be checked: it has no list of them"
    predict = ("predict", "folder", "--direct", "--input", "people.csv", "--output", "out")
    predicted = call(champion.store, *predict)
    assert (predicted.exit_code, predicted.stdout.count(words)) == (0, 1), predicted.stderr
    evaluated = call(champion.store, "evaluate", "folder", "--data", "people.csv", "--direct")
    assert (evaluated.exit_code, evaluated.stdout.count(words)) == (0, 1), evaluated.stderr
    exported = call(champion.store, "export", "folder", "--to", "sql")
    assert (exported.exit_code, exported.stderr.count(words)) == (0, 1), exported.stderr


LOAD = """
import sys
import mlflow
mlflow.pyfunc.load_model(sys.argv[1])
print("loaded", [place for place in sys.path if place.endswith("code")])
"""


def load(folder: Path) -> subprocess.CompletedProcess[str]:
    """Load a model by MLflow in a process of its own that writes bytecode."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "MLFLOW_DISABLE_TELEMETRY": "true"}
    return subprocess.run(
        [sys.executable, "-c", LOAD, str(folder)],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )


# each starts a process that imports MLflow
@pytest.mark.parametrize(
    "change",
    [link_to_code, *(pytest.param(change, marks=pytest.mark.long) for change in [*CHANGES][1:])],
    ids=lambda change: change.__name__,
)
def test_mlflow_refuses_before_any_code_is_imported(
    published: Done, change: Any, tmp_path: Path
) -> None:
    root, aside = tmp_path / "model", tmp_path / "aside"
    aside.mkdir()
    shutil.copytree(folder_of(published.store, "1"), root)
    change(root, aside)
    done = load(root)
    assert done.returncode != 0
    assert "the model is damaged: " in done.stderr
    assert not (aside / RAN).exists()


@pytest.mark.long
def test_a_load_by_mlflow_leaves_the_folder_as_it_was(published: Done, tmp_path: Path) -> None:
    """Python would execute the bytecode that it wrote, unchecked, at the next load."""
    root = tmp_path / "model"
    shutil.copytree(folder_of(published.store, "1"), root)
    before = sorted(root.rglob("*"))
    for _ in range(2):
        done = load(root)
        assert (done.returncode, "loaded []" in done.stdout) == (0, True), done.stderr
        assert sorted(root.rglob("*")) == before
