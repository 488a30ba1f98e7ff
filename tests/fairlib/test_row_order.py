"""Tables and columns whose index has the same labels in another order, in every function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evenhand.fairlib.distances.face import FACE
from evenhand.fairlib.distances.learned import LearnedMetric
from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace
from evenhand.fairlib.evaluation.group_audit import audit
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.predictions import audit_predictions
from evenhand.fairlib.evaluation.transport_adversary import transport_audit
from evenhand.fairlib.methods.comparators.logistic import LogisticClassifier
from evenhand.fairlib.methods.networks import CLPClassifier
from evenhand.fairlib.proxies.tree import ProxyTree
from evenhand.fairlib.row_order import check_row_order

rng = np.random.default_rng(0)
NAMES = [f"p{number}" for number in range(60)]
X = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60)}, index=NAMES)
y = pd.Series(rng.integers(0, 2, 60), index=NAMES)
sex = pd.Series(np.tile(["f", "m"], 30), index=NAMES, name="sex")
turned = X.index[::-1]

FUNCTIONS: dict[str, Callable[[], Any]] = {
    "y of a classifier": lambda: LogisticClassifier().fit(X, y.loc[turned]),
    "weights": lambda: LogisticClassifier().fit(X, y, sample_weight=y.loc[turned] + 1.0),
    "copies": lambda: CLPClassifier().fit(X, y, counterfactuals=[X.loc[turned] + 1.0]),
    "groups of a metric": lambda: SensitiveSubspace().fit(X, sensitive_features=sex.loc[turned]),
    "y of a metric": lambda: LearnedMetric().fit(X, y.loc[turned], sensitive_features=sex),
    "copies of a metric": lambda: FACE(n_directions=1).fit(
        X, counterfactuals=[X.loc[turned] + 1.0]
    ),
    "groups of a proxy": lambda: ProxyTree().fit(X, sensitive_features=sex.loc[turned]),
    "audit": lambda: audit(y, y, sensitive_features=sex.loc[turned]),
    "audit_predictions": lambda: audit_predictions(y, sex.loc[turned].to_frame(), draws=0),
    "its labels": lambda: audit_predictions(y, sex.to_frame(), y.loc[turned], draws=0),
    "outcomes": lambda: Outcomes(y, y.loc[turned], y.astype(float), {"sex": sex}, {}),
    "transport_audit": lambda: transport_audit(None, X, y.loc[turned], None, 0.1),
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_rows_in_another_order_are_refused_in_one_wording(function: str) -> None:
    wording = "index has the labels of .*'s index in another order; bring the rows into one order"
    with pytest.raises(ValueError, match=wording):
        FUNCTIONS[function]()


def test_what_has_no_index_is_not_checked() -> None:
    check_row_order(X=X.to_numpy(), y=y.loc[turned], sample_weight=None)
    check_row_order(X=X, y=y.loc[turned].to_numpy(), copies=[X, X.copy()])
    check_row_order(X=X, y=y.reset_index(drop=True))
