"""``evenhand app``: models, versions and their records in a browser."""

from __future__ import annotations

import contextlib
import getpass
import ipaddress
import json
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evenhand.flows import runtime
from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.client import tracking_uri

LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")
MOST_CONNECTIONS = 256


def serve_app(
    host: str,
    port: int,
    store_url: str | None,
    as_json: bool = False,
    allow_changes: bool = False,
    users: Path | None = None,
    hostname: Sequence[str] | None = None,
    proxy: Path | None = None,
    jobs: Path | None = None,
    is_demo: bool = False,
    hash_password: bool = False,
    key: Path | None = None,
) -> None:
    """Serve the app until Ctrl-C, or print the hash of a password."""
    if hash_password:
        password_hash = _asked_hash()
        print(json.dumps({"password": password_hash}) if as_json else password_hash)
        return
    _check_access(host, users, proxy, key)
    if jobs is not None and not jobs.is_dir():
        raise InputError(f"--jobs {jobs}: there is no such folder.")
    runtime.prepare_environment(store_url)
    if is_demo:
        from evenhand.flows.app.demonstration import prepare

        allow_changes = prepare(Store(store_url), _say) or allow_changes
    store = Store(store_url, reading=True)
    server, listener, address = _server(
        store, host, port, allow_changes, users, hostname, jobs, key, proxy
    )
    _read_once(store)
    registry = _registry_in_words(store)
    if as_json:
        document = {"app": address, "registry": registry, "allow_changes": allow_changes}
        print(json.dumps(document), flush=True)
    else:
        print(f"app       {address}")
        print(f"registry  {registry}")
        print(f"changes   {'by approvers' if allow_changes else 'none: it only shows'}")
        print("Ctrl-C ends it.", flush=True)
    with listener:
        # Ctrl-C and SIGTERM end it: it has nothing to say about that
        try:
            with contextlib.suppress(KeyboardInterrupt):
                server.run(sockets=[listener])
        finally:
            server.config.app.state.runner.close()


def _say(text: str) -> None:
    print(f"demo      {text}", file=sys.stderr, flush=True)


def _read_once(store: Store) -> None:
    """Open the registry before anybody asks: its libraries take seconds to load."""
    from evenhand.flows.app.models_views import models_screen

    models_screen(tracking_uri(store))


def _asked_hash() -> str:
    from evenhand.flows.app.people import hashed

    if sys.stdin.isatty():
        password = getpass.getpass("password: ", sys.stderr)
    else:
        password = sys.stdin.readline().rstrip("\n")
    return hashed(password)


def _check_access(host: str, users: Path | None, proxy: Path | None, key: Path | None) -> None:
    """Raise `InputError` where people of other machines could sign in as one person."""
    if users is not None and proxy is not None:
        raise InputError("give either --users or --proxy: people sign in at one place.")
    if key is not None and (users is not None or proxy is not None):
        option = "--users" if users is not None else "--proxy"
        raise InputError(
            f"--key signs what one person does: with {option}, give each person a key in that file."
        )
    try:
        is_here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_here = host == "localhost"
    if not is_here and users is None and proxy is None:
        raise InputError(
            f"--host {host}: people of other machines need names: give --users FILE or --proxy "
            "FILE, and put a server with HTTPS before it."
        )


def _registry_in_words(store: Store) -> str:
    from evenhand.tasks.errors import without_secrets

    return without_secrets(tracking_uri(store))


def _server(
    store: Store,
    host: str,
    port: int,
    allow_changes: bool,
    users: Path | None,
    hostname: Sequence[str] | None,
    jobs: Path | None,
    key: Path | None,
    proxy: Path | None,
) -> tuple[Any, socket.socket, str]:
    """Return a server that is ready to run, its socket, and the address to open."""
    import uvicorn

    from evenhand.flows.app.people import Person, read_users
    from evenhand.flows.app.proxy import read_proxy
    from evenhand.flows.app.server import build_app
    from evenhand.flows.app.sessions import Sessions
    from evenhand.flows.app.web import AppSettings
    from evenhand.tasks.cases.case_store import CaseStore
    from evenhand.tasks.registry.ledger import actor
    from evenhand.tasks.registry.signed_records import signing_with

    with signing_with(key):
        pass  # a key that cannot be read ends the command now
    believed = None
    if proxy is not None:
        believed = read_proxy(proxy)
        sessions = Sessions({})
    elif users is None:
        sessions = Sessions({}, Person(actor(), "owner", key=key))
    else:
        sessions = Sessions(read_users(users))
    listener = listen(host, port)
    port = listener.getsockname()[1]
    names = {f"{name}:{port}" for name in (*LOCAL_NAMES, host)}
    for name in hostname or ():
        names |= {name.lower(), f"{name.lower()}:{port}"}
    settings = AppSettings(
        registry=tracking_uri(store),
        store=store,
        sessions=sessions,
        hosts=frozenset(names),
        cases=CaseStore(Path(store.path("cases"))) if store.is_local else None,
        proxy=believed,
        jobs=jobs,
        allow_changes=allow_changes,
        secure=bool(hostname),
    )
    config = uvicorn.Config(
        build_app(settings),
        # addresses hold the one-time token: none is logged
        access_log=False,
        log_level="critical" if os.environ.get("EVENHAND_LOG") is None else "info",
        server_header=False,
        # the address of the other end, not what a header says of it
        proxy_headers=False,
        http="h11",
        ws="none",
        lifespan="off",
        h11_max_incomplete_event_size=16 * 1024,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=5,
    )
    address = f"http://{host}:{port}/"
    if sessions.only is not None:
        address += f"sign-in?token={sessions.one_time_token}"
    return uvicorn.Server(config), listener, address


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; `NotCarriedOut` where nothing can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise NotCarriedOut(
            f"--host {host} --port {port}: nothing can listen there ({error.strerror})."
        ) from None
    return listener
