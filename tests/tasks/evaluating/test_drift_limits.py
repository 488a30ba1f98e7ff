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
