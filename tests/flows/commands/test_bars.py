"""Bars at the terminal: one for every step of a run, on stderr alone."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from evenhand.flows.commands import bars
from evenhand.flows.commands.bars import Bars
from evenhand.flows.commands.terminal import show_progress
from evenhand.flows.engine import DirectEngine
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.tasks.execution.step import listen
from evenhand.tasks.execution.store import Store
from tests.flows.people import STEPS


class Terminal(io.StringIO):
    """What a person sees."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bars, "DELAY_S", 0.0)


def shown(bar: Bars) -> str:
    """What the bars look like at this moment."""
    console = Console(file=io.StringIO(), width=100)
    console.print(bar._shown.get_renderable())
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_a_step_has_a_bar_and_a_count_once_it_counts(at_once: None) -> None:
    """The bar lasts as long as the step runs."""
    with Bars(Console(file=Terminal())) as bar:
        with bar.working("publish"):
            assert "publish" in shown(bar)
            assert "/" not in shown(bar)
        assert "publish" not in shown(bar)
        with bar.working("train"):
            bar("train", 3, 7, {})
            assert "3/7" in shown(bar)
            bar("train", 4, 7, {})
            assert "4/7" in shown(bar)
        assert "train" not in shown(bar)


def test_a_step_that_fails_takes_its_bar_along(at_once: None) -> None:
    with Bars(Console(file=Terminal())) as bar:
        with pytest.raises(ValueError, match="wrong"), bar.working("train"):
            raise ValueError("wrong")
        assert "train" not in shown(bar)


def test_what_is_quick_has_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bars, "DELAY_S", 3600.0)
    with Bars(Console(file=Terminal())) as bar, bar.working("gate"):
        bar("gate", 1, 2, {})
        assert "gate" not in shown(bar)


def test_what_counts_without_being_a_step_has_a_bar_too(at_once: None) -> None:
    with Bars(Console(file=Terminal())) as bar:
        bar("runs", 2, 9, {})
        assert "runs" in shown(bar)
        assert "2/9" in shown(bar)


def test_nothing_is_shown_with_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with show_progress(quiet=True) as listener:
        assert listener is None
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]
    assert capsys.readouterr().out == ""


CLASSIFIER = {"fetch kB", *STEPS}
PROXY = CLASSIFIER - {"train", "decide", "controls", "evaluate"} | {"learn_proxy", "measure_proxy"}
# steps whose loops may be long
COUNTED = {"contract", "train", "evaluate"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("fixture", "steps", "counted"),
    [
        ("publishing", CLASSIFIER, COUNTED),
        ("agents", CLASSIFIER, COUNTED),
        ("proxies", PROXY, {"contract", "learn_proxy", "measure_proxy"}),
    ],
)
def test_every_step_of_a_run_has_a_bar_and_counts_to_its_total(
    fixture: str,
    steps: set[str],
    counted: set[str],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    at_once: None,
) -> None:
    from evenhand.flows.run import execute

    bench: Any = request.getfixturevalue(fixture)
    bench.store.mkdir(mode=0o700)
    (bench.store / "mlflow.db").write_bytes(Path(bench.database).read_bytes())
    store = Store(str(bench.store))
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    begun: list[str] = []
    counts: dict[str, list[tuple[int, int]]] = {}
    with show_progress(quiet=False) as listener:
        assert isinstance(listener, Bars)
        working, call = listener.working, listener.__call__

        class Watched:
            """The bars, and what they were told."""

            def __call__(self, step: str, done: int, total: int, values: Any) -> None:
                counts.setdefault(step, []).append((done, total))
                call(step, done, total, values)

            def working(self, step: str) -> Any:
                begun.append(step)
                return working(step)

        with listen(Watched()):
            verdict = execute(
                resolve(*load_job(str(bench.write()), [])), store, "run", DirectEngine(store)
            )
    assert verdict.exit_code == 0, verdict.error
    assert set(begun) == steps
    assert counted <= set(counts)
    for step, told in counts.items():
        assert told == sorted(told), step
        assert len({total for _, total in told}) == 1, step
        assert told[-1][0] == told[-1][1], step
    assert any(step in screen.getvalue() for step in steps)
    assert capsys.readouterr().out == ""
