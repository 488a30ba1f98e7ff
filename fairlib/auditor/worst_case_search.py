"""The search for the worst comparable treatment of each person, and its objectives."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from evenhand.fairlib.auditor.differentiable_model import DifferentiableModel, along_directions
from evenhand.fairlib.distances.metric_base import Metric

# Lengths of the first move in full space that are tried as well as the gradient's own.
FIRST_LENGTHS = (0.1, 1.0)
# Steps between comparisons with the best point: the path in full space hardly ever turns back.
COMPARE_EVERY = 5
TINY = 1e-30
# Scales from which a gradient may overflow single precision.
LARGE = 1e18
# Half the width of a random start in full space.
START_WIDTH = 1.0
# Random places for each one from which a climb starts; its steps, and the first one's share of the
# range.
TRIED_PLACES = 8
CLIMB_STEPS = 30
CLIMB_SHARE = 0.1


def logit_distance(first: Tensor, second: Tensor) -> Tensor:
    r"""Mean squared difference of logits, from shape (..., K) to (...) (Yurochkin and Sun 2021,
    appendix B).

    .. math:: d_Y(h, h') = \frac{1}{K} \| h - h' \|_2^2

    Parameters
    ----------
    first : torch.Tensor, shape (..., K)
        Logits.
    second : torch.Tensor, shape (..., K)
        Logits.

    Returns
    -------
    torch.Tensor, shape (...)
        At least 0.

    References
    ----------
    .. [1] M. Yurochkin and Y. Sun, "SenSeI", ICLR 2021, appendix B.
    """
    squared = (first - second).square()
    classes = squared.shape[-1]
    # faster than a mean over an axis of a few numbers
    return squared @ squared.new_full((classes,), 1.0 / classes)


class SearchObjective(Protocol):
    """A function of each row's logits, with its gradient."""

    def value(self, logits: Tensor) -> Tensor:
        """Value of every row, from shape (..., n, K) to shape (..., n).

        Parameters
        ----------
        logits : torch.Tensor, shape (..., n, K)
            Logits.

        Returns
        -------
        torch.Tensor, shape (..., n)
            Values.
        """

    def gradient(self, logits: Tensor) -> Tensor:
        """Gradient with respect to the logits, of their shape (..., n, K).

        Parameters
        ----------
        logits : torch.Tensor, shape (..., n, K)
            Logits.

        Returns
        -------
        torch.Tensor, shape (..., n, K)
            Gradients.
        """


class LogitDistance:
    """Distance from the logits h(x) at the people themselves, shape (n, K) (SenSeI).

    Parameters
    ----------
    own : torch.Tensor, shape (n, K)
        Logits at the people themselves.
    """

    def __init__(self, own: Tensor) -> None:
        self.own = own

    def value(self, logits: Tensor) -> Tensor:
        """As :meth:`SearchObjective.value`.

        Parameters
        ----------
        logits : torch.Tensor, shape (..., n, K)
            Logits.

        Returns
        -------
        torch.Tensor, shape (..., n)
            Values.
        """
        return logit_distance(logits, self.own)

    def gradient(self, logits: Tensor) -> Tensor:
        """As :meth:`SearchObjective.gradient`.

        Parameters
        ----------
        logits : torch.Tensor, shape (..., n, K)
            Logits.

        Returns
        -------
        torch.Tensor, shape (..., n, K)
            Gradients.
        """
        return (logits - self.own) * (2.0 / self.own.shape[-1])


class LogLoss:
    """Multinomial logistic loss of each person's own label, int64 of shape (n,) (SenSR).

    Parameters
    ----------
    labels : torch.Tensor, shape (n,)
        Labels, int64.
    """

    def __init__(self, labels: Tensor) -> None:
        self.labels = labels

    def value(self, logits: Tensor) -> Tensor:
        """As :meth:`SearchObjective.value`.

        Parameters
        ----------
        logits : torch.Tensor, shape (..., n, K)
            Logits.

        Returns
        -------
        torch.Tensor, shape (..., n)
            Values.
        """
        labels = self.labels.expand(logits.shape[:-1])
        losses = functional.cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction="none")
        return losses.reshape(labels.shape)

    def gradient(self, logits: Tensor) -> Tensor:
        """As :meth:`SearchObjective.gradient`.

        Parameters
        ----------
        logits : torch.Tensor, shape (..., n, K)
            Logits.

        Returns
        -------
        torch.Tensor, shape (..., n, K)
            Gradients.
        """
        return functional.softmax(logits, dim=-1) - functional.one_hot(
            self.labels, logits.shape[-1]
        )


