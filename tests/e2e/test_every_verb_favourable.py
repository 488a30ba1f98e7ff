"""Adverse labels ("denied"): every verb speaks of the favourable outcome, not of the positive
label.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from evenhand.flows.cli import app

QUICK = ("--set", "evaluate.draws=20")


def command(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def place(tmp_path: Path, registry: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table whose label is a denial: half of the women are denied, a fifth of the
    men.
    """
    rng = np.random.default_rng(3)
    n = 1200
    women = rng.random(n) < 0.5
    rate = np.where(women, 0.5, 0.2)
    denied = (rng.random(n) < rate).astype(int)
    income = rng.normal(30, 10, n) - 8 * denied
    table = pd.DataFrame(
        {"gender": np.where(women, "f", "m"), "income": income.round(2), "denied": denied}
    )
    table["score"] = rate
    table["decision"] = np.where(rng.random(n) < rate, "denied", "granted")
    table[["gender", "income", "denied"]].to_csv(tmp_path / "people.csv", index=False)
    table.to_csv(tmp_path / "predictions.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENHAND_STORE", str(tmp_path / "store"))
    (tmp_path / "store").mkdir()
    shutil.copyfile(registry, tmp_path / "store" / "mlflow.db")
    return tmp_path


def ratio(selected: pd.Series, groups: pd.Series) -> float:
    rates = selected.groupby(groups).mean()
    return float(rates.min() / rates.max())


# trains a model: a second or two more than a step alone
def test_a_run_marks_the_group_that_is_denied_more(place: Path) -> None:
    begun = command(
        "init", "people.csv", "--label", "denied", "--sensitive", "gender", "--use-sensitive"
    )
    assert begun.exit_code == 0, begun.stderr
    assert (
        "favourable outcome: denied = 0 (the label's name 'denied' reads as an adverse"
        in begun.stdout
    )
    done = command("run", "people.yaml", "--direct", "--json", *QUICK, "--set", "method.n_steps=5")
    assert done.exit_code == 0, done.stderr
    verdict = json.loads(done.stdout)
    page = Path(verdict["artifacts"]["report"]).read_text()
    assert "predicted denied = 0, the favourable outcome" in page
    assert "does not say which outcome" not in page
    metrics = json.loads((Path(verdict["artifacts"]["report"]).parent / "metrics.json").read_text())
    cells = (
        pd.DataFrame(metrics["counts"]["gender"])
        .groupby("group")[["n", "predicted_positive"]]
        .sum()
    )
    granted = 1 - cells["predicted_positive"] / cells["n"]
    assert granted["f"] < granted["m"]
    assert verdict["metrics"]["impact_ratio.gender"] == pytest.approx(granted["f"] / granted["m"])
    # the mark stands in the row of the women
    before = page[: page.rindex("below four fifths")]
    assert before[before.rindex('<th scope="row">') :].startswith('<th scope="row">f<')
    card = (Path(verdict["artifacts"]["report"]).parent / "model_card.md").read_text()
    assert "favourable outcome: denied = 0" in card


def test_a_silent_contract_goes_on_with_one_warning(place: Path) -> None:
    """The contract does not say which outcome is favourable."""
    command("init", "people.csv", "--label", "denied", "--sensitive", "gender")
    contract = yaml.safe_load((place / "people.contract.yaml").read_text())
    label = contract["schema"][0]["properties"][-1]
    silent = [one for one in label["customProperties"] if one["property"] != "favourable"]
    label["customProperties"] = silent
    (place / "people.contract.yaml").write_text(yaml.safe_dump(contract))
    small = ("--set", "method.n_steps=30")
    done = command("run", "people.yaml", "--direct", "--json", *QUICK, *small)
    notes = [note for note in json.loads(done.stdout)["notes"] if "favourable" in note]
    assert len(notes) == 1
    assert "selection rates and impact ratios are of denied = 1" in notes[0]
    before = json.loads(done.stdout)["metrics"]
    # stating it afterwards measures anew and trains nothing
    label["customProperties"] = [
        *silent,
        {"property": "favourable", "value": {"positive": "adverse"}},
    ]
    (place / "people.contract.yaml").write_text(yaml.safe_dump(contract))
    stated = json.loads(command("run", "people.yaml", "--direct", "--json", *QUICK, *small).stdout)
    assert not [note for note in stated["notes"] if "favourable" in note]
    assert {"contract", "preprocess", "profile", "train", "decide"} <= set(stated["cached"])
    assert "evaluate" not in stated["cached"]
    assert stated["model"]["version"] != json.loads(done.stdout)["model"]["version"]
    after = stated["metrics"]
    assert before["accuracy"] == after["accuracy"]
    assert before["impact_ratio.gender"] != after["impact_ratio.gender"]
    # a published version is evaluated by what its contract says
    measured = command(
        "evaluate", "people", "--data", "people.csv", "--direct", "--json", *QUICK, "--no-record"
    )
    assert not [note for note in json.loads(measured.stdout)["notes"] if "favourable" in note]
    older = command(
        "evaluate",
        "models:/people/1",
        "--data",
        "people.csv",
        "--direct",
        "--json",
        *QUICK,
        "--no-record",
    )
    assert [note for note in json.loads(older.stdout)["notes"] if "selection rates" in note]


