"""Answers of models of others: which threshold gives a model's own decisions, and one value a row
of an ONNX file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from onnx import TensorProto, helper, save

from evenhand.tasks.errors import InputError
from evenhand.tasks.sources.foreign_models import Decided, load_value_predictor
from evenhand.tasks.steps.measure_predictions_step import RememberedModel


def answers(score: list[float], decided: list[bool]) -> Decided:
    positive = np.array(score)
    return Decided(np.stack([1.0 - positive, positive], axis=1), np.array(decided))


@pytest.mark.parametrize(
    ("score", "decided", "threshold"),
    [
        ([0.1, 0.37, 0.42, 0.9], [False, False, True, True], 0.4),
        ([0.1, 0.391, 0.394, 0.9], [False, False, True, True], 0.394),
        ([0.2, 0.7], [True, True], 0.2),
        # groups have thresholds of their own
        ([0.3, 0.4, 0.5], [True, False, True], None),
    ],
)
def test_the_threshold_of_decisions_by_hand(
    score: list[float], decided: list[bool], threshold: float | None
) -> None:
    assert answers(score, decided).threshold() == threshold


def test_nobody_decided_positive_stays_nobody() -> None:
    threshold = answers([0.2, 0.7], [False, False]).threshold()
    assert threshold is not None
    assert threshold > 0.7


def test_a_model_without_one_threshold_answers_with_decisions() -> None:
    rows = pd.DataFrame({"a": [1, 2, 3]})
    model = RememberedModel(lambda _: answers([0.3, 0.4, 0.5], [True, False, True]), rows)
    assert model(rows).tolist() == [1, 0, 1]
    model = RememberedModel(lambda _: answers([0.3, 0.4, 0.5], [False, True, True]), rows)
    assert model.threshold == 0.4
    assert model(rows)[:, 1].tolist() == [0.3, 0.4, 0.5]
    foreign = RememberedModel(lambda _: np.array([0, 1, 1]), rows)
    assert not foreign.decides


def three_places(path: Path) -> None:
    """An ONNX file that gives a word for the place 0, 1 or 2, and a matrix beside it."""
    place = helper.make_tensor_value_info("place", TensorProto.INT64, [None])
    word = helper.make_tensor_value_info("word", TensorProto.STRING, [None])
    matrix = helper.make_tensor_value_info("matrix", TensorProto.FLOAT, [None, 3])
    encode = helper.make_node(
        "LabelEncoder",
        ["place"],
        ["word"],
        domain="ai.onnx.ml",
        keys_int64s=[0, 1, 2],
        values_strings=["low", "middle", "high"],
    )
    sizes = helper.make_node("Constant", [], ["sizes"], value_ints=[3])
    values = helper.make_node("Constant", [], ["values"], value_floats=[0.0, 1.0])
    spread = helper.make_node("OneHot", ["place", "sizes", "values"], ["matrix"])
    nodes = [encode, sizes, values, spread]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 2)]
    for name, outputs in (("words.onnx", [word, matrix]), ("matrix.onnx", [matrix])):
        graph = helper.make_graph(nodes, "places", [place], outputs)
        save(helper.make_model(graph, ir_version=10, opset_imports=opsets), path / name)


def test_one_value_a_row_is_the_first_output_of_onnx(tmp_path: Path) -> None:
    three_places(tmp_path)
    rows = pd.DataFrame({"place": [2, 0, 1, 1], "other": [9, 9, 9, 9]})
    predict = load_value_predictor(tmp_path / "words.onnx")
    assert predict(rows).tolist() == ["high", "low", "middle", "middle"]
    with pytest.raises(InputError, match="does not give one value for each row.*--prediction"):
        load_value_predictor(tmp_path / "matrix.onnx")(rows)
