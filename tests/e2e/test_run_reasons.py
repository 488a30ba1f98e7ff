"""A job that measures whether reasons stay under counterfactuals: metric, gate, and wrong keys."""

from __future__ import annotations

import pytest

from tests.flows.people import Bench


def test_reasons_of_counterfactuals_are_compared(bench: Bench) -> None:
    # trees in which columns act together: a copy that owns changes the other columns' contributions
    bench.job["method"] |= {"n_steps": 30, "max_depth": 4}
    bench.job["evaluate"] |= {"reasons": 1, "counterfactuals": {"home": {"owner": "all"}}}
    bench.job["gates"] = {"reasons_kept": {"min": 0.1, "bound": "interval"}}
    done = bench.run("--json")
    assert done.code == 0, done.err
    metrics = done.json["metrics"]
    assert 0.1 < metrics["reasons_kept.low"] <= metrics["reasons_kept"] < 1.0
    assert not any(
        "reasons_kept" in control["metrics"] for control in done.json["controls"].values()
    )


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"evaluate": {"reasons": 2}}, "and the job has none: leave it out"),
        (
            {
                "method": {"name": "faias"},
                "evaluate": {"reasons": 2, "counterfactuals": {"j": {"job": "all"}}},
            },
            "the method faias gives no reasons",
        ),
        ({"gates": {"reasons_kept": {"min": 0.5}}}, "reasons_kept"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    bench: Bench, changes: dict[str, object], says: str
) -> None:
    bench.job |= changes
    done = bench.run()
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert says in done.err
