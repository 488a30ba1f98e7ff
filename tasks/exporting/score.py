"""The score of a published classifier, and the scores of which its decision is positive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from evenhand.fairlib.arrays import Float
from evenhand.fairlib.certificates._tree_kernels import TreeArrays
from evenhand.fairlib.certificates.networks import read_network
from evenhand.fairlib.certificates.trees import read_trees, without_trees
from evenhand.fairlib.methods.calibration import SMALLEST, Calibration
from evenhand.fairlib.methods.decided import DecidedModel
from evenhand.fairlib.methods.registry import PROXIES, TREE_LEARNERS, load_model, spec_of_class
from evenhand.fairlib.preprocessing.encoder import FittedColumn, TableEncoder
from evenhand.tasks.errors import InputError, input_errors, unusable
from evenhand.tasks.registry.bundle import Bundle

WITHOUT_NETWORKS = (
    *TREE_LEARNERS,
    "reweigh",
    "budro",
    "logistic",
    "reweigh-logistic",
)
EXPORTABLE = {
    "sql": WITHOUT_NETWORKS,
    "pmml": WITHOUT_NETWORKS,
    "onnx": (
        *TREE_LEARNERS,
        "reweigh",
        "budro",
        "project",
        "logistic",
        "reweigh-logistic",
        "nn",
        "sensei",
        "sensr",
        "clp",
        "adversarial-debiasing",
    ),
}
"""Methods of classifiers that each format can express."""
# Beyond it every probability is 0 or 1.
LARGE_SCORE = 1e4


@dataclass(frozen=True)
class Score:
    """The log-odds of the positive label before calibration: a sum of leaves, or a chain of linear
    layers.

    The decision is positive where the score is at least `cut`, or below it if `rising` is False.
    """

    calibration: Calibration
    cut: float = 0.0
    rising: bool = True
    trees: TreeArrays | None = None  # summed in float32 in their order, as XGBoost does
    features: NDArray[np.int64] = field(
        default_factory=lambda: np.empty(0, np.int64)
    )  # columns of the trees
    projection: Float | None = (
        None  # shape (d, m): the trees read float32 products of the rows with it
    )
    layers: tuple[
        tuple[Float, Float], ...
    ] = ()  # weights (in, out) and biases (out,), with ReLU between
    rounding: float = (
        0.0  # bound on the difference between the float32 sum of the leaves and the exact one
    )


def read_classifier(bundle: Bundle, target: str) -> tuple[TableEncoder, Score]:
    """Read encoder and score of a published classifier; an `InputError` as of
    :func:`read_score`.
    """
    if bundle.is_proxy:
        raise InputError(
            f"a proxy cannot be exported to {target}, which has no hash of a key: export it to sql."
        )
    bundle.require_two_labels("`evenhand export`")
    bundle.require_known_method()
    with unusable(bundle.uri):
        encoder = TableEncoder.load(bundle.folder / "encoder.json")
        model = load_model(bundle.folder / "model")
    for item in encoder.fitted_:
        if item.kind == "text":
            raise InputError(
                f"the column {item.name!r} holds sentences, which no export can encode."
            )
        if item.kind == "calendar" and target != "sql":
            raise InputError(
                f"the column {item.name!r} has the encoding calendar, which cannot be exported to "
                f"{target}: export to sql, or train with the encoding standard."
            )
    return encoder, read_score(model, target)


def read_score(model: Any, target: str) -> Score:
    """Read a loaded classifier; an `InputError` if its method or its rule cannot be expressed in
    `target`.
    """
    base = model
    calibration = Calibration()
    if isinstance(model, DecidedModel):
        base = model.base
        calibration = model.calibration
        if model.decides_by is not None:
            raise InputError(
                f"the model's decisions depend on {model.decides_by!r} with thresholds that a hash "
                "of the encoded row mixes, which cannot be exported: train it without "
                "decision.equal."
            )
    name = spec_of_class(type(base)).name
    if name not in EXPORTABLE[target]:
        proxies = ""
        if target == "sql":
            proxies = f"; proxies: {', '.join(PROXIES)}"
        raise InputError(
            f"a model of the method {name} cannot be exported to {target}; the methods that can: "
            f"{', '.join(EXPORTABLE[target])}{proxies}."
        )
    if getattr(base, "adapts_inputs", False):
        raise InputError(
            f"a model of the method {name} with the learned metric cannot be exported to {target}: "
            "it reads adapted columns. Use another fair_metric.kind to export it."
        )
    parts: dict[str, Any] = {}
    if hasattr(base, "booster_"):
        with input_errors("the model cannot be exported: "):
            trees, negated, features = read_trees(base.booster_)
        most = np.maximum(trees.most, negated.most)[trees.roots].astype(np.float64)
        rounding = 2.0**-24 * float((abs(trees.base) + np.cumsum(most)).sum())
        parts |= {"trees": trees, "features": features, "rounding": rounding}
        if hasattr(base, "metric_"):
            parts["projection"] = np.asarray(base.metric_.project(np.eye(base.n_features_in_)))
        empty = without_trees(base.booster_)
        row = np.zeros((1, base.booster_.num_features()), dtype=np.float32)

        def probability(score: Float) -> Float:
            # XGBoost's own float32 sigmoid
            values: Float = empty.inplace_predict(row, base_margin=score).astype(np.float64)
            return values
    else:
        parts["layers"] = _layers(base)
        probability = expit
    decides = _decision(model, base)
    kind = np.float32 if "trees" in parts else np.float64

    def positive(score: NDArray[Any]) -> NDArray[np.bool_]:
        return np.asarray(decides(probability(np.clip(score, -LARGE_SCORE, LARGE_SCORE))))

    rising = bool(
        positive(np.full(1, np.inf, kind))[0] or not positive(np.full(1, -np.inf, kind))[0]
    )
    cut = first_true(positive if rising else lambda score: ~positive(score), 1, kind)
    return Score(calibration, float(cut[0]), rising, **parts)


def _layers(base: Any) -> tuple[tuple[Float, Float], ...]:
    """Layers whose last has the log-odds of the second label alone."""
    if hasattr(base, "linear_"):
        return ((base.linear_.coefficients[:, None], np.array([base.linear_.intercept])),)
    if hasattr(base, "weights_"):
        return tuple(zip(base.weights_, base.biases_, strict=True))
    with input_errors("the network cannot be exported: "):
        *inner, (weight, bias) = read_network(base.network_)
    return (*((w.T, b) for w, b in inner), (weight[1:].T - weight[:1].T, bias[1:] - bias[:1]))


def _decision(model: Any, base: Any) -> Callable[[Float], NDArray[np.bool_]]:
    """Decisions of the model by its base's probabilities."""
    threshold = getattr(getattr(model, "rule", None), "threshold", None)
    if threshold is not None:
        return lambda p: model.calibration(p) >= threshold
    base_threshold = getattr(base, "threshold_", None)
    if base_threshold is not None:
        return lambda p: p >= base_threshold
    return lambda p: p > 1.0 - p


