"""The demonstration: four models on the generated hiring table, in one small table and on
one page.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import evenhand.flows.commands.demo_command as demonstration
from evenhand.flows.cli import app
from evenhand.flows.job_file import load_job

SMALL = ("table.rows=2000", "method.n_steps=15", "method.n_jobs=1", "evaluate.draws=20")
ROW = re.compile(r"  (trees.*?|individually fair trees)  +(\d.*)")
NUMBER = re.compile(r"([\d.]+)%  \[([\d.]+)%, ([\d.]+)%\]")


def show(store: Path, registry: Path, *overrides: str) -> Any:
    """Run the command with its jobs changed."""
    store.mkdir(mode=0o700)
    shutil.copyfile(registry, store / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            demonstration, "load_job", lambda name, given: load_job(name, (*given, *overrides))
        )
        return CliRunner().invoke(app, ["demo", "--store", str(store)])


def table_of(out: str) -> dict[str, list[list[float]]]:
    """Estimate, low and high end of each model's three numbers."""
    rows = [match for line in out.splitlines() if (match := ROW.fullmatch(line))]
    return {
        row[1]: [[float(end) for end in found] for found in NUMBER.findall(row[2])] for row in rows
    }


def test_four_models_are_compared_in_one_table_and_on_one_page(
    tmp_path: Path, registry: Path
) -> None:
    done = show(tmp_path / "store", registry, *SMALL)
    assert (done.exit_code, done.stderr) == (0, ""), done.exception
    table = table_of(done.stdout)
    assert list(table) == list(demonstration.JOBS.values())
    runs = {
        run.name.split("-", 2)[2].rpartition("-")[0]: run
        for run in (tmp_path / "store/runs").glob("*-*")
    }
    assert set(runs) == set(demonstration.JOBS)
    page = Path(done.stdout.split("page ")[1].strip())
    assert page == tmp_path / "store/runs/demo.html"
    html = page.read_text()
    for name, label in demonstration.JOBS.items():
        assert f'href="{runs[name].name}/report.html"' in html
        metrics = json.loads((runs[name] / "metrics.json").read_text())["metrics"]
        gap = metrics["demographic_parity_difference.gender"]
        same = metrics["consistency.gender"]
        assert same["low"] < same["high"]
        expected = [
            [metrics["accuracy"][end] for end in ("value", "low", "high")],
            [1 - same[end] for end in ("value", "high", "low")],
            [gap[end] for end in ("value", "low", "high")],
        ]
        for found, wanted in zip(table[label], expected, strict=True):
            assert found == pytest.approx([100 * number for number in wanted], abs=0.051)
            assert found[1] <= found[0] <= found[2]
    # the effect that the table shows: many decisions depend on gender or club, few of the fair
    # trees' do
    plain, blind, neither, fair = table.values()
    assert plain[1][1] > 20
    assert fair[1][2] < min(5, plain[1][1])
    assert plain[2][1] > fair[2][2]
    assert plain[2][0] > blind[2][0]
    # of 400 people no decision depends on them, which is no proof for all people
    assert neither[1][:2] == [0.0, 0.0]
    assert 0 < neither[1][2] < 2


@pytest.mark.long
def test_the_whole_demonstration_shows_what_its_page_says(tmp_path: Path, registry: Path) -> None:
    """All gates pass, and the club still tells the gender where that is left out."""
    done = show(tmp_path / "store", registry)
    assert (done.exit_code, done.stderr) == (0, ""), done.exception
    verdicts = [json.loads(path.read_text()) for path in tmp_path.glob("store/runs/*/verdict.json")]
    assert [verdict["status"] for verdict in verdicts] == ["published"] * 4
    plain, blind, neither, fair = table_of(done.stdout).values()
    assert blind[2][0] > neither[2][0] > fair[2][0]
    assert plain[1][1] > blind[1][2]
    assert blind[1][1] > fair[1][2]
    assert plain[2][1] > fair[2][2]
    assert plain[0][0] - fair[0][0] < 10
