"""Asking people one group after another, with a trained network."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from threadpoolctl import threadpool_limits

from evenhand.fairlib.execution import Progress
from evenhand.fairlib.methods.base import Float32, Float64
from evenhand.fairlib.methods.dadi._inference import acquire
from evenhand.fairlib.methods.dadi.inference import CHUNK_ROWS, Known, Reader

__all__ = ["Acquisition", "ask", "check_known"]

FEW_ROWS = 64


@dataclass(frozen=True)
class Acquisition:
    """
    What was asked of n people, of G groups.

    Attributes
    ----------
    known : ndarray of bool, shape (n, G)
        What is known in the end.
    order : ndarray of int, shape (n, G)
        Groups in the order in which they were asked, then -1.
    asked : ndarray of int, shape (n,)
        How many were asked before the agent stopped.
    probability : ndarray of float64, shape (n,)
        Of ``classes_[1]``, from what is known in the end.
    """

    known: NDArray[np.bool_]
    order: NDArray[np.int64]
    asked: NDArray[np.int64]
    probability: Float64


def check_known(known: ArrayLike, n: int, groups: int) -> Known:
    """
    Copy which groups are known of n people as the kernels take it: uint8, shape (n, groups), by rows.

    Raises
    ------
    ValueError
        Another shape.
    """
    mask = np.asarray(known)
    if mask.shape != (n, groups):
        raise ValueError(
            f"known has shape {mask.shape}, expected one column for each of {groups} groups and {n} rows."
        )
    return np.array(mask.astype(bool), np.uint8, order="C")


def ask(
    reader: Reader,
    allowed: NDArray[np.bool_],
    X: Float32,
    known: ArrayLike | None = None,
    *,
    callback: Progress | None = None,
) -> Acquisition:
    """
    Ask group after group until the policy stops.

    Parameters
    ----------
    reader : Reader
        The predictor.
    allowed : bool, shape (G,)
        Groups that may be asked.
    X : float32, shape (n, d)
        The answers.
    known : array-like of bool, shape (n, G), or None
        What is known at first; None: nothing.
    callback : callable, optional
        ``callback(done, total)``, in rows.

    Raises
    ------
    ValueError
        `known` has another shape.
    """
    n, groups = len(X), allowed.size
    mask = np.zeros((n, groups), np.uint8) if known is None else check_known(known, n, groups)
    order = np.full((n, groups), -1, np.int64)
    logits = np.zeros((n, reader.shape.classes), np.float32)
    network, columns = reader.for_kernels()
    may_ask = np.require(allowed, requirements=["C", "W"])
    # to set the limit takes longer than to ask a few people, whose products are too small to share out
    with threadpool_limits(1, "blas") if n > FEW_ROWS else nullcontext():
        for start in range(0, n, CHUNK_ROWS):
            part = slice(start, start + CHUNK_ROWS)
            acquire(
                network.encoder,
                network.policy,
                network.classify,
                columns,
                reader.layout.rows(X[part]),
                may_ask,
                reader.steps,
                mask[part],
                order[part],
                logits[part],
            )
            if callback is not None:
                callback(min(start + CHUNK_ROWS, n), n)
    probability = softmax(logits.astype(np.float64), axis=1)[:, 1]
    return Acquisition(mask.astype(bool), order, (order >= 0).sum(axis=1), probability)