@pytest.mark.parametrize(
    ("flags", "of", "note"),
    [
        (["--prediction", "decision"], "granted", "'denied' reads as an adverse outcome"),
        (
            ["--prediction", "decision", "--favourable", "denied"],
            "denied",
            "decision = denied (as asked)",
        ),
        (
            ["--prediction", "score", "--label", "denied"],
            "granted by score",
            "the label's name 'denied'",
        ),
        (
            ["--prediction", "score", "--label", "denied", "--favourable", "1"],
            "denied by score",
            "denied = 1 (as asked)",
        ),
        (["--prediction", "score"], "denied by score", "so score = 1 was taken; to state another"),
        (
            ["--prediction", "score", "--positive", "denied", "--favourable", "granted"],
            "granted by score",
            "score = granted (as asked)",
        ),
    ],
)
def test_an_audit_says_which_outcome_it_took(
    place: Path, flags: list[str], of: str, note: str
) -> None:
    table = pd.read_csv(place / "predictions.csv")
    selected = {
        "granted": table["decision"] == "granted",
        "denied": table["decision"] == "denied",
        "granted by score": table["score"] < 0.4,
        "denied by score": table["score"] >= 0.4,
    }[of]
    threshold = () if "decision" in flags else ("--threshold", "0.4")
    done = command(
        "audit", "predictions.csv", "--sensitive", "gender", *flags, *threshold, *QUICK, "--json"
    )
    assert done.exit_code == 0, done.stderr
    verdict = json.loads(done.stdout)
    expected = ratio(selected, table["gender"])
    assert verdict["metrics"]["impact_ratio.gender"] == pytest.approx(expected)
    assert any(note in text for text in verdict["notes"])
    assert note.split(" (")[0] in Path(verdict["artifacts"]["report"]).read_text().replace(
        "&#39;", "'"
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ["--prediction", "score", "--favourable", "granted"],
            "--favourable needs --positive here",
        ),
        (
            ["--prediction", "decision", "--favourable", "given"],
            "favourable is 'given', but label column 'decision' holds 'denied' and 'granted'",
        ),
        (
            ["--prediction", "score", "--label", "denied", "--favourable", "2"],
            "favourable is '2', but",
        ),
    ],
)
def test_a_value_that_is_none_is_refused(place: Path, flags: list[str], message: str) -> None:
    done = command("audit", "predictions.csv", "--sensitive", "gender", *flags, *QUICK)
    assert done.exit_code == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_init_takes_the_value_or_warns(place: Path) -> None:
    asked = ("init", "people.csv", "--label", "denied", "--sensitive", "gender", "--name", "asked")
    done = command(*asked, "--favourable", "1", "--json")
    assert json.loads(done.stdout)["favourable"] == "favourable outcome: denied = 1 (as asked)"
    pd.read_csv("people.csv").rename(columns={"denied": "y"}).to_csv("silent.csv", index=False)
    silent = command("init", "silent.csv", "--label", "y", "--sensitive", "gender")
    assert "WARNING  nothing says whether y = 1 is the favourable outcome" in silent.stdout
    assert "property: favourable" not in (place / "silent.contract.yaml").read_text()
    wrong = command(*asked[:-1], "other", "--favourable", "perhaps")
    assert wrong.exit_code == 2
    assert "favourable is 'perhaps'" in wrong.stderr
    assert not (place / "other.contract.yaml").exists()
