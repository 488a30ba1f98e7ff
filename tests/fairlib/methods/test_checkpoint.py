"""Interrupted trainings that go on to the same model, and files that are no good."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from evenhand.fairlib.distances import SensitiveSubspace
from evenhand.fairlib.methods import budro as budro_module
from evenhand.fairlib.methods import checkpoint as checkpoint_module
from evenhand.fairlib.methods.budro import BudroClassifier
from evenhand.fairlib.methods.checkpoint import DIGEST_BYTES, FILE, Checkpoint, fingerprint
from tests.fairlib.methods.paper_budro import paper_budro

People = Callable[..., tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]

STEPS = 9
SETTINGS: dict[str, Any] = {
    "perturbation_budget": 0.3,
    "n_steps": STEPS,
    "max_depth": 3,
    "eta": 0.3,
    "random_state": 7,
}


class Interrupted(Exception):  # noqa: N818
    """Interrupts a training at any point, as a kill does."""


def stop_at(step: int, seen: list[int] | None = None) -> Callable[..., None]:
    def callback(now: int, steps: int, progress: Any) -> None:
        if seen is not None:
            seen.append(now)
        if now == step:
            raise Interrupted

    return callback


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints are written at every step."""
    monkeypatch.setattr(
        "evenhand.fairlib.methods.method_base.Checkpoint", partial(Checkpoint, every_s=0.0)
    )


def table(people: People, classes: int, n: int = 150) -> tuple[NDArray[Any], NDArray[Any]]:
    """Small whole numbers: many transports tie, so the draws of the solver must go on as well."""
    X, y, _ = people(n, seed=5)
    y = y + ((y == 1) & (X[:, 3] > 0.4)) * (classes == 3)
    return np.round(2 * X), y


def interrupt(
    folder: Path, step: int, X: NDArray[Any], y: NDArray[Any], **options: Any
) -> dict[str, NDArray[Any]]:
    """Train until a step is done, and give the arrays of the checkpoint."""
    with pytest.raises(Interrupted):
        paper_budro(**{**SETTINGS, **options}).fit(X, y, callback=stop_at(step), checkpoint=folder)
    with np.load(archive(folder), allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def archive(folder: Path) -> io.BytesIO:
    """The npz archive behind the digest."""
    return io.BytesIO((folder / FILE).read_bytes()[DIGEST_BYTES:])


def same(first: BudroClassifier, second: BudroClassifier) -> None:
    assert bytes(first.booster_.save_raw("ubj")) == bytes(second.booster_.save_raw("ubj"))
    assert first.history_ == second.history_
    assert first.best_step_ == second.best_step_


def test_a_callback_ends_the_last_training_early(
    people: People,
) -> None:
    """It ends before the chosen number of steps."""
    X, y = table(people, 2, 150)
    settings = SETTINGS | {"n_iter_no_change": STEPS}
    straight = BudroClassifier(**settings).fit(X, y)
    assert straight.best_step_ > 2
    # the folds take all steps, and then all rows train
    model = BudroClassifier(**settings).fit(X, y, callback=lambda step, *_: step == STEPS + 2)
    assert model.best_step_ == len(model.booster_.get_dump()) - 1 == 2
    assert model.history_ == {name: values[:2] for name, values in straight.history_.items()}


@pytest.mark.parametrize(
    ("options", "classes"),
    [
        ({}, 2),
        ({}, 3),
        ({"neighbours": 20}, 2),
        ({"n_iter_no_change": 4}, 3),
        ({"n_iter_no_change": 4, "validation_metric": "log_loss", "validation_fraction": 0.3}, 2),
        ({"n_iter_no_change": 4, "validation_metric": "accuracy"}, 2),
        (
            {
                "n_iter_no_change": STEPS,
                "validation_metric": "adversarial_loss",
                "validation_fraction": 0.4,
            },
            2,
        ),
        (
            {
                "n_iter_no_change": STEPS,
                "validation_metric": "adversarial_loss",
                "validation_fraction": 0.4,
            },
            3,
        ),
    ],
    ids=str,
)
def test_an_interrupted_training_goes_on_bit_by_bit(
    options: dict[str, Any], classes: int, people: People, tmp_path: Path, eager: None
) -> None:
    X, y = table(people, classes, 150)
    straight = paper_budro(**SETTINGS, **options).fit(X, y)
    taken = len(straight.history_["loss"])
    stop = min(5, taken)
    stored = interrupt(tmp_path, stop, X, y, **options)
    assert stored["step"] == stop - 1  # the callback comes before the write
    seen: list[int] = []
    resumed = paper_budro(**SETTINGS, **options).fit(
        X, y, callback=stop_at(0, seen), checkpoint=tmp_path
    )
    # finished steps are not repeated
    assert seen == list(range(stop, taken + 1))
    same(resumed, straight)
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize("seed", [2, 11, 16])
def test_worst_case_validation_goes_on_bit_by_bit_among_ties_too(
    seed: int, tmp_path: Path, eager: None
) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(100, 500))
    X = np.round(rng.normal(size=(n, 4)) * 2).astype(np.float32)
    y = (X[:, 0] + rng.normal(size=n) * 2 > 0).astype(int)
    options: dict[str, Any] = {
        "n_iter_no_change": STEPS,
        "validation_metric": "adversarial_loss",
        "validation_fraction": 0.5,
        "perturbation_budget": float(rng.random()),
    }
    straight = paper_budro(**{**SETTINGS, **options}).fit(X, y)
    interrupt(tmp_path, 5, X, y, **options)
    same(paper_budro(**{**SETTINGS, **options}).fit(X, y, checkpoint=tmp_path), straight)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_training_may_be_interrupted_at_every_step(
    classes: int, people: People, tmp_path: Path, eager: None
) -> None:
    X, y = table(people, classes)
    options: dict[str, Any] = {"n_iter_no_change": STEPS, "validation_metric": "log_loss"}
    straight = paper_budro(**SETTINGS, **options).fit(X, y)
    for step in range(2, STEPS + 1):
        seen: list[int] = []
        with pytest.raises(Interrupted):
            paper_budro(**SETTINGS, **options).fit(
                X, y, callback=stop_at(step, seen), checkpoint=tmp_path
            )
        assert seen == ([1, 2] if step == 2 else [step - 1, step])
    resumed = paper_budro(**SETTINGS, **options).fit(X, y, checkpoint=tmp_path)
    same(resumed, straight)


