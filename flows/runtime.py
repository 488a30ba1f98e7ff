"""Environment of a run: no telemetry, Prefect's files in the store, and a temporary Prefect
server.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import ctypes
import json
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from filelock import FileLock

from evenhand.flows import logs
from evenhand.tasks.errors import NotCarriedOut, ServiceAway, waits_for_service, without_secrets
from evenhand.tasks.execution.store import Store, cache_folder, default_store_url
from evenhand.tasks.registry.client import MLFLOW_DEFAULTS

SERVER_START_S = 120
PR_SET_PDEATHSIG = 1
MAX_STARTS = 4
# of a socket, in Linux' table of them
LISTENS = "0A"
DEFAULTS = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_ENABLED": "false",
    "GX_ANALYTICS_ENABLED": "False",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": str(SERVER_START_S),
    "PREFECT_RESULTS_DEFAULT_SERIALIZER": "json",
    # delays of 2, 4, ... 256 seconds: a server that is away for five minutes fails no run
    "PREFECT_CLIENT_MAX_RETRIES": "8",
    # threads that wait for each other in a busy loop take minutes where other processes need the
    # cores
    "OMP_WAIT_POLICY": "PASSIVE",
}


def prepare_environment(store_url: str | None = None) -> Path:
    """Set environment variables that are not set: no telemetry, JSON results, threads that wait
    without work.

    Must run before Prefect is imported. A server (``PREFECT_API_URL``) or Prefect home of the
    user's is kept.

    Returns the Prefect home inside the store, used or not. Raises `InputError` for an unknown
    format of logs.
    """
    logs.start()
    for name, value in {**DEFAULTS, **MLFLOW_DEFAULTS}.items():
        os.environ.setdefault(name, value)
    home = (Store.local_folder(store_url or default_store_url()) / "prefect").resolve()
    if not os.environ.get("PREFECT_API_URL") and "PREFECT_HOME" not in os.environ:
        os.environ["PREFECT_HOME"] = str(home)
    return home


def store_for_reading(store_url: str | None) -> str | None:
    """Choose the store of a command that only reads the model registry.

    Where the store's folder cannot be written, such as an auditor's copy, the registry in it is
    read, and a folder of the user's cache takes what the command itself keeps. One line says so.
    """
    place = store_url or default_store_url()
    folder = Store.local_folder(place)
    registry = folder.resolve() / "mlflow.db"
    if "://" in place or not registry.is_file() or os.access(folder, os.W_OK):
        return store_url
    private = cache_folder("stores") / f"reading-{Store.name_of(place)}"
    os.environ.setdefault("MLFLOW_TRACKING_URI", f"sqlite:///{registry}")
    sys.stderr.write(
        f"evenhand: the store {place} cannot be written: what this command keeps is in {private}.\n"
    )
    return str(private)


def make_prefect_home(home: Path) -> None:
    """Create the folder and its parents, which Prefect does not; an unwritable store is reported
    later.
    """
    if os.environ.get("PREFECT_HOME") == str(home):
        with contextlib.suppress(OSError):
            home.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            home.mkdir(exist_ok=True, mode=0o700)


def prepare_prefect_home(home: Path) -> None:
    """Copy a migrated database into a new Prefect home.

    The migrations of a new database take some seconds. They are run once per user and Prefect
    version, on an empty database that new stores start from. A lock prevents that two runs migrate
    the same file.
    """
    if os.environ.get("PREFECT_API_URL") or os.environ.get("PREFECT_HOME") != str(home):
        return
    make_prefect_home(home)
    database = home / "prefect.db"
    # written next to a database that this version of Prefect need not migrate
    migrated = home / f"migrated-{metadata.version('prefect')}"
    with FileLock(home / "database.lock", timeout=SERVER_START_S):
        if not database.exists():
            partial = home / f".prefect.db.{os.getpid()}"
            shutil.copyfile(_migrated_template(), partial)
            migrated.touch()
            partial.replace(database)
    if migrated.exists():
        # a second of the server's start
        os.environ.setdefault("PREFECT_API_DATABASE_MIGRATE_ON_START", "false")


def _migrated_template() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evenhand"
    cache.mkdir(parents=True, exist_ok=True)
    template = cache / f"prefect-{metadata.version('prefect')}.db"
    with FileLock(cache / "prefect-template.lock", timeout=SERVER_START_S):
        if not template.exists():
            with tempfile.TemporaryDirectory(dir=cache) as folder:
                subprocess.run(
                    [sys.executable, "-m", "prefect", "server", "database", "upgrade", "-y"],
                    env={**os.environ, "PREFECT_HOME": folder},
                    check=True,
                    capture_output=True,
                    timeout=SERVER_START_S,
                )
                (Path(folder) / "prefect.db").replace(template)
    return template


def write_password(home: Path) -> Path | None:
    """Write the password of the temporary server to a file that only this user can read.

    It is for this user's browser and other shells, and deleted at the end. None without such a
    server.
    """
    password = os.environ.get("PREFECT_API_AUTH_STRING")
    if not password:
        return None
    path = home / f"server-{os.getpid()}.password"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"{password}\n")
    atexit.register(path.unlink, missing_ok=True)
    return path


def quiet_console() -> None:
    """Keep Prefect's log off the terminal unless EVENHAND_LOG is set; a server still
    receives it.
    """
    if not os.environ.get("EVENHAND_LOG"):
        os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
        # an outage is reported by one line of ours, and not by each log that could not be sent
        os.environ.setdefault("PREFECT_LOGGING_HANDLERS_DEBUG_LEVEL", "CRITICAL")
        logging.raiseExceptions = False


def start_temporary_server(timeout_s: float, *, services: bool = False) -> Callable[[], None]:
    """Start a Prefect server on a free local port and set ``PREFECT_API_URL``; do nothing if that
    is set.

    Prefect would start one itself, but only when the first task needs it, and would import the
    whole server in this process too: that takes twice as long. This one starts while the libraries
    are imported.

    The server ends with this process, also if that is killed; not earlier, because Prefect sends
    its last logs and events while the interpreter shuts down. `services` starts the services that
    schedule runs and act on events; a single run does not need them.

    The server asks for a random password, because everybody on this machine can connect to it, and
    who may change a deployment may execute code as this user. It is in the environment of this
    process and of the processes that it starts, which no other user can read.

    Returns a function that waits until the server answers; call it before the first flow. It raises
    `NotCarriedOut` if there is no answer within the time limit, or the server ended.
    """
    if os.environ.get("PREFECT_API_URL"):
        return check_server
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    server = _Server(port, services=services)
    os.environ["PREFECT_API_URL"] = f"http://127.0.0.1:{server.port}/api"
    os.environ["PREFECT_API_AUTH_STRING"] = server.password
    # registered before Prefect is imported, and so called after Prefect's own exit functions
    atexit.register(server.stop)
    return lambda: server.wait(timeout_s)


@waits_for_service
def wait_for_server() -> None:
    """Return when the Prefect server answers: Prefect itself waits only where it has had an answer
    before.
    """
    address = os.environ.get("PREFECT_API_URL", "")
    try:
        if address:
            urllib.request.urlopen(f"{address}/health", timeout=20).close()
    except OSError as error:
        if isinstance(getattr(error, "reason", error), ConnectionError | TimeoutError):
            raise ServiceAway(
                f"the Prefect server at {without_secrets(address)} does not answer: check "
                "PREFECT_API_URL, or run with --direct."
            ) from None


def check_server() -> None:
    """Return when the Prefect server at ``PREFECT_API_URL`` answers and has this client's major
    version.

    Raises `NotCarriedOut` in one line otherwise; Prefect's own check ends a run in its middle.
    """
    wait_for_server()
    address = os.environ.get("PREFECT_API_URL", "")
    request = urllib.request.Request(f"{address}/admin/version")
    password = os.environ.get("PREFECT_API_AUTH_STRING")
    if password:
        token = base64.b64encode(password.encode()).decode()
        request.add_header("Authorization", f"Basic {token}")
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            version = str(json.loads(answer.read()))
    except (OSError, ValueError):
        return  # whatever is wrong, Prefect says it: a wrong password, or no such address
    installed = metadata.version("prefect")
    if version.partition(".")[0] != installed.partition(".")[0]:
        raise NotCarriedOut(
            f"the Prefect server at {without_secrets(address)} is version {version}, and this "
            f"client is {installed}: install the same major version here, or upgrade the server."
        )


class _Server:
    """A server process, restarted if it ends before it answers."""

    def __init__(self, port: int, *, services: bool = False) -> None:
        self.port = port
        self.services = services
        # of the form that Prefect's pages and clients expect: user:password
        self.password = f"evenhand:{secrets.token_urlsafe(32)}"
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "prefect", "server", "start"]
        blocks = "true"
        if not self.services:
            command.append("--no-services")
            # a run uses no block, and to register all types takes two seconds
            blocks = "false"
        origin = f"http://127.0.0.1:{self.port}"
        # Not as arguments: every user of this machine can read those.
        settings = {
            "PREFECT_LOGGING_LEVEL": "CRITICAL",
            "PREFECT_API_BLOCKS_REGISTER_ON_START": blocks,
            "PREFECT_SERVER_API_HOST": "127.0.0.1",
            "PREFECT_SERVER_API_PORT": str(self.port),
            "PREFECT_SERVER_API_AUTH_STRING": self.password,
            # under both names that Prefect reads: pages of other servers get no answer
            "PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS": origin,
            "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": origin,
        }
        return subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            # Ctrl-C must not reach the server: the run reports its end to it
            start_new_session=True,
            env={**os.environ, **settings},
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )

    def stop(self) -> None:
        """Terminate the server; kill it if it does not end within three seconds."""
        self.process.terminate()
        try:
            self.process.wait(timeout=3)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def wait(self, timeout_s: float) -> None:
        """Return when the server answers."""
        deadline = time.monotonic() + timeout_s
        starts = 1
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                # two servers that start at the same time on one SQLite database can find it locked
                if starts == MAX_STARTS:
                    raise NotCarriedOut(
                        "Prefect's temporary server ends at once: `--direct` runs without Prefect."
                    )
                time.sleep(starts)
                starts += 1
                self.process = self._start()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/health", timeout=2):
                    self._check_owner()
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        raise NotCarriedOut(
            f"Prefect's temporary server did not answer within {timeout_s:.0f} s: "
            "`--direct` runs without Prefect."
        )

    def _check_owner(self) -> None:
        """Raise `NotCarriedOut` if a process of another user took the port: it would get the
        password.
        """
        with contextlib.suppress(OSError):  # another system than Linux
            for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
                address, state, user = (line.split()[field] for field in (1, 3, 7))
                if (
                    address.endswith(f":{self.port:04X}")
                    and state == LISTENS
                    and int(user) != os.getuid()
                ):
                    raise NotCarriedOut(
                        f"another user took port {self.port} of Prefect's temporary server: run "
                        "again."
                    )


def _end_with_parent() -> None:
    """Have the kernel kill the server if this process is killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
