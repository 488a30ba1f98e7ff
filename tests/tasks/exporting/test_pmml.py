"""PMML documents decide as the published model does: in PMML4S, and in a small interpreter of
trees.
"""

from __future__ import annotations

import shutil
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from evenhand.fairlib.certificates._tree_kernels import TreeArrays
from evenhand.fairlib.methods.calibration import Calibration
from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder, category_name
from evenhand.tasks.errors import InputError
from evenhand.tasks.exporting.pmml import export_pmml, pmml_document
from evenhand.tasks.exporting.score import Score, read_classifier
from tests.tasks.exporting.conftest import at_the_cuts

SPACE = "{http://www.dmg.org/PMML-4_4}"
TREES = {"n_steps": 60, "n_iter_no_change": None, "max_depth": 4}
SAMPLE = 200  # PMML4S takes 10 ms for a row of 60 trees
needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="PMML4S needs Java")


def rows_of(rows: pa.Table) -> list[dict[str, Any]]:
    """Rows as the document takes them: dates in days, truth values as text."""
    frame = {}
    for name in rows.column_names:
        column = rows[name].combine_chunks()
        if pa.types.is_date(column.type):
            column = column.cast(pa.int32())
        elif pa.types.is_boolean(column.type):
            column = column.cast(pa.string())
        frame[name] = column
    return pa.table(frame).to_pylist()


