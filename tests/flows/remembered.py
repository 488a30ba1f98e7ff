"""Steps, checks and charts that a session of tests computes once."""

from __future__ import annotations

import copy
import dataclasses
import functools
import html
import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import typer.main

import evenhand.data_contracts.table_check
import evenhand.tasks.pages.build
from evenhand.tasks.execution.step import Step, StepContext, StepResult, run_step

RESULT = "remembered.json"
draw_chart = evenhand.tasks.pages.build._svg
run_suite = evenhand.data_contracts.table_check.run_suite
# Typer makes it anew for every call of a command, from the signatures of all
command_of = functools.cache(typer.main.get_command)


class Remembered:
    """
    What steps gave in this session, by their keys, which hold all that they depend on; checks;
    drawn charts.

    A step that another test has run, in whichever worker of xdist, is not computed again. It counts as run all the same: its
    outputs are put into the test's own store, its record is written, and it is not called cached.
    Publications change a registry, so they are never remembered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.checked: dict[bytes, Any] = {}
        self.drawn: set[str] = set()

    def run_step(self, store: Any, step: Step, key: str, *rest: Any) -> Any:
        """Run a step as the engine does, but its function only once a session."""
        if step.name == "publish":
            return run_step(store, step, key, *rest)
        once = dataclasses.replace(step, function=lambda context: self.result(step, key, context))
        return run_step(store, once, key, *rest)

    def result(self, step: Step, key: str, context: StepContext) -> StepResult:
        """Compute the outputs, or copy them into the step's working folder."""
        folder = self.folder / f"{step.name}-{key}"
        if not folder.is_dir():
            computed = step.run(context)
            self._keep(computed, folder)
            return computed
        content = json.loads((folder / RESULT).read_text())
        outputs = {}
        for name, (file, kind) in content["outputs"].items():
            outputs[name] = (context.workdir / file, kind)
            copy_path(folder / file, context.workdir / file)
        return StepResult(outputs, content["facts"])

    def _keep(self, result: StepResult, folder: Path) -> None:
        """Copy outputs and facts into a folder, which is there as a whole or not at all: another
        worker of xdist may keep the same step's.
        """
        content = {
            "outputs": {name: (path.name, kind) for name, (path, kind) in result.outputs.items()},
            "facts": result.facts,
        }
        text = json.dumps(content)
        # a fact that JSON changes, such as a tuple, would be another one where it is read
        assert json.loads(text)["facts"] == result.facts, folder.name
        unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
        unfinished.mkdir()
        (unfinished / RESULT).write_text(text)
        for path, _ in result.outputs.values():
            copy_path(path, unfinished / path.name)
        try:
            unfinished.rename(folder)
        except OSError:  # the other worker was faster
            shutil.rmtree(unfinished)

    def run_suite(
        self, frame: Any, rules: Any, name: str = "contract", *, callback: Any = None
    ) -> Any:
        """Give the outcomes, and the progress, of the same rules for the same values."""
        key = pickle.dumps((frame, rules, name))
        if key not in self.checked:
            told: list[tuple[int, int]] = []
            found = run_suite(frame, rules, name, callback=lambda *progress: told.append(progress))
            self.checked[key] = found, told
        found, told = self.checked[key]
        for progress in told if callback else ():
            callback(*progress)
        return copy.deepcopy(found)

    def draw(self, chart: Any, form: str) -> str:
        """Draw the first chart of a kind; give the data of others, where a test may look for
        values.
        """
        if chart.plot not in self.drawn:
            self.drawn.add(chart.plot)
            return draw_chart(chart, form)
        shown = html.escape(json.dumps(chart.data, default=str))
        return f'<svg width="1" height="1" viewBox="0 0 1 1"><text>{shown}</text></svg>'


def copy_path(source: Path, target: Path) -> None:
    """Copy a file or a folder."""
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)
