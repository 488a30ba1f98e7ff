"""Seeds: one number in a job, from which every step derives its own."""

from __future__ import annotations

import hashlib

import numpy as np

__all__ = ["derive_seed", "generator"]


def derive_seed(seed: int | None, *labels: str) -> int:
    """
    Seed for one purpose, a pure function of the job's seed and the purpose's names, such as ``"split"``.

    Different names give unrelated seeds: a new random choice in one step changes no other step. The seed is
    in ``[0, 2**31)``: every library accepts it. A job's seed of None counts as 0.
    """
    text = "\x1f".join([str(int(seed or 0)), *labels])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def generator(seed: int | None, *labels: str) -> np.random.Generator:
    """Explicit generator seeded by :func:`derive_seed`."""
    return np.random.default_rng(derive_seed(seed, *labels))
