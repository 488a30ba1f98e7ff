"""The start of the command that the minutes of a search are counted from."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from evenhand.flows.commands import tune_command

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


def test_the_age_of_another_program_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/pytest"])
    assert tune_command.process_age() == 0.0
