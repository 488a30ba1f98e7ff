"""Deployments that this machine serves, and notifications of failed runs, each from a file."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from evenhand.flows.job import Section
from evenhand.flows.run_events import CONFIRMED, PUBLISHED
from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.written_input import explained, read_yaml, refuse_credentials

NAME = "evenhand"
LOST = "evenhand-lost-runs"
STUCK = "evenhand-stuck-runs"
AGAIN = "evenhand-run-again"
CHALLENGER = "evenhand-challenger"
# All automations of ours; those of an alert are named after it.
PREFIX = "evenhand-"
# Beginning of the message of a state whose run raised one of our refusals.
REFUSAL = "*encountered an exception: GateRefused"
Alert = Literal["late", "no_worker", "refused", "drift", "no_evidence", "overdue"]
ALERTS: tuple[Alert, ...] = ("late", "no_worker", "refused", "drift", "no_evidence", "overdue")
POOLS = ["evenhand", "evenhand-*"]
# Keys of the file whose empty value has a meaning.
SWITCHES = ("alerts", "run_again")
OURS: dict[str, str | list[str]] = {
    "prefect.resource.id": "prefect.tag.evenhand",
    "prefect.resource.role": "tag",
}
RUNS: dict[str, str | list[str]] = {"prefect.resource.id": "prefect.flow-run.*"}
ENDS = ("Completed", "Failed", "Cancelled", "Crashed", "TimedOut")
SUBJECT = "Evenhand: {{ flow.name }} {{ flow_run.name }} {{ flow_run.state.name }}"
# What the subject says in place of the state's name, by alert on runs.
REASONS: dict[str, str] = {
    "late": "has not started in time",
    "refused": "was refused by its gates",
    "drift": "has found drift",
    "no_evidence": "has not enough evidence for its gates",
}
BODY = (
    "{{ flow_run.state.message }}\n\n"
    "deployment {{ deployment.name }}, flow run {{ flow_run.name }}, started {{ "
    "flow_run.start_time }}\n"
    "{{ flow_run | ui_url }}"
)


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
        if self.cron:
            return Cron(self.cron, **more)
        return Interval(self.interval or 0.0, **more)


class Deployment(BaseModel):
    """The keys of a deployment in ``prefect.yaml`` that count without a work pool."""

    model_config = ConfigDict(extra="ignore")

    name: str
    entrypoint: str
    description: str | None = None
    tags: list[str] = []
    parameters: dict[str, Any] = {}
    schedules: list[Schedule] = []
    concurrency_limit: dict[str, Any] | int | None = None


def read_deployments(path: Path) -> list[Deployment]:
    """Read the deployments of a ``prefect.yaml``.

    Raises `InputError` if the file cannot be read, or has no deployment or an incomplete one.
    """
    content = read_yaml(path, "the file")
    items = None
    if isinstance(content, dict):
        items = content.get("deployments")
    if not items or not isinstance(items, list):
        raise InputError(f"{path} names no deployments.")
    try:
        deployments = [Deployment.model_validate(item) for item in items]
    except ValidationError as error:
        raise explained(error, f"{path}: deployments: ") from None
    for item in deployments:
        refuse_credentials(item.parameters, f"{path}: parameters of {item.name}")
        for schedule in item.schedules:
            if (schedule.cron is None) == (schedule.interval is None):
                raise InputError(
                    f"{path}: a schedule of {item.name} needs one of cron and interval."
                )
    return deployments


def serve_deployments(
    deployments: list[Deployment], limit: int, metrics_port: int | None = None
) -> None:
    """Register the deployments and run them on their schedules until Ctrl-C, which pauses the
    schedules.

    Metrics of the runs are served on the port, if there is one. Raises `InputError` if an
    entrypoint is not a flow, or a deployment's parameters do not fit the flow.
    """
    from prefect.client.schemas.objects import ConcurrencyLimitConfig
    from prefect.exceptions import MissingFlowError, ScriptError
    from prefect.flows import EntrypointType, load_flow_from_entrypoint

    from evenhand.flows.serving import serve

    ready = []
    for item in deployments:
        try:
            flow: Any = load_flow_from_entrypoint(item.entrypoint)
            limited: Any = item.concurrency_limit
            if isinstance(limited, dict):
                limited = ConcurrencyLimitConfig(**limited)
            ready.append(
                flow.to_deployment(
                    **item.model_dump(include={"name", "description", "tags", "parameters"}),
                    schedules=[schedule.build() for schedule in item.schedules],
                    concurrency_limit=limited,
                    entrypoint_type=EntrypointType.MODULE_PATH,
                )
            )
        except (ImportError, AttributeError, MissingFlowError, ScriptError):
            raise InputError(
                f"deployment {item.name}: {item.entrypoint!r} is not a flow."
            ) from None
        except ValueError as error:
            reason = (str(error).splitlines() or [""])[0]
            raise InputError(f"deployment {item.name}: {reason}") from None
    serve(ready, limit, metrics_port)


class Notifications(Section):
    """Channels of the notifications, and the states that cause them."""

    states: list[Literal["Failed", "Crashed", "TimedOut", "Cancelled", "Completed"]] = Field(
        default=["Failed", "Crashed", "TimedOut"], min_length=1
    )
    """Final states of a deployed run that cause a notification; refusals of gates are alerts."""
    alerts: list[Alert] = Field(default=list(ALERTS))
    """Further conditions that cause a notification: a run that is late, a work pool without a
    worker, a refusal by gates, drift, too little evidence for a gate, a model without a finished
    retraining for `overdue_after_hours`.
    """
    overdue_after_hours: Annotated[float, Field(gt=0)] = 26
    """Hours without a finished retraining of a model after which it is overdue."""
    run_again: bool = True
    """Whether a deployed run that has crashed is scheduled again, once."""
    webhook: str | None = None
    """URL that gets a POST with the JSON object {"subject": …, "body": …}."""
    email: str | None = None
    """An Apprise address, such as mailtos://user:password@smtp.example.org?from=…&to=…"""
    challenger_webhook: str | None = None
    """URL that gets a POST when a run has published a challenger, to start its evaluation in CI:
    {"event_type": "challenger", "client_payload": {"model": "models:/NAME/VERSION"}}, as
    https://api.github.com/repos/OWNER/NAME/dispatches takes it.
    """
    challenger_token: str | None = None
    """Token that the POST to `challenger_webhook` carries as `Authorization: Bearer`."""
    lost_after_seconds: Annotated[int, Field(ge=60)] = 120
    """Seconds without a heartbeat after which a deployed run is marked as crashed."""
    begin_within_seconds: Annotated[int, Field(ge=60)] = 900
    """Seconds after which a deployed run that a worker has taken, and that has not begun, is marked
    as crashed.
    """


