"""The metrics of drift that limits may name, and the limits of a monitor that is given none."""

from __future__ import annotations

from evenhand.tasks.evaluating.drift_limits import drift_metrics


def test_drift_of_unseen_values_is_measured_for_categories_only() -> None:
    columns = {"income": {"kind": "number"}, "city": {"kind": "category"}}
    reference = {"columns": columns, "groups": {"sex": {}}}
    names = drift_metrics(reference, predicts=True)
    assert [name for name in names if name.startswith("psi.")] == ["psi.income", "psi.city"]
    assert [name for name in names if name.startswith("unseen.")] == ["unseen.city"]
    assert [name for name in names if name.endswith(".sex")]
    assert [name for name in names if name.startswith("prediction")]
    assert not [
        name for name in drift_metrics(reference, predicts=False) if name.startswith("prediction")
    ]


def test_drift_of_several_labels_lacks_only_rates_of_one() -> None:
    reference = {"columns": {"city": {"kind": "category"}}, "groups": {"sex": {}}}
    of_two = drift_metrics(reference, predicts=True)
    of_three = drift_metrics(reference | {"label": {"classes": ["x", "y", "z"]}}, predicts=True)
    assert set(of_two) - set(of_three) == {"prediction_rate", "label_rate_change.sex"}
    assert [name for name in of_two if name in of_three] == of_three
    with_terms = drift_metrics(reference, predicts=True, terms=["names"])
    assert set(with_terms) - set(of_two) == {
        "consistency.names",
        "token_gap.names",
        "token_gap_p95.names",
    }


def test_only_a_model_with_adapted_columns_has_their_consistency() -> None:
    reference = {"columns": {"city": {"kind": "category"}}, "groups": {"sex": {}}}
    names = drift_metrics(reference, predicts=True, adapts=True)
    assert names == [*drift_metrics(reference, predicts=True), "adapted_consistency"]
