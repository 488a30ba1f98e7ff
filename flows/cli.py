"""The command line: the options of each command. Their code, in `flows/commands`, is imported lazily."""

from __future__ import annotations

import functools
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    name="evenhand",
    help="Turn a table of people into a gated, published, individually fair model, with proof.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 done, 1 a gate refused, 2 the job, data or contract is wrong, "
    "3 not enough evidence for a gate, 4 could not be carried out.",
)
cache_app = typer.Typer(help="List the store's cached steps, or delete some of them.", no_args_is_help=True)
app.add_typer(cache_app, name="cache")
policy_app = typer.Typer(help="Set or show what a model must have passed.", no_args_is_help=True)
app.add_typer(policy_app, name="policy")

JobName = Annotated[str, typer.Argument(help="Name of a shipped job, or path of a job file.")]
Model = Annotated[
    str, typer.Argument(help="models:/NAME@ALIAS, models:/NAME/VERSION, a name, or a bundle's folder.")
]
ModelName = Annotated[str, typer.Argument(help="Name of a model in the registry, such as adult-budro.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="KEY=VALUE, such as method.eta=0.04; may be repeated.")
]
DataOverrides = Annotated[
    list[str] | None,
    typer.Option("--set", help="KEY=VALUE, such as table.delimiter=; or seed=1; may be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print exactly one JSON object on stdout.")]
StoreOption = Annotated[
    str | None, typer.Option("--store", help="Folder or URL of the store (default: EVENHAND_STORE).")
]
Direct = Annotated[bool, typer.Option("--direct", help="Run the steps without Prefect.")]


def _end_as_interrupted() -> None:
    """Treat SIGTERM, which schedulers and containers send, as Ctrl-C: one line and exit code 4."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def main() -> None:
    """Entry point of the console script."""
    # read when the numeric libraries are loaded, which some commands do before they prepare the rest
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    app()


def command(module: str, name: str | None = None, *, to: typer.Typer = app) -> Callable[..., Any]:
    """Register a function's signature and docstring as a command.

    The command calls the function of the same name in `flows.commands.MODULE` with its options. The return
    value is the exit code (None: 0); an exception becomes one line on stderr and its exit code.
    """

    def register(signature: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(signature)
        def call(**options: Any) -> None:
            try:
                _end_as_interrupted()
                target = importlib.import_module(f"evenhand.flows.commands.{module}")
                code = getattr(target, signature.__name__)(**options)
            except BrokenPipeError:  # the reader of our output, such as `head`, has closed it
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                code = 0
            except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - exit code 1 means a refusing gate
                from evenhand.flows.commands.terminal import report_error

                code = report_error(error, as_json=options.get("as_json", False))
            raise typer.Exit(code or 0)

        to.command(name or signature.__name__)(call)
        return call

    return register


@command("run")
def run(
    job: JobName,
    overrides: Overrides = None,
    as_json: Json = False,
    store_url: StoreOption = None,
    direct: Direct = False,
    if_changed: Annotated[
        bool,
        typer.Option("--if-changed", help="Do nothing if the registry has a model of the same data and job."),
    ] = False,
) -> None:
    """Run a job: ingest, contract, preprocess, train, evaluate, gate, publish."""


@command("sweep")
def sweep(
    job: JobName,
    over: Annotated[
        list[str], typer.Option("--over", help="KEY=V1,V2 such as method.eta=0.01,0.05; several make a grid.")
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
        int | None, typer.Option("--workers", help="Runs at a time (default: one per core).")
    ] = None,
    as_json: Json = False,
    store_url: StoreOption = None,
    direct: Direct = False,
) -> None:
    """Run a job over a grid of its keys and seeds, and report the trade-offs between metrics."""


@command("tune")
def tune(
    job: JobName,
    minutes: Annotated[
        float | None, typer.Option("--minutes", help="For how long new trials start (default: 20).")
    ] = None,
    trials: Annotated[
        int | None, typer.Option("--trials", help="Models that the whole study judges, at most.")
    ] = None,
    maximize: Annotated[
        list[str] | None, typer.Option("--maximize", help="Metric to make large; may be repeated.")
    ] = None,
    minimize: Annotated[
        list[str] | None, typer.Option("--minimize", help="Metric to make small; may be repeated.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help='Limit, such as "gap_max.sex <= 0.1"; may be repeated.'),
    ] = None,
    prefer: Annotated[
        str | None,
        typer.Option("--prefer", help="Metric by which the winner is chosen; alone: no new trials."),
    ] = None,
    methods: Annotated[
        list[str] | None, typer.Option("--method", help="Method to try; may be repeated.")
    ] = None,
    sampler: Annotated[
        str | None, typer.Option("--sampler", help="How candidates are proposed: tpe, nsga2 or nsga3.")
    ] = None,
    bound: Annotated[
        str | None,
        typer.Option("--bound", help="What limits hold on: auto (default), interval, point or prediction."),
    ] = None,
    folds: Annotated[int | None, typer.Option("--folds", help="Folds of the training rows.")] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", help="Models at a time (default: one per core).")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", help="Train the winner again with so many other seeds.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Seed of the split, the folds and the search.")
    ] = None,
    study: Annotated[
        str | None, typer.Option("--study", help="Name of the study, new or to go on with.")
    ] = None,
    show_status: Annotated[
        bool, typer.Option("--status", help="Show how far the job's newest study is, and write its page.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the tuned job's file.")] = False,
    overrides: Overrides = None,
    as_json: Json = False,
    store_url: StoreOption = None,
    direct: Direct = False,
) -> None:
    """Search for the best model within your limits and your time, and write its job JOB.tuned.yaml."""


@command("filter", "filter")
def run_filter(
    job: Annotated[str, typer.Argument(help="Job whose published proxy decides, such as bank-proxy.")],
    input_url: Annotated[
        str, typer.Option("--input", help="File, folder or glob of Parquet or CSV; any URL.")
    ],
    output_url: Annotated[str, typer.Option("--output", help="Folder or URL for the sample.")],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="KEY=VALUE, such as filter.key=[id]; may be repeated.")
    ] = None,
    as_json: Json = False,
    store_url: StoreOption = None,
    direct: Direct = False,
) -> None:
    """Filter rows into a balanced sample with a published proxy; continue an interrupted run."""


@command("evaluate")
def evaluate(
    model: Model,
    data: Annotated[
        str | None, typer.Option("--data", help="Known table, file, folder or URL to evaluate the model on.")
    ] = None,
    gates: Annotated[
        str | None, typer.Option("--gates", help="YAML file: metrics and their limits, as in a job.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", help="Model to compare with, on the same rows.")
    ] = None,
    junit: Annotated[Path | None, typer.Option("--junit", help="Write JUnit XML to this file.")] = None,
    markdown: Annotated[
        Path | None,
        typer.Option("--markdown", help="Append a summary to this file, such as $GITHUB_STEP_SUMMARY."),
    ] = None,
    use_policy: Annotated[
        bool, typer.Option("--policy", help="Take gates and data from the model's policy.")
    ] = False,
    contract: Annotated[
        str | None, typer.Option("--contract", help="Contract that the model must have been made under.")
    ] = None,
    overrides: DataOverrides = None,
    as_json: Json = False,
    store_url: StoreOption = None,
    direct: Direct = False,
    no_record: Annotated[
        bool, typer.Option("--no-record", help="Do not record the gates' verdict on the model's version.")
    ] = False,
) -> None:
    """Evaluate a published model by gates, beside a baseline. For CI: JUnit, Markdown, exit code."""


@command("monitor")
def monitor(
    model: Model,
    data: Annotated[str, typer.Option("--data", help="Known table, file, folder or URL of new rows.")],
    gates: Annotated[
        str | None, typer.Option("--gates", help="YAML file: metrics of drift and their limits.")
    ] = None,
    retrain: Annotated[
        str | None, typer.Option("--retrain", help="Job to run if the gates refuse, unless it is up to date.")
    ] = None,
    overrides: DataOverrides = None,
    as_json: Json = False,
    store_url: StoreOption = None,
    direct: Direct = False,
) -> None:
    """Measure the drift of new rows from a model's training rows; the exit code is 1 if they have drifted."""


@command("ask")
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
    store_url: StoreOption = None,
) -> None:
    """Ask a person only what is fair to use, one question at a time, and predict. Keeps no answer."""


