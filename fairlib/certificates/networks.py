"""Proved bounds on the logits of a ReLU network over all comparable people."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Bool, Float, Index
from evenhand.fairlib.certificates.region import Region

if TYPE_CHECKING:
    from torch import nn

Bounds = list[tuple[Float, Float]]
# Weights (out, in) and biases (out,) of linear layers with ReLU between them.
Layers = list[tuple[NDArray[Any], NDArray[Any]]]


class NotProvedError(ValueError):
    """The model has a part for which no bound is known."""


def read_network(network: nn.Module) -> list[tuple[Float, Float]]:
    """Weights (out, in) and biases (out,) of linear layers with ReLU between them.

    NotProvedError: any other network; the message names the layer.

    Parameters
    ----------
    network : nn.Module
        A torch module.

    Returns
    -------
    list of tuple of two ndarrays
        Weights (out, in) and biases (out,) of each layer.

    Raises
    ------
    NotProvedError
        For any other network; the message names the layer.
    """
    from evenhand.fairlib.auditor.differentiable_model import perceptron_layers

    layers = perceptron_layers(network)
    if layers is None:
        names = [type(layer).__name__ for layer in [*network.children()] or [network]]
        unsupported_layers = [name for name in names if name not in ("Linear", "ReLU")]
        which = (
            f"the layer {unsupported_layers[0]}" if unsupported_layers else "this order of layers"
        )
        raise NotProvedError(
            f"no bound is known for {which}, only for linear layers with ReLU between them"
        )
    arrays = []
    for layer in layers:
        weight = layer.weight.detach().double().numpy()
        bias = layer.bias.detach().double().numpy()
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise NotProvedError("the network's weights are not finite")
        arrays.append((weight, bias))
    return arrays


class LinearRelaxation:
    r"""A network whose units are replaced by lines, for batches of p parts of regions (Zhang et al.
    2018).

    A unit whose input z lies in [l, u], l < 0 < u, has for every :math:`\alpha \in [0, 1]`

    .. math:: \alpha z \;\le\; \max(z, 0) \;\le\; \frac{u}{u - l} (z - l)

    From the last layer to the first, a unit with a positive coefficient is replaced by its upper
    line and one with a negative coefficient by its lower line. What is left is a linear function of
    :math:`x'`, whose maximum :meth:`evenhand.fairlib.certificates.region.Region.support` bounds.
    Every choice of slopes :math:`\alpha` is sound. On a part where a unit's sign s is fixed,
    :math:`s z \ge 0`, adding :math:`\beta s z` with :math:`\beta \ge 0` cannot lower the function
    (Wang et al. 2021): so every :math:`\beta` is sound, too.

    **Rounding.** The network is the real function of its stored float32 weights; all is computed in
    float64. With :math:`M_0 \ge |x'|` on the whole region and :math:`M_l = |W_l| M_{l-1} + |b_l|`,
    slopes in [0, 1] and intercepts of at most :math:`|l|`, the absolute terms that lead from layer
    l back to the input sum up to at most :math:`(l + 1) M_l`. Each path has fewer than N
    operations, each with an error below unit roundoff u, so the error is below :math:`(l + 1) N u
    M_l`; four times that is added.

    Parameters
    ----------
    layers : sequence
        Weights and biases, as :func:`read_network` gives them.
    region : Region
        Regions of n people.
    """

    def __init__(self, layers: list[tuple[Float, Float]], region: Region) -> None:
        self.layers = layers
        self.region = region
        terms = sum(sum(weight.shape) + 8 for weight, _ in layers)
        unit = 4 * terms * (len(layers) + 1) * np.finfo(np.float64).eps
        # |x'| <= |x| + |delta| + |B| (|B'| |delta| + |t|)
        reach = np.maximum(-region.low, region.high)
        basis = np.abs(region.basis)
        free = np.maximum(-region.free_low, region.free_high)
        size = np.abs(region.x) + reach + (reach @ basis + free) @ basis.T
        self.sizes = []
        self.slacks = []
        for weight, bias in layers:
            size = size @ np.abs(weight).T + np.abs(bias)
            self.sizes.append(size)
            self.slacks.append(unit * size)
        self.along = layers[0][0] @ region.basis

    @cached_property
    def first(self) -> tuple[Float, Float]:
        """Bounds of the inputs of the first layer's units over the whole region, but for t."""
        weight, bias = self.layers[0]
        across = weight - self.along @ self.region.basis.T
        middle = self.region.x @ weight.T + bias
        slack = self.region.slack(weight) + self.slacks[0]
        return (
            middle - self.region.reach(-across)[0] - slack,
            middle + self.region.reach(across)[0] + slack,
        )

    def logits(self, x: Float) -> Float:
        """Logits of rows, shape (..., d).

        Parameters
        ----------
        x : ndarray of float64, shape (..., d)
            Rows.

        Returns
        -------
        ndarray of float64, shape (..., K)
            Logits.
        """
        # as one matrix: a stack of matrices of one row each is multiplied one by one
        logits, _ = forward(self.layers, x.reshape(-1, x.shape[-1]))
        return logits.reshape(*x.shape[:-1], -1)

    def unit_bounds(self, person: Index, part: Region, signs: NDArray[np.int8]) -> Bounds:
        """Bounds of the inputs of each hidden layer's units, each (p, h); signs of 0 are open.

        Parameters
        ----------
        person : ndarray of intp, shape (p,)
            The person that each part belongs to.
        part : Region
            Parts of the regions of people.
        signs : ndarray, shape (p, h)
            Sign of each hidden unit's input; 0 is open.

        Returns
        -------
        list of tuple of two ndarrays
            Lower and upper bounds by layer, each (p, h).
        """
        up = np.maximum(self.along, 0.0).T
        down = np.minimum(self.along, 0.0).T
        low = self.first[0][person] + part.free_low @ up + part.free_high @ down
        high = self.first[1][person] + part.free_high @ up + part.free_low @ down
        bounds: Bounds = []
        for depth, (weight, bias) in enumerate(self.layers[:-1]):
            if depth:
                signed_weights = np.concatenate([weight, -weight])
                signed_weights = np.broadcast_to(signed_weights, (len(part), *signed_weights.shape))
                A, constant, _ = self.backward(signed_weights, bounds)
                ends = part.support(A) + constant + np.concatenate([bias, -bias])
                slack = self.slacks[depth][person]
                high = ends[:, : len(weight)] + slack
                low = -ends[:, len(weight) :] - slack
                size = self.sizes[depth][person]
                low = np.maximum(low, -size)
                high = np.minimum(high, size)
            fixed = signs[:, : len(weight)]
            signs = signs[:, len(weight) :]
            low = np.where(fixed > 0, np.maximum(low, 0.0), low)
            high = np.where(fixed < 0, np.minimum(high, 0.0), high)
            bounds.append((low, high))
        return bounds

    def backward(
        self,
        A: Float,
        bounds: Bounds,
        slopes: list[Float] | None = None,
        cuts: list[Float] | None = None,
    ) -> tuple[Float, Float, list[Float]]:
        """The linear function of x' that is above A, shape (p, m, h), times the last hidden units'
        outputs.

        Parameters
        ----------
        A : ndarray of float64, shape (p, m, h)
            Coefficients of the last hidden units' outputs.
        bounds : Bounds
            Bounds of units, as :meth:`unit_bounds` gives them.
        slopes : sequence of ndarray of float64, optional
            Slopes of the lower lines, (p, 1, h) each; default: those of the upper lines.
        cuts : sequence of ndarray of float64, optional
            Added to the coefficients of the units' inputs; default: nothing.

        Returns
        -------
        tuple of two ndarrays and list of ndarray
            Coefficients (p, m, d), constant (p, m), and A at each hidden layer.
        """
        constant = np.zeros(A.shape[:2])
        coefficients = []
        for depth in reversed(range(len(bounds))):
            slope, intercept = _upper_lines(*bounds[depth])
            coefficients.append(A)
            positive = np.maximum(A, 0.0)
            lower = slope if slopes is None else slopes[depth]
            constant = constant + np.matmul(positive, np.swapaxes(intercept, 1, 2))[..., 0]
            A = positive * slope + (A - positive) * lower
            if cuts is not None:
                A = A + cuts[depth]
            weight, bias = self.layers[depth]
            constant = constant + A @ bias
            A = A @ weight
        return A, constant, coefficients[::-1]

    def bound(
        self, person: Index, part: Region, signs: NDArray[np.int8], rows: Float, steps: int
    ) -> tuple[Float, Float, Float, Float, Float]:
        """Upper bound, shape (p,), of one row each, (p, K), times the logits over parts of people's
        regions.

        A few steps improve the slopes and the cuts' multipliers: each moves towards its best value
        at the point where the linear function is largest. Minus infinity is a part without a point.

        For a radius that is smaller by s, the bound less s times the second result, shape (p,),
        holds. The others are: where the linear functions were largest, shape (p, steps, d); how
        much of the relaxation's looseness halving a free direction could remove, shape (p, k); and
        the same for fixing a hidden unit's sign, shape (p, h).

        Parameters
        ----------
        person : ndarray of intp, shape (p,)
            The person that each part belongs to.
        part : Region
            Parts of the regions of people.
        signs : ndarray, shape (p, h)
            Sign of each hidden unit's input; 0 is open.
        rows : ndarray of float64, shape (p, K)
            One row of coefficients of the logits for each part.
        steps : int
            Improvements of the slopes and multipliers, at least 1.

        Returns
        -------
        tuple of five ndarrays
            The bound, shape (p,), minus infinity for a part without a point; the factor of the
            radius, shape (p,); points, shape (p, steps, d); and what could be gained by halving
            free directions, shape (p, k), and by fixing signs, shape (p, h).
        """
        bounds = self.unit_bounds(person, part, signs)
        crossing = [(low < 0) & (high > 0) for low, high in bounds]
        slopes = [upper_line(low, high)[0][:, None, :] for low, high in bounds]
        widths = np.cumsum([low.shape[1] for low, _ in bounds], dtype=int)
        fixed = []
        for signs_of_layer in np.split(signs, widths, axis=1)[:-1]:
            fixed.append(signs_of_layer[:, None, :].astype(np.float64))
        # the multiplier beta of a fixed unit is a share of its coefficient's size
        shares = [np.zeros_like(signs_of_layer) for signs_of_layer in fixed]
        sizes = [np.zeros_like(signs_of_layer) for signs_of_layer in fixed]
        weight, bias = self.layers[-1]
        best = np.full(len(rows), np.inf)
        factor = np.zeros(len(rows))
        points = []
        for step in range(steps):
            cuts = [s * share * size for s, share, size in zip(fixed, shares, sizes, strict=True)]
            A, constant, coefficients = self.backward(
                (rows @ weight)[:, None, :], bounds, slopes, cuts
            )
            support, factors = part.lines(A)
            value = support[:, 0] + constant[:, 0]
            factor = np.where(value < best, factors[:, 0], factor)
            best = np.minimum(best, value)
            points.append(part.towards(A))
            # move slopes and multipliers towards their best values at this point
            pace = 2.0 / (step + 3.0)
            y = points[-1]
            for depth, (low, high) in enumerate(bounds):
                z = y @ self.layers[depth][0].T + self.layers[depth][1]
                slope, intercept = _upper_lines(low, high)
                y = np.where(coefficients[depth] > 0, slope * z + intercept, slopes[depth] * z)
                moved = slopes[depth] + pace * ((z > 0) - slopes[depth])
                slopes[depth] = np.where(crossing[depth][:, None, :], moved, slopes[depth])
                shares[depth] = shares[depth] + pace * ((fixed[depth] * z < 0) - shares[depth])
                sizes[depth] = np.abs(coefficients[depth])
        empty = np.zeros(len(rows), dtype=bool)
        loose = [np.zeros((len(rows), 0))]
        for (low, high), A in zip(bounds, coefficients, strict=True):
            empty |= (low > high).any(axis=1)
            loose.append(np.abs(A[:, 0]) * upper_line(low, high)[1])
        total = best + rows @ bias + (self.slacks[-1][person] * np.abs(rows)).sum(axis=1)
        axes = np.zeros_like(part.free_low)
        if bounds:
            width = np.where(crossing[0], bounds[0][1] - bounds[0][0], np.inf)
            axes = loose[1] / width @ np.abs(self.along) * (part.free_high - part.free_low) / 2
        bound = np.where(empty, -np.inf, total)
        return bound, factor, np.concatenate(points, axis=1), axes, np.hstack(loose)