def ask(content: bytes, rows: list[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities, NaN where there is none, and predictions by PMML4S."""
    from pypmml import Model

    model = Model.fromString(content.decode())
    places = [model.outputNames.index(name) for name in ("probability", "prediction")]
    found = [model.predict([row[name] for name in model.inputNames]) for row in rows]
    probability, prediction = zip(*([row[place] for place in places] for row in found), strict=True)
    return np.array(probability, dtype=float), np.array(prediction)


def interpret(content: bytes, rows: list[dict[str, Any]]) -> np.ndarray:
    """Scores, shape (n,), of a document of trees: its leaves added in float32 in their order."""
    root = ET.fromstring(content)
    ranks = {}
    for field in root.iter(f"{SPACE}DerivedField"):
        cells = [[cell.text for cell in row] for row in field.iter(f"{SPACE}row")]
        (pair,) = field.iter(f"{SPACE}FieldColumnPair")
        places = {None: None} | dict(cells)
        if field.get("dataType") == "double":
            places = {name: float(rank) for name, rank in cells}
        (mapping,) = field.iter(f"{SPACE}MapValues")
        ranks[field.get("name")] = pair.get("field"), places, mapping.get("defaultValue")
    gone = {
        (field.get("name"), value.get("value"))
        for field in root.iter(f"{SPACE}DataField")
        for value in field.iter(f"{SPACE}Value")
        if value.get("property") == "missing"
    }

    def value_of(row: dict[str, Any], name: str) -> Any:
        if name in ranks:
            source, places, default = ranks[name]
            return places.get(row[source], default)
        value = row[name]
        spelled = str(float(value)) if isinstance(value, int | float) else value
        return None if (name, spelled) in gone else value

    def passes(test: ET.Element, row: dict[str, Any]) -> bool:
        if test.tag != f"{SPACE}SimplePredicate":
            return test.tag == f"{SPACE}True"
        value, given = value_of(row, test.attrib["field"]), test.get("value", "")
        if test.get("operator") == "isMissing" or value is None:
            return value is None and test.get("operator") == "isMissing"
        if test.get("operator") == "equal":
            return float(given) == value if isinstance(value, int | float) else given == value
        return value < float(given) if test.get("operator") == "lessThan" else value >= float(given)

    def leaf(node: ET.Element, row: dict[str, Any]) -> np.float32:
        children = node.findall(f"{SPACE}Node")
        if not children:
            return np.float32(node.attrib["score"])
        return leaf(next(child for child in children if passes(child[0], row)), row)

    trees = [
        node
        for model in root.iter(f"{SPACE}TreeModel")
        if (node := model.find(f"{SPACE}Node")) is not None
    ]
    scores = []
    for row in rows:
        total = np.float32(0)
        for node in trees:
            total += leaf(node, row)
        scores.append(total)
    return np.array(scores)


@needs_java
@pytest.mark.long  # a process of Java, and 10 ms for each row
@pytest.mark.parametrize(
    ("method", "calibration", "threshold", "parameters"),
    [
        ("gbdt", "none", None, TREES),
        ("gbdt", "beta", 0.4, TREES),
        ("gbdt", "falling", 0.5, TREES),
        ("gbdt", "isotonic", 0.55, TREES),
        ("logistic", "isotonic", 0.6, {}),
        ("logistic", "sigmoid", None, {}),
        ("logistic", "shift", 0.5, {}),
        ("reweigh-logistic", "constant", None, {}),
    ],
)
def test_pmml4s_decides_as_the_model(
    publish: Any,
    people: Any,
    method: str,
    calibration: str,
    threshold: float | None,
    parameters: dict[str, Any],
) -> None:
    model = publish(method, calibration, threshold, **parameters)
    probability, prediction = ask(export_pmml(model.bundle), rows_of(people.rows.slice(0, SAMPLE)))
    # the line of this isotonic calibration rises by 30, and PMML4S has no float32
    atol = 5e-6 if calibration == "isotonic" else 1e-6
    np.testing.assert_allclose(probability, model.probability[:SAMPLE], rtol=0, atol=atol)
    np.testing.assert_array_equal(prediction == "yes", model.positive[:SAMPLE])


def test_trees_give_the_scores_of_the_model(publish: Any, people: Any) -> None:
    model = publish("gbdt", **TREES)
    found = interpret(export_pmml(model.bundle), rows_of(people.rows.slice(0, 300)))
    np.testing.assert_allclose(1 / (1 + np.exp(-found)), model.probability[:300], rtol=0, atol=2e-7)
    _, score = read_classifier(model.bundle, "pmml")
    np.testing.assert_array_equal(found >= score.cut, model.positive[:300])


def test_rows_at_the_very_cuts_of_a_split(publish: Any) -> None:
    model, rows, probability = at_the_cuts(publish("gbdt", **TREES))
    found = interpret(export_pmml(model.bundle), rows_of(rows))
    np.testing.assert_allclose(1 / (1 + np.exp(-found)), probability, rtol=0, atol=2e-7)


@needs_java
@pytest.mark.parametrize(
    ("method", "parameters"), [("gbdt", TREES | {"n_steps": 5}), ("logistic", {})]
)
def test_unseen_categories_and_infinite_numbers_have_no_answer(
    publish: Any, people: Any, method: str, parameters: dict[str, Any]
) -> None:
    rows = rows_of(people.rows.slice(0, 5))
    rows[0]["job"], rows[1]["income"], rows[2]["code"], rows[3]["owner"] = "pilot", np.inf, 4, None
    for unseen, expected in (
        ("error", [True, True, True, True, False]),
        ("ignore", [False, True] + [False] * 3),
    ):
        probability, _ = ask(export_pmml(publish(method, unseen=unseen, **parameters).bundle), rows)
        assert np.isnan(probability).tolist() == expected


def hand_made(names: tuple[str, str], category: str, labels: tuple[Any, Any] = (0, 1)) -> bytes:
    """The document of one tree: 1 where the number is below 0.5, else 4 for the category,
    else 2.
    """
    columns = [ColumnSpec(names[0], "standard"), ColumnSpec(names[1], "onehot")]
    frame = pd.DataFrame({names[0]: [-1.0, 1.0, None], names[1]: [category, " b ", None]})
    encoder = TableEncoder(columns).fit(frame)
    nothing = np.zeros(5)
    trees = TreeArrays(
        roots=np.array([0]), feature=np.array([0, -1, 1, -1, -1]), left=np.array([1, 0, 3, 0, 0]),
        right=np.array([2, 0, 4, 0, 0]), above=np.array([0.5, 0, 1, 0, 0]), value=np.array([0, 1, 0, 2, 4.0]),
        base=np.float32(0.25), rank=nothing, cut_features=nothing, below=nothing, cuts=nothing, most=nothing,
        depth=2,
    )  # fmt: skip
    places = [encoder.feature_names_.index(name) for name in (names[0], f"{names[1]}={category}")]
    score = Score(Calibration(), 2.0, trees=trees, features=np.array(places))
    return pmml_document(
        encoder, {names[0]: "number", names[1]: "string"}, score, labels, "by hand"
    )


HOSTILE = ('x <"&> \n y', "job's ü", "<a>&\"'\r\n\t")


@needs_java
def test_a_tree_by_hand_with_hostile_names() -> None:
    x, job, category = HOSTILE
    rows = [
        {x: 0.49, job: None}, {x: 0.5, job: " b "}, {x: 0.5, job: category}, {x: 9.0, job: None},
        {x: None, job: category},  # the mean, 0, is below the cut
    ]  # fmt: skip
    content = hand_made((x, job), category, ("<no>", "a 'yes' & \n"))
    scores = [1.25, 2.25, 4.25, 2.25, 1.25]
    assert interpret(content, rows).tolist() == scores
    probability, prediction = ask(content, rows)
    np.testing.assert_allclose(probability, 1 / (1 + np.exp(-np.array(scores))), rtol=0, atol=1e-7)
    assert prediction.tolist() == [("a 'yes' & \n" if score >= 2 else "<no>") for score in scores]


def test_the_parts_of_a_document() -> None:
    root = ET.fromstring(hand_made(("x", "job"), "cook"))
    header, dictionary, model = root
    assert (root.tag, root.get("version")) == (f"{SPACE}PMML", "4.4")
    assert header.attrib["description"].startswith("by hand. Dates are days")
    fields = [[field.attrib["name"], *(value.attrib for value in field)] for field in dictionary]
    largest = "1.7976931348623157e+308"
    assert fields == [
        ["x", {"closure": "openOpen", "leftMargin": f"-{largest}", "rightMargin": largest}],
        ["job", {"value": "(missing)", "property": "missing"}, {"value": " b "}, {"value": "cook"}],
    ]
    parts = ["MiningSchema", "Output", "LocalTransformations", "Segmentation"]
    assert [part.tag.removeprefix(SPACE) for part in model] == parts
    node = model[3][1].find(f".//{SPACE}Node")
    # from here on float32 rounds to 0.5
    tests = [{"field": "x", "operator": "greaterOrEqual", "value": str(0.5 - 2.0**-26)}, {}]
    assert node is not None
    assert [child[0].attrib for child in node.findall(f"{SPACE}Node")] == tests
    leaves = [leaf.get("score") for leaf in node.iter(f"{SPACE}Node")]
    assert leaves == [None, None, "4.0", "2.0", "1.0"]


@needs_java
@pytest.mark.parametrize("labels", [(0, 1), (False, True), (0.5, 1.5), (0, 1.5), ("it's", "so")])
def test_a_label_of_any_type(labels: tuple[Any, Any]) -> None:
    rows = [{"x": 0.0, "job": "cook"}, {"x": 1.0, "job": "cook"}]
    _, prediction = ask(hand_made(("x", "job"), "cook", labels), rows)
    # PMML4S gives every label as text
    assert prediction.tolist() == [category_name(label) for label in labels]


@pytest.mark.parametrize(
    ("names", "category", "cause"),
    [
        (("x", "job"), "a\x00b", "control character"),
        (("x\x1b", "job"), "a", "control character"),
        (("score", "job"), "a", "'score' has the name of an output"),
    ],
)
def test_names_that_a_document_cannot_hold(
    names: tuple[str, str], category: str, cause: str
) -> None:
    with pytest.raises(InputError, match=cause):
        hand_made(names, category)


def test_a_calendar_is_refused(publish: Any) -> None:
    with pytest.raises(
        InputError, match="'born' has the encoding calendar, which cannot be exported to pmml"
    ):
        export_pmml(publish("logistic", born="calendar").bundle)
