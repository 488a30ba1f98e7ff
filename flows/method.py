"""The section `method` of a job: a classifier or a proxy, and its arguments."""

from __future__ import annotations

import inspect
import math
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from evenhand.fairlib.methods.registry import METHODS, installed, method_class, needed_extra
from evenhand.flows.job import Job, as_number, nearest
from evenhand.tasks.errors import InputError

__all__ = ["is_proxy", "resolve_method"]

# set by the training step, never by a job
RESERVED_ARGUMENTS = ("metric", "network", "oracle", "random_state")


def is_proxy(name: str) -> bool:
    """Whether a known method is a proxy."""
    return name not in METHODS


def resolve_method(job: Job) -> tuple[str, dict[str, Any]]:
    """
    Name of the job's method, and its arguments as the types that it takes.

    Raises
    ------
    InputError
        An unknown name or key, a value of another type, or a method whose optional extra is not installed.
    """
    arguments = dict(job.method)
    name = arguments.pop("name", None)
    constructor, fixed = _constructor(job, name)
    kinds = get_type_hints(constructor)
    accepted = [
        key
        for key in inspect.signature(constructor).parameters
        if key in kinds and key not in RESERVED_ARGUMENTS and key not in fixed
    ]
    for key in arguments:
        if key not in accepted:
            raise InputError(
                f"job {job.name}: unknown key 'method.{key}'{nearest(key, accepted)}; "
                f"{name} takes: {', '.join(accepted)}."
            )
    return name, {key: _argument(job, key, value, kinds[key]) for key, value in arguments.items()}


def _constructor(job: Job, name: Any) -> tuple[Any, list[str]]:
    """Constructor of a method, and the arguments that its name stands for."""
    if isinstance(name, str) and name in METHODS:
        if not installed(METHODS[name]):
            raise InputError(f"job {job.name}: {needed_extra(METHODS[name])}")
        return method_class(name).__init__, []
    # late: a job with a classifier need not wait for what proxies are made of
    from evenhand.fairlib.methods.registry import PROXIES, proxy_class

    if not isinstance(name, str) or name not in PROXIES:
        known = [*METHODS, *PROXIES]
        raise InputError(
            f"job {job.name}: method {name!r} is not known{nearest(str(name), known)}; "
            f"known: {', '.join(known)}."
        )
    return proxy_class(name).__init__, list(PROXIES[name].fixed)


def _argument(job: Job, key: str, value: Any, kind: Any) -> Any:
    """A method's argument as the type that it takes, so that 1 and 1.0 are one job."""
    try:
        found = TypeAdapter(kind).validate_python(as_number(value))
    except ValidationError as error:
        reason = error.errors(include_url=False)[0]["msg"]
        raise InputError(f"job {job.name}: method.{key} is {value!r}: {reason.lower()}.") from None
    if isinstance(found, float) and not math.isfinite(found):
        raise InputError(f"job {job.name}: method.{key} is {value!r}: it must be a finite number.")
    return found
