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
from evenhand.fairlib.methods.networks.regression import NeuralNetworkRegressor
from evenhand.fairlib.methods.networks.sensei import (
    CLPClassifier,
    SenSeIClassifier,
    SenSRClassifier,
)

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
    monkeypatch.setattr(
        "evenhand.fairlib.methods.method_base.Checkpoint", partial(Checkpoint, every_s=0.0)
    )
    X, y, _, _ = table()
    network = torch.nn.Sequential(
        torch.nn.Linear(6, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 2)
    )

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


def loader(*arrays: Any, **given: Any) -> Any:
    """A DataLoader of arrays, in batches that do not divide their rows."""
    rows = torch.utils.data.TensorDataset(*map(torch.as_tensor, arrays))
    return torch.utils.data.DataLoader(rows, batch_size=47, **given)


@pytest.mark.parametrize(
    "method", [NeuralNetworkClassifier, NeuralNetworkRegressor, SenSeIClassifier]
)
def test_a_loader_trains_as_its_rows_do(method: Any) -> None:
    X, y, groups, _ = table(200)
    weights = np.linspace(1, 2, len(X))
    given = {"sensitive_features": groups} if method is SenSeIClassifier else {}
    short = {**SHORT, "n_steps": 20}
    loaded = method(**short).fit(loader(X, y, weights), **given)
    there = method(**short).fit(X, y, sample_weight=weights, **given)
    np.testing.assert_array_equal(loaded.decision_logits(X), there.decision_logits(X))


def test_a_loader_may_give_doubles_in_any_order() -> None:
    X, y, _, _ = table(200)
    rows = loader(X.astype(float), y, shuffle=True, generator=torch.Generator().manual_seed(1))
    models = [NeuralNetworkClassifier(**SHORT).fit(*given) for given in ((rows,), (X, y))]
    shuffled, there = (model.decision_logits(X)[:, 1] for model in models)
    assert not np.array_equal(shuffled, there)
    # the same rows and labels still belong together
    assert np.corrcoef(shuffled, there)[0, 1] > 0.9


def test_a_loader_of_other_batches_is_refused_in_one_line() -> None:
    X, y, groups, copy = table(60)
    network = NeuralNetworkClassifier(**SHORT)
    for rows, given, message in (
        (loader(X), {}, r"must give \(rows, labels\)"),
        (torch.utils.data.DataLoader(X), {}, r"must give \(rows, labels\)"),
        (loader(X, y), {"y": y}, "leave out y and sample_weight"),
        (loader(X, y), {"sample_weight": y}, "leave out y and sample_weight"),
        (loader(X, y, shuffle=True), {"counterfactuals": [copy]}, "no shuffle"),
        (loader(X[:, 0], y), {}, "rows must have the shape"),
        (
            torch.utils.data.DataLoader([(X[0, 0], y[0])], batch_size=None),
            {},
            "rows must have the shape",
        ),
        ([(X[:30], y[:29]), (X[30:], y[29:])], {}, "a label, and a weight if any, for every row"),
        ([(X[:30], y[:30]), (X[30:], y[30:], y[30:])], {}, r"must give \(rows, labels\)"),
        (loader(X[:0], y[:0]), {}, "there are no rows"),
        (loader(X[:, :0], y), {}, "there are no rows"),
        ([(X[:30], y[:30]), (X[30:, 1:], y[30:])], {}, "rows must have the shape"),
    ):
        if isinstance(rows, list):
            rows = torch.utils.data.DataLoader(rows, batch_size=None)
        with pytest.raises(ValueError, match=message):
            network.fit(rows, **given)
    drawn = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(X), 7, False)
    rows = torch.utils.data.DataLoader(loader(X, y).dataset, batch_sampler=drawn)
    with pytest.raises(ValueError, match="no shuffle"):
        network.fit(rows, counterfactuals=[copy])
    state = torch.random.get_rng_state()
    network.fit(rows)
    assert torch.equal(state, torch.random.get_rng_state())
