"""The start of the command that the minutes of a search are counted from."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from evenhand.fairlib.tuning.study import Trial
from evenhand.flows.commands import tune_command
from evenhand.tasks.tuning.study_document import study_document

CODE = (
    "import sys, time; time.sleep(0.3); sys.argv[0] = sys.argv[1];"
    "from evenhand.flows.commands.tune_command import process_age; print(process_age())"
)


@pytest.mark.skipif(sys.platform != "linux", reason="the age is read from /proc")
def test_time_is_counted_from_the_start_of_the_process() -> None:
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", CODE, "/bin/evenhand"], check=True, capture_output=True, text=True
    )
    seconds = time.monotonic() - started
    # clock ticks are hundredths
    assert 0.28 <= float(done.stdout) <= seconds + 0.02


def test_a_changed_job_is_not_left_as_it_is(tmp_path: Path) -> None:
    """Nor is one of a search for alternatives, where the time ends before the job is read."""
    job = tmp_path / "people.yaml"
    job.write_text("name: people\nbase: hiring-gbdt\n")

    def left(given: dict[str, Any], overrides: list[str], seed: int | None) -> str | None:
        answer = tune_command._job_left_unread(str(job), given, overrides, seed, force=False)
        assert answer is not None
        return answer.text

    where = {"where": ["auc >= 0.7"]}
    assert "0.7" in str(left(where, [], None))
    assert left(where, ["evaluate.min_cell=3"], None) is None
    assert left({}, ["tune.where=[auc >= 0.7]"], None) is None
    assert left(where, [], 3) is None
    assert left({"alternative_to": "people"}, [], None) is None


def test_the_age_of_another_program_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/pytest"])
    assert tune_command.process_age() == 0.0


def test_counts_add_up_and_a_cost_says_that_no_trial_is_within(
    capsys: pytest.CaptureFixture[str],
) -> None:
    metrics = {"auc": {"value": 0.7}, "gap_max.sex": {"value": 0.3}}
    trials = [Trial(0, "default", "partial", method="gbdt", metrics=metrics)]
    aim = {
        "objectives": ["auc"],
        "limits": [{"metric": "gap_max.sex", "sign": "<=", "value": 0.1}],
        "confidence": None,
    }
    identity = {
        **dict.fromkeys(("job", "methods", "decisions", "halving")),
        "level": 0.95,
        "aim": aim,
    }
    tune_command._print_study(study_document(identity, None, "a-study", trials))
    printed = capsys.readouterr().out
    assert printed.startswith(
        "study     a-study: 1 model, 1 trial (0 judged, 0 pruned, 0 failed, 1 partial)\n"
    )
    assert (
        "  cost of gap_max.sex <= 0.1, by the best auc: no trial within all limits, 0.700 without "
        "this one, no trial if the values alone decided\n" in printed
    )
