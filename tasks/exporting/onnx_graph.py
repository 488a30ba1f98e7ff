"""A published classifier as an ONNX graph, its encoding of raw columns included.

It has one input tensor of shape (n, 1) for each column of the table: float64 for numbers, NaN where
missing, and for dates the days since 1970-01-01; text for categories, empty where missing. Encoding
and probabilities are computed in float64; trees read float32 rows and are added in float32 in their
order, as XGBoost does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from evenhand.fairlib.certificates._tree_kernels import TreeArrays
from evenhand.fairlib.preprocessing.encoder import (
    MISSING,
    TRUTH,
    FittedColumn,
    TableEncoder,
    category_name,
)
from evenhand.tasks.exporting.score import Score, calibrated, read_classifier, sigmoid
from evenhand.tasks.registry.bundle import Bundle

ML = "ai.onnx.ml"
VERSIONS = {"": 18, ML: 3}
IR_VERSION = 8
FLOAT = TensorProto.FLOAT
DOUBLE = TensorProto.DOUBLE
TEXT = TensorProto.STRING
# Trees whose leaves are held in memory at a time.
TREES_PER_NODE = 64
OPERATIONS = {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "min": "Min", "max": "Max"}
OPERATIONS |= {"exp": "Exp", "ln": "Log"}
# Codes of a category that has no place in the matrix.
UNSEEN = -2
ABSENT = -1


class Graph:
    """Nodes and constants; every method returns the name of its result."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []

    def input(self, name: str, kind: int) -> str:
        """Declare an input column."""
        self.inputs.append(helper.make_tensor_value_info(name, kind, ["rows", 1]))
        return name

    def constant(self, value: Any, kind: Any = np.float64) -> str:
        """Add a constant."""
        name = f"evenhand_c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype=kind), name))
        return name

    def __call__(
        self,
        operator: str,
        *inputs: Any,
        domain: str = "",
        result: str | None = None,
        **options: Any,
    ) -> str:
        """Add a node; a number or an array among its inputs becomes a float64 constant.

        The operators are those of ONNX and of :func:`calibrated`.
        """
        operator = OPERATIONS.get(operator, operator)
        names = []
        for value in inputs:
            names.append(value if isinstance(value, str) else self.constant(value))
        name = result or f"evenhand_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, [name], domain=domain, **options))
        return name

    def cast(self, value: str, kind: int) -> str:
        """Add a conversion."""
        return self("Cast", value, to=kind)

    def rounded(self, value: str | float) -> str:
        """Add a conversion to float32."""
        if isinstance(value, str):
            return self.cast(value, FLOAT)
        return self.constant(value, np.float32)

    def keep(self, name: str, value: str) -> str:
        """Every result has a name."""
        return value

    def interpolate(self, x: str, knots: Sequence[float], values: Sequence[float]) -> str:
        """Add a piecewise linear function, constant outside its at least two knots."""
        starts = np.array(knots)
        low = np.array(values)
        clipped = self("Clip", x, starts[0], starts[-1])
        # the piece of the line that the number is on
        above = self.cast(self("GreaterOrEqual", clipped, starts[None, 1:-1]), TensorProto.INT64)
        piece = self("ReduceSum", above, self.constant([1], np.int64), keepdims=1)
        slopes = np.diff(low) / np.diff(starts)
        start, first, slope = (
            self("Gather", part, piece) for part in (starts[:-1], low[:-1], slopes)
        )
        return self("Add", first, self("Mul", self("Sub", clipped, start), slope))


