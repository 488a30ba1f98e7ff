"""The command line. Heavy imports wait until a command needs them."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from evenhand.fairlib.catalogue import MetricInfo
    from evenhand.fairlib.methods.registry import MethodSpec

__all__ = ["app", "main"]

app = typer.Typer(
    name="evenhand",
    help="Turn a table of people into a gated, published, individually fair model, with proof.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 done, 1 a gate refused, 2 the job, data or contract is wrong, "
    "3 not enough evidence for a gate, 4 could not be carried out.",
)
cache_app = typer.Typer(help="Look at the store's cached steps, or make it smaller.", no_args_is_help=True)
app.add_typer(cache_app, name="cache")

Json = Annotated[bool, typer.Option("--json", help="Print exactly one JSON object on stdout.")]
StoreOption = Annotated[
    str | None, typer.Option("--store", help="Folder or URL of the store (default: EVENHAND_STORE).")
]


def main() -> None:
    """Entry point: one clear line on stderr for every error that we can name."""
    app()


@app.command()
def run(
    job: Annotated[str, typer.Argument(help="Name of a shipped job, or path of a job file.")],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="KEY=VALUE, such as method.eta=0.04; may be repeated.")
    ] = None,
    as_json: Json = False,
    store: StoreOption = None,
    direct: Annotated[
        bool, typer.Option("--direct", help="Run the steps in this process, without Prefect.")
    ] = False,
    if_changed: Annotated[
        bool,
        typer.Option("--if-changed", help="Do nothing if the registry has a model of the same data and job."),
    ] = False,
) -> None:
    """Run a job: ingest, contract, preprocess, train, evaluate, gate, publish."""
    from evenhand.flows.commands.run import run_job

    raise typer.Exit(
        run_job(
            job, overrides or [], as_json=as_json, store_url=store, direct=direct, only_if_changed=if_changed
        )
    )


@app.command()
def sweep(
    job: Annotated[str, typer.Argument(help="Name of a shipped job, or path of a job file.")],
    over: Annotated[
        list[str],
        typer.Option("--over", help="KEY=V1,V2 such as method.eta=0.01,0.05; several make a grid."),
    ],
    seeds: Annotated[
        int, typer.Option("--seeds", help="Runs of every value, counting up from the job's seed.")
    ] = 1,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="KEY=VALUE for every run; may be repeated.")
    ] = None,
    best: Annotated[
        str | None,
        typer.Option("--best", help='Which value to choose: "METRIC where METRIC >= X and METRIC <= Y".'),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", help="Runs at a time (default: one a core).")
    ] = None,
    as_json: Json = False,
    store: StoreOption = None,
    direct: Annotated[bool, typer.Option("--direct", help="Run without Prefect.")] = False,
) -> None:
    """Run a job over a grid of its keys and seeds, and report what it trades for what."""
    from evenhand.flows.commands.sweep import run_sweep

    given = [*(overrides or []), *([f"sweep.workers={workers}"] if workers is not None else [])]
    raise typer.Exit(
        run_sweep(
            job,
            over,
            seeds=seeds,
            overrides=given,
            best=best,
            as_json=as_json,
            store_url=store,
            direct=direct,
        )
    )


@app.command("filter")
def filter_command(
    job: Annotated[str, typer.Argument(help="Job whose published proxy decides, such as bank-proxy.")],
    input_url: Annotated[
        str, typer.Option("--input", help="File, folder or glob of Parquet or CSV; any URL.")
    ],
    output_url: Annotated[str, typer.Option("--output", help="Folder or URL for the sample.")],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="KEY=VALUE, such as filter.key=[id]; may be repeated.")
    ] = None,
    as_json: Json = False,
    store: StoreOption = None,
    direct: Annotated[bool, typer.Option("--direct", help="Run without Prefect.")] = False,
) -> None:
    """Filter rows into a balanced sample with a published proxy; goes on where it was interrupted."""
    from evenhand.flows.commands.filter import run_filter

    raise typer.Exit(
        run_filter(
            job,
            input_url,
            output_url,
            overrides=overrides or [],
            as_json=as_json,
            store_url=store,
            direct=direct,
        )
    )


@app.command()
def evaluate(
    model: Annotated[
        str, typer.Argument(help="models:/NAME@ALIAS, models:/NAME/VERSION, a name, or a bundle's folder.")
    ],
    data: Annotated[str, typer.Option("--data", help="Known table, file, folder or URL to judge it on.")],
    gates: Annotated[
        str | None, typer.Option("--gates", help="YAML file: metrics and their limits, as in a job.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", help="Model to compare with, on the same rows.")
    ] = None,
    junit: Annotated[Path | None, typer.Option("--junit", help="Write JUnit XML there.")] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", help="Append a summary there, such as $GITHUB_STEP_SUMMARY.")
    ] = None,
    contract: Annotated[
        str | None, typer.Option("--contract", help="Contract that the model must have been made under.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="KEY=VALUE, such as table.delimiter=; or seed=1; may be repeated."),
    ] = None,
    as_json: Json = False,
    store: StoreOption = None,
    direct: Annotated[bool, typer.Option("--direct", help="Run without Prefect.")] = False,
    no_record: Annotated[
        bool, typer.Option("--no-record", help="Leave no note of the gates' verdict on the model's version.")
    ] = False,
) -> None:
    """Judge a published model on a table by gates, beside a baseline, for CI: JUnit, Markdown, exit code."""
    from evenhand.flows.commands.evaluate import Options, evaluate_model

    options = Options(model, data, gates, baseline, contract, overrides or [], record=not no_record)
    raise typer.Exit(
        evaluate_model(
            options, junit=junit, markdown=markdown, as_json=as_json, store_url=store, direct=direct
        )
    )


@app.command()
def monitor(
    model: Annotated[
        str, typer.Argument(help="models:/NAME@ALIAS, models:/NAME/VERSION, a name, or a bundle's folder.")
    ],
    data: Annotated[str, typer.Option("--data", help="Known table, file, folder or URL of new rows.")],
    gates: Annotated[
        str | None, typer.Option("--gates", help="YAML file: metrics of drift and their limits.")
    ] = None,
    retrain: Annotated[
        str | None, typer.Option("--retrain", help="Job to run if the gates refuse, unless it is up to date.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="KEY=VALUE, such as table.delimiter=; or seed=1; may be repeated."),
    ] = None,
    as_json: Json = False,
    store: StoreOption = None,
    direct: Annotated[bool, typer.Option("--direct", help="Run without Prefect.")] = False,
) -> None:
    """Tell how far new rows are from those that a model learned from; exit code 1 if they have drifted."""
    from evenhand.flows.commands.monitor import monitor_model

    raise typer.Exit(
        monitor_model(
            model, data, gates, overrides or [], retrain, as_json=as_json, store_url=store, direct=direct
        )
    )


@app.command()
def ask(
    model: Annotated[
        str,
        typer.Argument(
            help="Model such as adult-dadi, models:/NAME@ALIAS, models:/NAME/VERSION, or a folder."
        ),
    ],
    known: Annotated[
        list[str] | None, typer.Option("--known", help="NAME=VALUE to start with; may be repeated.")
    ] = None,
    as_json: Json = False,
    store: StoreOption = None,
) -> None:
    """Ask a person only what is fair to use, one question at a time, and predict. Keeps no answer."""
    from evenhand.flows.commands.ask import ask_model

    raise typer.Exit(ask_model(model, known or [], as_json=as_json, store_url=store))


@app.command()
def promote(
    model: Annotated[
        str, typer.Argument(help="Version to promote: models:/NAME@ALIAS or models:/NAME/VERSION.")
    ],
    alias: Annotated[str, typer.Option("--to", help="Alias that it gets.")] = "champion",
    as_json: Json = False,
    store: StoreOption = None,
) -> None:
    """Make a version champion, if its recorded evaluation passed. An older version: that is the way back."""
    from evenhand.flows.commands.promote import promote_model

    raise typer.Exit(promote_model(model, alias, as_json=as_json, store_url=store))


@app.command()
def history(
    model: Annotated[str, typer.Argument(help="Name of a model in the registry, such as adult-budro.")],
    as_json: Json = False,
    store: StoreOption = None,
) -> None:
    """Print who gave which version which alias, when, and by which evaluation."""
    from evenhand.flows.commands.promote import print_history

    raise typer.Exit(print_history(model, as_json=as_json, store_url=store))


@app.command()
def notify(
    config: Annotated[Path, typer.Argument(help="File that says who is told, such as deploy/notify.yaml.")],
) -> None:
    """Bring the file that says who is told of failed runs to the Prefect server."""
    from evenhand.flows.commands.notify import configure_notifications

    raise typer.Exit(configure_notifications(config))


@app.command()
def serve(
    config: Annotated[Path, typer.Argument(help="File with deployments.", show_default=True)] = Path(
        "deploy/prefect.yaml"
    ),
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Name of a deployment; may be repeated (default: all).")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Runs at a time.")] = 1,
    store: StoreOption = None,
) -> None:
    """Run the deployments of a file when they are due, on this machine and with no work pool."""
    from evenhand.flows.commands.serve import serve as serve_here

    raise typer.Exit(serve_here(config, only or [], limit=limit, store_url=store))


@app.command()
def init(
    table: Annotated[str, typer.Argument(help="CSV or Parquet file, or folder of Parquet files.")],
    label: Annotated[str, typer.Option("--label", help="Column to predict; it must have two values.")],
    sensitive: Annotated[list[str], typer.Option("--sensitive", help="Sensitive column; may be repeated.")],
    positive: Annotated[
        str | None, typer.Option("--positive", help="The label's value that becomes 1.")
    ] = None,
    identifier: Annotated[
        list[str] | None, typer.Option("--id", help="Column that identifies people; never used.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of contract and job.")] = None,
    method: Annotated[str, typer.Option("--method", help="Method of the job.")] = "gbdt",
    folder: Annotated[Path, typer.Option("--into", help="Folder to write into.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Write a starter contract and job for a new table, ready to run."""
    from evenhand.flows.commands.init import write_starter_files

    _carry_out(
        lambda: write_starter_files(
            table,
            label=label,
            sensitive=sensitive,
            positive=positive,
            ids=identifier or [],
            name=name,
            method=method,
            folder=folder,
            force=force,
        )
    )


