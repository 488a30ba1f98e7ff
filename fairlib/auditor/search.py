"""The search for the worst comparable treatment of each person."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from evenhand.fairlib.auditor.differentiable_model import DifferentiableModel
from evenhand.fairlib.auditor.objectives import SearchObjective

__all__ = ["Auditor", "SearchBounds", "WorstCase"]

# Lengths of the first move in full space that are tried beside the gradient's own.
STARTS = (0.1, 1.0)
# A step's point is compared with the best this often: the path in full space hardly ever turns back.
LOOK_EVERY = 5
TINY = 1e-30
# Scales from which a gradient may overflow single precision.
LARGE = 1e18
# Width of a random start.
START = 0.1


class _Metric(Protocol):
    """What the search asks of a fair metric."""

    basis_: Any
    feature_bounds_: Any

    def operators(self) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]: ...


@dataclass(frozen=True)
class WorstCase:
    """
    What a search found.

    Parameters
    ----------
    points : Tensor, shape (n, d)
        The worst :math:`x'`.
    value : Tensor, shape (n,)
        The goal there, :math:`g(h(x'))`.
    squared_distance : Tensor, shape (n,)
        :math:`d_x^2(x, x')`.
    """

    points: Tensor
    value: Tensor
    squared_distance: Tensor


class SearchBounds:
    r"""
    Where :math:`x' = x + \delta + B z` may be: the fair metric's domain about some people.

    :math:`x + \delta` stays within the training rows' range of every feature, and the sensitive coordinates
    :math:`B^\top x'` within theirs. The move along the free directions comes on top: with a learned direction
    it takes features, such as the parts of a one-hot group, out of their own ranges, as it must. Without
    bounds the worst case of any network that is not perfectly invariant would be infinite.

    Parameters
    ----------
    metric : fitted fair metric
    x : Tensor, shape (n, d)
        A row outside the domain bounds its own box: it may always stay where it is.
    """

    def __init__(self, metric: _Metric, x: Tensor) -> None:
        like: dict[str, Any] = {"dtype": x.dtype, "device": x.device}
        self.x = x
        self.basis = torch.as_tensor(metric.basis_, **like)
        domain = metric.feature_bounds_
        low, high, free_low, free_high = (
            torch.as_tensor(np.asarray(bound), **like)
            for bound in (domain.low, domain.high, domain.free_low, domain.free_high)
        )
        own = x @ self.basis
        self.low = (low - x).clamp_(max=0.0)
        self.high = (high - x).clamp_(min=0.0)
        self.free_low = (free_low - own).clamp_(max=0.0)
        self.free_high = (free_high - own).clamp_(min=0.0)

    @property
    def free(self) -> int:
        """Number of free directions."""
        return self.basis.shape[1]

    def points(self, z: Tensor, delta: Tensor) -> Tensor:
        """
        The points of some moves, shapes (..., n, k) and (..., n, d).

        What delta moves along the free directions counts there, so z gives way to it.
        """
        if not self.free:
            return self.x + delta
        along = delta @ self.basis
        rest = torch.clamp(z + along, self.free_low, self.free_high).sub_(along)
        return (self.x + delta).add_(rest @ self.basis.T)

    def corners(self, towards: Tensor) -> Tensor:
        """Corner of each person's range of z that lies in the given directions, shape (..., n, k)."""
        return torch.where(towards > 0, self.free_high, self.free_low)

    def random_start(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A random z and a small random delta, uniform within the bounds."""
        shares = torch.rand(self.free_low.shape, generator=generator, dtype=self.low.dtype)
        noise = torch.rand(self.low.shape, generator=generator, dtype=self.low.dtype)
        delta = (noise * 2.0 - 1.0).mul_(START)
        return torch.lerp(self.free_low, self.free_high, shares), self.clip(delta)

    def clip(self, delta: Tensor) -> Tensor:
        """The nearest move within the features' ranges, in place."""
        return delta.clamp_(self.low, self.high)


class Auditor:
    r"""
    Search for :math:`\max_{x'} \; g(h(x')) - \lambda d_x^2(x, x')`, with :math:`x' = x + B z + \delta`.

    **Along the free directions** (the columns of B, distance 0): where the box of z has few corners, all are
    tried, and some random places within it; otherwise each step jumps to the corner that the gradient points
    at, which never lowers a convex goal. **In full space**: at a maximum within the bounds

    .. math:: \Sigma \delta = \nabla g / (2 \lambda)

    Each step goes a share of the way to the delta that this gives with the current gradient, so a step's
    length follows from the multiplier and there is no rate to tune to it; the first step also tries some
    lengths of its own. The best point seen is kept.

    Parameters
    ----------
    metric : fitted fair metric
        Of the sensitive subspace kind or any other of :mod:`evenhand.fairlib.distances`.
    subspace_steps, full_steps : int
        Evaluations along the free directions, and steps in full space.
    full_rate : float
        Share of the way that a step in full space goes, in (0, 1].
    tolerance : float
        The steps in full space end early where a few of them added no more than this share of what is
        found. Negative: they are all taken.
    inside : int
        Random places within the range of z that are tried beside its corners. A network that is trained on
        corners alone learns to be even there and uneven between.
    """

    def __init__(
        self,
        metric: _Metric,
        *,
        subspace_steps: int = 8,
        full_steps: int = 10,
        full_rate: float = 0.5,
        tolerance: float = 1e-4,
        inside: int = 2,
    ) -> None:
        if subspace_steps < 0 or full_steps < 0 or subspace_steps + full_steps < 1:
            raise ValueError(
                "the auditor needs at least one step in all and no negative number of them, "
                f"got subspace_steps={subspace_steps!r} and full_steps={full_steps!r}."
            )
        if not 0 < full_rate <= 1:
            raise ValueError(f"full_rate must be above 0 and at most 1, got {full_rate!r}.")
        self.metric = metric
        self.weigh, self.unweigh = metric.operators()
        self.subspace_steps = subspace_steps
        self.full_steps = full_steps
        self.full_rate = full_rate
        self.tolerance = tolerance
        self.inside = inside

    def search(
        self,
        network: DifferentiableModel,
        x: Tensor,
        goal: SearchObjective,
        multiplier: float,
        generator: torch.Generator,
        *,
        random_start: bool = False,
    ) -> WorstCase:
        """
        Find a bad x' for every row.

        Parameters
        ----------
        network : DifferentiableModel
        x : Tensor, shape (n, d)
        goal : SearchObjective
        multiplier : float
            Price of a squared distance; 0 makes moving free within the domain.
        generator : torch.Generator
            Of the random start.
        random_start : bool
            Start anywhere in the range instead of at the best corner.

        Returns
        -------
        WorstCase
            Never worse than x itself.

        Raises
        ------
        ValueError
            A multiplier of NaN.
        """
        if math.isnan(multiplier):
            raise ValueError("multiplier must be a number, the price of a squared distance, got nan.")
        with torch.inference_mode():
            reach = SearchBounds(self.metric, x)
            best = _Best(goal, multiplier, x, network)
            z, delta = torch.zeros_like(reach.free_low), torch.zeros_like(x)
            if random_start:
                z, delta = reach.random_start(generator)
            if reach.free and self.subspace_steps:
                if 2**reach.free <= self.subspace_steps and not random_start:
                    z = self._best_corner(network, goal, reach, best, generator)
                else:
                    z = self._along_subspace(network, goal, reach, z, best)
            if self.full_steps:
                self._in_full_space(network, goal, multiplier, reach, z, delta, best, generator)
        return best.found()

    def _best_corner(
        self,
        network: DifferentiableModel,
        goal: SearchObjective,
        reach: SearchBounds,
        best: _Best,
        generator: torch.Generator,
    ) -> Tensor:
        """The best of z = 0, all corners of each person's range, and some places within it."""
        signs = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=reach.free)), dtype=reach.x.dtype)
        corners = reach.corners(signs[:, None, :].expand(-1, len(reach.x), -1))
        shares = torch.rand((self.inside, *reach.free_low.shape), generator=generator, dtype=reach.x.dtype)
        inside = torch.lerp(reach.free_low, reach.free_high, shares)
        choices = torch.cat([torch.zeros_like(reach.free_low)[None], corners, inside])
        points = reach.x + choices @ reach.basis.T
        logits = network.logits(points.reshape(-1, reach.x.shape[1]))
        value, index = goal.repeat(len(choices)).value(logits).reshape(len(choices), -1).max(dim=0)
        rows = torch.arange(len(reach.x))
        best.offer(points[index, rows], value, torch.zeros_like(value))
        return choices[index, rows]

    def _along_subspace(
        self, network: DifferentiableModel, goal: SearchObjective, reach: SearchBounds, z: Tensor, best: _Best
    ) -> Tensor:
        """The best z that was seen on the way from corner to corner, with delta at 0."""
        chosen, chosen_value = z, best.value
        for _ in range(self.subspace_steps):
            point = reach.x + z @ reach.basis.T
            logits = network.forward(point)
            value = goal.value(logits)
            best.offer(point, value, torch.zeros_like(value))
            better = value > chosen_value
            chosen = torch.where(better[:, None], z, chosen)
            chosen_value = torch.where(better, value, chosen_value)
            slope = network.backward(goal.gradient(logits)) @ reach.basis
            # a distance has no slope at x itself: leave by the longer side
            slope = torch.where(slope == 0, reach.free_high + reach.free_low, slope)
            z = reach.corners(slope)
        return chosen

    def _in_full_space(
        self,
        network: DifferentiableModel,
        goal: SearchObjective,
        multiplier: float,
        reach: SearchBounds,
        z: Tensor,
        delta: Tensor,
        best: _Best,
        generator: torch.Generator,
    ) -> None:
        """Move delta towards the gradient's own stationary point, with z as it is."""
        # a multiplier of 0 sends delta to the corners of its box, as it should
        scale = 0.5 / max(multiplier, torch.finfo(delta.dtype).tiny * 4)
        for step in range(self.full_steps):
            point = reach.points(z, delta)
            logits = network.forward(point)
            if step % LOOK_EVERY == 0:
                risen = best.offer(point, goal.value(logits), self._squared(delta))
                if step > LOOK_EVERY and risen <= self.tolerance:
                    return
            slope = goal.gradient(logits)
            if step == 0:
                delta = self._first_move(network, goal, multiplier, reach, z, slope, scale, generator)
                continue
            target = _finite(self.unweigh(network.backward(slope)).mul_(scale), scale)
            delta = torch.lerp(delta, reach.clip(target), self.full_rate)
        point = reach.points(z, delta)
        best.offer(point, goal.value(network.logits(point)), self._squared(delta))

    def _first_move(
        self,
        network: DifferentiableModel,
        goal: SearchObjective,
        multiplier: float,
        reach: SearchBounds,
        z: Tensor,
        slope: Tensor,
        scale: float,
        generator: torch.Generator,
    ) -> Tensor:
        """
        The best of several lengths along the steepest direction.

        Where the goal is nearly flat, as for a network that is invariant along the free directions, its
        gradient is too short to get anywhere, but its direction is the right one; where it is zero, the
        steepest direction of a random mix of the logits is.
        """
        size = torch.linalg.vector_norm(slope, dim=1, keepdim=True)
        flat = size == 0
        if flat.any():
            mix = torch.randn(slope.shape, generator=generator, dtype=slope.dtype)
            slope = torch.where(flat, mix, slope)
        along = self.unweigh(network.backward(slope))
        length = torch.linalg.vector_norm(along, dim=1, keepdim=True)
        unit = along / length.clamp_min(torch.finfo(along.dtype).tiny)
        natural = torch.where(flat, unit, _finite(along * scale, scale))
        moves = torch.stack([reach.clip(move) for move in (natural, *(unit * start for start in STARTS))])
        points = reach.points(z, moves).reshape(-1, moves.shape[-1])
        values = goal.repeat(len(moves)).value(network.logits(points)).reshape(len(moves), -1)
        chosen = (values - multiplier * self._squared(moves)).argmax(dim=0)
        return moves[chosen, torch.arange(moves.shape[1])]

    def _squared(self, delta: Tensor) -> Tensor:
        return (delta * self.weigh(delta)).sum(dim=-1)


