"""Shares of the classes in mini-batches."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenhand.fairlib.methods.networks.network_training import class_shares

# --- mini-batches ---


counts = st.lists(st.integers(1, 10_000), min_size=2, max_size=6)


@given(counts=counts, batch_size=st.integers(6, 300), balance=st.floats(0, 1))
def test_shares_of_classes_follow_the_balance(
    counts: list[int], batch_size: int, balance: float
) -> None:
    shares = class_shares(counts, batch_size, balance)
    powers = np.array(counts, dtype=float) ** (1 - balance)
    exact = batch_size * powers / powers.sum()
    assert min(shares) >= 1
    assert sum(shares) <= batch_size
    assert all(type(share) is int for share in shares)
    if balance == 1:
        assert shares == [batch_size // len(counts)] * len(counts)
    elif exact.min() >= 1:
        assert sum(shares) == batch_size
        assert np.abs(shares - exact).max() < 1 + 1e-9
    # a larger class never gets fewer rows
    order = np.argsort(counts, kind="stable")
    assert (np.diff(np.array(shares)[order]) >= -1).all()


def test_shares_of_classes_by_hand() -> None:
    assert class_shares([90, 10], 20, 1.0) == [10, 10]
    assert class_shares([90, 10], 20, 0.0) == [18, 2]
    # roots: 30 and 10
    assert class_shares([900, 100], 20, 0.5) == [15, 5]
    assert class_shares([5, 5, 5], 8, 1.0) == [2, 2, 2]
    # 8 / 3 each: what is left goes to the first of equal remainders
    assert class_shares([5, 5, 5], 8, 0.0) == [3, 3, 2]
    assert class_shares([1000, 1], 10, 0.0) == [9, 1]


def test_shares_never_sum_to_more_than_the_batch() -> None:
    assert class_shares([990, 5, 5], 10, 0.0) == [8, 1, 1]
    assert class_shares([5, 990, 5], 3, 0.0) == [1, 1, 1]
    assert class_shares([1, 1, 1, 500, 400], 6, 0.0) == [1, 1, 1, 2, 1]