class RowObjective:
    """Any function of each person's logits (n, K) and of `other` (n, ...), which gives
    shape (n,).

    Parameters
    ----------
    function : callable
        From logits (n, K) and `other` to values, shape (n,).
    other : torch.Tensor, shape (n, ...)
        Second argument of the function.
    """

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor], other: Tensor) -> None:
        self.function = function
        self.other = other

    def value(self, logits: Tensor) -> Tensor:
        """As :meth:`SearchObjective.value`.

        Parameters
        ----------
        logits : torch.Tensor, shape (..., n, K)
            Logits.

        Returns
        -------
        torch.Tensor, shape (..., n)
            Values.
        """
        shape = logits.shape[:-1]
        other = self.other.expand(*shape, *self.other.shape[1:])
        return self.function(logits.flatten(0, -2), other.flatten(0, len(shape) - 1)).reshape(shape)

    def gradient(self, logits: Tensor) -> Tensor:
        """As :meth:`SearchObjective.gradient`, by automatic differentiation.

        Parameters
        ----------
        logits : torch.Tensor, shape (..., n, K)
            Logits.

        Returns
        -------
        torch.Tensor, shape (..., n, K)
            Gradients.
        """
        # the search runs in inference mode, whose tensors have no gradients: they are copied
        with torch.inference_mode(False), torch.enable_grad():
            point = logits.clone().detach().requires_grad_()
            copied = RowObjective(self.function, self.other.clone())
            return torch.autograd.grad(copied.value(point).sum(), point)[0]


@dataclass(frozen=True)
class WorstCase:
    """The worst x' of a search, shape (n, d), its objective g(h(x')) and its squared fair distance,
    (n,).

    `place`, shape (n, k), is the best move along the free directions alone.
    """

    points: Tensor
    value: Tensor
    squared_distance: Tensor
    place: Tensor