def read_notifications(path: Path) -> Notifications:
    """Read the file, and replace ``${NAME}`` from the environment; keys that are then empty are
    left out.

    Raises `InputError` if the file cannot be read, or has an unknown key or a wrong value.
    """
    content = read_yaml(path, "the file")
    if not isinstance(content, dict):
        raise InputError(f"{path} must be a mapping with the keys states, webhook and email.")
    for key, value in content.items():
        if isinstance(value, str):
            content[key] = re.sub(r"\$\{(\w+)\}", lambda name: os.environ.get(name[1], ""), value)
    try:
        notifications = Notifications.model_validate(
            {key: value for key, value in content.items() if value or key in SWITCHES}
        )
    except ValidationError as error:
        raise explained(error, f"{path}: ") from None
    for key in ("webhook", "challenger_webhook"):
        address = getattr(notifications, key)
        if address and not re.match(r"https?://[^/\s]", address):
            raise InputError(f"{path}: {key} is not an http:// or https:// address.")
    email = notifications.email
    if email and not re.match(r"mailtos?://[^/\s]", email):
        raise InputError(f"{path}: email is not an Apprise address (mailto:// or mailtos://).")
    return notifications


def configure_server(wanted: Notifications) -> tuple[list[str], list[str]]:
    """Create the blocks and automations of the notifications; those of an earlier call are
    replaced.

    Returns the channels (if there are none, nobody is notified), and a line for each deployment or
    worker that does not fit its work pool. Raises `NotCarriedOut` if the
    server does not answer, or answers with an error.
    """
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.exceptions import PrefectException

    from evenhand.flows.pools import read_faults

    identifiers = {}
    try:
        faults = read_faults()
        with get_client(sync_client=True) as client:
            for channel, block in _blocks(wanted):
                identifiers[channel] = block.save(f"{NAME}-{channel}", overwrite=True)
            challenger = None
            if wanted.challenger_webhook:
                challenger = _challenger_block(wanted).save(CHALLENGER, overwrite=True)
            for name in (NAME, LOST, STUCK, AGAIN, CHALLENGER, *map(_name_of, ALERTS)):
                for old in client.read_automations_by_name(name):
                    client.delete_automation(old.id)
        for automation in automations_of(wanted, channels_of(identifiers)):
            automation.create()
        if challenger is not None:
            _on_challenger(challenger).create()
    except (httpx.HTTPError, PrefectException, RuntimeError) as error:
        raise NotCarriedOut(
            f"the Prefect server at {os.environ.get('PREFECT_API_URL')} gave no valid answer "
            f"({type(error).__name__}): check that it runs, then run again."
        ) from None
    return list(identifiers), faults