class Encoder:
    """Adds the encoding of the columns of a table to a graph."""

    def __init__(self, graph: Graph, encoder: TableEncoder, types: dict[str, str]) -> None:
        self.graph = graph
        self.strict = encoder.unseen == "error"
        self.bad: list[str] = []  # where there is no answer, of each column
        parts = []
        for item in encoder.fitted_:
            parts += self._encode(item, types[item.name])
        self.matrix = graph("Concat", *parts, axis=1)  # float32, shape (n, d)
        largest = graph("ReduceMax", self.matrix, graph.constant([1], np.int64), keepdims=1)
        self.unusable = graph("IsNaN", largest)  # never
        for bad in self.bad:
            self.unusable = graph("Or", self.unusable, bad)

    def _encode(self, item: FittedColumn, kind: str) -> list[str]:
        """Float32 columns of the matrix."""
        g = self.graph
        if item.kind in ("onehot", "binary", "ordinal"):
            codes = self._codes(item, kind)
            if item.kind != "ordinal":
                places = np.array([1])
                if item.kind == "onehot":
                    places = np.arange(len(item.categories))
                return [g.cast(g("Equal", codes, g.constant(places[None, :], np.int64)), FLOAT)]
            absent = g("Less", codes, g.constant(0, np.int64))
            number = g.cast(codes, DOUBLE)
        else:
            number = g.input(item.name, DOUBLE)
            absent = g("IsNaN", number)
            for value in item.missing:
                if not isinstance(value, str):
                    absent = g("Or", absent, g("Equal", number, float(value)))
            self.bad.append(g("IsInf", number))
        filled = g("Where", absent, item.mean, number)
        parts = [g.cast(g("Div", g("Sub", filled, item.centre), item.scale), FLOAT)]
        if item.indicates_missing:
            parts.append(g.cast(absent, FLOAT))
        return parts

    def _codes(self, item: FittedColumn, kind: str) -> str:
        """Positions of the categories, int64 of shape (n, 1)."""
        codes = _spellings(item, kind)
        unlisted = UNSEEN
        if item.other:
            unlisted = codes[item.other]
        positions = self.graph(
            "LabelEncoder",
            self.graph.input(item.name, TEXT),
            domain=ML,
            keys_strings=[*codes],
            values_int64s=[*codes.values()],
            default_int64=unlisted,
        )
        if self.strict:
            self.bad.append(self.graph("Equal", positions, self.graph.constant(UNSEEN, np.int64)))
        return positions


def _spellings(item: FittedColumn, kind: str) -> dict[str, int]:
    """Position of the category that each text stands for, other spellings and missing ones too."""
    codes = {name: place for place, name in enumerate(item.categories)}
    for name, place in [*codes.items()]:
        if kind == "boolean":
            for text, truth in TRUTH.items():
                if category_name(truth) == name:
                    for form in (text, text.capitalize(), text.upper()):
                        codes[form] = place
        elif kind in ("integer", "number") and name != MISSING and float(name).is_integer():
            codes.setdefault(f"{name}.0", place)  # as pandas writes it in a column with gaps
    unnamed = ABSENT if item.kind == "ordinal" else UNSEEN
    missing = codes.get(MISSING, unnamed)
    for spelling in ("", MISSING, *map(str, item.missing)):
        codes.setdefault(spelling, missing)
    return codes


def export_onnx(bundle: Bundle) -> bytes:
    """Return the ONNX file of a published classifier.

    Its outputs have the shape (n, 1): ``prediction``, a value of the label as text, or int64 where
    it is a whole number, and ``probability`` in float64. For a category unseen in training, unless
    the contract ignores these, and for an infinite number they are ``""`` or -1, and NaN. An
    `InputError` for a model that has no such graph.
    """
    encoder, score = read_classifier(bundle, "onnx")
    graph = Graph()
    types = {column.name: column.logical_type for column in bundle.contract.columns}
    encoded = Encoder(graph, encoder, types)
    margin = graph.cast(_score(graph, score, encoded.matrix), DOUBLE)
    if score.trees is None:
        probability = sigmoid(graph, margin)
    else:  # XGBoost computes it in float32
        probability = graph.cast(sigmoid(graph, margin, graph.rounded), DOUBLE)
    probability = calibrated(graph, score.calibration, probability)
    graph("Where", encoded.unusable, np.nan, probability, result="probability")
    decided = graph("GreaterOrEqual" if score.rising else "Less", margin, score.cut)
    code = graph.cast(decided, TensorProto.INT64)
    code = graph("Where", encoded.unusable, graph.constant(2, np.int64), code)
    kind, values = _label_values(bundle.inputs["label_values"])
    graph("LabelEncoder", code, domain=ML, keys_int64s=[0, 1], **values, result="prediction")
    outputs = [
        helper.make_tensor_value_info("prediction", kind, ["rows", 1]),
        helper.make_tensor_value_info("probability", DOUBLE, ["rows", 1]),
    ]
    made = helper.make_model(
        helper.make_graph(graph.nodes, "evenhand", graph.inputs, outputs, graph.constants),
        opset_imports=[
            helper.make_opsetid(domain, version) for domain, version in VERSIONS.items()
        ],
        ir_version=IR_VERSION,
        producer_name="evenhand",
        doc_string=f"{bundle.uri}, {bundle.evaluation['method']}",
    )
    onnx.checker.check_model(made, full_check=True)
    return bytes(made.SerializeToString())