@app.command()
def demo(store: StoreOption = None) -> None:
    """Show what it is for: three models on a generated table, side by side."""
    from evenhand.flows.commands.demo import run_demo

    raise typer.Exit(run_demo(store))


@app.command()
def jobs() -> None:
    """List the shipped jobs."""
    from evenhand.flows.job import shipped_jobs

    _rows(shipped_jobs().items())


@app.command()
def datasets() -> None:
    """List the known tables."""
    from evenhand.fairlib.datasets.generated import GENERATED
    from evenhand.fairlib.datasets.recipes import RECIPES

    _rows((name, table.summary) for name, table in {**GENERATED, **RECIPES}.items())


@app.command()
def methods() -> None:
    """List the methods: classifiers by the kinds of label they predict, and proxies."""
    from evenhand.fairlib.methods.registry import METHODS, PROXIES, installed

    def lacking(spec: MethodSpec) -> str:
        return "" if installed(spec) else f" (not installed: {spec.install_command})"

    _rows(
        [
            *(
                (spec.name, f"{spec.summary} [{', '.join(spec.tasks)}]{lacking(spec)}")
                for spec in METHODS.values()
            ),
            *((proxy.name, f"{proxy.summary} [proxy]") for proxy in PROXIES.values()),
        ]
    )


@app.command()
def metrics() -> None:
    """List the metrics that gates may name."""
    from evenhand.fairlib.catalogue import METRICS

    def line(info: MetricInfo) -> str:
        way = f", {info.direction} is better" if info.direction else ""
        kind = "" if info.kind == "classifier" else f" [{info.kind}]"
        return f"{info.title}{way}: {info.explanation.replace('{subject}', info.subject)}{kind}"

    _rows([(name, line(info)) for name, info in METRICS.items()])


