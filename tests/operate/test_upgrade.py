"""docs/how-to/upgrade.md on real services: a machine is lost, and another one goes on with the dump."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.real_services import ROOT, lacking
from tests.operate.stack import MODEL, Stack

pytestmark = [pytest.mark.flow, pytest.mark.long]

PAGE = ROOT / "docs" / "how-to" / "upgrade.md"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that PostgreSQL's own user can enter."""
    made = Path(tempfile.mkdtemp(prefix="evenhand-upgrade-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def commands(heading: str) -> list[str]:
    """The commands below a heading of the page, continued lines as one."""
    section = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line[4:] for line in section.splitlines() if line.startswith("    ")]
    return "\n".join(lines).replace("\\\n", " ").splitlines()


def carry_out(stack: Stack, heading: str) -> None:
    """Run the commands below a heading, with the addresses of this stack."""
    ports = stack.shell.environment
    for command in commands(heading):
        here = command.replace("/srv/backup", str(stack.folder.parent / "kept"))
        here = here.replace("/srv/evenhand", str(stack.folder))
        here = here.replace("55432", ports["PGPORT"])
        if here.startswith("export "):
            assert stack.shell(here).returncode == 0
        else:
            stack.do(here)


def test_a_lost_machine_is_replaced_from_the_dump(folder: Path) -> None:
    reason = lacking()
    if reason is not None:
        pytest.skip(reason)
    (folder / "kept").mkdir(mode=0o700)
    place = folder / "services"
    place.mkdir(mode=0o755)
    stack = Stack(place)
    try:
        stack.start()
        run = stack.run()
        stack.wait_for_state(run, "Completed")
        before = json.loads(stack.do(f"evenhand history {MODEL} --json"))
        carry_out(stack, "Back up")
        stack.do(f"sh deploy/local.sh stop {place}")
        shutil.rmtree(place / "postgres")
        for name in ("mlflow", "store", "prefect", "password", "env"):
            path = place / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        # another machine: services that have nothing yet
        stack.shell.lasting.clear()
        stack.do(f"sh deploy/local.sh start {place}")
        stack.shell(f". {place}/env")
        for name in ("worker", "prefect", "mlflow"):
            stack.kill(name)
        carry_out(stack, "Restore")
        carry_out(stack, "Migrate")
        stack.begin_mlflow()
        stack.begin_prefect()
        stack.begin_worker()
        assert json.loads(stack.do(f"evenhand history {MODEL} --json")) == before
        assert stack.versions() == 1
        # the same job has nothing to do, and its run is on the server that was lost
        stack.seed -= 1
        again = stack.wait_for_state(stack.run(), "Completed")
        assert "up to date" in again["name"]
        assert stack.state(run)["state_name"] == "Completed"
        # the automations are in the dump
        stack.wait_for_state(stack.run("gates.auc.min=0.999"), "Failed")
        stack.wait_for_alert("was refused by its gates")
    finally:
        stack.stop()


def test_the_page_has_the_commands() -> None:
    assert any("pg_dump" in command for command in commands("Back up"))
    assert any("pg_restore" in command for command in commands("Restore"))
    assert any("mlflow db upgrade" in command for command in commands("Migrate"))
    # no password in an argument, which every account can read
    for heading in ("Back up", "Restore", "Migrate"):
        for command in commands(heading):
            assert "://evenhand:" not in command.replace("=postgresql+asyncpg://evenhand:", ""), (
                command
            )
    shown = subprocess.run(["sh", "-n", ROOT / "deploy" / "local.sh"], capture_output=True)
    assert shown.returncode == 0