def _label_values(labels: Sequence[Any]) -> tuple[int, dict[str, Any]]:
    """Type of the prediction, and attributes of the node that writes it: whole numbers, or text."""
    if all(isinstance(label, int) and not isinstance(label, bool) for label in labels):
        return TensorProto.INT64, {"values_int64s": labels, "default_int64": -1}
    names = [category_name(label) for label in labels]
    return TEXT, {"values_strings": names, "default_string": ""}


def _score(graph: Graph, score: Score, matrix: str) -> str:
    """Add the score, shape (n, 1): float32 of trees, float64 of layers."""
    if score.trees is None:
        return _layers(graph, score, matrix)
    if score.projection is not None:
        product = graph("MatMul", graph.cast(matrix, DOUBLE), score.projection)
        matrix = graph.cast(product, FLOAT)
    total = ""
    trees = score.trees
    for start in range(0, len(trees.roots), TREES_PER_NODE):
        columns = _tree_columns(score, trees, start)
        count = len(trees.roots[start : start + TREES_PER_NODE])
        # a column for each tree: their running sum adds them one after another, as XGBoost does
        values = graph("TreeEnsembleRegressor", matrix, domain=ML, n_targets=count, **columns)
        if total:
            values = graph("Concat", total, values, axis=1)
        sums = graph("CumSum", values, graph.constant(1, np.int64))
        total = graph("Gather", sums, graph.constant([-1], np.int64), axis=1)
    return total


def _layers(graph: Graph, score: Score, matrix: str) -> str:
    """Add the layers of a network or of a linear model, with ReLU between them."""
    values = graph.cast(matrix, DOUBLE)
    for place, (weights, bias) in enumerate(score.layers):
        if place:
            values = graph("Relu", values)
        values = graph("Gemm", values, weights, bias)
    return values


def _tree_columns(score: Score, trees: TreeArrays, start: int) -> dict[str, Any]:
    """Attributes of a node of `TREES_PER_NODE` trees from `start` on."""
    ends = [*trees.roots[1:], len(trees.feature)]
    roots = trees.roots[start : start + TREES_PER_NODE]
    nodes = np.arange(roots[0], ends[start + len(roots) - 1])
    ids = np.searchsorted(roots, nodes, side="right") - 1
    inner = trees.feature[nodes] >= 0
    leaf = nodes[~inner]
    places = nodes - roots[ids]
    is_first = np.arange(start, start + len(roots)) == 0
    columns = {
        "nodes_treeids": ids,
        "nodes_nodeids": places,
        "nodes_featureids": np.where(inner, score.features[trees.feature[nodes]], 0),
        "nodes_values": np.where(inner, trees.above[nodes], 0.0),
        "nodes_modes": np.where(inner, "BRANCH_LT", "LEAF"),
        "nodes_truenodeids": np.where(inner, trees.left[nodes] - roots[ids], 0),
        "nodes_falsenodeids": np.where(inner, trees.right[nodes] - roots[ids], 0),
        "target_treeids": ids[~inner],
        "target_nodeids": places[~inner],
        "target_ids": ids[~inner],
        "target_weights": trees.value[leaf],
        "base_values": np.where(is_first, trees.base, np.float32(0)),
    }
    return {name: values.tolist() for name, values in columns.items()}
