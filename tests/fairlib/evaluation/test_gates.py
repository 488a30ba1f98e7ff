from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.fairlib.catalogue import better
from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue
from evenhand.fairlib.evaluation.gates import Gate, decide, parse_gates
from evenhand.fairlib.evaluation.paired import Comparison

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

COMPARISON = Comparison(
    {
        "balanced_accuracy": MetricValue(0.02, -0.01, 0.05),
        "auc": MetricValue(-0.008, -0.012, -0.004),
        "gap_max.sex": MetricValue(0.03, -0.02, 0.08),
        "theil_index": MetricValue(-0.01, -0.04, -0.002),
        "accuracy": MetricValue(0.0),
        "gap_max.race": MetricValue.insufficient("race: 2 of 6 cells have fewer than 5 rows"),
    },
    100,
)
BOTH = Evaluation({name: MetricValue(0.5) for name in COMPARISON.differences}, {}, 100)


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
        "gap_max.sex (upper end of its interval) is 0.180 and must be at most 0.150: refused, 0.03 "
        "too high",
        "auc is 0.800 and must be at least 0.700: passed",
        "gap_max.race must be at most 0.2: insufficient evidence (race: 2 of 6 cells have fewer "
        "than 5 rows)",
    ]


def test_rounding_never_hides_a_refusal() -> None:
    evaluation = Evaluation({"auc": MetricValue(0.69999)}, {}, 10)
    decision = decide(evaluation, [Gate("auc", min=0.7)])
    assert decision.verdict == "refused"
    assert decision.results[0].text.startswith(
        "auc is 0.69999 and must be at least 0.70000: refused"
    )


@pytest.mark.parametrize(
    ("value", "limit", "shown", "allowed"),
    [
        # three decimals, or as many as tell the two apart, up to sixteen; then all digits
        (0.5, 0.25, "0.500", "0.250"),
        (0.7 + 2**-53, 0.7, "0.7000000000000001", "0.7000000000000000"),
        (2e-17, 1e-17, "2e-17", "1e-17"),
        (0.7, 0.7, "0.700", "0.700"),
    ],
)
def test_numbers_have_the_decimals_that_tell_them_apart(
    value: float, limit: float, shown: str, allowed: str
) -> None:
    evaluation = Evaluation({"auc": MetricValue(value)}, {}, 10)
    text = decide(evaluation, [Gate("auc", min=limit)]).results[0].text
    assert text == f"auc is {shown} and must be at least {allowed}: passed"


def test_a_gate_may_ask_for_one_value() -> None:
    gate = Gate("auc", min=0.8, max=0.8, no_worse_than_baseline=0)
    assert (gate.min, gate.max, gate.bound) == (0.8, 0.8, "point")
    assert decide(EVALUATION, [Gate("auc", min=0.8, max=0.8)]).passed


def between(found: float, proved: MetricValue) -> Evaluation:
    """A certificate of which the search found less than is proved."""
    metrics = {"certificate.dif": MetricValue(found), "certificate.dif.found": MetricValue(found)}
    return Evaluation(metrics | {"certificate.dif.proved": proved}, {}, 100, 0.95)


@pytest.mark.parametrize(
    ("name", "limit", "verdict"),
    [
        ("certificate.dif", {"max": 0.2}, "refused"),
        ("certificate.dif", {"max": 0.4}, "passed"),
        ("certificate.dif", {"min": 0.2}, "refused"),
        ("certificate.dif", {"max": 0.4, "bound": "interval"}, "refused"),
        ("certificate.dif.found", {"max": 0.2}, "passed"),
    ],
)
def test_a_maximum_is_judged_by_what_is_proved(
    name: str, limit: dict[str, Any], verdict: str
) -> None:
    evaluation = between(0.1, MetricValue(0.3, 0.2, 0.5))
    assert decide(evaluation, parse_gates({name: limit})).verdict == verdict


def test_without_proof_there_is_no_verdict() -> None:
    """The words name the proved end."""
    gates = parse_gates({"certificate.dif": {"max": 0.2}})
    (result,) = decide(between(0.1, MetricValue(0.3)), gates).results
    assert result.text == (
        "certificate.dif.proved, by which a max of certificate.dif is judged, is 0.300 and must be "
        "at most "
        "0.200: refused, 0.1 too high"
    )
    unproved = decide(between(0.1, MetricValue.insufficient("not proved: the layer SELU")), gates)
    assert unproved.verdict == "insufficient_evidence"
    assert "not proved: the layer SELU" in unproved.results[0].text


