"""Serve the deployments of a file in this process: schedules without a work pool, on one machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evenhand.tasks.errors import InputError
from evenhand.tasks.inputs import explained, read_yaml


class Schedule(BaseModel):
    """Schedule of a deployment: ``cron``, or ``interval`` in seconds."""

    model_config = ConfigDict(extra="forbid")

    slug: str | None = None
    cron: str | None = None
    interval: float | None = Field(default=None, gt=0)
    timezone: str | None = None
    active: bool = True

    def build(self) -> Any:
        """Convert to a schedule of Prefect."""
        from prefect.schedules import Cron, Interval

        more: dict[str, Any] = {"timezone": self.timezone, "active": self.active, "slug": self.slug}
        return Cron(self.cron, **more) if self.cron else Interval(self.interval or 0.0, **more)


class Limit(BaseModel):
    """Largest number of concurrent runs of a deployment, and what happens to further ones."""

    limit: int
    collision_strategy: str = "ENQUEUE"


class Deployment(BaseModel):
    """The keys of a deployment in ``prefect.yaml`` that count without a work pool."""

    model_config = ConfigDict(extra="ignore")

    name: str
    entrypoint: str
    description: str | None = None
    tags: list[str] = []
    parameters: dict[str, Any] = {}
    schedules: list[Schedule] = []
    concurrency_limit: Limit | int | None = None


def read_deployments(path: Path) -> list[Deployment]:
    """Read the deployments of a ``prefect.yaml``.

    Raises `InputError` if the file cannot be read, or has no deployment or an incomplete one.
    """
    content = read_yaml(path, "the file")
    listed = content.get("deployments") if isinstance(content, dict) else None
    if not listed or not isinstance(listed, list):
        raise InputError(f"{path} names no deployments.")
    try:
        found = [Deployment.model_validate(item) for item in listed]
    except ValidationError as error:
        raise explained(error, f"{path}: deployments: ") from None
    for item in found:
        for schedule in item.schedules:
            if (schedule.cron is None) == (schedule.interval is None):
                raise InputError(f"{path}: a schedule of {item.name} needs one of cron and interval.")
    return found


def serve_deployments(deployments: list[Deployment], limit: int) -> None:
    """Register the deployments and run them on their schedules until Ctrl-C, which pauses the schedules.

    Raises `InputError` if an entrypoint is not a flow, or a deployment's parameters do not fit the flow.
    """
    from prefect import serve
    from prefect.client.schemas.objects import ConcurrencyLimitConfig
    from prefect.exceptions import MissingFlowError, ScriptError
    from prefect.flows import EntrypointType, load_flow_from_entrypoint

    ready = []
    for item in deployments:
        try:
            flow: Any = load_flow_from_entrypoint(item.entrypoint)
            limited: Any = item.concurrency_limit
            if isinstance(limited, Limit):
                limited = ConcurrencyLimitConfig(**limited.model_dump())
            ready.append(
                flow.to_deployment(
                    **item.model_dump(include={"name", "description", "tags", "parameters"}),
                    schedules=[schedule.build() for schedule in item.schedules],
                    concurrency_limit=limited,
                    entrypoint_type=EntrypointType.MODULE_PATH,
                )
            )
        except (ImportError, AttributeError, MissingFlowError, ScriptError):
            raise InputError(f"deployment {item.name}: {item.entrypoint!r} is not a flow.") from None
        except ValueError as error:
            reason = (str(error).splitlines() or [""])[0]
            raise InputError(f"deployment {item.name}: {reason}") from None
    serve(*ready, limit=limit, print_starting_message=False)
