"""What verification and policies cost: `verify` of many versions, checks at loading, checks within
a run.

Run ``EVENHAND_DATA=FOLDER python -m benchmarks.speed.trust_cost [--versions 200] [--repeats 5]``. One
model is published by a run; the other versions are copies of its files, each with its own record.
Wall and processor seconds are medians. Loads with and without the check alternate. The cost within
a run is the time that it spends in functions that read or write the chain, also those that it needs
without a policy.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.common import log, provenance, write_result

START = "from evenhand.flows.cli import main; main()"
RUN = (
    "run",
    "german-budro",
    "--direct",
    "--set",
    "method.n_steps=5",
    "--set",
    "publish.without_policy=true",
)
NAME = "german-budro"
CHAIN = (
    "current_policy",
    "settled_chain",
    "append",
    "evaluations_of",
    "record_evaluation",
    "move_alias",
)


def main() -> None:
    """Measure everything and keep the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--versions", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--note", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["EVENHAND_STORE"] = folder
        store = Path(folder)
        evenhand(*RUN)
        uri = f"sqlite:///{store.resolve() / 'mlflow.db'}"
        copy_versions(uri, options.versions)
        log("verify")
        verified = [evenhand("verify", NAME) for _ in range(options.repeats)]
        log("loads")
        loads = loading(uri, options.repeats)
        log("runs")
        gates = store / "gates.yaml"
        gates.write_text("auc: {min: 0.1}\n")
        evenhand("policy", "set", NAME, "--gates", str(gates))
        runs = [checks_of_a_run(seed) for seed in range(1, options.repeats + 1)]
    result: dict[str, Any] = provenance(
        shlex.join(["python", "-m", "benchmarks.speed.trust_cost", *sys.argv[1:]])
    )
    result |= {
        "note": options.note,
        "versions": options.versions,
        "repeats": options.repeats,
        "target": {"verify_s": 20, "check_of_a_load_ms": 50, "checks_of_a_run_s": 1},
        "verify_s": medians(verified),
        **loads,
        "checks_of_a_run_s": medians([checks for checks, _ in runs]),
        "run_s": medians([whole for _, whole in runs]),
    }
    write_result("trust_cost", result)
    print(json.dumps({key: value for key, value in result.items() if key != "packages"}, indent=1))


Times = tuple[float, float]  # wall and processor seconds


def medians(times: list[Times]) -> dict[str, float]:
    """Medians of wall and of processor seconds."""
    wall, processor = zip(*times, strict=True)
    return {
        "wall": round(statistics.median(wall), 4),
        "cpu": round(statistics.median(processor), 4),
    }


@contextlib.contextmanager
def timed(times: list[Times]) -> Iterator[None]:
    """Add the wall and processor seconds of a block to a list."""
    wall, processor = time.perf_counter(), time.process_time()
    yield
    times.append((time.perf_counter() - wall, time.process_time() - processor))


def evenhand(*arguments: str) -> Times:
    """Run a command in a process of its own, and return its wall and processor seconds."""
    before, started = os.times(), time.perf_counter()
    subprocess.run([sys.executable, "-c", START, *arguments], check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - started, os.times()
    spent = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    return wall, spent


def copy_versions(uri: str, versions: int) -> None:
    """Register copies of version 1 until there are so many, each with its record and an
    evaluation.
    """
    from evenhand.tasks.registry.client import registry_client
    from evenhand.tasks.registry.ledger import append, evaluations_of, read_chain

    with registry_client(uri) as client:
        place = Path(client.get_model_version_download_uri(NAME, "1").removeprefix("file://"))
        tags = client.get_model_version(NAME, "1").tags
        chain = read_chain(client, NAME)
        (evaluation,) = evaluations_of(client, chain, "1")
        for number in range(2, versions + 1):
            copy = place.parents[2] / f"copy-{number}"
            shutil.copytree(place, copy)
            made = client.create_model_version(NAME, str(copy), tags=tags)
            version = {"version": str(made.version)}
            append(client, NAME, "version", {**chain.of("version", "1")[0].content, **version})
            append(client, NAME, "evaluation", {**evaluation, **version})


def loading(uri: str, repeats: int) -> dict[str, Any]:
    """Time of loading a model by our commands with and without the check of its files."""
    from evenhand.tasks.registry import client as registry

    def ours() -> None:
        with tempfile.TemporaryDirectory() as scratch:
            registry.fetch_bundle(uri, NAME, "1", Path(scratch))

    # a load by MLflow checks itself, with the copy of the code in the model, which nothing can
    # switch off
    ways: dict[str, tuple[Any, str, Callable[[], Any]]] = {
        "evenhand": (registry, "_compare", ours),
    }
    result: dict[str, Any] = {}
    for way, (module, check, load) in ways.items():
        checked: list[Times] = []
        unchecked: list[Times] = []
        load()  # imports
        for _ in range(4 * repeats):
            with timed(checked):
                load()
            with mock.patch.object(module, check, return_value=[]), timed(unchecked):
                load()
        with_check, without = medians(checked), medians(unchecked)
        result[f"load_by_{way}_s"] = {"checked": with_check, "unchecked": without}
        added = {key: round(1000 * (with_check[key] - without[key]), 1) for key in without}
        result[f"check_of_a_load_by_{way}_ms"] = added
    return result


def checks_of_a_run(seed: int) -> tuple[Times, Times]:
    """Time that a run which publishes a new version spends with the chain, and its whole time."""
    from typer.testing import CliRunner

    from evenhand.flows import run as flow
    from evenhand.flows.cli import app
    from evenhand.tasks.steps import publish_step as publish

    checks: list[Times] = []
    whole: list[Times] = []
    inside = False

    def outermost(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal inside
            if inside:
                return function(*arguments, **options)
            inside = True
            try:
                with timed(checks):
                    return function(*arguments, **options)
            finally:
                inside = False

        return call

    with contextlib.ExitStack() as stack:
        for module in (flow, publish):
            for name in CHAIN:
                if hasattr(module, name):
                    wrapped = outermost(getattr(module, name))
                    stack.enter_context(mock.patch.object(module, name, wrapped))
        with timed(whole):
            done = CliRunner().invoke(app, [*RUN, "--set", f"seed={seed}"])
    if done.exit_code:
        raise SystemExit(done.stderr)
    return (sum(wall for wall, _ in checks), sum(spent for _, spent in checks)), whole[0]


if __name__ == "__main__":
    main()
