"""onnxruntime gives what the published model gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pyarrow as pa
import pytest

from evenhand.tasks.errors import InputError
from evenhand.tasks.exporting.onnx_graph import export_onnx
from tests.tasks.exporting.conftest import at_the_cuts

TREES = {"n_steps": 60, "n_iter_no_change": None, "max_depth": 4}
NETWORK = {"n_steps": 200, "hidden": (16, 8)}


def columns_of(rows: pa.Table, session: Any) -> dict[str, np.ndarray]:
    """Columns as the graph takes them: float64 with NaN, dates in days, text with the empty one."""
    found = {}
    for item in session.get_inputs():
        column = rows[item.name].combine_chunks()
        if item.type == "tensor(string)":
            values = ["" if value is None else str(value) for value in column.to_pylist()]
            found[item.name] = np.array(values, dtype=object)[:, None]
        else:
            if pa.types.is_date(column.type):
                column = column.cast(pa.int32())
            found[item.name] = column.cast(pa.float64()).to_numpy(zero_copy_only=False)[:, None]
    return found


def run(content: bytes, rows: pa.Table) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(content)
    names = [output.name for output in session.get_outputs()]
    return {
        name: values[:, 0]
        for name, values in zip(names, session.run(None, columns_of(rows, session)), strict=True)
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("method", "calibration", "threshold", "parameters"),
    [
        ("gbdt", "none", None, TREES),
        ("gbdt", "beta", 0.4, TREES),
        ("gbdt", "falling", 0.5, TREES),
        ("gbdt", "isotonic", 0.55, TREES),
        ("project", "none", None, TREES),
        ("nn", "shift", None, NETWORK),
        ("sensei", "sigmoid", 0.5, NETWORK),
        ("logistic", "isotonic", 0.6, {}),
        ("reweigh-logistic", "none", None, {}),
        ("adversarial-debiasing", "none", None, {"n_epochs": 3}),
    ],
)
def test_onnxruntime_gives_the_probabilities_of_100_000_rows(
    publish: Any,
    people: Any,
    method: str,
    calibration: str,
    threshold: float | None,
    parameters: dict[str, Any],
) -> None:
    model = publish(method, calibration, threshold, **parameters)
    found = run(export_onnx(model.bundle), people.rows)
    np.testing.assert_allclose(found["probability"], model.probability, rtol=0, atol=1e-6)
    # a network of float32 rounds otherwise: a score may be on the other side of the threshold
    different = (found["prediction"] == "yes") != model.positive
    assert different.sum() <= (2 if "hidden" in parameters else 0)
    assert set(found["prediction"]) == {"yes", "no"}


def test_a_row_alone_and_labels_that_are_whole_numbers(publish: Any, people: Any) -> None:
    model = publish("gbdt", labels=(0, 7), **TREES)
    content = export_onnx(model.bundle)
    for row in range(3):
        found = run(content, people.rows.slice(row, 1))
        assert found["probability"][0] == pytest.approx(model.probability[row], abs=1e-6)
        assert found["prediction"].tolist() == [7 if model.positive[row] else 0]


def test_unseen_categories_and_infinite_numbers_have_no_answer(publish: Any, people: Any) -> None:
    rows = people.rows.slice(0, 3).to_pandas().astype({"job": object})
    rows.loc[0, "job"], rows.loc[1, "income"] = "pilot", np.inf
    table = pa.Table.from_pandas(rows, schema=people.rows.schema)
    found = run(export_onnx(publish("gbdt", **TREES).bundle), table)
    assert np.isnan(found["probability"]).tolist() == [True, True, False]
    assert found["prediction"].tolist()[:2] == ["", ""]
    ignoring = publish("gbdt", unseen="ignore", **TREES)
    found = run(export_onnx(ignoring.bundle), table)
    assert np.isnan(found["probability"]).tolist() == [False, True, False]


def test_rows_at_the_very_cuts_of_a_split(publish: Any) -> None:
    model, rows, probability = at_the_cuts(publish("gbdt", **TREES))
    found = run(export_onnx(model.bundle), rows)
    np.testing.assert_allclose(found["probability"], probability, rtol=0, atol=2e-7)


def test_a_category_alone_of_which_none_is_refused(publish: Any, people: Any) -> None:
    model = publish("logistic", only="smoker", unseen="ignore")
    found = run(export_onnx(model.bundle), people.rows)
    np.testing.assert_allclose(found["probability"], model.probability, rtol=0, atol=1e-9)


def test_a_calibration_of_one_knot(publish: Any, people: Any) -> None:
    model = publish("logistic", "constant")
    found = run(export_onnx(model.bundle), people.rows.slice(0, 5))
    np.testing.assert_allclose(found["probability"], 0.4, rtol=1e-12)


def test_a_calendar_has_no_operator(publish: Any) -> None:
    with pytest.raises(
        InputError, match="'born' has the encoding calendar, which cannot be exported to onnx"
    ):
        export_onnx(publish("gbdt", born="calendar", **TREES).bundle)
