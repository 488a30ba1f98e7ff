"""A sweep over the limit of a proxy: what it trades for what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evenhand.flows.cli import app


@pytest.mark.usefixtures("points_here")
def test_a_sweep_of_proxies_trades_balance_for_what_is_told(proxies: Any) -> None:
    path = proxies.write()
    done = CliRunner().invoke(
        app,
        [
            *("sweep", str(path), "--over", "method.alpha=0,0.1,0.3", "--seeds", "2", "--direct"),
            *("--workers", "1", "--store", str(proxies.store), "--json"),
        ],
    )
    assert done.exit_code == 0, done.stderr
    content = json.loads(done.stdout)
    assert {(point["status"], point["error"]) for point in content["points"]} == {("done", None)}
    assert [point["verdict"] for point in content["points"]] == ["refused"] * 2 + ["passed"] * 4
    kept = json.loads(Path(content["artifacts"]["tradeoff"]).read_text())
    assert kept["performance"] == "imbalance"
    assert list(kept["fronts"]) == ["disclosivity", "disclosivity.train"]
    assert {
        name: kept["metrics"][name] for name in ("imbalance", "disclosivity", "kept", "smallest_growth")
    } == {
        "imbalance": "lower",
        "disclosivity": "lower",
        "kept": "higher",
        "smallest_growth": "higher",
    }
    means = [
        tuple(value["metrics"][name]["mean"] for name in ("imbalance", "disclosivity"))
        for value in kept["values"]
    ]
    undominated = [
        i
        for i, one in enumerate(means)
        if not any(a <= one[0] and b <= one[1] and (a, b) != one for a, b in means)
    ]
    assert sorted(kept["fronts"]["disclosivity"]) == undominated
    report = Path(content["artifacts"]["report"]).read_text()
    assert "Imbalance" in report
    assert "balances.json" in report


@pytest.mark.usefixtures("points_here")
def test_the_groups_of_every_run_are_those_that_its_own_step_measured(proxies: Any) -> None:
    path = proxies.write()
    over = ("--over", "method.alpha=0.1,0.3,-1", "--seeds", "2", "--direct", "--workers", "1")
    done = CliRunner().invoke(app, ["sweep", str(path), *over, "--store", str(proxies.store), "--json"])
    content = json.loads(done.stdout)
    assert [point["status"] for point in content["points"]] == ["done"] * 4 + ["failed"] * 2
    assert "balance" not in content["points"][0]
    kept = json.loads(Path(content["artifacts"]["balances"]).read_text())
    assert kept["run_id"] == content["run_id"]
    assert [(point["value"], point["seed"]) for point in kept["points"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    files = (Path(proxies.store) / "artifacts" / "balance").iterdir()
    measured = [json.loads(file.read_text()) for file in files]
    assert len(measured) == 4
    assert all(point["balance"] in measured for point in kept["points"])
    # and those of no other run: the distance from the target follows from the shares
    for point in kept["points"]:
        balance = point["balance"]
        seeds = [
            p["metrics"]["imbalance"]["value"] for p in content["points"] if p["value"] == point["value"]
        ]
        apart = [a - t for a, t in zip(balance["shares_after"], balance["target"], strict=True)]
        assert sum(x * x for x in apart) ** 0.5 == pytest.approx(seeds[point["seed"]])
