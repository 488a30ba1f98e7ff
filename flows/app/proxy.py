"""People who sign in elsewhere: the names and groups that a proxy sends, and when they count.

A proxy before the app asks an OpenID Connect provider who somebody is, and sends that in headers.
Anybody can send such headers, so they count only from a listed address and with a secret that the
proxy and the app share.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenhand.flows.app.people import RIGHTS, Person
from evenhand.tasks.errors import InputError

SECRET_HEADER = "X-Evenhand-Proxy-Secret"
NAME_HEADER = "X-Auth-Request-Email"
GROUPS_HEADER = "X-Auth-Request-Groups"
SHORTEST_SECRET = 32
LONGEST_NAME = 200
KEYS = {
    "addresses": list,
    "secret_file": str,
    "secret_variable": str,
    "name_header": str,
    "groups_header": str,
    "sign_out": str,
    "groups": dict,
    "people": dict,
}

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class Proxy:
    """A proxy that is believed, and the roles of the people whom it names.

    - `networks`: addresses that its requests come from
    - `groups`: role by group; the first group of the file that a person is in counts
    - `people`: role and key by name, which count before groups
    - `sign_out`: address of the proxy that ends its own session; may be empty
    """

    networks: Sequence[Network]
    secret: str = field(repr=False)
    groups: Mapping[str, str]
    people: Mapping[str, Person]
    name_header: str = NAME_HEADER
    groups_header: str = GROUPS_HEADER
    sign_out: str = ""

    def is_believed(self, address: str, secrets: Sequence[str]) -> bool:
        """Whether a request from an address, with these values of the secret's header, is the
        proxy's.
        """
        if len(secrets) != 1:
            return False
        # compared in any case: the time says nothing about the address
        is_secret = hmac.compare_digest(secrets[0].encode(), self.secret.encode())
        return is_secret and self._is_listed(address)

    def _is_listed(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        return any(parsed in network for network in self.networks)

    def person(self, names: Sequence[str], groups: Sequence[str]) -> Person | None:
        """The person of the values of both headers; None if they name nobody with a role."""
        if len(names) != 1 or len(groups) > 1:
            return None
        name = names[0].strip()
        if not name or len(name) > LONGEST_NAME or not name.isprintable():
            return None
        if name in self.people:
            return self.people[name]
        listed = {part.strip() for part in ",".join(groups).split(",")}
        for group, role in self.groups.items():
            if group in listed:
                return Person(name, role)
        return None


def read_proxy(path: Path) -> Proxy:
    """Read the file of a proxy.

    Raises `InputError`, which names the place, for a file that is none or that others may write, an
    unknown key or role, an address that is none, or a secret that is short or that others may read.
    """
    place = f"--proxy {path}"
    content = _content(path, place)
    groups = content.get("groups", {})
    for group, role in groups.items():
        _check_role(role, f"{place}: group {group!r}")
    proxy = Proxy(
        networks=_networks(content.get("addresses", []), place),
        secret=_secret(content, path, place),
        groups=groups,
        people=_people(content.get("people", {}), path, place),
        name_header=content.get("name_header", NAME_HEADER),
        groups_header=content.get("groups_header", GROUPS_HEADER),
        sign_out=content.get("sign_out", ""),
    )
    if not (proxy.groups or proxy.people):
        raise InputError(f"{place}: nobody has a role: give groups or people.")
    return proxy


def _content(path: Path, place: str) -> dict[str, Any]:
    """The keys of the file, each of its type."""
    from evenhand.data_contracts.yaml_loader import load_strictly

    if not path.is_file():
        raise InputError(f"{place}: there is no such file.")
    if path.stat().st_mode & 0o022:
        raise InputError(f"{place}: others may write it: `chmod go-w {path}`.")
    content = load_strictly(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise InputError(f"{place}: expected a mapping with addresses, a secret, groups or people.")
    for key, value in content.items():
        if key not in KEYS:
            raise InputError(f"{place}: the key {key!r} is unknown; there are {', '.join(KEYS)}.")
        if not isinstance(value, KEYS[key]):
            raise InputError(f"{place}: {key} is of the wrong type.")
    sign_out = content.get("sign_out", "/")
    if not sign_out.startswith("/") or sign_out.startswith("//"):
        raise InputError(
            f"{place}: sign_out must be a path of this site, such as /oauth2/sign_out."
        )
    return content


def _check_role(role: Any, place: str) -> None:
    if role not in RIGHTS:
        raise InputError(f"{place}: the role must be one of {', '.join(RIGHTS)}.")


def _networks(addresses: Sequence[Any], place: str) -> list[Network]:
    networks: list[Network] = []
    for address in addresses:
        try:
            networks.append(ipaddress.ip_network(str(address)))
        except ValueError:
            raise InputError(
                f"{place}: addresses: {address!r} is no address such as 127.0.0.1 or 10.1.0.0/16."
            ) from None
    if not networks:
        raise InputError(f"{place}: addresses is missing: list those of the proxy.")
    return networks


def _secret(content: Mapping[str, Any], path: Path, place: str) -> str:
    file = content.get("secret_file")
    variable = content.get("secret_variable")
    if (file is None) == (variable is None):
        raise InputError(f"{place}: give either secret_file or secret_variable.")
    if variable is not None:
        # taken out: the processes of runs and audits need not have it
        secret = os.environ.pop(variable, "")
        where = f"the environment variable {variable}"
    else:
        secret_path = path.parent / str(file)
        where = str(secret_path)
        if not secret_path.is_file():
            raise InputError(f"{place}: secret_file: there is no file {secret_path}.")
        if secret_path.stat().st_mode & 0o077:
            raise InputError(
                f"{place}: secret_file: others may read it: `chmod go-rwx {secret_path}`."
            )
        secret = secret_path.read_text(encoding="utf-8").strip()
    if len(secret) < SHORTEST_SECRET or not secret.isascii() or not secret.isprintable():
        raise InputError(
            f"{place}: the secret of {where} must have at least {SHORTEST_SECRET} printable "
            "characters: `openssl rand -hex 32` makes one."
        )
    return secret


def _people(entries: Mapping[str, Any], path: Path, place: str) -> dict[str, Person]:
    people = {}
    for name, entry in entries.items():
        where = f"{place}: people: {name!r}"
        if not isinstance(entry, dict) or not set(entry) <= {"role", "key"}:
            raise InputError(f"{where}: expected role, and perhaps key.")
        _check_role(entry.get("role"), where)
        key = None
        if "key" in entry:
            from evenhand.tasks.registry.signatures import read_private_key

            key = path.parent / str(entry["key"])
            read_private_key(key)
        people[str(name)] = Person(str(name), entry["role"], key=key)
    return people
