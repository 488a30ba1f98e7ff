from __future__ import annotations

import json
import math
from typing import Any

import pytest

from fairlib.evaluation import Evaluation, Gate, MetricValue, decide, parse_gates

EVALUATION = Evaluation(
    {
        "balanced_accuracy": MetricValue(0.72, 0.70, 0.75),
        "auc": MetricValue(0.8),
        "gap_max.sex": MetricValue(0.10, 0.04, 0.18),
        "gap_max.race": MetricValue.insufficient("race: 2 of 6 cells have fewer than 5 rows"),
    },
    {},
    100,
)


@pytest.mark.parametrize(
    ("gates", "verdict", "shortfalls"),
    [
        ({}, "passed", []),
        ({"balanced_accuracy": {"min": 0.7}}, "passed", [0.0]),
        ({"balanced_accuracy": {"min": 0.72}}, "passed", [0.0]),
        ({"balanced_accuracy": {"min": 0.75}}, "refused", [0.03]),
        ({"balanced_accuracy": {"min": 0.7, "max": 0.71}}, "refused", [0.0, 0.01]),
        ({"gap_max.sex": {"max": 0.1}}, "passed", [0.0]),
        ({"gap_max.sex": {"max": 0.05}}, "refused", [0.05]),
        # the interval's unfavourable end decides: low for a minimum, high for a maximum
        ({"balanced_accuracy": {"min": 0.71, "bound": "interval"}}, "refused", [0.01]),
        ({"balanced_accuracy": {"min": 0.70, "bound": "interval"}}, "passed", [0.0]),
        ({"balanced_accuracy": {"max": 0.74, "bound": "interval"}}, "refused", [0.01]),
        ({"gap_max.sex": {"max": 0.15, "bound": "interval"}}, "refused", [0.03]),
        ({"gap_max.sex": {"max": 0.18, "bound": "interval"}}, "passed", [0.0]),
        ({"gap_max.sex": {"max": 0.15, "bound": "point"}}, "passed", [0.0]),
        # no interval, no evidence for a gate on one
        ({"auc": {"min": 0.5, "bound": "interval"}}, "insufficient_evidence", [None]),
        ({"gap_max.race": {"max": 1.0}}, "insufficient_evidence", [None]),
        ({"auc": {"min": 0.5}, "gap_max.race": {"max": 1.0}}, "insufficient_evidence", [0.0, None]),
        ({"gap_max.race": {"max": 1.0}, "auc": {"min": 0.9}}, "refused", [None, 0.1]),
        ({"auc": {"min": 0.9}, "gap_max.race": {"max": 1.0}}, "refused", [0.1, None]),
    ],
)
def test_cases(gates: dict[str, Any], verdict: str, shortfalls: list[float | None]) -> None:
    decision = decide(EVALUATION, parse_gates(gates))
    assert decision.verdict == verdict
    assert decision.passed == (verdict == "passed")
    assert len(decision.results) == len(shortfalls)
    for result, shortfall in zip(decision.results, shortfalls, strict=True):
        if shortfall is None:
            assert result.shortfall is None
            assert result.value is None
            assert result.status == "insufficient_evidence"
        else:
            assert result.shortfall == pytest.approx(shortfall, abs=1e-12)
            assert result.status == "ok"
        assert result.passed == (shortfall == 0.0)
        assert "\n" not in result.text


def test_words() -> None:
    gates = {
        "gap_max.sex": {"max": 0.15, "bound": "interval"},
        "auc": {"min": 0.7},
        "gap_max.race": {"max": 0.2},
    }
    texts = [result.text for result in decide(EVALUATION, parse_gates(gates)).results]
    assert texts == [
        "gap_max.sex (upper end of its interval) is 0.180 and must be at most 0.150: refused, 0.03 too high",
        "auc is 0.800 and must be at least 0.700: passed",
        "gap_max.race must be at most 0.2: insufficient evidence (race: 2 of 6 cells have fewer than 5 rows)",
    ]


def test_rounding_never_hides_a_refusal() -> None:
    evaluation = Evaluation({"auc": MetricValue(0.69999)}, {}, 10)
    decision = decide(evaluation, [Gate("auc", min=0.7)])
    assert decision.verdict == "refused"
    assert decision.results[0].text.startswith("auc is 0.69999 and must be at least 0.70000: refused")


def test_no_gates_is_said() -> None:
    decision = decide(EVALUATION, [])
    assert (decision.passed, decision.note) == (True, "no gates")
    assert decide(EVALUATION, [Gate("auc", min=0.1)]).note == ""


def test_unknown_metric_names_the_nearest() -> None:
    with pytest.raises(
        ValueError, match=r"'gap_max.sx': the evaluation has no such metric; did you mean 'gap_max.sex'"
    ):
        decide(EVALUATION, parse_gates({"gap_max.sx": {"max": 0.1}}))
    with pytest.raises(ValueError, match=r"expected one of balanced_accuracy, auc"):
        decide(EVALUATION, parse_gates({"zzz": {"max": 0.1}}))


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        ({"auc": {"mim": 0.7}}, r"gate 'auc': unknown key 'mim'; did you mean 'min'"),
        (
            {"auc": {"limit": 0.7, "min": 0.1}},
            r"unknown key 'limit'; expected one of min, max, bound|did you mean",
        ),
        ({"auc": {}}, r"gate 'auc': got no limit"),
        ({"auc": {"bound": "interval"}}, r"gate 'auc': got no limit"),
        ({"auc": {"min": math.nan}}, r"got min=nan, expected a finite number"),
        ({"auc": {"max": math.inf}}, r"got max=inf, expected a finite number"),
        ({"auc": {"min": "0.7"}}, r"got min='0.7', expected a finite number"),
        ({"auc": {"min": True}}, r"got min=True, expected a finite number"),
        ({"auc": {"min": 0.8, "max": 0.7}}, r"got min=0.8 above max=0.7"),
        ({"auc": {"min": 0.8, "bound": "low"}}, r"got bound='low', expected 'point' or 'interval'"),
        ({"auc": 0.7}, r"gate 'auc': got 0.7, expected a mapping"),
        ({3: {"min": 0.7}}, r"got the metric name 3"),
        ([{"auc": 0.7}], r"gates: got list, expected a mapping"),
    ],
)
def test_bad_gates_are_named(gates: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_gates(gates)


def test_decision_as_json() -> None:
    decision = decide(EVALUATION, parse_gates({"auc": {"min": 0.9}, "gap_max.race": {"max": 0.1}}))
    data = json.loads(json.dumps(decision.to_json(), allow_nan=False))
    assert data["verdict"] == "refused"
    assert data["passed"] is False
    assert data["results"][0]["kind"] == "min"
    assert data["results"][1]["shortfall"] is None
