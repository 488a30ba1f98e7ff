"""An office's file goes through `init`, `run`, `audit`, `predict` and `monitor` without options.

Semicolons, cp1252, decimal commas, days first, an adverse label, missing and abbreviated genders,
several spellings of missing values, a copy of a column under its own name.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from evenhand.flows.cli import app
from tests.workbooks import write_workbook

HEAD = "Nr;Geburt;Antrag;Geschlecht;Ort;Einkommen;Zins;Kinder;Schulden;Punkte;Kinder;Bescheid"
ASKED = ("--label", "Bescheid", "--sensitive", "Geschlecht", "--id", "Nr")
# quick, where the figures do not matter
QUICK = ("--direct", "--set", "method.n_steps=8", "--set", "evaluate.draws=20")
ROWS = 600


def command(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def german(number: float, digits: int = 2) -> str:
    return f"{number:,.{digits}f}".translate(str.maketrans(",.", ".,"))


def office_rows(seed: int) -> list[list[Any]]:
    """Rows as values: days, numbers, and texts for missing ones."""
    r = np.random.default_rng(seed)
    rows = []
    for number in range(ROWS):
        merit = float(r.normal())
        is_woman = bool(r.random() < 0.5)
        words = ["weiblich"] * 18 + ["w", "W "] if is_woman else ["männlich"] * 18 + ["m", "M"]
        sex = str(r.choice([*words, ""]))
        children: Any = int(r.integers(0, 4))
        if r.random() < 0.05:
            children = 777
        debts: Any = round(abs(float(r.normal(0, 6000))), 2)
        if r.random() < 0.05:
            debts = str(r.choice(["k.A.", "-", "n/a"]))
        points = round(float(r.uniform(100, 800)) + 60 * merit, 1)
        if r.random() < 0.05:
            points = 99999.9
        denied = merit + (0.0 if is_woman else 0.6) + float(r.normal()) < 0.1
        rows.append([
            number + 1,
            dt.date(1950, 1, 1) + dt.timedelta(days=int(r.integers(0, 18000))),
            dt.date(2023, 1, 1) + dt.timedelta(days=int(r.integers(0, 600))),
            sex,
            str(r.choice(["Köln", "Zürich", "Bonn"])),
            round(float(np.exp(7.5 + 0.4 * merit + 0.3 * r.normal())), 2),
            round(8 - 2 * merit + float(r.normal()) + 10, 1),
            children,
            debts,
            points,
            children,
            "abgelehnt" if denied else "bewilligt",
        ])  # fmt: skip
    return rows


def cell(place: int, value: Any) -> str:
    """A value as a German office writes it."""
    if isinstance(value, dt.date):
        return value.strftime("%d.%m.%Y")
    if place == 5:
        return f"{german(value)} €"
    if place == 6:
        return f"{german(value, 1)} %"
    if isinstance(value, float):
        return german(value, 1) if place == 9 else german(value)
    return str(value)


def write(path: Path, rows: list[list[Any]], encoding: str = "cp1252", columns: int = 12) -> Path:
    lines = [";".join(HEAD.split(";")[:columns])]
    for row in rows:
        lines.append(";".join(cell(place, value) for place, value in enumerate(row[:columns])))
    path.write_text("\r\n".join(lines) + "\r\n", encoding=encoding)
    return path


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a job that `init` wrote, and the model that it published."""
    folder = tmp_path_factory.mktemp("office")
    write(folder / "antraege.csv", office_rows(1))
    where = ("--into", folder, "--name", "antraege")
    started = command("init", folder / "antraege.csv", *ASKED, "--join-spellings", "--json", *where)
    assert started.exit_code == 0, started.stderr
    (folder / "init.json").write_text(started.stdout)
    trained = command("run", folder / "antraege.yaml", "--store", folder / "store", *QUICK)
    assert trained.exit_code == 0, trained.stderr
    return folder


# a whole run, of two seconds and more
def test_init_reads_all_of_it_and_says_so(office: Path) -> None:
    document = json.loads((office / "init.json").read_text())
    columns = {column["name"]: column for column in document["columns"]}
    kinds = {name: (column["type"], column["role"]) for name, column in columns.items()}
    assert kinds["Geburt"] == kinds["Antrag"] == ("date", "feature")
    for name in ("Einkommen", "Zins", "Schulden", "Punkte"):
        assert kinds[name] == ("number", "feature"), name
    assert kinds["Kinder"] == ("integer", "feature")
    assert kinds["Kinder_2"][1] == "ignore"
    assert columns["Kinder"]["missing"] == [777]
    assert columns["Punkte"]["missing"] == [99999.9]
    assert "k.A." in columns["Schulden"]["missing"]
    assert set(document["groups"]["Geschlecht"]) == {"weiblich", "männlich", "missing"}
    assert document["favourable"].startswith("favourable outcome: Bescheid = bewilligt")
    previews = {item["column"]: item for item in document["previews"]}
    assert len(previews["Einkommen"]["before"]) == 5
    for before, after in zip(
        *[previews["Einkommen"][key] for key in ("before", "after")], strict=True
    ):
        assert before == f"{german(float(after))} €"
    table = yaml.safe_load((office / "antraege.yaml").read_text())["table"]
    assert table["encoding"] == "cp1252"
    assert (table["decimal"], table["dates"]) == ("comma", "day-first")
    assert table["headers"] == "numbered"
    assert set(table["spellings"]["Geschlecht"]) == {"weiblich", "männlich"}


