"""People and fitting that the tests of the comparators share."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.methods import METHODS, method_class

NAMES = sorted(
    name
    for name, spec in METHODS.items()
    # those of scikit-learn have a file of another kind, and tests of their own
    if spec.module.startswith("evenhand.fairlib.methods.comparators") and not spec.loads_with
)
SMALL: dict[str, dict[str, Any]] = {
    "adversarial-debiasing": {"hidden": (8,), "n_epochs": 3},
    "exponentiated-gradient": {"max_iter": 5},
}
INPUTS = {"sex": [0], "race": [1, 2, 3], "amount": [4], "length": [5], "owner": [6]}


def draw_people(
    n: int = 400, seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.int64], dict[str, NDArray[np.str_]]]:
    """
    (X, y, sensitive features): columns as in `INPUTS`, of which amount and owner lean towards one
    sex."""
    rng = np.random.default_rng(seed)
    sex, race = rng.integers(0, 2, n), rng.choice(3, n, p=[0.5, 0.3, 0.2])
    X = np.column_stack(
        [
            sex,
            np.eye(3)[race],
            rng.normal(size=n) + 0.8 * sex,
            rng.exponential(size=n),
            rng.random(n) < 0.3 + 0.3 * sex,
        ]
    ).astype(np.float32)
    y = (X[:, 4] + 0.7 * X[:, 6] + 0.3 * (race == 0) + 0.6 * rng.normal(size=n) > 0.9).astype(
        np.int64
    )
    return (
        X,
        y,
        {
            "sex": np.array(["female", "male"])[sex],
            "race": np.array(["amber", "blue", "cyan"])[race],
        },
    )


def fit_comparator(
    name: str,
    X: NDArray[Any],
    y: NDArray[Any],
    sensitive: dict[str, NDArray[Any]],
    **parameters: Any,
) -> Any:
    """Fit by sex, unless told otherwise."""
    taken = method_class(name)().get_params(deep=False)
    chosen = {"attribute": "sex"} | SMALL.get(name, {}) | {"random_state": 0} | parameters
    model = method_class(name)(**{key: value for key, value in chosen.items() if key in taken})
    return model.fit(X, y, sensitive_features=sensitive)


@cache
def fitted(name: str) -> Any:
    """A comparator of `draw_people()`, shared by tests that only read it."""
    return fit_comparator(name, *draw_people())