def _finite(moves: Tensor, scale: float) -> Tensor:
    """Moves, cut in place to the largest number where so large a scale made them overflow."""
    if scale < LARGE:
        return moves
    largest = torch.finfo(moves.dtype).max
    return moves.nan_to_num_(0.0, largest, -largest)


class _Best:
    """The best point of each row so far."""

    def __init__(
        self, goal: SearchObjective, multiplier: float, x: Tensor, network: DifferentiableModel
    ) -> None:
        self.multiplier = multiplier
        self.points = x
        self.value = goal.value(network.logits(x))
        self.distance = torch.zeros_like(self.value)
        self.total = self.value

    def offer(self, points: Tensor, value: Tensor, distance: Tensor) -> float:
        """Take the rows that are worse for the person than what is held; gives the share that they add."""
        total = value - self.multiplier * distance
        better = total > self.total
        before = self.total
        self.total = torch.where(better, total, self.total)
        self.value = torch.where(better, value, self.value)
        self.distance = torch.where(better, distance, self.distance)
        self.points = torch.where(better[:, None], points, self.points)
        return float((self.total - before).sum() / self.total.abs().sum().clamp_min(TINY))

    def found(self) -> WorstCase:
        # tensors made in inference mode could take no part in a training step
        return WorstCase(self.points.clone(), self.value.clone(), self.distance.clone())
