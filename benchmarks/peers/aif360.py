"""AIF360's reweighing of label and group (Kamiran and Calders, 2012) before XGBoost, with random
search.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from aif360.algorithms.preprocessing import Reweighing
from aif360.datasets import BinaryLabelDataset
from numpy.typing import NDArray
from xgboost import XGBClassifier

from benchmarks.peers.exchange import (
    Decide,
    Rows,
    Settings,
    run,
    scored,
    threads,
    xgboost_settings,
)


def draw(rng: np.random.Generator) -> Settings:
    """Draw the parameters of boosting: reweighing has none."""
    return xgboost_settings(rng)


def train(settings: Settings, fit: Rows, held: Rows) -> Iterator[tuple[Settings, Decide]]:
    """Train one model on weighted rows, with the balanced threshold."""
    model = XGBClassifier(n_jobs=threads(), tree_method="hist", **settings)
    model.fit(fit.X, fit.y, sample_weight=weights(fit))
    yield {}, scored(lambda X: model.predict_proba(X)[:, 1], held)


def weights(rows: Rows) -> NDArray[np.float64]:
    """Weights of the rows that AIF360 gives; it takes one group as privileged, the last."""
    frame = pd.DataFrame({"group": (rows.group == rows.group.max()).astype(float), "label": rows.y})
    table = BinaryLabelDataset(df=frame, label_names=["label"], protected_attribute_names=["group"])
    reweighing = Reweighing(
        unprivileged_groups=[{"group": 0.0}], privileged_groups=[{"group": 1.0}]
    )
    found: NDArray[np.float64] = reweighing.fit_transform(table).instance_weights
    return found


if __name__ == "__main__":
    run(draw, train)
