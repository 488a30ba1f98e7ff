"""``evenhand tune``: search for the best model within limits, and write the job of the winner."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.flows.tune_deadline import (
    INTERRUPTS,
    Deadline,
    PreparedAnswer,
    unplanned_answer,
)

if TYPE_CHECKING:
    from evenhand.flows.engine import Verdict

# A command whose imports take longer than that was called by another program.
LONGEST_START_S = 60.0
# The job's key refuses less.
SHORTEST_MINUTES = 0.5
INTERRUPTED = "interrupted: run the same command again, the finished trials are kept."


def tune(
    job: str,
    show_status: bool,
    force: bool,
    seed: int | None,
    overrides: Sequence[str] | None,
    as_json: bool,
    store_url: str | None,
    direct: bool,
    **given: Any,
) -> int:
    """Search, and print the winner on validation and test rows; or print how far a study is.

    `given` are the options named like keys of the job's section `tune`. The time of the search is
    counted from the start of the command: on a busy machine its imports take seconds.
    """
    age_s = process_age()
    began = time.monotonic() - age_s
    began_at = time.time() - age_s
    # in another program's process it is not known how much of the CPU time is ours
    cpu_before = 0.0 if age_s > 0.0 else None
    deadline = _deadline(began, age_s, given.get("minutes"), as_json=as_json, direct=direct)
    if deadline is not None and not show_status:
        end_at_interrupts(as_json=as_json)
        deadline.prepare(_job_left_unread(job, given, overrides or (), seed, force=force))
        check_what_is_asked(given)
    chosen = _all_overrides(overrides or (), given, seed)
    if show_status:
        return _show_status(job, chosen, store_url, as_json=as_json)
    # only now: on a busy machine these imports take a large part of a short time
    if deadline is not None:
        check_names(job, chosen)
    from evenhand.fairlib.tuning.budget import cpu_seconds_of_processes
    from evenhand.flows.commands.terminal import Verb, run_verb
    from evenhand.flows.tune import execute
    from evenhand.flows.tune_plan import make_plan
    from evenhand.flows.workers import cores

    def plan() -> Verb:
        planned = make_plan(job, chosen, force=force, store_url=store_url)
        if deadline is not None:
            raise_at_interrupts()
        if deadline is not None and math.isfinite(planned.seconds):
            deadline.arm(began + planned.seconds)
        if deadline is not None and math.isfinite(planned.cpu_seconds):
            workers = planned.tune.workers or len(cores())
            deadline.arm_cpu(cpu_seconds_of_processes, planned.cpu_seconds, workers)
        arguments = {"job": job, "overrides": chosen, "force": force, "started": began_at}
        name = f"{planned.resolved.job.name}-tune"
        work = partial(execute, planned, started=began, cpu_before=cpu_before, deadline=deadline)
        # the start of a temporary server would take a large part of the time
        return Verb(name, work, "tune", arguments, cacheable=False, temporary_server=False)

    ended = run_verb(
        plan, as_json=as_json, store_url=store_url, direct=direct, interrupted=INTERRUPTED
    )
    study = ended.read("tuning.json")
    document = {**ended.verdict.to_dict(), "tuning": study}
    if deadline is not None:
        deadline.disarm()
    return ended.finish(lambda verdict, seconds: _print(verdict, study, seconds), document)


def _job_left_unread(
    job: str,
    given: Mapping[str, Any],
    overrides: Sequence[str],
    seed: int | None,
    *,
    force: bool,
) -> PreparedAnswer | None:
    """Return what is left where the time ends before the job is read."""
    return unplanned_answer(
        job,
        given.get("where") or (),
        force=force,
        is_changed=bool(overrides) or seed is not None,
        is_alternative=given.get("alternative_to") is not None,
    )


def _all_overrides(
    overrides: Sequence[str], given: Mapping[str, Any], seed: int | None
) -> list[str]:
    """Return the overrides of a job, with the options as overrides of its section `tune`."""
    chosen = list(overrides)
    for key, value in given.items():
        if value not in (None, []):
            chosen.append(f"tune.{key}={json.dumps(value)}")
    if seed is not None:
        chosen.append(f"seed={seed}")
    return chosen


def end_at_interrupts(*, as_json: bool) -> None:
    """Let Ctrl-C and SIGTERM end this process at once, as long as it has written nothing.

    Compiled libraries swallow the exception of an interrupt that comes while they are imported.
    """
    if threading.current_thread() is not threading.main_thread():
        return

    def end(*_: object) -> None:
        message = "interrupted: run again."
        if as_json:
            os.write(1, (json.dumps({"error": message}) + "\n").encode())
        os.write(2, f"evenhand: {message}\n".encode())
        os._exit(4)

    for number in INTERRUPTS:
        # a shell lets its background commands ignore SIGINT
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)


def raise_at_interrupts() -> None:
    """Let both raise KeyboardInterrupt from now on, so that the best so far is written."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in INTERRUPTS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


def check_what_is_asked(given: Mapping[str, Any]) -> None:
    """Refuse limits that contradict each other, and objectives of the other direction, before the
    slow imports: on a busy machine the time might end before the job is read.
    """
    from evenhand.fairlib.catalogue import better
    from evenhand.fairlib.tuning.study import check_limits, parse_limit
    from evenhand.tasks.errors import InputError, input_errors

    with input_errors("tune: ", end="."):
        limits = [parse_limit(text) for text in given.get("where") or ()]
        for limit in limits:
            better(limit.metric)
        check_limits(limits)
        for key, way in (("maximize", "higher"), ("minimize", "lower")):
            for name in given.get(key) or ():
                if better(name) != way:
                    raise InputError(f"{key} {name}: of this metric {better(name)} is better")


