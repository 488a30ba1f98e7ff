"""A method with a selector leaves its probabilities in the verdict and the report; others leave
none.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.fairlib.methods.registry import METHODS
from evenhand.flows.cli import app

# nothing is published: what is written comes before
JOB = (
    *(
        "loans-gbdt",
        "--set",
        "table.rows=600",
        "--set",
        "method.n_steps=4",
        "--set",
        "evaluate.draws=20",
    ),
    *("--set", "gates={accuracy: {min: 1.5}}"),
)


def run(store: Path) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["run", *JOB, "--direct", "--json", "--store", str(store)])
    content: dict[str, Any] = json.loads(done.stdout)
    assert content["exit_code"] in (0, 1), done.stderr
    return content


def probabilities(model: Any, X: np.ndarray) -> np.ndarray:
    return np.tile([0.0, 0.125, 0.75], (len(X), 1))


def test_a_selector_is_summed_up_in_verdict_and_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "gbdt", replace(METHODS["gbdt"], selects=True))
    for name, value in {
        "groups_": {"group": [0], "X1": [1], "X2": [2]},
        "attributes_": ["group"],
        "data_dependent": False,
        "selection_probabilities": probabilities,
    }.items():
        monkeypatch.setattr(GBDTClassifier, name, value, raising=False)
    artifacts = run(tmp_path / "store")["artifacts"]
    found = json.loads(Path(artifacts["evaluate.selection"]).read_text())
    assert [(group["name"], group["mean"]) for group in found["groups"]] == [
        ("group", 0.0),
        ("X1", 0.125),
        ("X2", 0.75),
    ]
    page = Path(artifacts["report"]).read_text()
    assert "Which features reveal the sensitive attribute" in page
    assert "Found to reveal most about group: <strong>X1</strong>" in page


def test_other_methods_leave_no_selection(tmp_path: Path) -> None:
    artifacts = run(tmp_path / "store")["artifacts"]
    assert not [name for name in artifacts if "selection" in name]
    assert (
        "Which features reveal the sensitive attribute" not in Path(artifacts["report"]).read_text()
    )