def test_no_gates_is_said() -> None:
    decision = decide(EVALUATION, [])
    assert (decision.passed, decision.note) == (True, "no gates")
    assert decide(EVALUATION, [Gate("auc", min=0.1)]).note == ""


def test_unknown_metric_names_the_nearest() -> None:
    with pytest.raises(
        ValueError,
        match=r"'gap_max.sx': the evaluation has no such metric; did you mean 'gap_max.sex'",
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
        (
            {"auc": {"bound": "interval"}},
            r"gate 'auc': got no limit, expected min, max, no_worse_than_baseline, .* or "
            r"better_than_leave_out",
        ),
        (
            {"auc": {"no_worse_than_baseline": -0.01}},
            r"^gate 'auc': got no_worse_than_baseline=-0.01, expected 0 or more$",
        ),
        (
            {"auc": {"no_worse_than_baseline": math.nan}},
            r"got no_worse_than_baseline=nan, expected a finite",
        ),
        (
            {"auc": {"no_worse_than_baseline": math.inf}},
            r"got no_worse_than_baseline=inf, expected a finite",
        ),
        (
            {"auc": {"no_worse_than_baseline": True}},
            r"got no_worse_than_baseline=True, expected a finite",
        ),
        (
            {"auc": {"no_worse_than_baseline": "0"}},
            r"got no_worse_than_baseline='0', expected a finite",
        ),
        (
            {"auc": {"no_worse_than_base": 0}},
            r"unknown key .*; did you mean 'no_worse_than_baseline'",
        ),
        ({"auc": {"min": math.nan}}, r"got min=nan, expected a finite number"),
        ({"auc": {"max": math.inf}}, r"got max=inf, expected a finite number"),
        ({"auc": {"min": "0.7"}}, r"got min='0.7', expected a finite number"),
        ({"auc": {"min": 10**400}}, r"got min=10+, expected a finite number"),
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


@pytest.mark.parametrize(
    ("gates", "verdict", "found"),
    [
        # value (how much worse) and shortfall; higher is better: the lower the difference, the
        # worse
        ({"auc": {"no_worse_than_baseline": 0.01}}, "passed", [(0.008, 0.0)]),
        ({"auc": {"no_worse_than_baseline": 0.005}}, "refused", [(0.008, 0.003)]),
        (
            {"auc": {"no_worse_than_baseline": 0.01, "bound": "interval"}},
            "refused",
            [(0.012, 0.002)],
        ),
        ({"auc": {"no_worse_than_baseline": 0.012, "bound": "interval"}}, "passed", [(0.012, 0.0)]),
        ({"balanced_accuracy": {"no_worse_than_baseline": 0}}, "passed", [(-0.02, 0.0)]),
        (
            {"balanced_accuracy": {"no_worse_than_baseline": 0, "bound": "interval"}},
            "refused",
            [(0.01, 0.01)],
        ),
        # lower is better: the higher the difference, the worse
        ({"gap_max.sex": {"no_worse_than_baseline": 0.05}}, "passed", [(0.03, 0.0)]),
        ({"gap_max.sex": {"no_worse_than_baseline": 0.02}}, "refused", [(0.03, 0.01)]),
        (
            {"gap_max.sex": {"no_worse_than_baseline": 0.05, "bound": "interval"}},
            "refused",
            [(0.08, 0.03)],
        ),
        (
            {"theil_index": {"no_worse_than_baseline": 0.0, "bound": "interval"}},
            "passed",
            [(-0.002, 0.0)],
        ),
        # beside other limits, in the order min, max, baseline
        (
            {"auc": {"no_worse_than_baseline": 0.005, "min": 0.4, "max": 0.45}},
            "refused",
            [(0.5, 0.0), (0.5, 0.05), (0.008, 0.003)],
        ),
        ({"accuracy": {"no_worse_than_baseline": 0}}, "passed", [(0.0, 0.0)]),
        # no number, no verdict
        (
            {"accuracy": {"no_worse_than_baseline": 1, "bound": "interval"}},
            "insufficient_evidence",
            [None],
        ),
        ({"gap_max.race": {"no_worse_than_baseline": 1}}, "insufficient_evidence", [None]),
        (
            {"gap_max.race": {"no_worse_than_baseline": 1}, "auc": {"no_worse_than_baseline": 0}},
            "refused",
            [None, (0.008, 0.008)],
        ),
    ],
)
def test_beside_a_baseline(
    gates: dict[str, Any], verdict: str, found: list[tuple[float, float] | None]
) -> None:
    decision = decide(BOTH, parse_gates(gates), COMPARISON)
    assert decision.verdict == verdict
    assert decision.passed == (verdict == "passed")
    for result, expected in zip(decision.results, found, strict=True):
        assert "\n" not in result.text
        if expected is None:
            assert (result.value, result.shortfall, result.passed) == (None, None, False)
            assert result.status == "insufficient_evidence"
            continue
        value, shortfall = expected
        assert result.value == pytest.approx(value, abs=1e-12)
        assert result.shortfall == pytest.approx(shortfall, abs=1e-12)
        assert (result.passed, result.status) == (shortfall == 0.0, "ok")
    kinds = [result.kind for result in decision.results]
    assert kinds[-1] == "no_worse_than_baseline"
    assert kinds[:-1] == ["min", "max"] or set(kinds) == {"no_worse_than_baseline"}
    assert decision.results[-1].limit == list(gates.values())[-1]["no_worse_than_baseline"]


def baseline_text(metric: str, tolerance: float, bound: str = "point") -> str:
    gates = {metric: {"no_worse_than_baseline": tolerance, "bound": bound}}
    return decide(BOTH, parse_gates(gates), COMPARISON).results[0].text


def test_words_beside_a_baseline() -> None:
    assert baseline_text("auc", 0.01, "interval") == (
        "auc is 0.012 worse than the baseline's (lower end of the paired interval) and may be at "
        "most "
        "0.010 worse: refused, 0.002 too much"
    )
    assert baseline_text("gap_max.sex", 0.1, "interval") == (
        "gap_max.sex is 0.080 worse than the baseline's (upper end of the paired interval) and may "
        "be at "
        "most 0.100 worse: passed"
    )
    assert baseline_text("balanced_accuracy", 0) == (
        "balanced_accuracy is 0.020 better than the baseline's and may be at most 0.000 worse: "
        "passed"
    )
    assert baseline_text("accuracy", 0.01) == (
        "accuracy equals the baseline's and may be at most 0.010 worse: passed"
    )
    assert baseline_text("gap_max.race", 0.01) == (
        "gap_max.race may be at most 0.01 worse than the baseline's: insufficient evidence "
        "(race: 2 of 6 cells have fewer than 5 rows)"
    )
    assert "insufficient evidence (it has no interval)" in baseline_text(
        "accuracy", 0.01, "interval"
    )


def test_no_difference_is_zero_and_not_minus_zero() -> None:
    gate = Gate("accuracy", no_worse_than_baseline=0.01)
    assert repr(decide(BOTH, [gate], COMPARISON).results[0].value) == "0.0"


def test_a_difference_equal_to_the_tolerance_passes() -> None:
    """Rounding does not matter."""
    # 79 of 100 rows right beside 80: the computer's 0.8 - 0.79 is a little more than its 0.01
    comparison = Comparison({"auc": MetricValue(0.79 - 0.80)}, 100)
    assert 0.80 - 0.79 > 0.01
    result = decide(BOTH, [Gate("auc", no_worse_than_baseline=0.01)], comparison).results[0]
    assert (result.passed, result.value, result.shortfall) == (True, 0.01, 0.0)
    assert result.text.startswith(
        "auc is 0.010 worse than the baseline's and may be at most 0.010 worse"
    )
    near = Comparison({"auc": MetricValue(-0.01 - 1e-9)}, 100)
    refused = decide(BOTH, [Gate("auc", no_worse_than_baseline=0.01)], near).results[0]
    assert not refused.passed
    assert "is 0.010000001 worse" in refused.text
    assert "at most 0.010000000 worse: refused, 1e-09 too much" in refused.text


def test_a_baseline_that_is_needed_and_missing_is_named() -> None:
    gates = parse_gates({"auc": {"no_worse_than_baseline": 0.01}})
    with pytest.raises(
        ValueError, match=r"^gate 'auc': no_worse_than_baseline needs a baseline to compare"
    ):
        decide(BOTH, gates)
    less = Comparison({"accuracy": MetricValue(0.0), "auuc": MetricValue(0.0)}, 10)
    with pytest.raises(
        ValueError,
        match=r"^gate 'auc': the comparison with the baseline has no such .* did you mean 'auuc'",
    ):
        decide(BOTH, gates, less)
    with pytest.raises(ValueError, match=r"^gate 'auk': the evaluation has no such metric"):
        decide(BOTH, parse_gates({"auk": {"no_worse_than_baseline": 0.01}}), COMPARISON)
    # limits of other kinds do not need one, and do not mind one
    assert decide(BOTH, [Gate("auc", min=0.4)], less) == decide(BOTH, [Gate("auc", min=0.4)])


def test_decision_beside_a_baseline_as_json() -> None:
    gates = {
        "auc": {"min": 0.4, "no_worse_than_baseline": 0.01},
        "gap_max.race": {"no_worse_than_baseline": 0},
    }
    data = decide(BOTH, parse_gates(gates), COMPARISON).to_json()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert set(data) == {"passed", "verdict", "note", "results"}
    keys = {"metric", "bound", "limit", "kind", "value", "passed", "status", "shortfall", "text"}
    assert all(set(result) == keys for result in data["results"])
    assert [result["kind"] for result in data["results"]] == [
        "min",
        *["no_worse_than_baseline"] * 2,
    ]


NUMBERS = st.integers(-64, 64).map(lambda k: k / 64)
NAMES = st.sampled_from(["accuracy", "auc", "consistency.a", "gap_max.sex", "theil_index"])
DIFFERENCES = (
    st.lists(NUMBERS, min_size=3, max_size=3)
    .map(sorted)
    .map(lambda x: MetricValue(x[1], x[0], x[2]))
)


@given(NAMES, DIFFERENCES, NUMBERS.map(abs), st.sampled_from(["point", "interval"]))
def test_a_baseline_gate_by_definition(
    name: str, difference: MetricValue, limit: float, bound: Any
) -> None:
    evaluation, comparison = (
        Evaluation({name: MetricValue(0.5)}, {}, 9),
        Comparison({name: difference}, 9),
    )
    decision = decide(
        evaluation, [Gate(name, bound=bound, no_worse_than_baseline=limit)], comparison
    )
    assert difference.low is not None
    assert difference.high is not None
    candidates = [difference.value] if bound == "point" else [difference.low, difference.high]
    worse = max(-x if better(name) == "higher" else x for x in candidates if x is not None)
    (result,) = decision.results
    assert result.value == worse
    assert math.copysign(1, result.value) == 1 or worse < 0, "no minus zero"
    assert result.passed == decision.passed == (worse <= limit)
    assert result.shortfall == max(worse - limit, 0)
    assert ("refused" in result.text) == (worse > limit)
    assert ("better" in result.text) == (worse < 0)


@given(NAMES, DIFFERENCES, NUMBERS.map(abs))
def test_more_evidence_asked_or_less_tolerance_never_helps(
    name: str, difference: MetricValue, limit: float
) -> None:
    evaluation, comparison = (
        Evaluation({name: MetricValue(0.5)}, {}, 9),
        Comparison({name: difference}, 9),
    )

    def passes(bound: Any, tolerance: float) -> bool:
        gate = Gate(name, bound=bound, no_worse_than_baseline=tolerance)
        return decide(evaluation, [gate], comparison).passed

    assert passes("interval", limit) <= passes("point", limit)
    for bound in ("point", "interval"):
        assert passes(bound, limit) <= passes(bound, limit + 0.125)


@given(NAMES, DIFFERENCES, NUMBERS.map(abs))
def test_swapping_model_and_baseline_turns_better_into_worse(
    name: str, difference: MetricValue, limit: float
) -> None:
    evaluation = Evaluation({name: MetricValue(0.5)}, {}, 9)
    gate = Gate(name, no_worse_than_baseline=limit)
    assert difference.value is not None
    values = [
        decide(evaluation, [gate], Comparison({name: MetricValue(x)}, 9)).results[0].value
        for x in (difference.value, -difference.value)
    ]
    assert values[0] == -values[1]
    assert max(values) == abs(difference.value)


def test_groups_are_names_each_once() -> None:
    assert Gate("gap_max.sex", max=0.1, groups=("f", "m")).groups == ("f", "m")
    wrong: list[tuple[Any, ...]] = [("f", ""), ("f", "f"), ("f", 1)]
    for groups in wrong:
        with pytest.raises(ValueError, match="expected names, each once"):
            Gate("gap_max.sex", max=0.1, groups=groups)
    for metric in ("auc", "consistency.spouse"):
        with pytest.raises(ValueError, match="groups needs a metric that compares groups"):
            Gate(metric, max=0.1, groups=("f", "m"))
