"""Names of coded values, end to end: pages and the registry have them, and naming computes nothing
anew.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest
from typer.testing import CliRunner

from evenhand.flows.cli import app
from evenhand.tasks.registry.client import value_names
from tests.flows.people import JOB, Bench, Done, make_people, property_of, run_all

NAMES = {"sex": {"1": "woman", "2": "man"}, "paid": {"0": "left open", "1": "paid back"}}


def coded_people(rows: int = 400, seed: int = 0) -> Any:
    """The people with 1 and 2 for sex and with 0 and 1 for the label."""
    table = make_people(rows, seed)
    codes = {"sex": {"F": 1, "M": 2}, "paid": {"no": 0, "yes": 1}}
    for column, code in codes.items():
        values = [code[value] for value in table[column].to_pylist()]
        table = table.set_column(table.column_names.index(column), column, [values])
    return table


def run_named(bench: Bench, names: dict[str, dict[str, str]]) -> Done:
    """Run the job with names in its contract, the keys unquoted."""
    for column, property_ in bench.properties.items():
        listed = [
            item for item in property_["customProperties"] if item["property"] != "valueNames"
        ]
        if column in names:
            value = {int(code): name for code, name in names[column].items()}
            listed.append({"property": "valueNames", "value": value})
        property_["customProperties"] = listed
    return run_all(bench, JOB)


def page(done: Done) -> str:
    """The newest run's page."""
    newest = max((done.store / "runs").iterdir(), key=lambda run: run.stat().st_mtime_ns)
    return (newest / "report.html").read_text()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, registry: Path) -> dict[str, Any]:
    """Verdict and page of a run without names, with them, with the cache, with others and again
    without.
    """
    bench = Bench(tmp_path_factory.mktemp("named"), table=coded_people(), database=registry)
    place = bench.contract["schema"][0]["properties"]
    for index, item in enumerate(place):
        if item["name"] == "sex":
            place[index] = property_of("sex", "integer", "sensitive", values=[1, 2])
        elif item["name"] == "paid":
            place[index] = property_of("paid", "integer", "label", values=[0, 1], positive=1)
    uri = f"sqlite:///{bench.store.resolve() / 'mlflow.db'}"
    found: dict[str, Any] = {"bench": bench}
    other = {"sex": {"1": "man", "2": "woman"}}
    for name, names in {
        "plain": {},
        "named": NAMES,
        "again": NAMES,
        "other": other,
        "back": NAMES,
    }.items():
        done = run_named(bench, names)
        found[name] = done.verdict, page(done)
        assert value_names(uri, JOB["name"], "1") == names
    return found


def test_naming_repeats_only_the_publication(
    runs: dict[str, Any],
) -> None:
    """It makes no version."""
    plain = runs["plain"][0]
    trained = {
        key for key in plain["artifacts"] if key.startswith(("preprocess.", "train.", "evaluate."))
    }
    assert {"train.model", "evaluate.metrics"} <= trained
    for name in ("named", "again", "other", "back"):
        verdict = runs[name][0]
        assert all(verdict["artifacts"][key] == plain["artifacts"][key] for key in trained)
        assert set(plain["seconds"]) - set(verdict["cached"]) == (
            set() if name == "again" else {"publish"}
        )
        assert verdict["model"]["version"] == plain["model"]["version"] == "1"
        assert verdict["metrics"] == plain["metrics"]


def test_the_page_shows_names_where_it_showed_codes(runs: dict[str, Any]) -> None:
    plain, named, other = (runs[name][1] for name in ("plain", "named", "other"))
    assert "“1”" in plain
    assert "paid = 1" in plain
    assert "“1”" not in named
    assert "“2”" not in named
    compared = re.findall("of “(.)” and", plain)
    assert compared
    assert re.findall("of “([a-z]+)” and", named) == [NAMES["sex"][code] for code in compared]
    assert "paid = paid back" in named
    assert "woman" not in plain
    assert other.replace("woman", "x") != named.replace("woman", "x")


def command(bench: Bench, *arguments: str) -> str:
    """Run a command on new people, and give the page of its run."""
    data = bench.folder / "new.csv"
    pyarrow.csv.write_csv(coded_people(500, 5), data)
    with contextlib.chdir(bench.folder):
        done = CliRunner().invoke(
            app, [*arguments, "--data", str(data), "--direct", "--store", str(bench.store)]
        )
    assert done.exit_code in (0, 1, 3), done.output
    newest = max((bench.store / "runs").iterdir(), key=lambda run: run.stat().st_mtime_ns)
    return (newest / "report.html").read_text()


def test_evaluation_and_monitoring_show_the_names_of_the_version(runs: dict[str, Any]) -> None:
    evaluated = command(runs["bench"], "evaluate", JOB["name"])
    assert "paid: paid back" in evaluated
    assert "“woman”" in evaluated
    assert "“1”" not in evaluated
    monitored = command(runs["bench"], "monitor", JOB["name"])
    assert ">woman<" in monitored
    assert "man" in monitored