def first_true(test: Callable[[Any], Any], count: int, kind: Any = np.float64) -> NDArray[Any]:
    """Smallest floating-point number at which each of `count` rising tests is true; infinity if
    none is.

    `test` maps numbers of the type `kind` to truth values, both of shape (count,).
    """
    whole = np.int64 if kind is np.float64 else np.int32

    def number(rank: NDArray[np.int64]) -> NDArray[Any]:
        # the bits of positive floats rise with the number
        size = np.abs(rank).astype(whole).view(kind)
        return np.where(rank < 0, -size, size)

    top = int(np.array(np.inf, dtype=kind).view(whole))
    low = np.full(count, -top)
    high = np.full(count, top)
    while (low < high).any():
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        true = test(number(middle)) | (low >= high)
        low = np.where(true, low, middle + 1)
        high = np.where(true, np.minimum(high, middle), high)
    return number(high)


def raw_cuts(item: FittedColumn, thresholds: NDArray[np.float32]) -> Float:
    """Raw values, shape (m,), at which the encoding of a numeric column passes thresholds, shape
    (m,).

    The encoding is below the threshold where the value is below the cut; of a falling encoding,
    whose scale is negative, where it is at least the cut.
    """

    def reached(values: Float) -> NDArray[np.bool_]:
        with np.errstate(over="ignore"):
            below = ((values - item.centre) / item.scale).astype(np.float32) < thresholds
        return np.asarray(below if item.scale < 0 else ~below)

    return first_true(reached, len(thresholds))


def raw_splits(
    score: Score, scalings: Sequence[FittedColumn | None]
) -> Iterator[tuple[int, int, float]]:
    """Node, matrix column and cut of every split of the trees.

    `scalings` has the encoding of each matrix column of numbers, whose cut is one of
    :func:`raw_cuts`. Of a 0/1 column it is None: its numbers below the cut go left.
    """
    assert score.trees is not None
    for place, column in enumerate(score.features.tolist()):
        nodes = np.flatnonzero(score.trees.feature == place)
        above = score.trees.above[nodes].astype(np.float32)
        scaling = scalings[column]
        cuts = above if scaling is None else raw_cuts(scaling, above)
        for node, cut in zip(nodes.tolist(), cuts.tolist(), strict=True):
            yield node, column, cut


def sigmoid(write: Any, z: Any, rounded: Callable[[Any], Any] = lambda value: value) -> Any:
    """Write the logistic function, within the range in which exp neither overflows nor underflows.

    `rounded` writes the conversion of a number to float32, where the sums are of that type.
    """
    one = rounded(1.0)
    power = write("exp", write("-", 0.0, _clip(write, z, -700.0, 700.0)))
    return write("/", one, write("+", one, rounded(power)))


def calibrated(write: Any, calibration: Calibration, p: Any) -> Any:
    """Write the calibrated probability, by the formulas of :class:`Calibration`.

    `write` is a format's writer of expressions: called with ``+``, ``-``, ``*``, ``/``, ``min``,
    ``max``, ``exp`` or ``ln`` and operands, numbers or expressions. It has `keep`, which names an
    expression that is used more than once, and `interpolate`, a piecewise linear function of at
    least two knots.
    """
    if calibration.kind == "none" and calibration.shift == 0.0:
        return p
    q = write.keep("q", _clip(write, p, 1e-12, 1.0 - 1e-12))
    z = write.keep(
        "z", write("-", write("ln", write("/", q, write("-", 1.0, q))), calibration.shift)
    )
    if calibration.kind == "sigmoid":
        a, b = calibration.parameters
        z = write("+", write("*", z, a), b)
    elif calibration.kind == "beta":
        a, b, c = calibration.parameters
        # ln(1 + exp(z)) and ln(1 + exp(-z))
        high, low = (write("ln", write("+", 1.0, write("exp", t))) for t in (z, write("-", 0.0, z)))
        z = write("+", write("-", write("*", high, b), write("*", low, a)), c)
    calibrated_p = sigmoid(write, z)
    if calibration.kind == "isotonic":
        # flat behind the last knot, which may be the only one
        knots = (*calibration.knots, calibration.knots[-1] + 1.0)
        values = (*calibration.values, calibration.values[-1])
        calibrated_p = write.interpolate(write.keep("s", calibrated_p), knots, values)
    return _clip(write, calibrated_p, SMALLEST, 1.0 - SMALLEST)


def _clip(write: Any, x: Any, low: float, high: float) -> Any:
    return write("max", write("min", x, high), low)
