"""Objectives of the search: functions of the logits at x' that the auditor maximises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional


def logit_distance(first: Tensor, second: Tensor) -> Tensor:
    r"""Mean squared difference of logits, from shape (..., K) to (...) (Yurochkin and Sun 2021, appendix B).

    .. math:: d_Y(h, h') = \frac{1}{K} \| h - h' \|_2^2
    """
    return (first - second).square().mean(dim=-1)


class SearchObjective(Protocol):
    """A function of each row's logits, with its gradient."""

    def value(self, logits: Tensor) -> Tensor:
        """Value of every row, from shape (..., n, K) to shape (..., n)."""

    def gradient(self, logits: Tensor) -> Tensor:
        """Gradient with respect to the logits, of their shape (..., n, K)."""


class LogitDistance:
    """Distance from the logits h(x) at the people themselves, shape (n, K) (SenSeI)."""

    def __init__(self, own: Tensor) -> None:
        self.own = own

    def value(self, logits: Tensor) -> Tensor:
        """As :meth:`SearchObjective.value`."""
        return logit_distance(logits, self.own)

    def gradient(self, logits: Tensor) -> Tensor:
        """As :meth:`SearchObjective.gradient`."""
        return (logits - self.own) * (2.0 / self.own.shape[-1])


class LogLoss:
    """Multinomial logistic loss of each person's own label, int64 of shape (n,) (SenSR)."""

    def __init__(self, labels: Tensor) -> None:
        self.labels = labels

    def value(self, logits: Tensor) -> Tensor:
        """As :meth:`SearchObjective.value`."""
        labels = self.labels.expand(logits.shape[:-1])
        losses = functional.cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction="none")
        return losses.reshape(labels.shape)

    def gradient(self, logits: Tensor) -> Tensor:
        """As :meth:`SearchObjective.gradient`."""
        return functional.softmax(logits, dim=-1) - functional.one_hot(self.labels, logits.shape[-1])


class RowObjective:
    """Any function of each person's logits (n, K) and of `other` (n, ...), which gives shape (n,)."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor], other: Tensor) -> None:
        self.function, self.other = function, other

    def value(self, logits: Tensor) -> Tensor:
        """As :meth:`SearchObjective.value`."""
        shape = logits.shape[:-1]
        other = self.other.expand(*shape, *self.other.shape[1:])
        return self.function(logits.flatten(0, -2), other.flatten(0, len(shape) - 1)).reshape(shape)

    def gradient(self, logits: Tensor) -> Tensor:
        """As :meth:`SearchObjective.gradient`, by automatic differentiation."""
        # the search runs in inference mode, whose tensors have no gradients: they are copied
        with torch.inference_mode(False), torch.enable_grad():
            point = logits.clone().detach().requires_grad_()
            copied = RowObjective(self.function, self.other.clone())
            return torch.autograd.grad(copied.value(point).sum(), point)[0]
