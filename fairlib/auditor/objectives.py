"""What the auditor makes as large as it can, as a function of the logits at x'."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor
from torch.nn import functional

__all__ = ["SearchObjective", "LogLoss", "LogitDistance", "logit_distance"]


def logit_distance(first: Tensor, second: Tensor) -> Tensor:
    r"""
    Mean squared difference of logits (Yurochkin and Sun 2021, appendix B).

    .. math:: d_Y(h, h') = \frac{1}{K} \| h - h' \|_2^2

    Parameters
    ----------
    first, second : Tensor, shape (..., K)

    Returns
    -------
    Tensor, shape (...)
    """
    return (first - second).square().mean(dim=-1)


class SearchObjective(Protocol):
    """A function of each row's logits, with its gradient."""

    def value(self, logits: Tensor) -> Tensor:
        """Value per row, shape (n,)."""

    def gradient(self, logits: Tensor) -> Tensor:
        """Gradient with respect to the logits, shape (n, K)."""

    def repeat(self, times: int) -> SearchObjective:
        """The same goal for the rows repeated block-wise that many times."""


class LogitDistance:
    """
    Distance from the outputs at the people themselves (SenSeI).

    Parameters
    ----------
    own : Tensor, shape (n, K)
        Logits :math:`h(x)`, computed once.
    """

    def __init__(self, own: Tensor) -> None:
        self.own = own
        self.scale = 2.0 / own.shape[-1]

    def value(self, logits: Tensor) -> Tensor:
        """Value per row, shape (n,)."""
        return logit_distance(logits, self.own)

    def gradient(self, logits: Tensor) -> Tensor:
        """Gradient with respect to the logits, shape (n, K)."""
        return (logits - self.own) * self.scale

    def repeat(self, times: int) -> LogitDistance:
        """The same goal for the rows repeated block-wise."""
        return LogitDistance(self.own.repeat(times, 1))


class LogLoss:
    """
    Multinomial logistic loss of each person's own label (SenSR).

    Parameters
    ----------
    labels : Tensor of int64, shape (n,)
    """

    def __init__(self, labels: Tensor) -> None:
        self.labels = labels

    def value(self, logits: Tensor) -> Tensor:
        """Value per row, shape (n,)."""
        return functional.cross_entropy(logits, self.labels, reduction="none")

    def gradient(self, logits: Tensor) -> Tensor:
        """Gradient with respect to the logits, shape (n, K)."""
        return functional.softmax(logits, dim=-1) - functional.one_hot(self.labels, logits.shape[-1])

    def repeat(self, times: int) -> LogLoss:
        """The same goal for the rows repeated block-wise."""
        return LogLoss(self.labels.repeat(times))