@command("promote")
def promote(
    model: Annotated[
        str, typer.Argument(help="Version to promote: models:/NAME@ALIAS or models:/NAME/VERSION.")
    ],
    alias: Annotated[str, typer.Option("--to", help="Alias that the version gets.")] = "champion",
    as_json: Json = False,
    store_url: StoreOption = None,
) -> None:
    """Make a version champion, if its recorded evaluation passed. With an older version: roll back."""


@command("promote")
def approve(
    model: Annotated[str, typer.Argument(help="Version: models:/NAME@ALIAS or models:/NAME/VERSION.")],
    store_url: StoreOption = None,
) -> None:
    """Record that you approve a version that someone else published, where its policy asks for approvals."""


@command("promote")
def history(
    model: ModelName,
    as_json: Json = False,
    anchor: Annotated[
        Path | None,
        typer.Option("--anchor", help="Write the end of the record to a file, to keep elsewhere."),
    ] = None,
    store_url: StoreOption = None,
) -> None:
    """Print who published, evaluated, approved and promoted which version, when, and by what."""


@command("promote")
def verify(
    model: ModelName,
    as_json: Json = False,
    anchor: Annotated[
        Path | None,
        typer.Option("--anchor", help="File of `history --anchor` that must still hold."),
    ] = None,
    store_url: StoreOption = None,
) -> None:
    """Check a model's record and the files of all its versions; the exit code is 1 if any were changed."""