Channels = Callable[[str, str], list[Any]]
"""``channels(subject, body)``: the actions that notify people by every channel."""


def channels_of(identifiers: Mapping[str, UUID]) -> Channels:
    """Return a function that builds the notifications by the blocks of the channels."""

    def build(subject: str, body: str) -> list[Any]:
        from prefect.events.actions import SendNotification

        return [
            SendNotification(block_document_id=identifier, subject=subject, body=body)
            for identifier in identifiers.values()
        ]

    return build


def automations_of(wanted: Notifications, notify: Channels) -> list[Any]:
    """Build all automations: runs that are lost or stuck are marked as crashed, a crashed run runs
    again once, and people are notified; without a channel nobody is.
    """
    automations = [_marks_lost_runs(wanted), _marks_stuck_runs(wanted)]
    if wanted.run_again:
        automations.append(_runs_again())
    if not notify("", ""):
        return automations
    automations.append(_on_failures(wanted, notify))
    for alert in wanted.alerts:
        if alert == "no_worker":
            automations.append(_on_pool_without_worker(notify))
        elif alert == "overdue":
            automations.append(_on_overdue_model(wanted, notify))
        else:
            automations.append(_on_run(alert, notify))
    return automations


def _name_of(alert: Alert) -> str:
    return PREFIX + alert.replace("_", "-")


def _deployed(**labels: str | list[str]) -> dict[str, Any]:
    """Return what a trigger on one event of a deployed run has, with labels of the run."""
    from prefect.events import ResourceSpecification

    return {
        "match": ResourceSpecification({**RUNS, **labels}),
        "match_related": ResourceSpecification(OURS),
        "threshold": 1,
    }


def _marks_lost_runs(wanted: Notifications) -> Any:
    from prefect.automations import Automation
    from prefect.client.schemas.objects import StateType
    from prefect.events import EventTrigger, Posture
    from prefect.events.actions import ChangeFlowRunState

    heartbeat = "prefect.flow-run.heartbeat"
    silent = EventTrigger(
        after={heartbeat},
        expect={heartbeat, *(f"prefect.flow-run.{state}" for state in ENDS)},
        for_each={"prefect.resource.id"},
        posture=Posture.Proactive,
        within=datetime.timedelta(seconds=wanted.lost_after_seconds),
        **_deployed(),
    )
    crashed = ChangeFlowRunState(
        name="Crashed",
        state=StateType.CRASHED,
        message="This run has sent no heartbeat for too long: its process or machine is gone.",
        force=False,
    )
    about = "Marks runs as crashed whose heartbeats have stopped."
    return Automation(name=LOST, description=about, trigger=silent, actions=[crashed])


