"""``evenhand serve``: the deployments of deploy/prefect.yaml on this machine, with no work pool."""

from __future__ import annotations

import os
from pathlib import Path

from evenhand.flows.commands.terminal import one_line_errors, quiet_console, report_error
from evenhand.flows.runtime import SERVER_START_S, prepare_environment, prepare_prefect_home
from evenhand.flows.server import start_temporary_server
from evenhand.tasks.errors import InputError
from evenhand.tasks.store import Store, default_store_url

__all__ = ["serve"]


def serve(path: Path, names: list[str], *, limit: int, store_url: str | None) -> int:
    """Serve until interrupted, and return the exit code."""
    with one_line_errors(interrupted="") as caught:
        place = store_url or default_store_url()
        # runs work in folders of their own
        os.environ["EVENHAND_STORE"] = place if "://" in place else str(Path(place).expanduser().resolve())
        os.environ.setdefault("PREFECT_FLOWS_HEARTBEAT_FREQUENCY", "30")
        Store(os.environ["EVENHAND_STORE"])
        home = prepare_environment(os.environ["EVENHAND_STORE"])
        from evenhand.flows.serve import read_deployments, serve_deployments

        wanted = read_deployments(path)
        unknown = sorted(set(names) - {item.name for item in wanted})
        if unknown:
            known = ", ".join(item.name for item in wanted)
            raise InputError(f"{path} has no deployment {unknown[0]!r}; there are {known}.")
        chosen = [item for item in wanted if not names or item.name in names]
        prepare_prefect_home(home)
        quiet_console()
        wait = start_temporary_server(SERVER_START_S, services=True)
        wait()
        print(f"server    {os.environ['PREFECT_API_URL']}")
        print(f"store     {os.environ['EVENHAND_STORE']}")
        for item in chosen:
            times = ", ".join(s.cron or f"every {s.interval:g} s" for s in item.schedules) or "on demand"
            print(f"serving   {item.name}: {times}", flush=True)
        serve_deployments(chosen, limit)
    if caught.error is None or not str(caught.error):
        return 0
    return report_error(caught.error)
