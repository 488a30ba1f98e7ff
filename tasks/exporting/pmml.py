"""A published classifier as a PMML 4.4 document, its encoding of raw columns included.

A value that the data dictionary calls invalid has no answer, which is PMML's default. A missing
number takes the way of its mean: the test that the mean fails comes first, and a test of a missing
value fails in PMML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import numpy as np

from evenhand.fairlib.certificates._tree_kernels import TreeArrays
from evenhand.fairlib.preprocessing.encoder import (
    MISSING,
    FittedColumn,
    TableEncoder,
    category_name,
)
from evenhand.tasks.errors import InputError
from evenhand.tasks.exporting.score import Score, calibrated, raw_splits, read_classifier, sigmoid
from evenhand.tasks.registry.bundle import Bundle

LARGEST = float(np.finfo(np.float64).max)
LABEL_TYPES = {bool: "boolean", int: "integer", float: "double", str: "string"}
# an extension of JPMML, which then adds in float32 as XGBoost does
FLOAT32 = {"functionName": "regression", "x-mathContext": "float"}


class Term(NamedTuple):
    """A matrix column: a field's scaled number, else 1 where the field has a category, or has no
    value.
    """

    field: str
    scaling: FittedColumn | None = None
    category: str = MISSING


def element(tag: str, *children: Any, text: str | None = None, **attributes: Any) -> ET.Element:
    """Make an element; names among its children become references to fields, and numbers
    constants.
    """
    made = ET.Element(tag, {name: str(value) for name, value in attributes.items()})
    made.text = text
    for child in children:
        if isinstance(child, str):
            made.append(element("FieldRef", field=child))
        elif isinstance(child, float):
            made.append(element("Constant", text=str(child), dataType="double"))
        else:
            made.append(child)
    return made


def apply(function: str, *operands: Any, **options: Any) -> ET.Element:
    """Call a function of PMML."""
    return element("Apply", *operands, function=function, **options)


class Fields:
    """The raw columns as data fields, fields derived from them, and the term of each matrix
    column.
    """

    def __init__(self, encoder: TableEncoder, types: Mapping[str, str]) -> None:
        self.data = element("DataDictionary")
        self.schema = element("MiningSchema")
        self.derived = element("LocalTransformations")
        self.terms = list[Term]()
        for item in encoder.fitted_:
            accepted: Sequence[str] = ()
            if item.categories and encoder.unseen == "error":
                accepted = encoder.accepted(item.name)
            self._declare(item, accepted, types[item.name] not in ("string", "boolean"))
            if item.kind in ("onehot", "binary"):
                # a binary column has a term for its second category only
                encoded = item.categories if item.kind == "onehot" else item.categories[1:]
                field = self._listed(item) if item.other else item.name
                self.terms += [Term(field, category=category) for category in encoded]
                continue
            field = self._rank(item) if item.kind == "ordinal" else item.name
            self.terms.append(Term(field, item))
            if item.indicates_missing:
                self.terms.append(Term(field))

    def _declare(self, item: FittedColumn, known: Sequence[str], number: bool) -> None:
        """Add a data field with the values that are valid, and those that stand for a
        missing one.
        """
        missing: list[Any] = [MISSING, *map(str, item.missing)]
        if number:
            missing = [float(value) for value in item.missing if not isinstance(value, str)]
        values = [element("Value", value=value, property="missing") for value in missing]
        if not item.other:
            values += [element("Value", value=name) for name in known if name != MISSING]
        if number and not known:
            finite: dict[str, Any] = {"leftMargin": -LARGEST, "rightMargin": LARGEST}
            values.insert(0, element("Interval", closure="openOpen", **finite))
        # the integers of JPMML have 32 bits, and PMML4S finds no missing boolean
        kind = "string"
        optype = "categorical"
        if number:
            kind = "double"
            optype = "continuous"
        self.data.append(
            element("DataField", *values, name=item.name, optype=optype, dataType=kind)
        )
        treatment = {}
        if known and MISSING not in known:
            treatment["missingValueTreatment"] = "returnInvalid"
        self.schema.append(element("MiningField", name=item.name, **treatment))

    def _rank(self, item: FittedColumn) -> str:
        """Derive the position of an ordered category."""
        table = element("InlineTable")
        for rank, name in enumerate(item.categories):
            table.append(
                element("row", element("name", text=name), element("rank", text=str(rank)))
            )
        pair = element("FieldColumnPair", field=item.name, column="name")
        return self._derive(
            element("MapValues", pair, table, outputColumn="rank", dataType="double")
        )

    def _listed(self, item: FittedColumn) -> str:
        """Derive the category of a column in which others than the listed ones become one."""
        table = element("InlineTable")
        for name in item.categories:
            if name != MISSING:
                table.append(element("row", element("name", text=name), element("read", text=name)))
        pair = element("FieldColumnPair", field=item.name, column="name")
        options = {"outputColumn": "read", "dataType": "string", "defaultValue": item.other}
        return self._derive(element("MapValues", pair, table, **options), "string", "categorical")

    def _derive(
        self, expression: ET.Element, kind: str = "double", optype: str = "continuous"
    ) -> str:
        name = f"evenhand_{len(self.derived)}"
        self.derived.append(
            element("DerivedField", expression, name=name, optype=optype, dataType=kind)
        )
        return name

    def encode(self, term: Term) -> str:
        """Derive a matrix column."""
        field, item, category = term
        if item is not None:
            centred = apply("-", field, item.centre)
            filled = (item.mean - item.centre) / item.scale
            return self._derive(apply("/", centred, item.scale, mapMissingTo=filled), "float")
        if category == MISSING:
            return self._derive(apply("if", apply("isMissing", field), 1.0, 0.0))
        return self._derive(element("NormDiscrete", field=field, value=category, mapMissingTo=0.0))

    def tree(self, node: ET.Element) -> ET.Element:
        """Make a segment of a tree, which declares the fields that it reads."""
        read = {test.get("field") for test in node.iter("SimplePredicate")} or {
            self.schema[0].get("name")
        }
        schema = element(
            "MiningSchema", *(element("MiningField", name=name) for name in sorted(map(str, read)))
        )
        return element("Segment", element("True"), element("TreeModel", schema, node, **FLOAT32))


class Output:
    """Output fields, each of which may use those before it; it writes expressions for
    `calibrated`.
    """

    __call__ = staticmethod(apply)  # the operators have PMML's names

    def __init__(self) -> None:
        self.fields = element("Output")
        self.add("score", feature="predictedValue")

    def keep(self, name: str, value: Any, kind: str = "double") -> str:
        """Add a field for a result that is used more than once; its name."""
        return self.add(f"evenhand_{name}", value, dataType=kind, isFinalResult="false")

    def add(self, name: str, *value: Any, **options: str) -> str:
        """Add a field, by default of numbers; its name."""
        common = {
            "name": name,
            "optype": "continuous",
            "dataType": "double",
            "feature": "transformedValue",
        }
        self.fields.append(element("OutputField", *value, **common | options))
        return name

    def interpolate(self, x: str, knots: Sequence[float], values: Sequence[float]) -> ET.Element:
        """Write a piecewise linear function, constant outside its knots."""
        points = [element("LinearNorm", orig=a, norm=b) for a, b in zip(knots, values, strict=True)]
        return element("NormContinuous", *points, field=x, outliers="asExtremeValues")


def _node(
    trees: TreeArrays, node: int, splits: Mapping[int, tuple[Term, float]], test: ET.Element
) -> ET.Element:
    """A node, which rows reach that pass a test, with the nodes below it."""
    if node not in splits:
        return element("Node", test, score=float(trees.value[node]))
    (field, scaling, category), cut = splits[node]
    low = int(trees.left[node])
    high = int(trees.right[node])
    if scaling is not None and scaling.scale < 0:
        low, high = high, low
    # the side of a missing value comes last
    order = (low, high)
    operator = "lessThan"
    if (0.0 if scaling is None else scaling.mean) < cut:
        order = (high, low)
        operator = "greaterOrEqual"
    if scaling is not None:
        first = element("SimplePredicate", field=field, operator=operator, value=float(finite(cut)))
    elif not 0 < cut <= 1:
        first = element("False")
    elif category == MISSING:
        first = element("SimplePredicate", field=field, operator="isMissing")
    else:
        first = element("SimplePredicate", field=field, operator="equal", value=category)
    tests = (first, element("True"))
    return element(
        "Node", test, *(_node(trees, c, splits, t) for c, t in zip(order, tests, strict=True))
    )


def finite(cut: float) -> float:
    """A cut that no number reaches as the largest one, which is no valid value."""
    return max(min(cut, LARGEST), -LARGEST)


def _model(fields: Fields, score: Score, output: ET.Element) -> ET.Element:
    """Make the model: a sum of trees, or a regression."""
    parts = [fields.schema, output, fields.derived]
    trees = score.trees
    if trees is None:
        ((weights, bias),) = score.layers
        used = zip(map(fields.encode, fields.terms), weights[:, 0].tolist(), strict=True)
        predictors = [
            element("NumericPredictor", name=name, coefficient=weight) for name, weight in used
        ]
        table = element("RegressionTable", *predictors, intercept=float(bias[0]))
        return element("RegressionModel", *parts, table, functionName="regression")
    splits = {}
    for node, column, cut in raw_splits(score, [term.scaling for term in fields.terms]):
        splits[node] = (fields.terms[column], cut)
    nodes = [element("Node", element("True"), score=float(trees.base))]
    nodes += [_node(trees, root, splits, element("True")) for root in trees.roots.tolist()]
    segments = element("Segmentation", *map(fields.tree, nodes), multipleModelMethod="sum")
    return element("MiningModel", *parts, segments, **FLOAT32)


def export_pmml(bundle: Bundle) -> bytes:
    """Return the PMML document of a published classifier; an `InputError` for a model that has
    none.
    """
    encoder, score = read_classifier(bundle, "pmml")
    types = {column.name: column.logical_type for column in bundle.contract.columns}
    source = f"{bundle.uri}, {bundle.evaluation['method']}"
    return pmml_document(encoder, types, score, bundle.inputs["label_values"], source)


def pmml_document(
    encoder: TableEncoder,
    types: Mapping[str, str],
    score: Score,
    labels: Sequence[Any],
    source: str,
) -> bytes:
    """Return a document in UTF-8, with logical types by column, and the negative and the positive
    label.

    Its outputs are ``score``, the log-odds before calibration, ``probability`` and ``prediction``,
    a label. A row with a category unseen in training, unless the encoder ignores these, or with an
    infinite number has none. An `InputError` for names that PMML cannot hold.
    """
    fields = Fields(encoder, types)
    output = Output()
    # XGBoost computes it in float32
    p = output.keep("p", sigmoid(output, "score"), "double" if score.trees is None else "float")
    output.add("probability", calibrated(output, score.calibration, p))
    negative, positive = map(category_name, labels)
    kinds = {type(label) for label in labels}
    kind = LABEL_TYPES[kinds.pop() if len(kinds) == 1 else float]
    cut = finite(score.cut)
    below, above = (negative, positive) if score.rising else (positive, negative)
    bins = [
        element(
            "DiscretizeBin",
            element("Interval", closure="openOpen", rightMargin=cut),
            binValue=below,
        ),
        element(
            "DiscretizeBin",
            element("Interval", closure="closedOpen", leftMargin=cut),
            binValue=above,
        ),
    ]
    # PMML4S cuts the texts of constants at characters such as <, and knows no default of intervals
    decided = element("Discretize", *bins, field="score", dataType=kind)
    output.add("prediction", decided, dataType=kind, optype="categorical")
    outputs = {str(made.get("name")) for made in output.fields}
    clashes = encoder.groups_.keys() & outputs
    if clashes:
        raise InputError(
            f"the column {min(clashes)!r} has the name of an output of PMML documents: rename it."
        )
    note = (
        f"{source}. Dates are days since 1970-01-01. Where the score is summed in float64, a row "
        f"may be decided otherwise if it is within {score.rounding:.1g} of {score.cut:.3g}."
    )
    header = element("Header", element("Application", name="evenhand"), description=note)
    document = element(
        "PMML", header, fields.data, _model(fields, score, output.fields), version="4.4"
    )
    document.set("xmlns", "http://www.dmg.org/PMML-4_4")
    ET.indent(document, " ")
    made = ET.tostring(document, "utf-8", xml_declaration=True)
    try:
        ET.fromstring(made)
    except ET.ParseError:
        raise InputError(
            "a column or a category has a control character in its name, which XML cannot hold."
        ) from None
    return bytes(made)
