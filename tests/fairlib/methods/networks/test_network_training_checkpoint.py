"""Interrupted trainings of networks that go on to the same model."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from evenhand.fairlib.distances import EXPLORE, SensitiveSubspace
from evenhand.fairlib.methods import method_class
from evenhand.fairlib.methods.checkpoint import FILE, Checkpoint

People = Callable[..., tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]

NAMES = ["clp", "nn", "sensei", "sensr"]
# Progress comes after every 50 steps, and after the last.
STEPS, REPORTS = 110, [50, 100, 110]
SETTINGS: dict[str, Any] = {"hidden": (6,), "n_steps": STEPS, "batch_size": 12, "random_state": 4}
# Enough to leave a checkpoint, for trainings that must not take it up; interrupted after the last
# step.
END = 51
SHORT: dict[str, Any] = {"n_steps": END}
SEARCHES: dict[str, Any] = {"subspace_steps": 2, "full_steps": 2}


class Interrupted(Exception):  # noqa: N818
    """As a kill would come, in the middle of everything."""


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints are written with every progress."""
    monkeypatch.setattr(
        "evenhand.fairlib.methods.method_base.Checkpoint", partial(Checkpoint, every_s=0.0)
    )


def stop_at(step: int, seen: list[int]) -> Callable[..., None]:
    def callback(now: int, steps: int, progress: Any) -> None:
        seen.append(now)
        if now == step:
            raise Interrupted

    return callback


def fit(
    name: str,
    X: NDArray[Any],
    y: NDArray[Any],
    *,
    folder: Path | None = None,
    stop: int = 0,
    seen: list[int] | None = None,
    copies: list[NDArray[Any]] | None = None,
    **options: Any,
) -> Any:
    """Train, up to an interruption if `stop` is one of the reported steps."""
    extra: dict[str, Any] = {}
    if name == "clp" or "pair_weight" in options:
        extra["counterfactuals"] = copies or [X * -1, X + 1]
    if name in ("sensei", "sensr"):
        # nothing is free: every search starts in a random direction, so the generator must go on as
        # well
        options = {"metric": SensitiveSubspace().fit(X), **SEARCHES, **options}
    model = method_class(name)(**{**SETTINGS, **options})
    callback = stop_at(stop, [] if seen is None else seen)
    return model.fit(X, y, callback=callback, checkpoint=folder, **extra)


def interrupt(
    name: str, folder: Path, step: int, X: NDArray[Any], y: NDArray[Any], **options: Any
) -> None:
    with pytest.raises(Interrupted):
        fit(name, X, y, folder=folder, stop=step, **options)


def same(first: Any, second: Any) -> None:
    left, right = first.network_.state_dict(), second.network_.state_dict()
    assert all(torch.equal(left[key], right[key]) for key in left | right)
    assert first.history_ == second.history_


def begins_anew(name: str, folder: Path, X: NDArray[Any], y: NDArray[Any], **options: Any) -> None:
    """Fit beside the file of another training: every step is taken, to the model without
    that file.
    """
    assert (folder / FILE).exists()
    seen: list[int] = []
    options = SHORT | options
    model = fit(name, X, y, folder=folder, seen=seen, **options)
    assert seen[0] == 50
    same(model, fit(name, X, y, **options))
    assert not (folder / FILE).exists()


@pytest.mark.parametrize(
    ("name", "stop", "classes", "options"),
    [
        *(("nn", stop, 2, {}) for stop in REPORTS),
        ("clp", 100, 3, {}),
        ("sensei", 100, 2, {}),
        ("sensei", 110, 3, {}),
        ("sensei", 100, 2, {"pair_weight": 2.0}),
        ("sensr", 110, 3, {}),
    ],
)
def test_an_interrupted_training_goes_on_bit_by_bit(
    name: str,
    stop: int,
    classes: int,
    options: dict[str, float],
    people: People,
    tmp_path: Path,
    eager: None,
) -> None:
    X, y, _ = people(60, seed=5)
    y = y + ((y == 1) & (X[:, 3] > 0)) * (classes == 3)
    straight = fit(name, X, y, **options)
    assert straight.history_["step"] == REPORTS
    interrupt(name, tmp_path, stop, X, y, **options)
    # the callback comes before the write
    assert (tmp_path / FILE).exists() == (stop > 50)
    seen: list[int] = []
    resumed = fit(name, X, y, folder=tmp_path, seen=seen, **options)
    assert seen == REPORTS[REPORTS.index(stop) :]
    same(resumed, straight)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["sensei", "sensr"])
