"""The code in a model is that of the release that published it, where the release is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evenhand.fairlib.file_digests import BUNDLE, LIST
from evenhand.tasks.errors import InputError
from evenhand.tasks.registry import released_code
from evenhand.tasks.registry.released_code import code_faults, place_in_model, released_lists

CODE = {
    "code/evenhand/fairlib/a.py": "aa",
    "code/evenhand/__init__.py": "bb",
    "model_code.py": "cc",
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model that version 9.1 published."""
    bundle = tmp_path / "model" / BUNDLE
    bundle.mkdir(parents=True)
    (bundle / "evaluation.json").write_text('{"evenhand": "9.1"}')
    listed: dict[str, Any] = {path: {"sha256": digest, "bytes": 1} for path, digest in CODE.items()}
    listed[f"{BUNDLE}/inputs.json"] = {"sha256": "dd", "bytes": 1}
    (bundle / LIST).write_text(json.dumps(listed))
    return tmp_path / "model"


def test_code_is_compared_with_the_release_of_its_version(model: Path) -> None:
    assert code_faults(model, {"9.1": CODE}) == []
    assert code_faults(model, {"9.2": CODE}) is None
    other = {**CODE, "code/evenhand/fairlib/a.py": "ee", "code/evenhand/fairlib/b.py": "ff"}
    assert code_faults(model, {"9.1": other}) == [
        "code/evenhand/fairlib/a.py is not that of evenhand 9.1",
        "code/evenhand/fairlib/b.py of evenhand 9.1 is missing",
    ]
    fewer = {path: digest for path, digest in CODE.items() if path != "model_code.py"}
    assert code_faults(model, {"9.1": fewer}) == ["model_code.py is not that of evenhand 9.1"]


def test_a_list_is_read_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(released_code, "_installed_digests", dict)
    path = tmp_path / "evenhand-9.1.code.json"
    path.write_text(json.dumps({"version": "9.1", "files": CODE}))
    assert released_lists([path]) == {"9.1": CODE}
    for text in ("{", "[]", '{"files": {}}', '{"version": 1, "files": []}'):
        path.write_text(text)
        with pytest.raises(InputError, match="--code .* holds no digests"):
            released_lists([path])


def test_files_of_the_package_have_their_place_in_a_model() -> None:
    assert place_in_model("evenhand/fairlib/a/b.py") == "code/evenhand/fairlib/a/b.py"
    assert place_in_model("evenhand/__init__.py") == "code/evenhand/__init__.py"
    assert place_in_model("evenhand/tasks/serving/model_code.py") == "model_code.py"
    for other in ("evenhand/tasks/errors.py", "evenhand/fairlib.py", "evenhand/__init__.pyi"):
        assert place_in_model(other) is None
