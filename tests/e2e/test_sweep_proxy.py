"""A sweep over the limit of a proxy: what it trades for what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evenhand.flows.cli import app


@pytest.mark.long
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
        name: kept["metrics"][name]
        for name in ("imbalance", "disclosivity", "kept", "smallest_growth")
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
