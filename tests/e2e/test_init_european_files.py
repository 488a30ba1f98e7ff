"""A table with umlauts, decimal commas and day-first dates, from `init` to predictions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from evenhand.flows.cli import app

HEAD = "Nr;Geschlecht;Ort;Betrag;Rate;Quote;Score;Beginn;Geburt;bewilligt"
ASKED = ("--label", "bewilligt", "--sensitive", "Geschlecht", "--id", "Nr")
QUICK = ("--set", "method.n_steps=3", "--set", "evaluate.draws=20")


def command(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def german(number: float) -> str:
    return f"{number:,.2f}".translate(str.maketrans(",.", ".,"))


def lines(rows: int, seed: int = 0) -> list[str]:
    """Rows of loans as a German spreadsheet writes them; the label follows the amount and the
    score.
    """
    rng = np.random.default_rng(seed)
    written = []
    for row in range(rows):
        amount = float(rng.lognormal(8, 1))
        score = float(rng.normal())
        label = "ja" if amount / 3000 + score + float(rng.normal()) > 1 else "nein"
        begin = np.datetime64("2023-01-01") + rng.integers(0, 500)
        birth = np.datetime64("1950-01-01") + rng.integers(0, 18000)
        cells = [
            str(1000 + row),
            str(rng.choice(["weiblich", "männlich"])),
            str(rng.choice(["Köln", "Zürich", "Bern"])),
            german(amount),
            german(amount * float(rng.uniform(0.01, 0.2))),
            f"{float(rng.uniform(0, 100)):.3f}".replace(".", ","),
            german(score),
            begin.astype(object).strftime("%d.%m.%Y"),
            birth.astype(object).strftime("%d/%m/%Y"),
            label,
        ]
        written.append(";".join(cells))
    return written


def write(path: Path, rows: list[str], encoding: str = "cp1252") -> Path:
    path.write_text("\n".join([HEAD, *rows]) + "\n", encoding=encoding)
    return path


def test_init_says_how_it_read_and_run_and_predict_read_alike(
    tmp_path: Path, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # seconds of training, and of four commands: what it is about is that they read alike
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENHAND_STORE", str(tmp_path / "store"))
    (tmp_path / "store").mkdir()
    shutil.copyfile(registry, tmp_path / "store/mlflow.db")
    table = write(tmp_path / "kredit.csv", lines(400))
    done = command("init", table, *ASKED, "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert [note.partition(":")[0] for note in document["notes"][:1]] == ["the file is not UTF-8"]
    for option in ("--decimal", "--dates"):
        assert sum(option in note for note in document["notes"]) == 1
    job = yaml.safe_load((tmp_path / "kredit.yaml").read_text())
    stated = {key: job["table"][key] for key in ("encoding", "decimal", "dates")}
    assert stated == {"encoding": "cp1252", "decimal": "comma", "dates": "day-first"}
    kinds = {column["name"]: (column["type"], column["input"]) for column in document["columns"]}
    for name in ("Betrag", "Rate", "Quote", "Score"):
        assert kinds[name] == ("number", True)
    for name in ("Beginn", "Geburt"):
        assert kinds[name] == ("date", True)

    ran = command("run", "kredit.yaml", "--direct", "--json", *QUICK)
    assert ran.exit_code == 0, ran.stderr
    raw = pq.read_table(json.loads(ran.stdout)["artifacts"]["ingest.raw"])
    first = float(np.random.default_rng(0).lognormal(8, 1))
    assert raw["Betrag"][0].as_py() == pytest.approx(round(first, 2))

    # a file of the same form needs no key, and one of another form is refused
    later = write(tmp_path / "later.csv", lines(150, seed=1))
    model = "models:/kredit@champion"
    predict = ("predict", model, "--direct", "--input")
    done = command(*predict, later, "--output", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.stderr
    (part,) = (tmp_path / "out").glob("*.parquet")
    assert pq.read_table(part).num_rows == 150
    evaluate = ("evaluate", model, "--direct", "--data")
    done = command(*evaluate, later, "--set", "evaluate.draws=20", "--json")
    assert done.exit_code == 0, done.stderr
    points = write(
        tmp_path / "points.csv",
        [line.replace(".", "").replace(",", ".") for line in lines(150, seed=1)],
    )
    for words in (
        (*predict, points, "--output", tmp_path / "o2"),
        (*evaluate, points),
    ):
        done = command(*words)
        assert done.exit_code == 2
        assert "has a number with a decimal point in line" in done.stderr


def test_many_columns_of_too_many_categories_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    head = "sex,paid,income,a,b,c"
    body = []
    for row in range(300):
        person = f"{rng.choice(['f', 'm'])},{rng.integers(0, 2)},{rng.integers(0, 500)}.5"
        body.append(f"{person},x{row // 2},y{row // 2},z{row // 2}")
    table = tmp_path / "wide.csv"
    # differing in the last value, so that no column is a copy of another one
    body += ["f,1,3.5,x0,y1,z2", "f,0,3.5,x1,y1,z1", "f,0,3.5,x1,y0,z3"]
    table.write_text("\n".join([head, *body]) + "\n")
    asked = ("init", table, "--label", "paid", "--sensitive", "sex", "--into", tmp_path)
    done = command(*asked)
    assert done.exit_code == 2
    assert "3 of 4 columns have too many categories to be model inputs: a, b, c" in done.stderr
    assert not list(tmp_path.glob("*.yaml"))
    done = command(*asked, "--ignore", "a,b,c", "--json")
    assert done.exit_code == 0, done.stderr
    reasons = {column["name"]: column["reason"] for column in json.loads(done.stdout)["columns"]}
    assert reasons["a"] == "Ignored: as asked."
    assert command(*asked, "--ignore", "sex", "--force").exit_code == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--encoding", "klingon"), "is no encoding of text"),
        (("--decimal", "dot"), "--decimal 'dot': expected comma, point, or COLUMN=comma"),
        (("--decimal", "comma", "--decimal", "Rate=point"), "is given for all columns and again"),
        (("--dates", "day"), "--dates 'day': expected day-first"),
        (("--decimal", "Preis=comma"), "names the column 'Preis'"),
        (("--ignore", "Preis"), "--ignore column 'Preis' is not in the table"),
    ],
)
def test_a_wrong_option_is_one_line(options: tuple[str, ...], words: str, tmp_path: Path) -> None:
    table = write(tmp_path / "kredit.csv", lines(60))
    done = command("init", table, *ASKED, *options, "--into", tmp_path)
    assert done.exit_code == 2
    assert words in done.stderr
    assert not list(tmp_path.glob("*.yaml"))


def test_values_that_are_no_numbers_are_named(tmp_path: Path) -> None:
    rows = lines(300)
    cells = rows[4].split(";")
    rows[4] = ";".join([*cells[:3], "ungefähr 5", *cells[4:]])
    table = write(tmp_path / "kredit.csv", rows)
    done = command("init", table, *ASKED, "--into", tmp_path)
    assert done.exit_code == 0, done.stderr
    assert (
        "1 of 300 values of Betrag are no number (first in line 6), so it is ignored" in done.stdout
    )


def test_an_audit_finds_how_numbers_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENHAND_STORE", str(tmp_path / "store"))
    head = "sex;score;label\n"
    rows = [f"{'fm'[row % 2]};0,{row % 97 + 1:02d};{row % 3 % 2}" for row in range(200)]
    table = tmp_path / "scores.csv"
    table.write_text(head + "\n".join(rows) + "\n")
    asked = (
        "audit",
        table,
        "--prediction",
        "score",
        "--label",
        "label",
        "--sensitive",
        "sex",
        "--set",
        "evaluate.draws=20",
    )
    done = command(*asked)
    assert done.exit_code == 0, done.stderr
    assert "numbers are read with a decimal comma" in done.stdout
    assert "the fields are separated by a semicolon" in done.stdout
    stated = command(*asked, "--decimal", "comma")
    assert stated.exit_code == 0, stated.stderr
    wrong = command(*asked, "--decimal", "point")
    assert wrong.exit_code == 2
    assert "'score' of scores.csv has a number with a decimal comma in line 2" in wrong.stderr