def test_the_multiplier_and_the_searches_continue(
    name: str, people: People, tmp_path: Path, eager: None
) -> None:
    X, y, _ = people(60, seed=5)
    metric = SensitiveSubspace(indicators=[0]).fit(X)
    options: dict[str, Any] = {
        "metric": metric,
        "multiplier_rate": 1.0,
        "weight_decay": 0.01,
        "class_balance": 0.5,
    }
    straight = fit(name, X, y, **options)
    assert len(set(straight.history_["multiplier"])) == len(REPORTS)
    for stop in (100, 110):
        interrupt(name, tmp_path, stop, X, y, **options)
    same(fit(name, X, y, folder=tmp_path, **options), straight)


@pytest.mark.parametrize("name", NAMES)
def test_checkpoints_change_nothing_and_leave_nothing(
    name: str, people: People, tmp_path: Path, eager: None
) -> None:
    X, y, _ = people(60)
    same(fit(name, X, y, folder=tmp_path / "not" / "yet"), fit(name, X, y))
    assert list((tmp_path / "not" / "yet").iterdir()) == []


class SeesLosses:
    """A judge that ends the training after three evaluations."""

    def __init__(self) -> None:
        self.losses: list[list[float]] = []

    def __call__(self, step: int, rows: NDArray[Any], probability: NDArray[Any]) -> bool:
        assert probability.shape == (len(rows), 2)
        np.testing.assert_allclose(probability.sum(axis=1), 1.0)
        self.losses.append([float(step), float(probability[:, 1].sum())])
        return len(self.losses) == 3


def test_a_judge_remembers_what_it_saw_before_a_kill(
    people: People, tmp_path: Path, eager: None
) -> None:
    X, y, _ = people(60, seed=5)
    judges = []
    models = []
    for interrupted in (False, True):
        seen = []
        for stop in [100, 0] if interrupted else [0]:
            judge = SeesLosses()
            model = method_class("nn")(**SETTINGS | {"n_steps": 300})
            model.judge = judge
            with contextlib.suppress(Interrupted):
                model.fit(X, y, callback=stop_at(stop, seen), checkpoint=tmp_path)
        judges.append(judge)
        models.append(model)
    assert [step for step, _ in judges[0].losses] == [50, 100, 150]
    assert judges[1].losses == judges[0].losses
    same(*models)


def test_a_training_begins_with_the_weights_of_another(people: People) -> None:
    X, y, _ = people(60, seed=5)
    first = fit("nn", X, y)
    second = method_class("nn")(**SETTINGS | {"n_steps": 1, "learning_rate": 1e-12})
    second.starts_from = first
    second.fit(X, y)
    np.testing.assert_allclose(second.decision_logits(X), first.decision_logits(X), atol=1e-6)
    # and leaves the other as it was
    np.testing.assert_array_equal(fit("nn", X, y).decision_logits(X), first.decision_logits(X))


def test_a_network_of_ones_own_goes_on_too(people: People, tmp_path: Path, eager: None) -> None:
    X, y, _ = people(60)
    network = nn.Sequential(
        nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Dropout(0.3), nn.Linear(4, 2)
    )
    straight = fit("nn", X, y, network=network)
    interrupt("nn", tmp_path, 110, X, y, network=network)
    same(fit("nn", X, y, folder=tmp_path, network=network), straight)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {"learning_rate": 2e-3}) for name in NAMES),
        ("nn", {"random_state": 5}),
        ("nn", {"n_steps": 101}),
        ("nn", {"batch_size": 13}),
        ("nn", {"class_balance": 0.9}),
        ("nn", {"weight_decay": 0.1}),
        ("nn", {"hidden": (7,)}),
        ("sensei", {"rho": 4.0}),
        ("sensei", {"perturbation_budget": 0.02}),
        ("sensei", {"multiplier_start": 2.0}),
        ("sensr", {"multiplier_rate": 0.2}),
        ("sensr", {"full_steps": 3}),
        ("clp", {"rho": 4.0}),
    ],
    ids=str,
)
def test_a_checkpoint_of_other_parameters_is_ignored(
    name: str, options: dict[str, Any], people: People, tmp_path: Path, eager: None
) -> None:
    X, y, _ = people(60)
    interrupt(name, tmp_path, END, X, y, **SHORT)
    begins_anew(name, tmp_path, X, y, **options)