def _marks_stuck_runs(wanted: Notifications) -> Any:
    """A worker that dies between taking a run and starting it leaves the run pending for ever, and
    the run keeps its deployment's only slot.
    """
    from prefect.automations import Automation
    from prefect.client.schemas.objects import StateType
    from prefect.events import EventTrigger, Posture
    from prefect.events.actions import ChangeFlowRunState

    stuck = EventTrigger(
        after={"prefect.flow-run.Pending"},
        expect={"prefect.flow-run.Running", *(f"prefect.flow-run.{state}" for state in ENDS)},
        for_each={"prefect.resource.id"},
        posture=Posture.Proactive,
        within=datetime.timedelta(seconds=wanted.begin_within_seconds),
        **_deployed(),
    )
    crashed = ChangeFlowRunState(
        name="Crashed",
        state=StateType.CRASHED,
        message="A worker has taken this run, and it has not begun for too long: look at the "
        "worker, then start the deployment again.",
        force=False,
    )
    about = "Marks runs as crashed that a worker has taken and not begun."
    return Automation(name=STUCK, description=about, trigger=stuck, actions=[crashed])


def _runs_again() -> Any:
    """A crashed run is scheduled again, with its parameters; its finished steps are cached.

    Only after the first attempt, and only a run that had begun: what crashes again, or cannot be
    started at all, needs a person.
    """
    from prefect.automations import Automation
    from prefect.client.schemas.objects import StateType
    from prefect.events import EventTrigger, Posture
    from prefect.events.actions import ChangeFlowRunState

    crashed = {"prefect.run-count": "1"}
    trigger = EventTrigger(
        expect={"prefect.flow-run.Crashed"}, posture=Posture.Reactive, **_deployed(**crashed)
    )
    again = ChangeFlowRunState(
        name="AwaitingRetry",
        state=StateType.SCHEDULED,
        message="The run crashed and runs again, once; its finished steps are kept.",
        force=False,
    )
    about = "Runs a crashed run again, once."
    return Automation(name=AGAIN, description=about, trigger=trigger, actions=[again])


def _on_failures(wanted: Notifications, notify: Channels) -> Any:
    from prefect.automations import Automation
    from prefect.events import EventTrigger, Posture

    other_failures = {"prefect.state-message": f"!{REFUSAL}*"}
    trigger = EventTrigger(
        expect={f"prefect.flow-run.{state}" for state in wanted.states},
        posture=Posture.Reactive,
        **_deployed(**other_failures),
    )
    about = "Notifies people of deployed runs that fail."
    return Automation(name=NAME, description=about, trigger=trigger, actions=notify(SUBJECT, BODY))


def _on_run(alert: Alert, notify: Channels) -> Any:
    """Notify of a run that is late, or that ended with a refusal of one kind."""
    from prefect.automations import Automation
    from prefect.events import EventTrigger, Posture

    classes = {"refused": "", "drift": "Drift", "no_evidence": "Evidence"}
    expected = "prefect.flow-run.Late"
    labels = {}
    if alert in classes:
        expected = "prefect.flow-run.Failed"
        labels = {"prefect.state-message": f"{REFUSAL}{classes[alert]}: *"}
    trigger = EventTrigger(expect={expected}, posture=Posture.Reactive, **_deployed(**labels))
    subject = f"Evenhand: {{{{ flow.name }}}} {{{{ flow_run.name }}}} {REASONS[alert]}"
    about = f"Notifies people of a deployed run that {REASONS[alert]}."
    return Automation(
        name=_name_of(alert), description=about, trigger=trigger, actions=notify(subject, BODY)
    )


