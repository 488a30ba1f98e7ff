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

from tasks.errors import NotCarriedOut

__all__ = ["start_temporary_server"]

PR_SET_PDEATHSIG = 1


def start_temporary_server(timeout_s: float) -> Callable[[], None]:
    """
    Start a server on a free local port and point ``PREFECT_API_URL`` at it; nothing if that is set.

    The server lives as long as this process: Prefect sends its last logs and events while the interpreter
    shuts down. It also ends if this process is killed.

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
    port = _free_port()
    command = ("server", "start", "--host", "127.0.0.1", "--port", str(port), "--no-services")
    process = subprocess.Popen(
        [sys.executable, "-m", "prefect", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PREFECT_LOGGING_LEVEL": "CRITICAL"},
        preexec_fn=_end_with_parent if sys.platform == "linux" else None,
    )
    os.environ["PREFECT_API_URL"] = f"http://127.0.0.1:{port}/api"
    # registered before Prefect is imported, so called after Prefect's own last words
    atexit.register(_stop, process)
    return lambda: _wait(process, port, timeout_s)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=3)
    except subprocess.TimeoutExpired:
        process.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _end_with_parent() -> None:
    """Ask the kernel to end the server if this process is killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _wait(process: subprocess.Popen[bytes], port: int, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise NotCarriedOut("Prefect's temporary server ended at once: `--direct` runs without Prefect.")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise NotCarriedOut(
        f"Prefect's temporary server did not answer within {timeout_s:.0f} s: "
        "`--direct` runs without Prefect."
    )