def test_an_interruption_after_the_last_step_costs_nothing(
    people: People, tmp_path: Path, eager: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = table(people, 2)
    straight = paper_budro(**SETTINGS).fit(X, y)

    def killed(*_: Any) -> None:
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(budro_module, "between_values", killed)
        with pytest.raises(Interrupted):
            paper_budro(**SETTINGS).fit(X, y, checkpoint=tmp_path)
    seen: list[int] = []
    resumed = paper_budro(**SETTINGS).fit(X, y, callback=stop_at(0, seen), checkpoint=tmp_path)
    assert seen == []
    same(resumed, straight)


def test_checkpoints_change_nothing_and_leave_nothing(
    people: People, tmp_path: Path, eager: None
) -> None:
    X, y = table(people, 3)
    folder = tmp_path / "not" / "yet" / "there"
    present: list[bool] = []

    def look(step: int, steps: int, progress: Any) -> None:
        present.append((folder / FILE).exists())

    same(paper_budro(**SETTINGS).fit(X, y, callback=look, checkpoint=folder), straight(X, y))
    assert present == [False] + [True] * (STEPS - 1)
    assert list(folder.iterdir()) == []


def straight(X: NDArray[Any], y: NDArray[Any]) -> BudroClassifier:
    return paper_budro(**SETTINGS).fit(X, y)


def test_threads_may_change_between_the_halves(people: People, tmp_path: Path, eager: None) -> None:
    X, y = table(people, 2)
    interrupt(tmp_path, 5, X, y, n_jobs=1)
    seen: list[int] = []
    paper_budro(**SETTINGS, n_jobs=2).fit(X, y, callback=stop_at(0, seen), checkpoint=tmp_path)
    assert seen[0] == 5


def begins_anew(folder: Path, X: NDArray[Any], y: NDArray[Any], **options: Any) -> None:
    """Train on with a file of no use: every step is taken, to the model that there would be without
    it.
    """
    seen: list[int] = []
    arguments = {**SETTINGS, **options}
    model = paper_budro(**arguments).fit(X, y, callback=stop_at(0, seen), checkpoint=folder)
    assert seen == list(range(1, arguments["n_steps"] + 1))
    same(model, paper_budro(**arguments).fit(X, y))
    assert not (folder / FILE).exists()


@pytest.mark.parametrize(
    "options",
    [
        {"perturbation_budget": 0.30001},
        {"n_steps": STEPS + 1},
        {"max_depth": 2},
        {"eta": 0.2},
        {"reg_lambda": 1.5},
        {"min_child_weight": 0.02},
        {"balance_classes": False},
        {"scale_pos_weight": 2.0},
        {"neighbours": 150},
        {"n_iter_no_change": STEPS + 1},
        {"random_state": 8},
    ],
    ids=str,
)
def test_a_checkpoint_of_other_parameters_is_ignored(
    options: dict[str, Any], people: People, tmp_path: Path, eager: None
) -> None:
    X, y = table(people, 2)
    interrupt(tmp_path, 5, X, y)
    begins_anew(tmp_path, X, y, **options)


@pytest.mark.parametrize("change", ["entry", "label", "order", "metric"])
def test_a_checkpoint_of_other_data_is_ignored(
    change: str, people: People, tmp_path: Path, eager: None
) -> None:
    X, y = table(people, 2)
    interrupt(tmp_path, 5, X, y)
    other, labels, options = X.copy(), y.copy(), {}
    if change == "entry":
        other[17, 2] += 1
    elif change == "label":
        labels[3] = 1 - labels[3]
    elif change == "order":
        other, labels = other[::-1].copy(), labels[::-1].copy()
    else:
        options = {"metric": SensitiveSubspace(indicators=[0]).fit(X)}
    begins_anew(tmp_path, other, labels, **options)


@pytest.mark.parametrize("damage", ["empty", "half", "garbage", "zeros", "middle", "no archive"])
def test_a_damaged_checkpoint_is_ignored(
    damage: str, people: People, tmp_path: Path, eager: None
) -> None:
    X, y = table(people, 2)
    interrupt(tmp_path, 5, X, y)
    path = tmp_path / FILE
    whole = path.read_bytes()
    middle = bytearray(whole)
    middle[len(whole) // 2] ^= 0xFF
    path.write_bytes(
        {
            "empty": b"",
            "half": whole[: len(whole) // 2],
            "garbage": np.random.default_rng(0).bytes(len(whole)),
            "zeros": bytes(len(whole)),
            "middle": bytes(middle),
            "no archive": b"PK\x03\x04 that is all",
        }[damage]
    )
    begins_anew(tmp_path, X, y)


def test_a_write_that_was_killed_leaves_the_last_file(
    people: People, tmp_path: Path, eager: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = table(people, 2)
    original = np.savez
    writes = 0

    def killed(file: Any, **arrays: Any) -> None:
        nonlocal writes
        writes += 1
        if writes == 5:
            file.write(b"PK\x03\x04 and so on")
            raise Interrupted
        original(file, **arrays)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module.np, "savez", killed)
        with pytest.raises(Interrupted):
            paper_budro(**SETTINGS).fit(X, y, checkpoint=tmp_path)
    seen: list[int] = []
    model = paper_budro(**SETTINGS).fit(X, y, callback=stop_at(0, seen), checkpoint=tmp_path)
    assert seen == [5, 6, 7, 8, 9]
    same(model, straight(X, y))


def test_half_a_file_of_another_process_is_in_nobodys_way(
    people: People, tmp_path: Path, eager: None
) -> None:
    X, y = table(people, 2)
    half = tmp_path / f"{FILE}.part"
    half.write_bytes(b"half a checkpoint")
    begins_anew(tmp_path, X, y)
    interrupt(tmp_path, 5, X, y)
    half.write_bytes(b"half a checkpoint")
    seen: list[int] = []
    model = paper_budro(**SETTINGS).fit(X, y, callback=stop_at(0, seen), checkpoint=tmp_path)
    assert seen[0] == 5
    same(model, straight(X, y))
    assert not half.exists()


@pytest.mark.parametrize("options", [{}, {"n_iter_no_change": 4}], ids=str)
def test_a_checkpoint_holds_plain_arrays_and_no_rows(
    options: dict[str, Any], people: People, tmp_path: Path, eager: None
) -> None:
    X, y = table(people, 2)
    stored = interrupt(tmp_path, 5, X, y, **options)
    assert {"training", "booster", "step", "history/loss"} <= set(stored)
    for name, values in stored.items():
        assert values.dtype.kind in "uifU", name
        assert values.shape != X.shape, name
    with zipfile.ZipFile(archive(tmp_path)) as opened:
        assert all(name.endswith(".npy") for name in opened.namelist())


def test_nothing_is_written_before_it_is_time(
    people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(checkpoint_module.time, "monotonic", lambda: clock[0])
    X, y = table(people, 2)
    written: list[int] = []
    original = Checkpoint.save

    def save(self: Checkpoint, arrays: Any) -> None:
        written.append(int(arrays["step"]))
        original(self, arrays)

    monkeypatch.setattr(Checkpoint, "save", save)

    def tick(step: int, steps: int, progress: Any) -> None:
        clock[0] += 4.0  # of the ten seconds between two writes

    paper_budro(**SETTINGS).fit(X, y, callback=tick, checkpoint=tmp_path)
    assert written == [3, 6, 9]


def stored_state() -> dict[str, Any]:
    return {
        "booster": np.arange(40, dtype=np.uint8),
        "step": 3,
        "history.loss": np.array([0.25, 0.125]),
        "solver.width": 2.0,
    }


def test_what_is_saved_is_what_is_loaded(tmp_path: Path) -> None:
    kept = Checkpoint(tmp_path / "deep" / "folder", "mine", every_s=0.0)
    assert kept.load() is None
    assert kept.due()
    kept.save(stored_state())
    loaded = Checkpoint(tmp_path / "deep" / "folder", "mine").load()
    assert loaded is not None
    assert set(loaded) == set(stored_state())
    for name, value in stored_state().items():
        np.testing.assert_array_equal(loaded[name], value)
    assert Checkpoint(tmp_path / "deep" / "folder", "another").load() is None
    assert [path.name for path in (tmp_path / "deep" / "folder").iterdir()] == [FILE]
    kept.remove()
    kept.remove()
    assert kept.load() is None


def test_without_a_folder_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    none = Checkpoint(None, "mine", every_s=0.0)
    assert not none.due()
    assert none.load() is None
    none.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flip", "every"),
    [(0x01, 5), *(pytest.param(flip, 1, marks=pytest.mark.long) for flip in (0x01, 0x80, 0xFF))],
)
def test_no_damaged_byte_is_taken_for_a_checkpoint(flip: int, every: int, tmp_path: Path) -> None:
    kept = Checkpoint(tmp_path, "mine", every_s=0.0)
    kept.save(stored_state())
    path = tmp_path / FILE
    whole = path.read_bytes()
    for position in range(0, len(whole), every):
        damaged = bytearray(whole)
        damaged[position] ^= flip
        path.write_bytes(damaged)
        loaded = kept.load()
        assert loaded is None, position


def test_fingerprints_tell_everything_apart() -> None:
    array = np.arange(6.0)
    parts: list[tuple[Any, ...]] = [
        (array,),
        (array.reshape(2, 3),),
        (array.reshape(3, 2),),
        (array.astype(np.float32),),
        (array.astype(np.int64),),
        (array[::-1],),
        (array, array),
        (array[:3], array[3:]),
        (array[:2], array[2:]),
        ("ab", "c"),
        ("a", "bc"),
        ("abc",),
        (["n_steps", 1],),
        (["n_steps", 1.0],),
        (["n_steps", True],),
        (["n_steps", None],),
        (),
    ]
    prints = [fingerprint(*each) for each in parts]
    assert len(set(prints)) == len(prints)
    # by content, wherever it lies in memory
    assert fingerprint(np.arange(12.0)[::2]) == fingerprint(np.arange(12.0)[::2].copy())


def test_a_search_for_the_depth_goes_on_bit_by_bit(people: People, tmp_path: Path) -> None:
    X, y, _ = people(200)
    model = BudroClassifier(n_steps=5, validation_fraction=0.3, random_state=0)
    expected = model.fit(X, y).predict_proba(X)

    def stop(step: int, steps: int, progress: object) -> None:
        # the second depth has made two of its steps
        if step == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y, callback=stop, checkpoint=tmp_path)
    seen: list[int] = []
    model.fit(X, y, callback=lambda step, *_: seen.append(step), checkpoint=tmp_path)
    # the first depth is not repeated
    assert min(seen) > 5
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    assert list(tmp_path.iterdir()) == []
