"""A Prometheus text file of each job's last run, for the textfile collector of node exporter.

A run is over before Prometheus could ask it, so it leaves its numbers in a file. They are gauges of
the last run, which need no rate: ``time() - evenhand_job_success_timestamp_seconds`` is the age of
the last success. A run that fails keeps what only earlier runs say, such as their last success.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from evenhand.flows.run_verdict import Verdict
from evenhand.flows.telemetry import JOB_GAUGES, job_gauges, job_of
from evenhand.tasks.errors import EvenhandError
from evenhand.tasks.execution.store import Store

FOLDER_VARIABLE = "EVENHAND_METRICS_FOLDER"
LINE = re.compile(r"(evenhand_\w+)\{(.*)\} (\S+)")
# A gauge of which each run states all values; the others are kept where a run states none.
STATED_ANEW = "evenhand_job_verdict"
VERSION = "evenhand_model_version"
SINCE = "evenhand_model_since_timestamp_seconds"

Sample = tuple[str, str, str]
"""Name, labels as text, and value of a line."""


def write_metrics(verdict: Verdict, store: Store) -> None:
    """Write the file of a run that has ended, if ``EVENHAND_METRICS_FOLDER`` names a folder.

    A folder that cannot be written is one warning, because the run itself is right.
    """
    place = os.environ.get(FOLDER_VARIABLE)
    if not place:
        return
    folder = Path(place).expanduser()
    job = re.sub(r"[^A-Za-z0-9._-]", "-", job_of(verdict))
    file = folder / f"evenhand-{job}.prom"
    earlier = read_samples(file)
    samples = merged(list(_samples(verdict, store, earlier)), earlier)
    part = folder / f".{file.name}.{os.getpid()}"
    try:
        # the collector reads only names that end in .prom, and never half a file
        part.write_text(_text(samples), encoding="utf-8")
        part.chmod(0o644)
        part.replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        sys.stderr.write(
            f"evenhand: WARNING: {FOLDER_VARIABLE} is {folder}, which cannot be written "
            f"({error.strerror}): the run has no metrics file.\n"
        )


def read_samples(file: Path) -> list[Sample]:
    """Read the samples of an earlier file; none without one, and lines of others are ignored."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    samples = []
    for line in lines:
        match = LINE.fullmatch(line)
        if match is not None and match[1] in JOB_GAUGES:
            samples.append((match[1], match[2], match[3]))
    return samples


def merged(samples: Sequence[Sample], earlier: Sequence[Sample]) -> list[Sample]:
    """Add the earlier samples of the gauges of which this run states nothing."""
    stated = {name for name, _, _ in samples} | {STATED_ANEW}
    return [*samples, *(sample for sample in earlier if sample[0] not in stated)]


def _samples(verdict: Verdict, store: Store, earlier: Sequence[Sample]) -> Iterator[Sample]:
    for name, value, values in job_gauges(verdict, time.time()):
        yield name, _labels(name, values), repr(float(value))
    model = verdict.model
    if model is None or not (model.get("version") and model.get("alias")):
        return
    if verdict.status not in ("published", "up_to_date"):
        return
    labels = _labels(VERSION, (job_of(verdict), str(model["name"]), str(model["alias"])))
    version = repr(float(model["version"]))
    yield VERSION, labels, version
    earlier_values = {(name, text): value for name, text, value in earlier}
    since = earlier_values.get((SINCE, labels))
    if since is None or earlier_values.get((VERSION, labels)) != version:
        since = _since(store, model)
    if since is not None:
        yield SINCE, labels, since


def _since(store: Store, model: Mapping[str, str]) -> str | None:
    """Ask the registry when the alias got its version; None if it gives no answer."""
    # imported lazily: only the first run after a move asks
    from evenhand.tasks.registry.client import tracking_uri
    from evenhand.tasks.registry.ledger import history

    try:
        moves = history(tracking_uri(store), model["name"]).moves(model["alias"])
        moment = datetime.datetime.fromisoformat(moves[-1].when)
    except (EvenhandError, IndexError, ValueError):
        return None
    return repr(moment.timestamp())


def _labels(name: str, values: Sequence[str]) -> str:
    """Return labels as Prometheus' text format has them."""
    pairs = []
    for label, value in zip(JOB_GAUGES[name][1], values, strict=True):
        text = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        pairs.append(f'{label}="{text}"')
    return ",".join(pairs)


def _text(samples: Sequence[Sample]) -> str:
    """Return the samples in Prometheus' text format, by gauge."""
    lines = []
    for name, (about, _) in JOB_GAUGES.items():
        of_gauge = [sample for sample in samples if sample[0] == name]
        if not of_gauge:
            continue
        lines.append(f"# HELP {name} {about}")
        lines.append(f"# TYPE {name} gauge")
        for _, labels, value in of_gauge:
            lines.append(f"{name}{{{labels}}} {value}")
    return "\n".join(lines) + "\n"