def forward(layers: Layers, x: NDArray[Any]) -> tuple[NDArray[Any], list[Bool]]:
    """Logits of rows, and which hidden units are active.

    Parameters
    ----------
    layers : list of tuple of two ndarrays
        Weights (out, in) and biases (out,) of each layer, of one precision.
    x : ndarray of float, shape (n, d)
        Rows.

    Returns
    -------
    logits : ndarray of float, shape (n, K)
    active : list of ndarray of bool, shape (n, h)
        By hidden layer.
    """
    active = []
    for weight, bias in layers[:-1]:
        x = x @ weight.T
        x += bias
        active.append(x > 0)
        np.maximum(x, 0.0, out=x)
    weight, bias = layers[-1]
    return np.asarray(x @ weight.T + bias), active


def gradient(layers: Layers, active: list[Bool], rows: NDArray[Any]) -> NDArray[Any]:
    """Gradient of ``(rows * logits).sum()`` by the rows of :func:`forward`.

    Parameters
    ----------
    layers : list of tuple of two ndarrays
        Weights (out, in) and biases (out,) of each layer, of one precision.
    active : list of ndarray of bool, shape (n, h)
        Active units, by hidden layer.
    rows : ndarray of float, shape (n, K)
        Coefficients of the logits.

    Returns
    -------
    ndarray of float, shape (n, d)
        Gradients.
    """
    slope = rows @ layers[-1][0]
    for (weight, _), is_on in zip(layers[-2::-1], active[::-1], strict=True):
        slope = (slope * is_on) @ weight
    return np.asarray(slope)


def upper_line(low: Float, high: Float) -> tuple[Float, Float]:
    """Slope and intercept of the line above max(z, 0) on [low, high].

    It is exact where z keeps its sign.

    Parameters
    ----------
    low : ndarray of float64, shape (...)
        Smallest input of each unit.
    high : ndarray of float64, shape (...)
        Largest input.

    Returns
    -------
    tuple of two ndarrays, shape (...)
        Slopes and intercepts.
    """
    crossing = (low < 0) & (high > 0)
    slope = np.where(crossing, high / np.where(crossing, high - low, 1.0), low >= 0)
    return slope, np.where(crossing, -low * slope, 0.0)


def _upper_lines(low: Float, high: Float) -> tuple[Float, Float]:
    """:func:`upper_line` with an axis for the m rows of coefficients, both (p, 1, h)."""
    slope, intercept = upper_line(low, high)
    return slope[:, None, :], intercept[:, None, :]