def check_names(job: str, overrides: Sequence[str]) -> None:
    """Refuse metrics that the job does not have, before the search and its imports.

    Other faults of the job are found by the plan of the search.
    """
    from evenhand.flows.tune_plan import check_aim
    from evenhand.tasks.errors import InputError

    fault = check_aim(job, overrides)
    if fault is not None:
        raise InputError(fault)


def _deadline(
    began: float, age_s: float, minutes: float | None, *, as_json: bool, direct: bool
) -> Deadline | None:
    """Return what ends this process at its time; None where the process is not the command's alone,
    or a Prefect server follows its flow.
    """
    has_server = bool(os.environ.get("PREFECT_API_URL")) and not direct
    if age_s <= 0.0 or has_server:
        return None
    deadline = Deadline(as_json=as_json)
    if minutes is not None and minutes >= SHORTEST_MINUTES:
        deadline.arm(began + 60.0 * minutes)
    return deadline


def process_age() -> float:
    """Return for how many seconds this command's process has run; 0 where that is not known.

    A program that calls the command in its own process has run for longer: from a minute on the
    age is not taken for the command's.
    """
    try:
        content = Path("/proc/self/stat").read_text()
        # the name in brackets may hold spaces; the start is the 22nd field, in clock ticks
        fields = content.rpartition(")")[2].split()
        ticks = int(fields[19])
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        return 0.0
    is_own_process = Path(sys.argv[0]).name.partition(".")[0] == "evenhand"
    if not is_own_process or not 0.0 <= age_s < LONGEST_START_S:
        return 0.0
    return age_s


def _show_status(
    job: str, overrides: Sequence[str], store_url: str | None, *, as_json: bool
) -> int:
    """Print how far a study is."""
    from evenhand.flows.job_file import load_job
    from evenhand.flows.tune import status
    from evenhand.tasks.execution.store import Store

    loaded, _ = load_job(job, overrides)
    document = status(loaded.name, loaded.tune.study, Store(store_url), loaded.tune.prefer)
    if as_json:
        print(json.dumps(document))
    else:
        _print_study(document)
        print(f"report    {document['report']}")
    return 0


def _print(verdict: Verdict, document: Mapping[str, Any] | None, seconds: float) -> None:
    from evenhand.flows.commands.terminal import print_end

    if document is None:
        return
    _print_study(document)
    for note in verdict.notes:
        print(f"  NOTE  {note}")
    if "tuned" in verdict.artifacts:
        print(f"job       {verdict.artifacts['tuned']}")
    print_end(verdict, seconds)


def _print_study(document: Mapping[str, Any]) -> None:
    """Print the numbers of trials, the winner or the nearest trial with its metrics, and what
    limits cost.
    """
    from evenhand.tasks.pages.formats import plural
    from evenhand.tasks.pages.fronts.tune_front import states_of, trial_of

    states = [trial["state"] for trial in document["trials"]]
    counts = ", ".join(f"{states.count(state)} {state}" for state in states_of(document))
    models = len({trial["model"] for trial in document["trials"]})
    numbers = f"{plural(models, 'model')}, {plural(len(states), 'trial')}"
    print(f"study     {document['study']}: {numbers} ({counts})")
    winner = trial_of(document, document["winner"])
    nearest = trial_of(document, document["nearest"])
    if winner is not None:
        print(f"winner    {winner['label']}")
        _print_trial(document, winner)
    elif nearest is not None:
        print(f"nearest   {nearest['label']}")
        print("          the best compromise: no trial is within the limits")
        _print_trial(document, nearest)


def _print_trial(document: Mapping[str, Any], trial: Mapping[str, Any]) -> None:
    """Print a trial's metrics, how it stands to the limits, and what the limits cost."""
    from evenhand.flows.commands.terminal import estimate, print_table
    from evenhand.tasks.pages.fronts.tune_front import metrics_of

    test = document["test"]
    head = ["", "validation"]
    if test:
        head.append("test")
    rows = [head]
    for name in metrics_of(document):
        row = [name, "not measured"]
        if trial["metrics"].get(name):
            row[1] = estimate(trial["metrics"][name])
        if test:
            row.append(estimate(test[name]))
        rows.append(row)
    print_table(rows, "  ")
    for line in alternative_lines(document):
        print(f"  {line}")
    for standing in document["standings"]:
        print(f"  {standing['text']}")
    for cost in document["costs"]:
        print(
            f"  cost of {cost['limit']}, by the best {document['prefer']}: "
            f"{_best_of(cost['with'])} within all limits, {_best_of(cost['without'])} without "
            f"this one, {_best_of(cost['by_value'])} if the values alone decided"
        )
    print()


def alternative_lines(document: Mapping[str, Any]) -> list[str]:
    """Return what a search for alternatives shows, in lines."""
    content = document.get("alternative")
    if content is None:
        return []
    from evenhand.tasks.tuning.alternatives_text import bound_sentences, found_sentence

    return [found_sentence(content), *bound_sentences(content)]


def _best_of(value: float | None) -> str:
    """Return the best value of some trials, or that there are none."""
    if value is None:
        return "no trial"
    return f"{value:.3f}"