@app.command()
def report(
    run_id: Annotated[str | None, typer.Argument(help="A run's id, or `latest` (the default).")] = None,
    store: StoreOption = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    all_runs: Annotated[
        bool, typer.Option("--all", help="Write a page over all runs of the store, and print its path.")
    ] = False,
) -> None:
    """Print the path of a run's report, or of a page over all runs."""
    from evenhand.flows.commands.report import report_path, write_index
    from evenhand.tasks.errors import InputError

    def show() -> None:
        if all_runs and run_id is not None:
            raise InputError(f"--all is about every run: leave out {run_id!r}.")
        path = write_index(store) if all_runs else report_path(run_id or "latest", store)
        print(path)
        if open_it:
            typer.launch(path)

    _carry_out(show)


@cache_app.command("ls")
def cache_ls(store: StoreOption = None, as_json: Json = False) -> None:
    """List finished steps, newest first."""
    from evenhand.tasks.store import Store

    def show() -> None:
        rows = Store(store).usage()
        if as_json:
            print(json.dumps(rows))
            return
        for row in rows:
            size, age = row["bytes"] / 1e6, row["age_s"] / 3600
            print(f"{row['step']:12} {row['key'][:12]} {size:9.2f} MB {age:8.1f} h old")
        print(f"{len(rows)} steps, {sum(row['bytes'] for row in rows) / 1e6:.2f} MB")

    _carry_out(show)


@cache_app.command("gc")
def cache_gc(
    keep: Annotated[int, typer.Option("--keep", min=0, help="Newest records of each step to keep.")] = 5,
    store: StoreOption = None,
) -> None:
    """Delete all but the newest results of each step, and what only they point at."""
    from evenhand.tasks.store import Store

    def prune() -> None:
        records, freed = Store(store).prune(keep)
        print(f"removed {records} steps, freed {freed / 1e6:.2f} MB")

    _carry_out(prune)


@cache_app.command("clear")
def cache_clear(store: StoreOption = None) -> None:
    """Delete all cached steps. Runs, reports and published models stay."""
    cache_gc(keep=0, store=store)


def _carry_out(action: Callable[[], Any]) -> None:
    """Do it; an error of ours becomes one line on stderr and its exit code."""
    from evenhand.tasks.errors import EvenhandError, internal_fault

    try:
        action()
    except EvenhandError as error:
        print(f"evenhand: {error}", file=sys.stderr)
        raise typer.Exit(error.exit_code) from None
    except BrokenPipeError:  # whoever reads our output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except Exception as error:  # noqa: BLE001 - any fault of ours
        if os.environ.get("EVENHAND_LOG"):
            traceback.print_exc()
        # a traceback would end with exit code 1, which means that a gate refused
        fault = internal_fault(error)
        print(f"evenhand: {fault}", file=sys.stderr)
        raise typer.Exit(fault.exit_code) from None


def _rows(rows: Any) -> None:
    """Two columns, the first as wide as its longest entry."""
    pairs = list(rows)
    width = max(len(name) for name, _ in pairs)
    for name, text in pairs:
        print(f"{name:{width}}  {text}")
