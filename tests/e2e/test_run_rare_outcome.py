"""A rare adverse outcome: the decisions of a job that `evenhand init` wrote keep its rate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from evenhand.flows.cli import app


def command(*arguments: str) -> Any:
    """Run a command that must succeed."""
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return done


# A run of a few seconds, and its decision once more: the promise is one of the whole flow.
def test_rare_denials_are_decided_as_often_as_observed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    n = 4000
    features = rng.normal(size=(n, 3))
    risk = 1.0 / (1.0 + np.exp(2.6 - features @ [0.9, 0.6, 0.0]))
    table = pd.DataFrame(features.round(4), columns=["income", "debt", "years"])
    table["gender"] = np.where(rng.random(n) < 0.5, "f", "m")
    table["denied"] = np.where(rng.random(n) < risk, "yes", "no")
    table.to_csv(tmp_path / "people.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENHAND_STORE", str(tmp_path / "store"))
    command("init", "people.csv", "--label", "denied", "--sensitive", "gender")
    small = ["--set", "method.n_steps=40", "--set", "evaluate.draws=50", "--direct", "--json"]

    verdict = json.loads(command("run", "people.yaml", *small).stdout)
    rates = verdict["rates"]
    assert rates["positive"] == "denied = yes"
    assert rates["predicted"] == pytest.approx(rates["observed"], abs=0.04)
    page = Path(verdict["artifacts"]["report"]).read_text()
    assert "The prediction is “denied = yes” for" in page

    # the rule that was the default decides against far more, and the summary says that it errs more
    balanced = json.loads(
        command("run", "people.yaml", *small, "--set", "decision=balanced").stdout
    )
    assert balanced["rates"]["predicted"] > 2 * rates["observed"]
    assert any("less accurate" in note for note in balanced["notes"])
