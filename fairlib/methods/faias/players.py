r"""Predictor and selector: feature groups that are shown, and the mean prediction over selections
of them.

A selection :math:`s \in \{0, 1\}^G` has the probability :math:`\pi(s) = \prod_j p_j^{s_j} (1 -
p_j)^{1 - s_j}` with :math:`p = \sigma(\theta)` (FAIAS, equation 6.5). Here :math:`\theta` is a
vector or the output of a network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from torch import Tensor, nn

from evenhand.fairlib.arrays import Bool, Float, Float32, Int
from evenhand.fairlib.methods.networks.network_training import build_network

if TYPE_CHECKING:
    from evenhand.fairlib.methods.faias.faias_classifier import FAIASClassifier

CHUNK_ROWS = 16_384


@dataclass(frozen=True)
class Features:
    """Groups of d columns."""

    group_of: Tensor  # shape (d,): group of every column
    sensitive: Tensor  # shape (Q, d): columns of each sensitive group
    free: Tensor  # shape (G,): groups that may be selected

    @classmethod
    def of(cls, groups: Mapping[str, Sequence[int]], sensitive: Sequence[str]) -> Self:
        """Features of groups that partition the columns.

        Parameters
        ----------
        groups : mapping of str to sequence of int
            Columns of each group.
        sensitive : sequence of str
            Names of the sensitive groups.

        Returns
        -------
        Features
        """
        names = list(groups)
        group_of = torch.empty(sum(map(len, groups.values())), dtype=torch.int64)
        for position, columns in enumerate(groups.values()):
            group_of[list(columns)] = position
        hidden = torch.tensor([names.index(name) for name in sensitive])
        free = torch.ones(len(names), dtype=torch.bool)
        free[hidden] = False
        return cls(group_of, group_of[None] == hidden[:, None], free)

    @property
    def hidden(self) -> Tensor:
        """Columns of all sensitive groups, shape (d,)."""
        return self.sensitive.any(0)

    def masked(self, x: Tensor, selection: Tensor) -> Tensor:
        """Rows with the columns that are not selected at 0.

        Parameters
        ----------
        x : Tensor, shape (n, d)
        selection : Tensor, shape (n or 1, G)
            0 or 1.

        Returns
        -------
        Tensor, shape (n, d)
        """
        return x * selection[:, self.group_of]


def even_levels(n_masks: int, n_groups: int, generator: np.random.Generator) -> Float32:
    """Levels in [0, 1): for each group one in each M-th part of the interval, in random order.

    A group of probability p lies above p M of its M levels, up to one. Independent draws would be
    off by the root of that.

    Parameters
    ----------
    n_masks : int
        M, number of selections.
    n_groups : int
        G.
    generator : numpy.random.Generator

    Returns
    -------
    ndarray of float32, shape (M, G)
    """
    order = generator.permuted(np.tile(np.arange(n_masks)[:, None], (1, n_groups)), axis=0)
    levels = (order + generator.random((n_masks, n_groups))) / n_masks
    return np.minimum(levels.astype(np.float32), np.nextafter(np.float32(1), np.float32(0)))


def selections(levels: Float32, probabilities: Float32) -> tuple[Bool, Int]:
    """Distinct selections of probabilities, and how often each occurs among the levels.

    Parameters
    ----------
    levels : ndarray of float32, shape (M, G)
    probabilities : ndarray of float32, shape (G,)
        A group is selected where its level is below its probability.

    Returns
    -------
    ndarray of bool, shape (selections, G)
    ndarray of int, shape (selections,)
        They sum to M.
    """
    masks, counts = np.unique(levels < probabilities, axis=0, return_counts=True)
    return masks, counts.astype(np.int64)


class Selector(nn.Module):
    r"""Selection probabilities of G groups: :math:`\sigma(\theta)`, the same for all, or
    :math:`g_\theta(x)`.

    Free groups start at `initial_probability`. Others have probability 0.

    Parameters
    ----------
    features : Features
    initial_probability : float
        In (0, 1]; 1 stays 1.
    network : torch.nn.Sequential or None, default None
        :math:`g_\theta`, (n, d) to (n, G), which reads the columns of x that are not sensitive.
        None: there is one probability per group for all rows.
    """

    free: Tensor
    readable: Tensor

    def __init__(
        self, features: Features, initial_probability: float, network: nn.Sequential | None = None
    ) -> None:
        super().__init__()
        # the sigmoid of 30 is 1 in float32, and unlike infinity it can be averaged
        start = (
            torch.full((len(features.free),), float(initial_probability)).logit().clamp(max=30.0)
        )
        self.register_buffer("free", features.free)
        self.register_buffer("readable", ~features.hidden)
        self.theta: nn.Parameter | None = None
        self.network = network
        if network is None:
            self.theta = nn.Parameter(start)
        else:
            with torch.no_grad():
                last: nn.Linear = network[-1]  # type: ignore[assignment]
                last.bias.copy_(start)

    def logits(self, x: Tensor) -> Tensor:
        """Log-odds of the selection of each group.

        Parameters
        ----------
        x : Tensor, shape (n, d)

        Returns
        -------
        Tensor, shape (n, G)
            Shape (1, G) where they are the same for all rows.
        """
        if self.network is not None:
            return self.network(x * self.readable)
        assert self.theta is not None
        return self.theta[None]

    def probabilities(self, logits: Tensor) -> Tensor:
        """Probabilities of log-odds.

        Parameters
        ----------
        logits : Tensor, shape (n or 1, G)

        Returns
        -------
        Tensor, of the same shape
            0 for groups that are never selected.
        """
        return torch.sigmoid(logits) * self.free


def score_function_gradient(losses: Tensor, selection: Tensor, probabilities: Tensor) -> Tensor:
    r"""Score-function estimate (FAIAS, equation 6.10) of the gradient by the log-odds.

    .. math:: (L_i - b_i) \, \nabla_\theta \log \pi(s_i) = (L_i - b_i)(s_i - p_i)

    The baseline :math:`b_i` is the mean loss of the other rows. It does not depend on :math:`s_i`,
    so the estimate stays unbiased, with a far smaller variance.

    Parameters
    ----------
    losses : Tensor, shape (n,)
        :math:`L_i`.
    selection : Tensor, shape (n, G)
        :math:`s_i`, 0 or 1.
    probabilities : Tensor, shape (n or 1, G)
        :math:`p_i`.

    Returns
    -------
    Tensor, shape (n, G)
        A single row has the baseline 0.
    """
    n = len(losses)
    baseline = (losses.sum() - losses) / (n - 1) if n > 1 else torch.zeros_like(losses)
    return (losses - baseline)[:, None] * (selection - probabilities)


class Players(nn.Module):
    """Predictor f(x, s) and selector; a saved model has their parameters under the names that they
    have here.

    Parameters
    ----------
    features : Features
    n_classes : int
    config : FAIASClassifier
        Its parameters for both networks are used.
    generator : torch.Generator or None
        The first weights are drawn from it. None: they are undefined, to be loaded.
    """

    def __init__(
        self,
        features: Features,
        n_classes: int,
        config: FAIASClassifier,
        generator: torch.Generator | None,
    ) -> None:
        super().__init__()
        self.features = features
        width = len(features.group_of)
        self.predictor = build_network(width, config.hidden, n_classes, generator, nn.SELU)
        network = None
        groups = len(features.free)
        if config.data_dependent:
            network = build_network(width, config.selector_hidden, groups, generator, nn.SELU)
        self.selector = Selector(features, config.initial_probability, network)

    def mean_over_selections(self, levels: Float32, X: Float32) -> Float:
        """Mean of the predictor's probabilities over selections.

        The value of a row does not depend on the other rows.

        Parameters
        ----------
        levels : ndarray of float32, shape (M, G)
            A group is selected where its level is below its probability (:func:`even_levels`).
        X : ndarray of float32, shape (n, d)

        Returns
        -------
        ndarray of float, shape (n, K)
        """
        with torch.no_grad():
            # a copy, because the rows may be read-only
            return np.concatenate(
                [self._mean(levels, part) for part in torch.tensor(X).split(CHUNK_ROWS)]
            )

    def _mean(self, levels: Float32, x: Tensor) -> Float:
        """Mean over the selections of some rows, in float64."""
        probabilities = self.selector.probabilities(self.selector.logits(x))
        if self.selector.theta is not None:
            # one vector of probabilities for all rows: equal selections are computed once
            distinct, counts = selections(levels, probabilities[0].numpy())
            masks = [torch.from_numpy(mask)[None] for mask in distinct]
        else:
            masks = [torch.from_numpy(level) < probabilities for level in levels]
            counts = np.ones(len(masks), np.int64)
        # mean of f(x, s) over the selections s
        total: Tensor = torch.zeros(())
        for mask, count in zip(masks, counts, strict=True):
            masked_rows = self.features.masked(x, mask.to(x.dtype))
            total = total + float(count) * self.predictor(masked_rows).double().softmax(1)
        return (total / float(counts.sum())).numpy()