@pytest.mark.parametrize(
    ("name", "change"),
    [("nn", "entry"), ("nn", "label"), ("nn", "order"), ("clp", "entry"), ("sensr", "entry")],
)
def test_a_checkpoint_of_other_data_is_ignored(
    name: str, change: str, people: People, tmp_path: Path, eager: None
) -> None:
    X, y, _ = people(60)
    interrupt(name, tmp_path, END, X, y, **SHORT)
    other, labels = X.copy(), y.copy()
    if change == "entry":
        other[17, 2] += 1
    elif change == "label":
        labels[3] = 1 - labels[3]
    else:
        other, labels = other[::-1].copy(), labels[::-1].copy()
    begins_anew(name, tmp_path, other, labels)


def test_a_checkpoint_of_other_copies_is_ignored(
    people: People, tmp_path: Path, eager: None
) -> None:
    X, y, _ = people(60)
    interrupt("clp", tmp_path, END, X, y, copies=[X + 1], **SHORT)
    begins_anew("clp", tmp_path, X, y, copies=[X + 2])


def test_a_checkpoint_of_other_free_directions_is_ignored(
    people: People, tmp_path: Path, eager: None
) -> None:
    X, y, _ = people(60)
    interrupt("sensei", tmp_path, END, X, y, **SHORT)
    begins_anew("sensei", tmp_path, X, y, metric=SensitiveSubspace(indicators=[0]).fit(X))


@pytest.mark.parametrize(("name", "kind"), [("sensei", "matrix"), ("sensr", "bounds")])
def test_a_checkpoint_of_another_metric_is_ignored(
    name: str, kind: str, people: People, tmp_path: Path, eager: None
) -> None:
    """This holds even with the same free directions."""
    X, y, _ = people(60)
    if kind == "matrix":
        rng = np.random.default_rng(0)
        near, far = (X, X + rng.normal(size=X.shape)), (X, X[::-1] + 1)
        first = EXPLORE().fit(X, comparable=near, incomparable=far)
        second = copy.deepcopy(first)
        second.factor_ *= 2
    else:
        first, second = (SensitiveSubspace(indicators=[0]).fit(rows) for rows in (X, X / 4))
    interrupt(name, tmp_path, END, X, y, metric=first, **SHORT)
    begins_anew(name, tmp_path, X, y, metric=second)


def test_a_checkpoint_of_another_architecture_is_ignored(
    people: People, tmp_path: Path, eager: None
) -> None:
    X, y, _ = people(60)
    tanh = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2))
    relu = nn.Sequential(tanh[0], nn.ReLU(), tanh[2])
    interrupt("nn", tmp_path, END, X, y, network=tanh, **SHORT)
    begins_anew("nn", tmp_path, X, y, network=relu)


def test_a_damaged_checkpoint_is_ignored(people: People, tmp_path: Path, eager: None) -> None:
    X, y, _ = people(60)
    interrupt("sensei", tmp_path, END, X, y, **SHORT)
    whole = bytearray((tmp_path / FILE).read_bytes())
    whole[len(whole) // 2] ^= 0xFF
    (tmp_path / FILE).write_bytes(whole)
    begins_anew("sensei", tmp_path, X, y)


def test_a_checkpoint_holds_no_row_of_the_table(
    people: People, tmp_path: Path, eager: None
) -> None:
    X, y, _ = people(60)
    for name in NAMES:
        interrupt(name, tmp_path / name, 100, X, y)
        content = (tmp_path / name / FILE).read_bytes()
        for dtype in (np.float32, np.float64):
            assert not any(row[1:3].tobytes() in content for row in X.astype(dtype))