@command("promote", "set", to=policy_app)
def set_policy(
    model: ModelName,
    gates: Annotated[str, typer.Option("--gates", help="YAML file: metrics and their limits, as in a job.")],
    holdout: Annotated[
        str | None, typer.Option("--holdout", help="Known table, file, folder or URL to evaluate on.")
    ] = None,
    overrides: DataOverrides = None,
    required: Annotated[
        list[str] | None, typer.Option("--require", help="Metric that needs a value; may be repeated.")
    ] = None,
    max_overlap: Annotated[
        float, typer.Option("--max-overlap", min=0, max=1, help="Share of rows that may be training rows.")
    ] = 0.05,
    min_age: Annotated[float, typer.Option("--min-age", min=0, help="Hours since publication.")] = 0,
    approvals: Annotated[
        int, typer.Option("--approvals", min=0, max=100, help="People other than the author who approve.")
    ] = 0,
    promoters: Annotated[
        list[str] | None, typer.Option("--promoter", help="Who may promote; may be repeated (default: all).")
    ] = None,
    store_url: StoreOption = None,
) -> None:
    """Set what a model's versions must have passed before one is promoted."""


@command("promote", "show", to=policy_app)
def show_policy(model: ModelName, store_url: StoreOption = None) -> None:
    """Print a model's policy."""


@command("services")
def notify(
    config: Annotated[Path, typer.Argument(help="File of notifications, such as deploy/notify.yaml.")],
) -> None:
    """Configure the Prefect server to notify people of failed runs."""


@command("services")
def serve(
    config: Annotated[Path, typer.Argument(help="File with deployments.", show_default=True)] = Path(
        "deploy/prefect.yaml"
    ),
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Name of a deployment; may be repeated (default: all).")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Runs at a time.")] = 1,
    store_url: StoreOption = None,
) -> None:
    """Run the deployments of a file on their schedules, on this machine and with no work pool."""


@command("init")
def init(
    table: Annotated[
        str,
        typer.Argument(help="File, folder or URL of a table, a known table, or with --sql a name for it."),
    ],
    label: Annotated[str, typer.Option("--label", help="Column to predict; it must have two values.")],
    sensitive: Annotated[
        list[str] | None, typer.Option("--sensitive", help="Sensitive column; may be repeated.")
    ] = None,
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
    use_sensitive: Annotated[
        bool, typer.Option("--use-sensitive", help="Make the sensitive columns model inputs too.")
    ] = False,
    sql: Annotated[str | None, typer.Option("--sql", help="Query to read instead of a file.")] = None,
    connection: Annotated[
        str | None,
        typer.Option("--connection", help="SQLAlchemy URL for --sql, or $NAME of a variable that has it."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Understand a new table column by column, and write a contract and a job that runs."""


@command("demo")
def demo(store_url: StoreOption = None) -> None:
    """Compare three models on a generated table: plain, without the sensitive column, individually fair."""


@command("lists")
def jobs() -> None:
    """List the shipped jobs."""


@command("lists")
def datasets() -> None:
    """List the known tables."""


@command("lists")
def methods(
    space: Annotated[
        str | None, typer.Option("--space", help="Method whose search space is shown instead.")
    ] = None,
) -> None:
    """List the methods: classifiers by the kinds of label they predict, and proxies."""


@command("lists")
def metrics() -> None:
    """List the metrics that gates may name."""


@command("report")
def report(
    run_id: Annotated[str | None, typer.Argument(help="A run's id, or `latest` (the default).")] = None,
    store_url: StoreOption = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    all_runs: Annotated[
        bool, typer.Option("--all", help="Write a page over all runs of the store, and print its path.")
    ] = False,
) -> None:
    """Print the path of a run's report, or of a page over all runs."""


@command("lists", "ls", to=cache_app)
def cached_steps(store_url: StoreOption = None, as_json: Json = False) -> None:
    """List finished steps, newest first."""


@command("lists", "gc", to=cache_app)
def prune_cache(
    keep: Annotated[int, typer.Option("--keep", min=0, help="Newest records of each step to keep.")] = 5,
    store_url: StoreOption = None,
) -> None:
    """Delete all but the newest results of each step, and the artifacts that only they refer to."""


@command("lists", "clear", to=cache_app)
def clear_cache(store_url: StoreOption = None) -> None:
    """Delete all cached steps. Runs, reports and published models stay."""
