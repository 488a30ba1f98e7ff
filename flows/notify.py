"""Who is told when a deployed run fails: blocks and an automation on the Prefect server, from one file."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError

from evenhand.flows.job_sections import Section
from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.inputs import read_yaml

__all__ = ["Notifications", "configure_server", "read_notifications"]

NAME = "evenhand"
LOST = "evenhand-lost-runs"
OURS: dict[str, str | list[str]] = {
    "prefect.resource.id": "prefect.tag.evenhand",
    "prefect.resource.role": "tag",
}
RUNS: dict[str, str | list[str]] = {"prefect.resource.id": "prefect.flow-run.*"}
ENDS = ("Completed", "Failed", "Cancelled", "Crashed", "TimedOut")
SUBJECT = "Evenhand: {{ flow.name }} {{ flow_run.name }} {{ flow_run.state.name }}"
BODY = (
    "{{ flow_run.state.message }}\n\n"
    "deployment {{ deployment.name }}, flow run {{ flow_run.name }}, started {{ flow_run.start_time }}\n"
    "{{ flow_run | ui_url }}"
)


class Notifications(Section):
    """Who is told, and of what."""

    states: list[Literal["Failed", "Crashed", "TimedOut", "Cancelled", "Completed"]] = Field(
        default=["Failed", "Crashed", "TimedOut"], min_length=1
    )
    """Ends of a deployed run that people are told of."""
    webhook: str | None = None
    """Gets a POST with the JSON object {"subject": …, "body": …}."""
    email: str | None = None
    """An Apprise address, such as mailtos://user:password@smtp.example.org?from=…&to=…"""
    lost_after_seconds: Annotated[int, Field(ge=60)] = 120
    """A deployed run that has not been heard of for so long, as its machine is gone, is marked as crashed."""


def read_notifications(path: Path) -> Notifications:
    """
    Read the file, with ``${NAME}`` replaced from the environment; what is empty then is left out.

    Raises
    ------
    InputError
        It cannot be read, has an unknown key or a wrong value.
    """
    content = read_yaml(path, "the file")
    if not isinstance(content, dict):
        raise InputError(f"{path} must be a mapping with the keys states, webhook and email.")
    filled = {key: _filled(value) for key, value in content.items()}
    try:
        found = Notifications.model_validate({key: value for key, value in filled.items() if value})
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, problem["loc"]))
        raise InputError(f"{path}: {place}: {problem['msg']}.") from None
    if found.webhook and not re.match(r"https?://[^/\s]", found.webhook):
        raise InputError(f"{path}: webhook is no http:// or https:// address.")
    if found.email and not re.match(r"mailtos?://[^/\s]", found.email):
        raise InputError(f"{path}: email is no Apprise address (mailto:// or mailtos://).")
    return found


def _filled(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return re.sub(r"\$\{(\w+)\}", lambda found: os.environ.get(found[1], ""), value)


def configure_server(wanted: Notifications) -> list[str]:
    """
    Make the blocks and the automation what the file says; what an earlier call made is replaced.

    Returns
    -------
    list of str
        Which ways people are told now; empty if none, and then the automation is gone.

    Raises
    ------
    NotCarriedOut
        The server does not answer as it should.
    """
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.events.actions import SendNotification
    from prefect.exceptions import PrefectException

    actions, told = [], []
    try:
        with get_client(sync_client=True) as client:
            for way, block in _blocks(wanted):
                identifier = block.save(f"{NAME}-{way}", overwrite=True)
                actions.append(SendNotification(block_document_id=identifier, subject=SUBJECT, body=BODY))
                told.append(way)
            for name in (NAME, LOST):
                for old in client.read_automations_by_name(name):
                    client.delete_automation(old.id)
        _lost_runs(wanted.lost_after_seconds).create()
        if actions:
            _failures(wanted.states, actions).create()
    except (httpx.HTTPError, PrefectException, RuntimeError) as error:
        raise NotCarriedOut(
            f"the Prefect server at {os.environ.get('PREFECT_API_URL')} did not answer as it should "
            f"({type(error).__name__}): is it up? Run again when it is."
        ) from None
    return told


def _failures(states: Sequence[str], actions: Sequence[Any]) -> Any:
    """Automation that tells people of ends in one of the states."""
    from prefect.automations import Automation
    from prefect.events import EventTrigger, Posture, ResourceSpecification

    return Automation(
        name=NAME,
        description="Tells people of deployed runs that fail or whose gates refuse.",
        trigger=EventTrigger(
            expect={f"prefect.flow-run.{state}" for state in states},
            match=ResourceSpecification(RUNS),
            match_related=ResourceSpecification(OURS),
            posture=Posture.Reactive,
            threshold=1,
        ),
        actions=list(actions),
    )


def _lost_runs(seconds: int) -> Any:
    """Automation that marks runs as crashed whose process is gone without a word."""
    from prefect.automations import Automation
    from prefect.client.schemas.objects import StateType
    from prefect.events import EventTrigger, Posture, ResourceSpecification
    from prefect.events.actions import ChangeFlowRunState

    heartbeat = "prefect.flow-run.heartbeat"
    return Automation(
        name=LOST,
        description="Marks runs as crashed that have not been heard of for a while.",
        trigger=EventTrigger(
            after={heartbeat},
            expect={heartbeat, *(f"prefect.flow-run.{state}" for state in ENDS)},
            match=ResourceSpecification(RUNS),
            match_related=ResourceSpecification(OURS),
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=datetime.timedelta(seconds=seconds),
        ),
        actions=[
            ChangeFlowRunState(
                name="Crashed",
                state=StateType.CRASHED,
                message="Nothing was heard of this run for too long: its process or machine is gone.",
                force=False,
            )
        ],
    )


def _blocks(wanted: Notifications) -> list[tuple[str, Any]]:
    """A block for each way; addresses lie in them as secrets."""
    from prefect.blocks.notifications import CustomWebhookNotificationBlock, SlackWebhook
    from prefect.types import SecretDict

    found: list[tuple[str, Any]] = []
    if wanted.webhook:
        block = CustomWebhookNotificationBlock(
            name=NAME,
            url="{{address}}",
            json_data={"subject": "{{subject}}", "body": "{{body}}"},
            secrets=SecretDict({"address": wanted.webhook}),
            params=None,
            form_data=None,
            headers=None,
            cookies=None,
        )
        found.append(("webhook", block))
    if wanted.email:
        # the only block type of the server that takes any Apprise address, whatever its name says
        found.append(("email", SlackWebhook(url=SecretStr(wanted.email))))
    return found
