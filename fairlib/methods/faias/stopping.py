"""Early stopping: which epoch's parameters are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.methods.faias.trainer import Game
from evenhand.fairlib.numerics import log_losses

__all__ = ["Best", "judge"]

Score = tuple[float, float]


def judge(probabilities: NDArray[np.float64], codes: NDArray[np.int64]) -> Score:
    """
    Balanced accuracy, the mean of the recalls, and minus the mean over the classes of their log loss.

    Parameters
    ----------
    probabilities : ndarray, shape (n, K)
    codes : ndarray of int, shape (n,)
        Class positions; every class occurs.
    """
    counts = np.bincount(codes, minlength=probabilities.shape[1])
    right = probabilities.argmax(axis=1) == codes
    losses = log_losses(probabilities)[codes, np.arange(len(codes))]
    recalls = np.bincount(codes, weights=right, minlength=len(counts)) / counts
    means = np.bincount(codes, weights=losses, minlength=len(counts)) / counts
    return float(recalls.mean()), -float(means.mean())


class Best:
    """The best epoch so far, by its score, and a copy of the parameters of both players."""

    def __init__(self) -> None:
        self.epoch = 0
        self.score: Score | None = None
        self.parameters: list[NDArray[np.float32]] = []

    def offer(self, epoch: int, score: Score, game: Game) -> None:
        """Keep the game's parameters if the score is the highest so far."""
        if self.score is None or score > self.score:
            self.epoch, self.score = epoch, score
            self.parameters = game.parameters()

    def is_stale(self, epoch: int, patience: int | None) -> bool:
        """Whether that many epochs have brought nothing better."""
        return patience is not None and epoch - self.epoch >= patience

    def install(self, game: Game) -> None:
        """Put the kept parameters into the players."""
        game.set_parameters(self.parameters)

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything, as plain arrays."""
        assert self.score is not None
        kept = {f"best.{index}": value for index, value in enumerate(self.parameters)}
        return kept | {"best.epoch": np.array(self.epoch), "best.score": np.array(self.score)}

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take up what :meth:`state` gave."""
        best = cls()
        best.epoch = int(arrays["best.epoch"])
        best.score = (float(arrays["best.score"][0]), float(arrays["best.score"][1]))
        count = sum(name.startswith("best.") for name in arrays) - 2
        best.parameters = [arrays[f"best.{index}"] for index in range(count)]
        return best