@pytest.mark.parametrize("kind", ["csv", "utf-8", "utf-16", "xlsx"])
def test_later_files_are_read_as_the_table_was(office: Path, tmp_path: Path, kind: str) -> None:
    rows = office_rows(2)[:100]
    batch = tmp_path / "neu.csv"
    if kind == "xlsx":
        batch = tmp_path / "neu.xlsx"
        data = [row[:5] + [row[5], cell(6, row[6])] + row[7:11] for row in rows]
        write_workbook(batch, {"Info": [["Stand 2024"]], "Daten": [HEAD.split(";")[:11], *data]})
    else:
        write(batch, rows, "cp1252" if kind == "csv" else kind, columns=11)
    out = tmp_path / "out"
    done = command(
        "predict", "antraege", "--input", batch, "--output", out, "--store", office / "store",
        "--direct", "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["metrics"]["rows_out"] == 100
    (part,) = out.glob("*.parquet")
    table = pq.read_table(part)
    assert table["Einkommen"].to_pylist() == [row[5] for row in rows]
    assert table["Geburt"].to_pylist() == [row[1] for row in rows]
    assert set(table["Geschlecht"].to_pylist()) <= {"weiblich", "männlich", None}
    assert table["Ort"].to_pylist() == [row[4] for row in rows]


def test_an_audit_of_its_predictions_needs_no_option(office: Path, tmp_path: Path) -> None:
    rows = office_rows(1)
    path = write(tmp_path / "scores.csv", rows)
    r = np.random.default_rng(3)
    lines = path.read_bytes().decode("cp1252").splitlines()
    scores = [f"0,{int(r.integers(100, 999))}" for _ in rows]
    lines = [f"{line};{extra}" for line, extra in zip(lines, ["Score", *scores], strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="cp1252")
    asked = ("audit", path, "--prediction", "Score", "--label", "Bescheid")
    quick = ("--set", "evaluate.draws=20", "--store", tmp_path / "store")
    done = command(*asked, "--sensitive", "Geschlecht", *quick)
    assert done.exit_code == 0, done.stderr
    assert "favourable outcome is Bescheid = bewilligt" in done.stdout
    assert "numbers are read with a decimal comma" in done.stdout
    repeated = command(*asked, "--sensitive", "Kinder", *quick)
    assert repeated.exit_code == 2
    assert "'Kinder' occurs more than once" in repeated.stderr


def test_drift_is_measured_on_a_file_of_another_encoding(office: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "neu.csv", office_rows(4), "utf-8-sig", columns=11)
    done = command("monitor", "antraege", "--data", path, "--store", office / "store", "--direct")
    assert done.exit_code == 0, done.stderr
    assert "neu.csv is UTF-8, not cp1252: it was read so" in done.stdout


def test_nothing_is_joined_unless_asked(office: Path, tmp_path: Path) -> None:
    done = command("init", office / "antraege.csv", *ASKED, "--into", tmp_path)
    assert done.exit_code == 0, done.stderr
    assert "values that seem to be one, and are read as they stand: Geschlecht" in done.stdout
    assert "spellings" not in yaml.safe_load((tmp_path / "antraege.yaml").read_text())["table"]
    contract = (tmp_path / "antraege.contract.yaml").read_text()
    assert "# values that seem to be one" in contract


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--decimal", "point"), ("'Einkommen'", "decimal comma in line 2", "comma")),
        (("--encoding", "klingon"), ("--encoding", "'klingon' is no encoding")),
        (("--dates", "day-last"), ("--dates", "day-last", "day-first")),
        (("--sheet", " "), ("--sheet is empty",)),
        (("--sensitive", "Kinder"), ("--sensitive 'Kinder'", "more than once in antraege.csv")),
    ],
)
def test_bad_options_end_with_one_line_and_no_file(
    office: Path, tmp_path: Path, options: tuple[str, str], words: tuple[str, ...]
) -> None:
    done = command("init", office / "antraege.csv", *ASKED, "--into", tmp_path / "x", *options)
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr
    assert not (tmp_path / "x").exists()
