"""The real services from packages, as deploy/local.sh starts them, on ports and in a folder of
their own.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def lacking() -> str | None:
    """What the stack would need and is not here; None if nothing."""
    found = shutil.which("pg_ctl") or next(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), None)
    return None if found else "PostgreSQL is not installed: apt-get install postgresql"


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


@dataclass
class Shell:
    """
    Commands one after another, as a person types them: exports and sourced files last, each has a
    result.

    PostgreSQL's own user must be able to enter `folder` where the tests run as root.
    """

    folder: Path
    environment: dict[str, str]
    lasting: list[str] = field(default_factory=list)

    @classmethod
    def below(cls, folder: Path) -> Shell:
        """Programs of this interpreter first, free ports, and nothing of the user's own
        services.
        """
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("PREFECT_", "MLFLOW_", "EVENHAND_STORE", "PYTEST_"))
        }
        ports = dict(
            zip(("PGPORT", "PREFECT_PORT", "MLFLOW_PORT"), map(str, free_ports(3)), strict=True)
        )
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return cls(folder, {**kept, **ports, "PATH": path, "PYTHONPATH": str(ROOT)})

    def __call__(self, command: str, timeout: float = 420) -> subprocess.CompletedProcess[str]:
        """Run one command from the repository's root."""
        if command.startswith(("export ", ". ")):
            self.lasting.append(command)
            command = "true"
        return subprocess.run(
            ["bash", "-c", "\n".join(["set -e", *self.lasting, command])],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def ask(self, path: str, **filters: Any) -> Any:
        """Ask the Prefect server, with the password of the stack."""
        password = f"evenhand:{(self.folder / 'password').read_text().strip()}"
        token = base64.b64encode(password.encode()).decode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.environment['PREFECT_PORT']}/api/{path}",
            json.dumps(filters).encode(),
            {"Content-Type": "application/json", "Authorization": f"Basic {token}"},
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            content = answer.read()
            return json.loads(content) if content else None


def page_commands() -> list[str]:
    """The commands that docs/run-it-for-real.md shows, continued lines as one."""
    text = (ROOT / "docs" / "run-it-for-real.md").read_text()
    lines = [line[4:] for line in text.splitlines() if line.startswith("    ")]
    return "\n".join(lines).replace("\\\n", " ").splitlines()