class SearchBounds:
    r"""Bounds of :math:`x' = x + \delta + B z` for some people, shape (n, d): the metric's bounds.

    :math:`x + \delta` stays within the training rows' range of every feature, and the sensitive
    coordinates :math:`B^\top x'` within theirs. The move along the free directions is added on top:
    with a learned direction it takes features, such as the parts of a one-hot group, out of their
    own ranges, as it must. Without bounds the worst case of any network that is not perfectly
    invariant would be infinite. A row outside the bounds extends its own: it may always stay where
    it is.

    Parameters
    ----------
    metric : Metric
        Fitted fair metric.
    x : torch.Tensor, shape (n, d)
        The people.
    """

    def __init__(self, metric: Metric, x: Tensor) -> None:
        like: dict[str, Any] = {"dtype": x.dtype, "device": x.device}
        self.x = x
        self.basis = torch.as_tensor(metric.basis_, **like)
        self.free = self.basis.shape[1]  # number of free directions
        bounds = metric.feature_bounds_
        low, high, free_low, free_high = (
            torch.as_tensor(np.asarray(bound), **like)
            for bound in (bounds.low, bounds.high, bounds.free_low, bounds.free_high)
        )
        own_coordinates = x @ self.basis
        self.low = (low - x).clamp_(max=0.0)
        self.high = (high - x).clamp_(min=0.0)
        self.free_low = (free_low - own_coordinates).clamp_(max=0.0)
        self.free_high = (free_high - own_coordinates).clamp_(min=0.0)

    def points(self, z: Tensor, delta: Tensor, along: Tensor | None = None) -> Tensor:
        """Points of some moves, (..., n, k) and (..., n, d); z is shortened by delta's move along
        B.

        Parameters
        ----------
        z : torch.Tensor, shape (..., n, k)
            Moves along the free directions.
        delta : torch.Tensor, shape (..., n, d)
            Moves of the rows.
        along : torch.Tensor, shape (..., n, k), optional
            delta B, where it is known.

        Returns
        -------
        torch.Tensor, shape (..., n, d)
            Points.
        """
        if not self.free:
            return self.x + delta
        if along is None:
            along = delta @ self.basis
        remainder = torch.clamp(z + along, self.free_low, self.free_high).sub_(along)
        return (self.x + delta).add_(remainder @ self.basis.T)

    def corners(self, towards: Tensor) -> Tensor:
        """Corner of each person's range of z that lies in the given directions, shape (...,
        n, k).

        Parameters
        ----------
        towards : torch.Tensor, shape (..., n, k)
            Directions; the sign of each coordinate counts.

        Returns
        -------
        torch.Tensor, shape (..., n, k)
            Corners.
        """
        return torch.where(towards > 0, self.free_high, self.free_low)

    def random_start(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A random z and a small random delta, uniform within the bounds.

        Parameters
        ----------
        generator : torch.Generator
            Generator of random numbers.

        Returns
        -------
        tuple of two torch.Tensor
            z, shape (n, k), and delta, shape (n, d).
        """
        place = self.random_places(generator)
        noise = _uniform(self.low.shape, generator, self.low)
        return place, self.clip((noise * 2.0 - 1.0).mul_(START_WIDTH))

    def random_places(self, generator: torch.Generator, *count: int) -> Tensor:
        """Uniform random z within each person's range, shape (*count, n, k).

        Parameters
        ----------
        generator : torch.Generator
            Generator of random numbers.
        *count : int
            Leading axes of the result.

        Returns
        -------
        torch.Tensor, shape (*count, n, k)
            Places.
        """
        shares = _uniform((*count, *self.free_low.shape), generator, self.low)
        return torch.lerp(self.free_low, self.free_high, shares)

    def clip(self, delta: Tensor) -> Tensor:
        """The nearest move within the features' ranges, in place.

        Parameters
        ----------
        delta : torch.Tensor, shape (n, d)
            Moves of the rows.

        Returns
        -------
        torch.Tensor, shape (n, d)
            The same tensor.
        """
        return delta.clamp_(self.low, self.high)


@dataclass(eq=False)
class Auditor:
    r"""Search for :math:`\max_{x'} \; g(h(x')) - \lambda d_x^2(x, x')`, with :math:`x' = x + B z +
    \delta`.

    **Along the free directions** (the columns of B, distance 0): where the box of z has few
    corners, all are tried, and some random places within it. Otherwise each step goes to the corner
    in the direction of the gradient, which never lowers a convex objective. **In full space**: at a
    maximum within the bounds

    .. math:: \Sigma \delta = \nabla g / (2 \lambda)

    Each step goes a share of the way to the delta that solves this with the current gradient. A
    step's length follows from the multiplier, so that no rate has to be tuned; the first step also
    tries fixed lengths. The best point of all is kept.
    """

    metric: Metric  # fitted
    _: KW_ONLY
    # evaluations along the free directions, and steps in full space: at least one in all
    subspace_steps: int = 8
    full_steps: int = 10
    full_rate: float = 0.5  # share of the way that a step in full space goes, in (0, 1]
    # The steps in full space end early where a few of them add no more than this share of the
    # total. Negative: all are taken.
    tolerance: float = 1e-4
    # Random places within the range of z that are tried as well as its corners. A network that is
    # trained on corners alone becomes invariant there, and not between them.
    inside: int = 2
    # Places along the free directions, the best of several times as many random ones, from each of
    # which steps that shrink follow the sign of the gradient. They find maxima between the corners.
    climbs: int = 0

    def __post_init__(self) -> None:
        if (
            min(self.subspace_steps, self.full_steps) < 0
            or self.subspace_steps + self.full_steps < 1
        ):
            raise ValueError(
                "the auditor needs at least one step in all and no negative number of them, "
                f"got subspace_steps={self.subspace_steps!r} and full_steps={self.full_steps!r}."
            )
        if not 0 < self.full_rate <= 1:
            raise ValueError(f"full_rate must be above 0 and at most 1, got {self.full_rate!r}.")
        self.weigh, self.unweigh = self.metric.operators()

    def search(
        self,
        model: DifferentiableModel,
        x: Tensor,
        objective: SearchObjective,
        multiplier: float,
        generator: torch.Generator,
        *,
        random_start: bool = False,
        place: Tensor | None = None,
    ) -> WorstCase:
        """Find a bad x' for every row of x, shape (n, d): never better for the person than x
        itself.

        Parameters
        ----------
        model : DifferentiableModel
            The network.
        x : torch.Tensor, shape (n, d)
            The people.
        objective : SearchObjective
            Function of the logits that is made large.
        multiplier : float
            Price of a squared distance, at least 0; at 0 all moves within the bounds are free.
        generator : torch.Generator
            Generator of random numbers.
        random_start : bool, default False
            Whether to start at a random place within the bounds instead of at the best corner.
        place : torch.Tensor, shape (n, k), optional
            Known moves along the free directions, which are then not searched for.

        Returns
        -------
        WorstCase
            The best point of each row.

        Raises
        ------
        ValueError
            If the multiplier is NaN.
        """
        if math.isnan(multiplier):
            raise ValueError(
                "multiplier must be a number, the price of a squared distance, got nan."
            )
        with torch.inference_mode():
            search = _Search(self, model, x, objective, multiplier, generator)
            place = search.run(random_start, place)
        # a tensor made in inference mode could not take part in a training step
        best = (search.best_points, search.best_value, search.best_distance, place)
        return WorstCase(*(tensor.clone() for tensor in best))


@dataclass(eq=False)
class _Search:
    """One search of an auditor, with the best point of every row so far."""

    auditor: Auditor
    model: DifferentiableModel
    x: Tensor
    objective: SearchObjective
    multiplier: float
    generator: torch.Generator

    def __post_init__(self) -> None:
        self.bounds = SearchBounds(self.auditor.metric, self.x)
        self.best_points = self.x
        self.best_value = self.objective.value(self.model.logits(self.x))
        self.best_distance = torch.zeros_like(self.best_value)
        self.best_total = self.best_value
        self.moved = along_directions(self.model, self.x, self.bounds.basis)

    def offer(self, points: Tensor, value: Tensor, distance: Tensor) -> float:
        """Keep the points that are worse for the person than the best so far.

        Parameters
        ----------
        points : Tensor, shape (n, d)
        value : Tensor, shape (n,)
            Objective at the points.
        distance : Tensor, shape (n,)
            Squared fair distance of the points.

        Returns
        -------
        float
            What they add to the sum of the best totals, as a share of the sum of their magnitudes.
        """
        total = value - self.multiplier * distance
        better = total > self.best_total
        before = self.best_total
        self.best_total = torch.where(better, total, self.best_total)
        self.best_value = torch.where(better, value, self.best_value)
        self.best_distance = torch.where(better, distance, self.best_distance)
        self.best_points = torch.where(better[:, None], points, self.best_points)
        return float((self.best_total - before).sum() / self.best_total.abs().sum().clamp_min(TINY))

    def run(self, random_start: bool, place: Tensor | None) -> Tensor:
        """Search along the free directions, then in full space.

        Parameters
        ----------
        random_start : bool
            Whether to start at a random place within the bounds.
        place : Tensor, shape (n, k), or None
            Known moves along the free directions, which are then not searched for.

        Returns
        -------
        Tensor, shape (n, k)
            The best place along the free directions.
        """
        bounds = self.bounds
        steps = self.auditor.subspace_steps
        z = torch.zeros_like(bounds.free_low)
        delta = None
        if random_start:
            z, delta = bounds.random_start(self.generator)
        if place is not None:
            z = place
        elif bounds.free and steps:
            all_corners = 2**bounds.free <= steps and not random_start
            z = self.best_corner() if all_corners else self.along_subspace(z)
            if self.auditor.climbs:
                z = self.climb(z)
        if self.auditor.full_steps:
            self.in_full_space(z, delta)
        return z

    def climb(self, z: Tensor) -> Tensor:
        """The best of z and of the places that climbs from several places along the free
        directions pass.

        Parameters
        ----------
        z : Tensor, shape (n, k)
            Moves along the free directions.

        Returns
        -------
        Tensor, shape (n, k)
        """
        bounds = self.bounds
        count = self.auditor.climbs
        tried = bounds.random_places(self.generator, TRIED_PLACES * count)
        most = self.values(bounds.x + tried @ bounds.basis.T).topk(count, dim=0).indices
        places = torch.cat([z[None], tried.gather(0, most[..., None].expand(-1, *z.shape))])
        best_value = torch.full_like(self.best_value, -math.inf)
        for step in range(CLIMB_STEPS):
            points = bounds.x + places @ bounds.basis.T
            logits = self.model.forward(points.flatten(0, 1)).reshape(*places.shape[:2], -1)
            best, value = self.offer_best(places, points, self.objective.value(logits))
            z = torch.where((value > best_value)[:, None], best, z)
            best_value = torch.maximum(value, best_value)
            slope = (
                self.model.backward(self.objective.gradient(logits).flatten(0, 1)) @ bounds.basis
            )
            pace = CLIMB_SHARE * (1.0 - step / CLIMB_STEPS) ** 2
            places = self.climbed(places, slope.reshape(places.shape), pace)
        return z

    def climbed(self, z: Tensor, slope: Tensor, pace: float) -> Tensor:
        """Places after a step along the sign of the slope.

        Parameters
        ----------
        z : Tensor, shape (..., n, k)
        slope : Tensor, of the same shape
            Of the objective along the free directions.
        pace : float
            Length of the step, as a share of each person's range.

        Returns
        -------
        Tensor, of the same shape
            Within the bounds.
        """
        low = self.bounds.free_low
        high = self.bounds.free_high
        return torch.clamp(z + slope.sign() * (pace * (high - low)), low, high)

    def best_corner(self) -> Tensor:
        """The best of z = 0, all corners of each person's range, and some random places
        within it.
        """
        bounds = self.bounds
        x = self.x
        signs = x.new_tensor(list(itertools.product((-1.0, 1.0), repeat=bounds.free)))
        corners = bounds.corners(signs[:, None, :].expand(-1, len(x), -1))
        inside = bounds.random_places(self.generator, self.auditor.inside)
        choices = torch.cat([torch.zeros_like(bounds.free_low)[None], corners, inside])
        points = x + choices @ bounds.basis.T
        return self.offer_best(choices, points, self.values(points))[0]

    def offer_best(self, places: Tensor, points: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Offer the best of m points of each row.

        Parameters
        ----------
        places : Tensor, shape (m, n, k)
            Moves along the free directions.
        points : Tensor, shape (m, n, d)
        values : Tensor, shape (m, n)
            Objective at the points.

        Returns
        -------
        Tensor, shape (n, k)
            Place of the best point.
        Tensor, shape (n,)
            Its value.
        """
        value, index = values.max(dim=0)
        best = index, torch.arange(len(value), device=value.device)
        self.offer(points[best], value, torch.zeros_like(value))
        return places[best], value

    def along_subspace(self, z: Tensor) -> Tensor:
        """The best z on a path from corner to corner, with delta at 0.

        Parameters
        ----------
        z : Tensor, shape (n, k)
            Where the path begins.

        Returns
        -------
        Tensor, shape (n, k)
        """
        bounds = self.bounds
        # a distance has no slope at x itself: go to the farther side
        farther = (bounds.free_high + bounds.free_low) * TINY
        places = [z]
        values = []
        for step in range(1, self.auditor.subspace_steps + 1):
            logits = self.moved.forward(places[-1])
            values.append(self.objective.value(logits))
            if step < self.auditor.subspace_steps:
                slope = self.moved.backward(self.objective.gradient(logits))
                places.append(bounds.corners(slope + farther))
        best_value, index = torch.stack(values).max(dim=0)
        better = best_value > self.best_value
        best = torch.stack(places)[index, torch.arange(len(z), device=z.device)]
        chosen = torch.where(better[:, None], best, z)
        chosen_value = torch.where(better, best_value, self.best_value)
        points = bounds.x + chosen @ bounds.basis.T
        self.offer(points, chosen_value, torch.zeros_like(chosen_value))
        return chosen

    def in_full_space(self, z: Tensor, delta: Tensor | None) -> None:
        """Move delta towards the stationary point of the current gradient, and offer the points
        passed.

        z is fixed, unless the auditor has climbs.

        Parameters
        ----------
        z : Tensor, shape (n, k)
            Moves along the free directions.
        delta : Tensor, shape (n, d), or None
            Moves at a random start; none.
        """
        # a multiplier of 0 moves delta to the corners of its box, as it should
        scale = 0.5 / max(self.multiplier, torch.finfo(z.dtype).tiny * 4)
        delta = self.first_move(z, self.start_slope(z, delta), scale)
        for step in range(1, self.auditor.full_steps):
            along = delta @ self.bounds.basis
            point = self.bounds.points(z, delta, along)
            logits = self.model.forward(point)
            if step % COMPARE_EVERY == 0 or self.auditor.climbs:
                value = self.objective.value(logits)
                added = self.offer(point, value, self.squared(delta, along))
                if step > COMPARE_EVERY and added <= self.auditor.tolerance:
                    return
            slope = self.objective.gradient(logits)
            ascent = self.model.backward(slope)
            if self.auditor.climbs:
                pace = CLIMB_SHARE * (1.0 - step / self.auditor.full_steps) ** 2
                z = self.climbed(z, ascent @ self.bounds.basis, pace)
            target = _finite(self.auditor.unweigh(ascent).mul_(scale), scale)
            if self.auditor.climbs:
                # a move that the box cuts has a part along B, which costs nothing: it stays
                target = target + (delta @ self.bounds.basis) @ self.bounds.basis.T
                delta = self.bounds.clip(torch.lerp(delta, target, self.auditor.full_rate))
            else:
                delta = torch.lerp(delta, self.bounds.clip(target), self.auditor.full_rate)
        along = delta @ self.bounds.basis
        point = self.bounds.points(z, delta, along)
        value = self.objective.value(self.model.logits(point))
        self.offer(point, value, self.squared(delta, along))

    def start_slope(self, z: Tensor, delta: Tensor | None) -> Tensor:
        """Gradient of the objective by the logits where the steps in full space start.

        The point is offered. The model stores its values for the next ``backward``.

        Parameters
        ----------
        z : Tensor, shape (n, k)
            Moves along the free directions.
        delta : Tensor, shape (n, d), or None
            Moves at a random start; none.

        Returns
        -------
        Tensor, shape (n, K)
        """
        if delta is None:
            logits = self.moved.forward(z)
            point = self.x + z @ self.bounds.basis.T
            distance = torch.zeros_like(self.best_distance)
        else:
            along = delta @ self.bounds.basis
            point = self.bounds.points(z, delta, along)
            logits = self.model.forward(point)
            distance = self.squared(delta, along)
        self.offer(point, self.objective.value(logits), distance)
        return self.objective.gradient(logits)

    def first_move(self, z: Tensor, slope: Tensor, scale: float) -> Tensor:
        """The best of several lengths along the steepest direction.

        Where the objective is nearly flat, as for a network that is invariant along the free
        directions, its gradient is too short to move far, but its direction is right. Where the
        gradient is zero, this is the steepest direction of a random mix of the logits.

        Parameters
        ----------
        z : Tensor, shape (n, k)
            Moves along the free directions.
        slope : Tensor, shape (n, K)
            Gradient of the objective by the logits.
        scale : float
            Factor of the natural length: one half of the inverse of the multiplier.

        Returns
        -------
        Tensor, shape (n, d)
            Moves within the bounds.
        """
        size = torch.linalg.vector_norm(slope, dim=1, keepdim=True)
        flat = size == 0
        if flat.any():
            mix = torch.randn(slope.shape, generator=self.generator, dtype=slope.dtype)
            slope = torch.where(flat, mix.to(slope.device), slope)
        along = self.auditor.unweigh(self.model.backward(slope))
        length = torch.linalg.vector_norm(along, dim=1, keepdim=True)
        unit = along / length.clamp_min(torch.finfo(along.dtype).tiny)
        natural = torch.where(flat, unit, _finite(along * scale, scale))
        tried = (natural, *(unit * length for length in FIRST_LENGTHS))
        moves = self.bounds.clip(torch.stack(tried))
        moved_along = moves @ self.bounds.basis
        values = self.values(self.bounds.points(z, moves, moved_along))
        chosen = (values - self.multiplier * self.squared(moves, moved_along)).argmax(dim=0)
        return moves[chosen, torch.arange(moves.shape[1], device=moves.device)]

    def values(self, points: Tensor) -> Tensor:
        """The objective at several points of each row.

        Parameters
        ----------
        points : Tensor, shape (m, n, d)

        Returns
        -------
        Tensor, shape (m, n)
        """
        logits = self.model.logits(points.flatten(0, 1))
        return self.objective.value(logits.reshape(*points.shape[:2], -1))

    def squared(self, delta: Tensor, along: Tensor) -> Tensor:
        """Squared fair distance of some moves.

        Parameters
        ----------
        delta : Tensor, shape (..., d)
        along : Tensor, shape (..., k)
            delta B.

        Returns
        -------
        Tensor, shape (...)
        """
        if self.auditor.metric.is_projection:
            # without another product: of delta less its part along B
            return delta.square().sum(dim=-1) - along.square().sum(dim=-1)
        return (delta * self.auditor.weigh(delta)).sum(dim=-1)


def _uniform(shape: Sequence[int], generator: torch.Generator, like: Tensor) -> Tensor:
    """Uniform random numbers in [0, 1), the same on every device."""
    return torch.rand(shape, generator=generator, dtype=like.dtype).to(like.device)


def _finite(moves: Tensor, scale: float) -> Tensor:
    """Moves, cut in place to the largest number where a large scale makes them overflow."""
    if scale < LARGE:
        return moves
    largest = torch.finfo(moves.dtype).max
    return moves.nan_to_num_(0.0, largest, -largest)
