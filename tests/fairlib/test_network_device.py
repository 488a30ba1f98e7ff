"""Networks on a CUDA device, beside the processor; most of it runs only where there is one."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evenhand.fairlib.mapped import new_matrix
from evenhand.fairlib.methods.checkpoint import Checkpoint
from evenhand.fairlib.methods.networks.plain import NeuralNetworkClassifier
from evenhand.fairlib.methods.networks.sensei import CLPClassifier, SenSeIClassifier, SenSRClassifier

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")
SHORT: dict[str, Any] = {"hidden": (16,), "n_steps": 150, "batch_size": 64, "random_state": 0}


def table(rows: int = 600) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows, labels, groups, and copies with the first column's sign changed."""
    random = np.random.default_rng(0)
    X = random.normal(size=(rows, 6)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] + random.normal(size=rows) > 0).astype(int)
    copy = X.copy()
    copy[:, 0] *= -1
    return X, y, (X[:, 0] > 0).astype(int), copy


class Stop(Exception):
    """Ends a training."""


def test_a_device_that_is_not_there_is_refused() -> None:
    X, y, _, _ = table(40)
    with pytest.raises(ValueError, match="device must be one of auto, cpu, cuda"):
        NeuralNetworkClassifier(device="tpu").fit(X, y)
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="device 'cuda': torch finds no CUDA device"):
            NeuralNetworkClassifier(device="cuda").fit(X, y)
        same = [NeuralNetworkClassifier(device=name, **SHORT).fit(X, y) for name in ("auto", "cpu")]
        np.testing.assert_array_equal(*(model.predict_proba(X) for model in same))


@cuda
@pytest.mark.parametrize(
    "method",
    [
        NeuralNetworkClassifier,
        SenSeIClassifier,
        SenSRClassifier,
        CLPClassifier,
        lambda **given: SenSeIClassifier(pair_weight=1.0, bound_weight=0.1, **given),
    ],
)
def test_a_network_is_that_of_the_processor_but_for_rounding(method: Any) -> None:
    X, y, groups, copy = table()
    weights = np.linspace(1, 2, len(X))
    given = {"sensitive_features": groups, "counterfactuals": [copy], "sample_weight": weights}
    here, there = (method(device=name, **SHORT).fit(X, y, **given) for name in ("cpu", "cuda"))
    np.testing.assert_allclose(there.predict_proba(X), here.predict_proba(X), atol=5e-3)
    assert {value.device.type for value in there.network_.state_dict().values()} == {"cpu"}


@cuda
def test_rows_in_a_file_train_as_those_in_memory(tmp_path: Path) -> None:
    X, y, _, _ = table()
    mapped = new_matrix(X.shape, tmp_path)
    mapped[:] = X
    models = [NeuralNetworkClassifier(device="cuda", **SHORT).fit(rows, y) for rows in (X, mapped)]
    np.testing.assert_array_equal(*(model.decision_logits(X) for model in models))


@cuda
def test_a_stopped_training_goes_on_with_the_same_dropout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenhand.fairlib.methods.base.Checkpoint", partial(Checkpoint, every_s=0.0))
    X, y, _, _ = table()
    network = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 2))

    def stop(step: int, *_: Any) -> None:
        if step == 100:
            raise Stop

    def fit(**given: Any) -> Any:
        model = NeuralNetworkClassifier(network=network, device="cuda", **SHORT)
        return model.fit(X, y, **given).decision_logits(X)

    whole = fit()
    with pytest.raises(Stop):
        fit(callback=stop, checkpoint=tmp_path)
    np.testing.assert_allclose(fit(checkpoint=tmp_path), whole, atol=1e-6)
