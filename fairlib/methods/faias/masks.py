"""Which selections a prediction is averaged over: few, spread evenly, and the same for everybody."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from evenhand.fairlib.methods.faias.features import Features
from evenhand.fairlib.methods.faias.selector import Selector

__all__ = ["even_levels", "mean_over_selections", "selections"]

CHUNK_ROWS = 16_384
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Masks = NDArray[np.bool_]


def even_levels(n_masks: int, n_groups: int, generator: np.random.Generator) -> Float32:
    """
    Levels in [0, 1), shape (M, G): per group one in each M-th part of the interval, in random order.

    Compared with probabilities they give M selections of which a group of probability p is in p M, up to one;
    independent draws would be off by the root of that.
    """
    order = generator.permuted(np.tile(np.arange(n_masks)[:, None], (1, n_groups)), axis=0)
    levels = (order + generator.random((n_masks, n_groups))) / n_masks
    return np.minimum(levels.astype(np.float32), np.nextafter(np.float32(1), np.float32(0)))


def selections(levels: Float32, probabilities: Float32) -> tuple[Masks, NDArray[np.int64]]:
    """Distinct selections of probabilities, shape (G,), and how often each occurs among the levels."""
    masks, counts = np.unique(levels < probabilities, axis=0, return_counts=True)
    return masks, counts.astype(np.int64)


def mean_over_selections(
    predictor: nn.Module, selector: Selector, features: Features, levels: Float32, X: Float32
) -> Float64:
    """
    Mean of the predictor's probabilities over selections.

    Parameters
    ----------
    levels : ndarray of float32, shape (M, G)
    X : ndarray of float32, shape (n, d)

    Returns
    -------
    ndarray of float64, shape (n, K)
        Of a row, whatever the others are.
    """
    with torch.no_grad():
        parts = [
            _mean(predictor, selector, features, levels, part)
            for part in torch.tensor(X).split(CHUNK_ROWS)  # a copy: rows may be read-only
        ]
    return np.concatenate(parts)


def _mean(
    predictor: nn.Module, selector: Selector, features: Features, levels: Float32, x: Tensor
) -> Float64:
    """Mean over the selections of some rows, in float64."""
    probabilities = selector.probabilities(selector.logits(x))
    if selector.theta is not None:
        distinct, counts = selections(levels, probabilities[0].numpy())
        masks = [torch.from_numpy(mask)[None] for mask in distinct]
    else:
        masks = [torch.from_numpy(level) < probabilities for level in levels]
        counts = np.ones(len(masks), np.int64)
    total: Tensor = torch.zeros(())
    for mask, count in zip(masks, counts, strict=True):
        shown = features.masked(x, mask.to(x.dtype))
        total = total + float(count) * predictor(shown).double().softmax(1)
    mean: Float64 = (total / float(counts.sum())).numpy()
    return mean
