"""Proxies that are not published: no split within the limit, a gate that refuses, too few rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def unpublished(store: Path) -> bool:
    return not (store / "steps" / "publish").exists() and not (store / "mlflow-artifacts").exists()


@pytest.mark.long
@pytest.mark.parametrize("alpha", [pytest.param(0.0, marks=pytest.mark.long), 0.002])
def test_a_limit_without_a_split_names_the_least_that_allows_one(
    proxies: Any, alpha: float
) -> None:
    """The run ends with 1."""
    done = proxies.run("--set", f"method.alpha={alpha}")
    assert done.code == 1
    assert unpublished(done.store)
    (line,) = done.err.splitlines()
    said, _, least = line.rpartition("; the smallest alpha that allows one is ")
    assert said == f"evenhand: no split of the training rows stays within alpha = {alpha:g}"
    again = proxies.run("--set", f"method.alpha={alpha}", "--json")
    assert again.code == 1
    assert again.json["status"] == "gated"
    assert again.json["error"] == line.removeprefix("evenhand: ")
    assert again.json["gates"]["verdict"] == "refused"
    assert again.json["model"] is None
    assert again.json["metrics"]["disclosivity"] == pytest.approx(0, abs=1e-12)
    assert again.json["metrics"]["kept"] == 1
    report = Path(again.json["artifacts"]["report"]).read_text()
    assert "no split of the training rows stays within" in report
    # it was found to a thousandth
    limit = float(least.rstrip("."))
    assert proxies.run("--set", f"method.alpha={limit + 1e-3}").code == 0
    assert proxies.run("--set", f"method.alpha={max(limit - 2e-3, 0)}").code == 1


def test_leaves_that_are_too_large_for_any_split_are_named(proxies: Any) -> None:
    done = proxies.run("--set", "method.min_leaf=400")
    assert done.code == 1
    assert "none does at any alpha (progress = 0.05, min_leaf = 400)" in done.err
    assert unpublished(done.store)


@pytest.mark.long
def test_a_sample_that_is_balanced_already_needs_no_split(proxies: Any) -> None:
    done = proxies.run("--set", "method.target={sex: {F: 0.27, M: 0.73}}", "--json")
    assert done.code == 0, done.err
    assert done.json["metrics"]["kept"] == 1


def test_a_proxy_that_balances_nothing_is_warned_of_and_refused(proxies: Any) -> None:
    # a whole imbalance given up: everybody is kept
    given = ("--set", "method.support=1", "--json")
    done = proxies.run(*given)
    assert done.code == 0, done.err
    assert done.json["metrics"]["imbalance_reduction"] == pytest.approx(0, abs=1e-3)
    assert (
        done.json["metrics"]["support"] == done.json["metrics"]["support_size"] == pytest.approx(1)
    )
    (note,) = [note for note in done.json["notes"] if "balances hardly anything" in note]
    assert "imbalance_reduction: {min: 0.1}" in note
    refused = proxies.run(
        *given, "--set", "gates={imbalance_reduction: {min: 0.1}}", "--store", "refused"
    )
    assert (refused.code, refused.json["status"]) == (1, "gated")


def test_a_proxy_below_half_of_what_is_possible_is_refused(proxies: Any) -> None:
    done = proxies.run("--set", "method.support=0.2", "--json")
    metrics = done.json["metrics"]
    share = metrics["imbalance_reduction.of_possible"]
    possible = metrics["imbalance_reduction.possible"]
    assert share == pytest.approx(metrics["imbalance_reduction"] / possible)
    assert 0 < share < 0.5 < possible <= 1
    excess = metrics["imbalance"] - metrics["imbalance.train"]
    assert metrics["imbalance.excess"] == pytest.approx(excess)
    (note,) = [note for note in done.json["notes"] if "could be removed at alpha = " in note]
    assert "imbalance_reduction.of_possible: {min: 0.5}" in note
    gates = "gates={imbalance_reduction.of_possible: {min: 0.5}}"
    refused = proxies.run(
        "--set", "method.support=0.2", "--set", gates, "--json", "--store", "refused"
    )
    assert (refused.code, refused.json["status"]) == (1, "gated")


def test_a_gate_that_refuses_keeps_the_proxy_back(proxies: Any) -> None:
    done = proxies.run("--set", "gates={disclosivity: {max: 0.01}}", "--json")
    assert (done.code, done.json["status"]) == (1, "gated")
    assert unpublished(done.store)
    assert done.json["gates"]["verdict"] == "refused"
    assert done.json["error"] is None


def test_too_few_rows_for_a_gate_end_with_3(proxies: Any) -> None:
    done = proxies.run("--set", "evaluate.min_cell=1000", "--json")
    assert done.code == 3, done.err
    assert done.json["metrics"]["disclosivity"] is None
    balance = json.loads(Path(done.json["artifacts"]["measure_proxy.balance"]).read_text())
    assert balance["base_rates"] == balance["shares_after"] == [None, None]
    assert set(balance["compositions"]) == {None}
    assert "too few" in Path(done.json["artifacts"]["report"]).read_text()


@pytest.mark.flow
@pytest.mark.long
def test_prefect_shows_the_line_of_a_proxy_without_a_split(proxies: Any) -> None:
    path = proxies.write()
    command = [
        sys.executable,
        "-c",
        "from evenhand.flows.cli import main; main()",
        "run",
        str(path),
    ]
    done = subprocess.run(
        [*command, "--set", "method.alpha=0", "--store", str(proxies.store)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    assert "no split of the training rows stays within alpha = 0" in done.stderr
