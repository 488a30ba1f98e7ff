from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.fairlib.catalogue import describe
from evenhand.fairlib.evaluation.evaluate import Evaluation, evaluate
from evenhand.fairlib.evaluation.outcomes import Outcomes, with_intersections

ROW = st.tuples(
    st.integers(0, 1),
    st.integers(0, 1),
    st.sampled_from([0.0, 0.2, 0.5, 0.7, 1.0]),
    st.sampled_from("FM"),
    st.sampled_from(["A", "B", "C"]),
    st.booleans(),
)
TABLES = st.lists(ROW, min_size=1, max_size=60)
QUICK = settings(max_examples=60, deadline=None)


def outcomes_of(
    rows: list[tuple[int, int, float, str, str, bool]], extra: bool = False
) -> Outcomes:
    label, prediction, score, sex, race, agree = (list(part) for part in zip(*rows, strict=True))
    sensitive = {"sex": np.array(sex), "race": np.array(race)}
    if extra:
        sensitive["both"] = np.array([f"{a} & {b}" for a, b in zip(sex, race, strict=True)])
    return Outcomes(label, prediction, score, sensitive, {"copies": agree})


def values(evaluation: Evaluation) -> dict[str, float | None]:
    return {name: metric.value for name, metric in evaluation.metrics.items()}


@QUICK
@given(rows=TABLES, data=st.data())
def test_permuting_rows_changes_nothing(rows: list, data: st.DataObject) -> None:
    permuted = data.draw(st.permutations(rows))
    assert evaluate(outcomes_of(permuted), draws=20, min_cell=1) == evaluate(
        outcomes_of(rows), draws=20, min_cell=1
    )


@QUICK
@given(rows=TABLES)
def test_intersection_equals_concatenated_column(rows: list) -> None:
    outcomes = outcomes_of(rows, extra=True)
    joint = with_intersections({name: outcomes.sensitive[name] for name in ("sex", "race")})[
        "sex&race"
    ]
    assert joint.tolist() == outcomes.sensitive["both"].tolist()
    evaluation = evaluate(outcomes, draws=20, min_cell=2, intersections=True)
    assert evaluation.counts["sex&race"] == evaluation.counts["both"]
    for name, metric in evaluation.metrics.items():
        if name.endswith(".both"):
            twin = evaluation.metrics[name.removesuffix("both") + "sex&race"]
            assert (twin.value, twin.low, twin.high) == (metric.value, metric.low, metric.high)


@QUICK
@given(rows=TABLES)
def test_swapping_group_names_changes_nothing(rows: list) -> None:
    swap, cycle = {"F": "M", "M": "F"}, {"A": "C", "B": "A", "C": "B"}
    renamed = [(y, p, s, swap[sex], cycle[race], agree) for y, p, s, sex, race, agree in rows]
    before, after = (values(evaluate(outcomes_of(r), draws=0, min_cell=1)) for r in (rows, renamed))
    assert after == before


@QUICK
@given(rows=TABLES)
def test_repeating_the_table_changes_no_estimate(rows: list) -> None:
    once, thrice = (values(evaluate(outcomes_of(r), draws=0, min_cell=1)) for r in (rows, rows * 3))
    # the correction of the calibration error for chance depends on the number of rows
    del once["ece"], thrice["ece"]
    assert {name for name, value in once.items() if value is None} == {
        name for name, value in thrice.items() if value is None
    }
    for name, value in once.items():
        assert value is None or thrice[name] == pytest.approx(value, abs=1e-12), name


@QUICK
@given(rows=TABLES, min_cell=st.integers(1, 6))
def test_ranges_and_relations(rows: list, min_cell: int) -> None:
    evaluation = evaluate(outcomes_of(rows), draws=20, min_cell=min_cell)
    for name, metric in evaluation.metrics.items():
        assert (metric.value is None) == (metric.status != "ok") == bool(metric.reason), name
        if metric.value is not None:
            assert metric.low is not None
            assert metric.high is not None
            lowest, highest = describe(name)[0].domain
            assert metric.low <= metric.value <= metric.high, name
            assert lowest is None or metric.low >= lowest, name
            assert metric.high <= (37 if highest is None else highest), name
            if name == "theil_index":
                assert metric.value <= np.log(len(rows)) + 1e-12
    for attribute in ("sex", "race"):
        found = [
            evaluation.metrics[f"{name}.{attribute}"].value
            for name in (
                "average_odds_difference",
                "gap_rms",
                "gap_max",
                "equal_opportunity_difference",
                "balanced_accuracy_difference",
            )
        ]
        if None not in found:
            odds, rms, largest, opportunity, balanced = found
            # mean <= root mean square <= maximum
            assert odds <= rms + 1e-12
            assert rms <= largest + 1e-12
            measured = [
                evaluation.groups[f"{name}.{attribute}"]["measured"]
                for name in ("gap_max", "equal_opportunity_difference")
            ]
            if measured[0] == measured[1]:
                # the second one also compares groups with too few rows of label 0 for the first
                assert opportunity <= largest + 1e-12
            # gaps in TPR and FPR may cancel, and never add up to more
            assert balanced <= odds + 1e-12
    assert {row["group"] for row in evaluation.counts["sex"]} == {row[3] for row in rows}
    assert sum(row["n"] for row in evaluation.counts["race"]) == len(rows)
