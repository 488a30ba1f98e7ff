"""``evenhand serve`` and ``evenhand notify``: deployments on this machine, and notifications of
failures.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from evenhand.flows import runtime
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.store import Store, default_store_url


def serve(
    config: Path,
    limit: int,
    metrics_port: int | None,
    store_url: str | None,
    as_json: bool = False,
) -> None:
    """Serve the deployments of a file until Ctrl-C."""
    place = store_url or default_store_url()
    if "://" not in place:
        # a run's working folder is not this one, so the store needs an absolute path
        place = str(Path(place).expanduser().resolve())
    os.environ["EVENHAND_STORE"] = place
    os.environ.setdefault("PREFECT_FLOWS_HEARTBEAT_FREQUENCY", "30")
    Store(os.environ["EVENHAND_STORE"])
    home = runtime.prepare_environment(os.environ["EVENHAND_STORE"])
    from evenhand.flows.services import read_deployments, serve_deployments

    deployments = read_deployments(config)
    try:
        runtime.prepare_prefect_home(home)
        runtime.quiet_console()
        is_temporary = not os.environ.get("PREFECT_API_URL")
        runtime.start_temporary_server(runtime.SERVER_START_S, services=True)()
        password_file = None
        if is_temporary:
            password_file = runtime.write_password(home)
        times = {}
        for item in deployments:
            schedules = [s.cron or f"every {s.interval:g} s" for s in item.schedules]
            times[item.name] = ", ".join(schedules) or "on demand"
        if as_json:
            document = {
                "server": os.environ["PREFECT_API_URL"],
                "password": password_file and str(password_file),
                "store": os.environ["EVENHAND_STORE"],
                "serving": times,
            }
            print(json.dumps(document), flush=True)
        else:
            print(f"server    {os.environ['PREFECT_API_URL']}")
            if password_file is not None:
                print(f"password  {password_file}")
            print(f"store     {os.environ['EVENHAND_STORE']}")
            for name, when in times.items():
                print(f"serving   {name}: {when}", flush=True)
        serve_deployments(deployments, limit, metrics_port)
    except KeyboardInterrupt:
        return


def notify(config: Path, as_json: bool = False) -> None:
    """Configure the notifications of a file on the Prefect server, and print who is
    notified now.
    """
    runtime.prepare_environment()
    if not os.environ.get("PREFECT_API_URL"):
        raise InputError(
            "notifications are kept on a Prefect server: set PREFECT_API_URL to yours."
        )
    from evenhand.flows.commands.terminal import print_note
    from evenhand.flows.services import configure_server, read_notifications

    notifications = read_notifications(config)
    runtime.check_server()
    channels, faults = configure_server(notifications)
    for fault in faults:
        print_note(f"evenhand: {fault}")
    if as_json:
        states = list(notifications.states) if channels else []
        alerts = list(notifications.alerts) if channels else []
        print(
            json.dumps({"channels": channels, "states": states, "alerts": alerts, "pools": faults})
        )
    elif channels:
        conditions = [*notifications.states, *notifications.alerts]
        print(f"notifies by {' and '.join(channels)}: {', '.join(conditions)}")
    else:
        print("nobody is notified: the file names neither a webhook nor an e-mail address")
