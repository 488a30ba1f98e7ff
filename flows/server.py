"""A temporary Prefect server of our own, started while the run's libraries are still being imported.

Prefect would start one by itself, but only when the first task asks for it and after importing the whole
server in this process too, which doubles the wait.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable

from evenhand.tasks.errors import NotCarriedOut

__all__ = ["start_temporary_server"]

PR_SET_PDEATHSIG = 1
MAX_STARTS = 4


def start_temporary_server(timeout_s: float, *, services: bool = False) -> Callable[[], None]:
    """
    Start a server on a free local port and point ``PREFECT_API_URL`` at it; nothing if that is set.

    The server lives as long as this process: Prefect sends its last logs and events while the interpreter
    shuts down. It also ends if this process is killed. `services` are those that schedule runs and act on
    events; a single run needs none.

    Returns
    -------
    callable
        Waits until the server answers; call it before the first flow.

    Raises
    ------
    NotCarriedOut
        From the waiting call: no answer within the time limit, or the server ended.
    """
    if os.environ.get("PREFECT_API_URL"):
        return lambda: None
    server = _Server(_free_port(), services=services)
    os.environ["PREFECT_API_URL"] = f"http://127.0.0.1:{server.port}/api"
    # registered before Prefect is imported, so called after Prefect's own last words
    atexit.register(server.stop)
    return lambda: server.wait(timeout_s)


class _Server:
    """A server process, started at once and again if it ends before it answers."""

    def __init__(self, port: int, *, services: bool = False) -> None:
        self.port, self.services = port, services
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        command = ("server", "start", "--host", "127.0.0.1", "--port", str(self.port))
        return subprocess.Popen(
            [sys.executable, "-m", "prefect", *command, *(() if self.services else ("--no-services",))],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            # Ctrl-C is for the run, which still needs the server to say that it ended
            start_new_session=True,
            env={**os.environ, "PREFECT_LOGGING_LEVEL": "CRITICAL"},
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )

    def stop(self) -> None:
        """End it, gently at first."""
        self.process.terminate()
        try:
            self.process.wait(timeout=3)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def wait(self, timeout_s: float) -> None:
        """Return once it answers."""
        deadline = time.monotonic() + timeout_s
        starts = 1
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                # two servers that start at one moment on one SQLite database can find it locked
                if starts == MAX_STARTS:
                    raise NotCarriedOut(
                        "Prefect's temporary server ends at once: `--direct` runs without Prefect."
                    )
                time.sleep(starts)
                starts += 1
                self.process = self._start()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/health", timeout=2):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        raise NotCarriedOut(
            f"Prefect's temporary server did not answer within {timeout_s:.0f} s: "
            "`--direct` runs without Prefect."
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _end_with_parent() -> None:
    """Ask the kernel to end the server if this process is killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
