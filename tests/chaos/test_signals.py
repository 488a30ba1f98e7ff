"""SIGTERM ends a command, also where Python ignores exceptions."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Dask's module `distributed` has a callback of the garbage collector, as here; finalizers are like
# it.
SWALLOWING = {
    "collector": """
def swallow(phase, info):
    gc.callbacks.remove(swallow)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.01)
gc.callbacks.append(swallow)
gc.collect()
""",
    "finalizer": """
class Last:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)
Last()
""",
}
CODE = """
import gc, os, signal, time
from evenhand.flows import cli
from evenhand.flows.commands import lists_command as lists
def jobs(as_json):
    exec({swallowing!r}, globals())
    for _ in range(200):
        time.sleep(0.05)
    print("not ended")
lists.jobs = jobs
cli.app(["jobs"])
"""


@pytest.mark.parametrize("place", list(SWALLOWING))
def test_sigterm_is_not_ignored(place: str) -> None:
    code = CODE.format(swallowing=SWALLOWING[place])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == "evenhand: interrupted: run again.\n"


def test_other_ignored_exceptions_are_shown() -> None:
    code = CODE.format(
        swallowing="class Last:\n    def __del__(self):\n        raise KeyError(7)\nLast()\n"
    )
    code = code.replace("range(200)", "range(0)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "not ended\n")
    assert "KeyError: 7" in done.stderr
