from __future__ import annotations

import hashlib

import numpy as np

from evenhand.fairlib.execution import derive_seed, generator


def test_seed_is_the_published_function_of_its_text() -> None:
    first = hashlib.sha256(b"7\x1fsplit\x1f3").digest()[:4]
    assert derive_seed(7, "split", "3") == int.from_bytes(first, "big") // 2


def test_seeds_fit_every_library_and_differ_by_purpose() -> None:
    seeds = {
        derive_seed(job, purpose) for job in range(500) for purpose in ("split", "train", "ties")
    }
    assert len(seeds) == 1500
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_labels_are_not_merely_joined() -> None:
    assert derive_seed(1, "ab", "c") != derive_seed(1, "a", "bc")


def test_a_generator_repeats_itself() -> None:
    """It leaves the global state alone."""
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - the state that must stay untouched
    np.testing.assert_array_equal(generator(3, "x").random(5), generator(3, "x").random(5))
    assert not np.array_equal(generator(3, "x").random(5), generator(4, "x").random(5))
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
