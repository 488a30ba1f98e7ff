"""A label of numbers, of which a threshold makes two outcomes: from `init` to every verb."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.dataset
import pytest
from typer.testing import CliRunner

from evenhand.data_contracts.odcs import load_contract
from evenhand.flows.cli import app

QUICK = ("--set", "evaluate.draws=20")
INIT = ("init", "people.csv", "--label", "income", "--sensitive", "gender")


def command(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def rows(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    n = 800
    gender = rng.choice(["f", "m"], n)
    years = rng.integers(0, 40, n)
    income = 30000 + 1000 * years + 5000 * (gender == "m") + rng.normal(0, 6000, n)
    base = income * rng.uniform(0.5, 0.9, n)
    return pd.DataFrame(
        {
            "gender": gender,
            "years": years,
            "tax": (0.2 * income).round(3),
            "base": base.round(3),
            "bonus": (income - base).round(3),
            "income": income.round(2),
        }
    )


@pytest.fixture
def place(tmp_path: Path, registry: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows(0).to_csv(tmp_path / "people.csv", index=False)
    rows(1).to_csv(tmp_path / "new.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENHAND_STORE", str(tmp_path / "store"))
    (tmp_path / "store").mkdir()
    shutil.copyfile(registry, tmp_path / "store" / "mlflow.db")
    return tmp_path


# trains and publishes a model, which five verbs then use
def test_every_verb_knows_the_two_outcomes(place: Path) -> None:
    begun = command(*INIT, "--at-least", 50000, "--favourable", "at-least")
    assert begun.exit_code == 0, begun.stderr
    assert "favourable outcome: income at least 50,000 (as asked)" in begun.stdout
    contract = load_contract("people.contract.yaml")
    assert (contract.label.at_least, contract.label.favourable) == (50000, "at-least")
    # one column, or two together, from which the income follows
    assert [column.name for column in contract.features] == ["years"]

    done = command("run", "people.yaml", "--direct", "--json", *QUICK, "--set", "method.n_steps=5")
    assert done.exit_code == 0, done.stderr
    verdict = json.loads(done.stdout)
    page = Path(verdict["artifacts"]["report"]).read_text()
    assert "at least 50,000, the favourable outcome" in page
    metrics = json.loads((Path(verdict["artifacts"]["report"]).parent / "metrics.json").read_text())
    people = pd.read_csv("people.csv")
    observed = float((people["income"] >= 50000).mean())
    assert metrics["rates"]["observed"] == pytest.approx(observed, abs=0.03)

    predicted = command("predict", "people", "--input", "new.csv", "--output", "out", "--direct")
    assert predicted.exit_code == 0, predicted.stderr
    decisions = pyarrow.dataset.dataset("out", exclude_invalid_files=True).to_table().to_pandas()
    assert set(decisions["prediction"]) == {"below 50,000", "at least 50,000"}
    accurate = (decisions["prediction"] == "at least 50,000") == (decisions["income"] >= 50000)

    evaluated = command("evaluate", "people", "--data", "new.csv", "--direct", "--json", *QUICK)
    assert evaluated.exit_code == 0, evaluated.stderr
    accuracy = json.loads(evaluated.stdout)["metrics"]["accuracy"]
    assert accuracy == pytest.approx(float(accurate.mean()), abs=1e-9)

    decisions.to_csv("decided.csv", index=False)
    audited = command(
        *("audit", "decided.csv", "--prediction", "prediction", "--label", "income"),
        *("--at-least", 50000, "--sensitive", "gender", "--json", *QUICK),
    )
    assert audited.exit_code == 0, audited.stderr
    assert json.loads(audited.stdout)["metrics"]["accuracy"] == pytest.approx(accuracy, abs=1e-9)

    monitored = command("monitor", "people", "--data", "new.csv", "--direct", "--json")
    assert monitored.exit_code in (0, 1), monitored.stderr
    change = abs(float((pd.read_csv("new.csv")["income"] >= 50000).mean()) - observed)
    reported = json.loads(monitored.stdout)["metrics"]["label_rate_change"]
    assert reported == pytest.approx(change, abs=0.03)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give --at-least 50000 "),
        (("--at-least", 5), "are on one side of it: give --at-least a number above"),
        (("--at-least", 5e7), "are on one side of it: give --at-least a number above"),
        (("--at-least", 50000, "--label", "gender", "--sensitive", "years"), "needs numbers"),
    ],
)
def test_a_wrong_threshold_writes_nothing(
    options: tuple[Any, ...], message: str, place: Path
) -> None:
    arguments = [*INIT, *options]
    if "gender" in options:
        arguments = [INIT[0], INIT[1], *options]
    done = command(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(place.glob("*.yaml"))


@pytest.mark.parametrize("wrong", ["all below", "a text"])
def test_a_table_that_the_threshold_does_not_divide(wrong: str, place: Path) -> None:
    assert command(*INIT, "--at-least", 50000).exit_code == 0
    people = rows(0)
    if wrong == "all below":
        people["income"] = people["income"] / 100
    else:
        people["income"] = people["income"].astype(str)
        people.loc[3, "income"] = "much"
    people.to_csv("people.csv", index=False)
    done = command("run", "people.yaml", "--direct")
    assert done.exit_code == 2, done.stdout
    if wrong == "all below":
        assert "no number of at least 50,000" in done.stderr
    assert "income" in done.stderr
    assert "Traceback" not in done.stderr
