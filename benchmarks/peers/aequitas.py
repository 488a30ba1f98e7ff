"""The experiment flow of Aequitas: its default methods in their order, their spaces, its random
sampler.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import optuna
import pandas as pd
from aequitas.flow.experiment import DefaultExperiment, Experiment
from aequitas.flow.methods.postprocessing.identity import Identity as SameDecisions
from aequitas.flow.methods.postprocessing.threshold import Threshold
from aequitas.flow.methods.preprocessing.identity import Identity as SameRows
from aequitas.flow.optimization import ObjectiveFunction
from hpt import OptunaTuner
from numpy.typing import NDArray
from omegaconf import DictConfig

from benchmarks.peers.exchange import Decide, Rows, Settings, run, scored

CONFIG = DefaultExperiment._generate_config({}, "all", "large", use_baseline=True)
METHODS: dict[str, Any] = {
    name: parts for method in CONFIG["methods"] for name, parts in method.items()
}
_NAMES = itertools.cycle(METHODS)


# Its LightGBM gets the sensitive column as one more feature unless told otherwise; the rows have it
# already.
AWARE = "aequitas.flow.methods.base_estimator.LightGBM"


class KeptModel(ObjectiveFunction):  # type: ignore[misc]
    """A trial of the flow that keeps its model in `fitted`; the flow itself writes it to a
    pickle.
    """

    def evaluate_model(self, model: Any, *args: Any, **keywords: Any) -> dict[str, float]:
        """Keep the model: it is measured as those of all peers are."""
        self.fitted = model
        return {self.eval_metric: 0.0}


def draw(rng: np.random.Generator) -> Settings:
    """Take the next method, and the seed of the flow's sampler."""
    return {"method": next(_NAMES), "seed": int(rng.integers(2**31))}


def train(settings: Settings, fit: Rows, held: Rows) -> Iterator[tuple[Settings, Decide]]:
    """Run one trial of one method as the flow does, with the balanced threshold."""
    parts = METHODS[settings["method"]]
    before, before_space = _step(parts, "preprocessing", SameRows)
    model, space = _step(parts, "inprocessing", None)
    if parts["inprocessing"].get("lightgbm", {}).get("classpath") == AWARE:
        space = DictConfig({**space, "unawareness": [True]})

    class Numeric(model):  # type: ignore[misc, valid-type]
        """Group codes as numbers: sampling takes categories alone, and FairGBM refuses them."""

        def fit(self, X: Any, y: Any, s: Any) -> Any:
            return super().fit(X, y, s.astype(int))

    X, y, s = _frame(fit.X), pd.Series(fit.y), pd.Series(fit.group).astype("category")
    trial = KeptModel(
        X_train=X,
        y_train=y,
        s_train=s,
        X_val=X,
        y_val=y,
        s_val=s,
        threshold=Threshold("fixed", 0.5),
        eval_metric="tpr",
        preprocessing_method=before,
        preprocessing_configs=before_space,
        inprocessing_method=Numeric,
        inprocessing_configs=space,
        postprocessing_method=SameDecisions,
        postprocessing_configs=None,
        alpha=None,
    )
    OptunaTuner(trial, sampler=optuna.samplers.RandomSampler(settings["seed"])).optimize(
        n_trials=1, n_jobs=1
    )
    fitted = trial.fitted[1]
    rule = {
        "hyperparameters": {
            key: str(value) for key, value in trial.all_results[0].hyperparameters.items()
        }
    }
    yield rule, scored(lambda X: fitted.predict_proba(_frame(X)).to_numpy(), held)


def _step(parts: Any, kind: str, missing: Any) -> tuple[Any, Any]:
    if kind not in parts:
        return missing, None
    (spec,) = parts[kind].values()
    found: tuple[Any, Any] = Experiment.read_method_step(DictConfig(spec))
    return found


def _frame(X: NDArray[Any]) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"x{number}" for number in range(X.shape[1])])


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    # FairGBM is among its methods: see there.
    run(draw, train, again=False)