def _on_pool_without_worker(notify: Channels) -> Any:
    from prefect.automations import Automation
    from prefect.events import EventTrigger, Posture, ResourceSpecification

    pools: dict[str, str | list[str]] = {
        "prefect.resource.id": "prefect.work-pool.*",
        "prefect.resource.name": POOLS,
    }
    trigger = EventTrigger(
        expect={"prefect.work-pool.not-ready"},
        match=ResourceSpecification(pools),
        posture=Posture.Reactive,
        threshold=1,
    )
    subject = "Evenhand: the work pool {{ work_pool.name }} has no worker"
    body = (
        "No worker of the pool {{ work_pool.name }} has answered for a minute and a half: its "
        "runs do not start until `prefect worker start --pool {{ work_pool.name }}` runs."
    )
    about = "Notifies people of a work pool whose last worker has gone."
    return Automation(
        name=_name_of("no_worker"),
        description=about,
        trigger=trigger,
        actions=notify(subject, body),
    )


def _on_overdue_model(wanted: Notifications, notify: Channels) -> Any:
    from prefect.automations import Automation
    from prefect.events import EventTrigger, Posture, ResourceSpecification

    ended = {PUBLISHED, CONFIRMED}
    trigger = EventTrigger(
        after=ended,
        expect=ended,
        match=ResourceSpecification({"prefect.resource.id": "evenhand.model.*"}),
        for_each={"prefect.resource.id"},
        posture=Posture.Proactive,
        threshold=1,
        within=datetime.timedelta(hours=wanted.overdue_after_hours),
    )
    model = "{{ firing.triggering_labels['prefect.resource.id'] }}"
    subject = f"Evenhand: {model} is overdue"
    body = (
        f"No retraining of {model} has ended for {wanted.overdue_after_hours:g} hours, neither by "
        "a new version nor by finding nothing to do: the version in use is older than its schedule "
        "allows."
    )
    about = "Notifies people of a model whose retraining has not ended in time."
    return Automation(
        name=_name_of("overdue"), description=about, trigger=trigger, actions=notify(subject, body)
    )


def _challenger_block(wanted: Notifications) -> Any:
    """Build the block that starts an evaluation in CI; its address and token are secrets."""
    from prefect.blocks.notifications import CustomWebhookNotificationBlock
    from prefect.types import SecretDict

    secrets = {"address": str(wanted.challenger_webhook)}
    headers = {"Accept": "application/json"}
    if wanted.challenger_token:
        secrets["token"] = wanted.challenger_token
        headers["Authorization"] = "Bearer {{token}}"
    return CustomWebhookNotificationBlock(
        name=CHALLENGER,
        url="{{address}}",
        json_data={"event_type": "challenger", "client_payload": {"model": "{{body}}"}},
        headers=headers,
        secrets=SecretDict(secrets),
        params=None,
        form_data=None,
        cookies=None,
    )


def _on_challenger(block: UUID) -> Any:
    """Start the evaluation of each version that a run publishes as challenger."""
    from prefect.automations import Automation
    from prefect.events import EventTrigger, Posture, ResourceSpecification
    from prefect.events.actions import SendNotification

    labels: dict[str, str | list[str]] = {
        "prefect.resource.id": "evenhand.model.*",
        "evenhand.alias": "challenger",
    }
    trigger = EventTrigger(
        expect={PUBLISHED},
        match=ResourceSpecification(labels),
        posture=Posture.Reactive,
        threshold=1,
    )
    model = "models:/{{ event.payload.model }}/{{ event.payload.version }}"
    send = SendNotification(block_document_id=block, subject="challenger", body=model)
    about = "Starts the evaluation of a challenger in CI."
    return Automation(name=CHALLENGER, description=about, trigger=trigger, actions=[send])


def _blocks(wanted: Notifications) -> list[tuple[str, Any]]:
    """Build a block for each channel; the addresses in them are secrets."""
    from prefect.blocks.notifications import CustomWebhookNotificationBlock, SlackWebhook
    from prefect.types import SecretDict

    blocks: list[tuple[str, Any]] = []
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
        blocks.append(("webhook", block))
    if wanted.email:
        # despite its name, this block type of the server accepts any Apprise address
        blocks.append(("email", SlackWebhook(url=SecretStr(wanted.email))))
    return blocks
