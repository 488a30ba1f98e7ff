"""The command line: the options of each command. Their code, in `flows/commands`, is imported
lazily.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import inspect
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

app = typer.Typer(
    name="evenhand",
    help="Turn a table of people into a gated, published, individually fair model, with proof.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 done, 1 a gate refused, 2 the job, data or contract is wrong, "
    "3 not enough evidence for a gate, 4 could not be carried out.",
)


# The groups of `evenhand --help`, in the order in which people need them.
PANELS = {
    "Start": ("demo", "init", "audit"),
    "Train": ("run", "tune", "sweep", "filter"),
    "Decide": ("predict", "case", "evaluate", "ask", "monitor", "export"),
    "Registry": (
        "app",
        "promote",
        "approve",
        "refuse",
        "sign",
        "policy",
        "history",
        "verify",
        "documents",
    ),
    "Operate": ("serve", "notify", "report", "upgrade-report", "cache", "repair"),
    "Look up": ("jobs", "datasets", "methods", "metrics"),
}


def panel_of(name: str) -> str:
    """Return the group of `--help` that a command belongs to.

    Raises KeyError for a command that no group lists.
    """
    for panel, names in PANELS.items():
        if name in names:
            return panel
    raise KeyError(name)


def show_version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        from importlib import metadata  # every start would pay for it

        print(f"evenhand {metadata.version('evenhand')}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False,
        "--version",
        is_eager=True,
        callback=show_version,
        help="Print the version and exit.",
    ),
    verbose: bool = typer.Option(
        False, "--verbose", "-v", help="Show what is trained, computed and taken from the cache."
    ),
) -> None:
    """Turn a table of people into a gated, published, individually fair model, with proof."""
    from evenhand.flows import logs

    level = None
    if os.environ.get("EVENHAND_LOG"):
        level = logging.DEBUG
    elif verbose:
        level = logging.INFO
    logs.show(level)


cache_app = typer.Typer(
    help="List the store's cached steps, or delete some of them.", no_args_is_help=True
)
app.add_typer(cache_app, name="cache", rich_help_panel=panel_of("cache"))
policy_app = typer.Typer(help="Set or show what a model must have passed.", no_args_is_help=True)
app.add_typer(policy_app, name="policy", rich_help_panel=panel_of("policy"))


class CaseGroup(TyperGroup):
    """Takes `evenhand case MODEL` as `evenhand case make MODEL`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `make` before anything but a command of the group or a call for help."""
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = ["make", *args]
        return super().parse_args(ctx, args)


case_app = typer.Typer(
    cls=CaseGroup,
    help="Explain decisions about single people in case files, and review, replay or delete them. "
    "`evenhand case MODEL` is `evenhand case make MODEL`.",
    no_args_is_help=True,
)
app.add_typer(case_app, name="case", rich_help_panel=panel_of("case"))

JobName = Annotated[str, typer.Argument(help="Name of a shipped job, or path of a job file.")]
Model = Annotated[
    str,
    typer.Argument(
        help="models:/NAME@ALIAS, models:/NAME/VERSION, a name, or a model's folder or archive, "
        "which may end in @sha256:DIGEST."
    ),
]
ModelName = Annotated[
    str, typer.Argument(help="Name of a model in the registry, such as adult-budro.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", help="KEY=VALUE, such as method.eta=0.04; may be repeated."),
]
DataOverrides = Annotated[
    list[str] | None,
    typer.Option("--set", help="KEY=VALUE, such as table.delimiter=; or seed=1; may be repeated."),
]
SignedBy = Annotated[
    list[Path] | None,
    typer.Option("--signed-by", help="Public key that must have signed it; may be repeated."),
]


Rows = Annotated[
    str | None,
    typer.Argument(
        help="File, folder or glob of Parquet or CSV; any URL; DATABASE#TABLE; or "
        "'DATABASE#SELECT …'."
    ),
]
PARTITION_TEXT = "Values A..B of the input table's column partition_by, such as days."
SINCE_TEXT = "First value of the input table's column partition_by."
TABLE_PARTITION_TEXT = "Values A..B of the table's column table.partition_by, such as days."
TABLE_SINCE_TEXT = "First value of the table's column table.partition_by."
HERE = "127.0.0.1"
KEY_TEXT = "PEM file with the private key (Ed25519) that signs the record (default: EVENHAND_KEY)."
PIN_TEXT = "Digest that the model's policy must have (default: EVENHAND_POLICY)."


def option(flags: str, text: str, default: Any = None, **limits: Any) -> Any:
    """Declare an option of a command; the default `...` makes it required.

    Of several flags, with spaces between, the first is today's name and the others are older ones.
    """
    return typer.Option(default, *flags.split(), help=text, **limits)


# Options of many commands: type and default.
SHARED: dict[str, tuple[Any, Any]] = {
    "as_json": (bool, option("--json", "Print exactly one JSON object on stdout.", False)),
    "store_url": (
        str | None,
        option("--store", "Folder or URL of the store (default: EVENHAND_STORE)."),
    ),
    "direct": (bool, option("--direct", "Run the steps without Prefect.", False)),
}
# Options on how the text of a table is written.
FORMS = {
    "encoding": (
        str | None,
        option("--encoding", "Encoding of a CSV file, such as cp1252; default: by its bytes."),
    ),
    "decimal": (
        list[str] | None,
        option("--decimal", "Decimal mark: comma or point; of one column: COLUMN=comma."),
    ),
    "dates": (
        list[str] | None,
        option("--dates", "day-first, month-first or year-first; of a column: COLUMN=day-first."),
    ),
    "sheet": (
        str | None,
        option("--sheet", "Sheet of an Excel file, its name or its number from 1."),
    ),
}
SHARED |= FORMS


def _end_as_interrupted() -> None:
    """Treat SIGTERM, which schedulers and containers send, as Ctrl-C: one line and exit code 4."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        if sys.unraisablehook is sys.__unraisablehook__:
            sys.unraisablehook = _repeat_interrupt


def _repeat_interrupt(ignored: Any) -> None:
    """Send SIGTERM again if Python ignored its exception, as in callbacks of the collector (Dask
    has one).
    """
    if ignored.exc_type.__name__ in ("KeyboardInterrupt", "TerminationSignal"):
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    else:
        sys.__unraisablehook__(ignored)


def main() -> None:
    """Entry point of the console script."""
    # read when the numeric libraries are loaded, which some commands do before they prepare the
    # rest
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # a command loads thousands of modules, whose objects stay: a collection at every 700th new
    # object would look through them again and again
    gc.set_threshold(50_000, 20, 20)
    _run_app()


def _run_app() -> None:
    """Run the command, with all frames below this one in one block of memory."""
    app()


# CPython keeps frames in blocks of 16 KiB. A loop whose calls cross the end of a block maps and
# unmaps memory at every call: 200 MB in all while the libraries are loaded, a tenth of the time of
# a run whose steps are kept. The block of a frame that claims 300 KiB is 512 KiB large, and the
# functions that it calls use the rest.
_run_app.__code__ = _run_app.__code__.replace(co_stacksize=300 * 1024 // 8)


@contextlib.contextmanager
def plain_stdout() -> Iterator[None]:
    """Write what is printed within the block without what a terminal would obey."""
    from evenhand.fairlib.escaping import PlainLines  # `--help` does without it

    before = sys.stdout
    if before is not None:
        sys.stdout = PlainLines(before)  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.stdout = before


def _state_forms(options: dict[str, Any], section: str) -> None:
    """Replace the options on forms by overrides of the keys of a section."""
    values = {key: options.pop(key) for key in FORMS}
    if not any(values.values()):
        return
    from evenhand.flows.init_forms import form_overrides, stated_forms

    stated = form_overrides(section, stated_forms(**values))
    options["overrides"] = [*(options["overrides"] or ()), *stated]


def command(
    module: str,
    *shared: str,
    name: str | None = None,
    to: typer.Typer = app,
    reads: str | None = None,
) -> Callable[..., Any]:
    """Register a function's signature, with `shared` options behind it, and its docstring as a
    command.

    A command that `reads` a table has the options on forms too, as keys of that section.

    The command calls the function of the same name in `flows.commands.MODULE_command` with its
    options. The return value is the exit code (None: 0); an exception becomes one line on stderr
    and its exit code.
    """

    def register(signature: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(signature)
        def call(**options: Any) -> None:
            try:
                _end_as_interrupted()
                target = importlib.import_module(f"evenhand.flows.commands.{module}_command")
                if reads is not None:
                    _state_forms(options, reads)
                with plain_stdout():
                    code = getattr(target, signature.__name__)(**options)
            except BrokenPipeError:  # the reader of our output, such as `head`, has closed it
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                code = 0
            # all of them, as exit code 1 means a refusing gate
            except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
                from evenhand.flows.commands.terminal import report_error

                code = report_error(error, as_json=options.get("as_json", False))
            raise typer.Exit(code or 0)

        declared = inspect.signature(signature, eval_str=True)
        more = {key: SHARED[key] for key in shared}
        if reads is not None:
            more |= FORMS
        added = [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for key, (kind, default) in more.items()
        ]
        parameters = [*declared.parameters.values(), *added]
        call.__signature__ = declared.replace(parameters=parameters)  # type: ignore[attr-defined]
        call.__annotations__ = signature.__annotations__ | {
            key: kind for key, (kind, _) in more.items()
        }
        command_name = name or signature.__name__
        panel = panel_of(command_name) if to is app else None
        # a docstring's line breaks are no line breaks of the help
        text = " ".join((signature.__doc__ or "").split())
        to.command(command_name, rich_help_panel=panel, help=text)(call)
        return call

    return register


@command("run", "as_json", "store_url", "direct", reads="table")
def run(
    job: JobName,
    overrides: Overrides = None,
    if_changed: bool = option(
        "--if-changed", "Do nothing if the registry has a model of the same data and job.", False
    ),
) -> None:
    """Run a job: ingest, contract, preprocess, train, evaluate, gate, publish."""


@command("sweep", "as_json", "store_url", "direct", reads="table")
def sweep(
    job: JobName,
    over: list[str] = option(
        "--over", "KEY=V1,V2 such as method.eta=0.01,0.05; several make a grid.", ...
    ),
    seeds: int = option("--seeds", "Runs of every value, counting up from the job's seed.", 1),
    overrides: list[str] | None = option("--set", "KEY=VALUE for every run; may be repeated."),
    workers: int | None = option("--workers", "Runs at a time (default: one per core)."),
) -> None:
    """Run a job over a grid of its keys and seeds, and report the trade-offs between metrics."""


@command("tune", "as_json", "store_url", "direct", reads="table")
def tune(
    job: JobName,
    minutes: float | None = option(
        "--minutes", "The whole command ends within so many, from 0.5 on (default: 20)."
    ),
    cpu_minutes: float | None = option(
        "--cpu-minutes", "CPU minutes of the whole command with all its processes, from 0.25 on."
    ),
    trials: int | None = option("--trials", "Models that the whole study judges, at most."),
    maximize: list[str] | None = option("--maximize", "Metric to make large; may be repeated."),
    minimize: list[str] | None = option("--minimize", "Metric to make small; may be repeated."),
    where: list[str] | None = option(
        "--where", 'Limit, such as "gap_max.sex <= 0.1"; may be repeated.'
    ),
    alternative_to: str | None = option(
        "--alternative-to", "Job or published model: search models as good with less disparity."
    ),
    no_worse: list[str] | None = option(
        "--no-worse", 'What an alternative keeps: "balanced_accuracy by 0.005"; may be repeated.'
    ),
    alternative_gap: float | None = option(
        "--alternative-gap", "Most that an alternative may have less disparity; else exit code 1."
    ),
    until_gain: float | None = option(
        "--until-gain",
        "With --alternative-to: end when another random setting would gain at most so much of the "
        "disparity on average.",
    ),
    prefer: str | None = option(
        "--prefer", "Metric by which the winner is chosen; alone: no new trials."
    ),
    methods: list[str] | None = option("--method", "Method to try; may be repeated."),
    sampler: str | None = option("--sampler", "How candidates are proposed: tpe, nsga2 or nsga3."),
    confidence: float | None = option(
        "--confidence", "Chance that unseen rows keep each limit, 0.5 to 0.99 (default: 0.9)."
    ),
    bound: str | None = option(
        "--bound", "Old spelling of --confidence: auto, interval, point or prediction."
    ),
    folds: int | None = option("--folds", "Folds of the training rows."),
    workers: int | None = option("--workers", "Models at a time (default: one per core)."),
    repeats: int | None = option("--repeats", "Train the winner again with so many other seeds."),
    seed: int | None = option("--seed", "Seed of the split, the folds and the search."),
    study: str | None = option("--study", "Name of the study, new or to go on with."),
    show_status: bool = option(
        "--status", "Show how far the job's newest study is; write its page.", False
    ),
    force: bool = option("--force", "Overwrite the tuned job's file.", False),
    overrides: Overrides = None,
) -> None:
    """Search for the best model within your limits and your time, and write its job
    JOB.tuned.yaml.
    """


@command("filter", "as_json", "store_url", "direct", name="filter", reads="filter")
def run_filter(
    job: str = typer.Argument(..., help="Job whose published proxy decides, such as bank-proxy."),
    rows: Rows = None,
    input_url: str | None = option("--input", "The rows, as an option instead."),
    output_url: str = option("--output", "Folder, URL, or DATABASE#TABLE for the sample.", ...),
    partition: str | None = option("--partition", PARTITION_TEXT),
    since: str | None = option("--since", SINCE_TEXT),
    overrides: list[str] | None = option(
        "--set", "KEY=VALUE, such as filter.key=[id]; may be repeated."
    ),
) -> None:
    """Filter rows into a balanced sample with a published proxy; continue an interrupted run."""


@command("filter", "as_json", "store_url", "direct", reads="predict")
def predict(
    model: Model,
    rows: Rows = None,
    input_url: str | None = option("--input", "The rows, as an option instead."),
    output_url: str = option(
        "--output", "Folder, URL, or DATABASE#TABLE for rows and predictions.", ...
    ),
    partition: str | None = option("--partition", PARTITION_TEXT),
    since: str | None = option("--since", SINCE_TEXT),
    in_database: bool = option(
        "--in-database", "Let the database of both tables compute the predictions.", False
    ),
    reasons: int | None = option("--reasons", "Number of reasons for each prediction."),
    adverse: bool = option(
        "--adverse", "Reasons of unfavourable decisions only, as principal reasons.", False
    ),
    overrides: list[str] | None = option(
        "--set", "KEY=VALUE, such as predict.workers=2; may be repeated."
    ),
) -> None:
    """Add a published classifier's predictions to the rows of files; continue an
    interrupted run.
    """


@command("evaluate", "as_json", "store_url", "direct", reads="table")
def evaluate(
    model: Model,
    data: str | None = option(
        "--data", "Known table, file, folder or URL to evaluate the model on."
    ),
    gates: str | None = option("--gates", "YAML file: metrics and their limits, as in a job."),
    baseline: str | None = option("--baseline", "Model to compare with, on the same rows."),
    junit: Path | None = option("--junit", "Write JUnit XML to this file."),
    markdown: Path | None = option(
        "--markdown", "Append a summary to a file, such as $GITHUB_STEP_SUMMARY."
    ),
    use_policy: bool = option("--policy", "Take gates and data from the model's policy.", False),
    contract: str | None = option(
        "--contract", "Contract that the model must have been made under."
    ),
    overrides: DataOverrides = None,
    no_record: bool = option(
        "--no-record", "Do not record the gates' verdict on the version.", False
    ),
    key: Path | None = option("--key", KEY_TEXT),
    policy_digest: str | None = option("--policy-digest", PIN_TEXT),
) -> None:
    """Evaluate a published model by gates, with a baseline. For CI: JUnit, Markdown, exit
    code.
    """


@command("evaluate", "as_json", "store_url", reads="table")
def audit(
    predictions: Annotated[
        str, typer.Argument(help="Table of the predictions: a file, a folder or a URL.")
    ],
    prediction: list[str] | None = option(
        "--prediction",
        "Column of probabilities in [0, 1], or of decisions; repeat to audit several.",
    ),
    model: str | None = option(
        "--model", "Instead: an MLflow model or ONNX file that predicts the rows."
    ),
    label: str | None = option(
        "--label", "Column of the true outcome; without it only selection is compared."
    ),
    positive: str | None = option("--positive", "Value of the label that is positive."),
    favourable: str | None = option(
        "--favourable", "Value that is the good outcome for a person (default: as its words say)."
    ),
    at_least: float | None = option(
        "--at-least", "Threshold of a label of numbers: at least that much is positive."
    ),
    sensitive: list[str] = option(
        "--sensitive", "Column whose groups are compared; may be repeated.", ...
    ),
    features: list[str] | None = option(
        "--features",
        "Column in which comparable people are alike; with these there is a certificate.",
    ),
    threshold: str | None = option(
        "--threshold",
        "Probability from which on the positive label is predicted, or median. "
        "[default: as the model decides, else 0.5]",
    ),
    control: list[str] | None = option(
        "--control", "Column within whose values groups are compared too; may be repeated."
    ),
    weight: str | None = option("--weight", "Column of the rows' weights."),
    person: str | None = option(
        "--person", "Column that names every row's person, where people have several rows."
    ),
    value_names: list[str] | None = option(
        "--value-name", "Name of a code: COLUMN:VALUE=NAME, such as sex:1=women; may be repeated."
    ),
    join_spellings: bool = option(
        "--join-spellings",
        "Compare groups that seem to be one, such as w and weiblich, as one.",
        False,
    ),
    gates: str | None = option("--gates", "YAML file: metrics and their limits, as in a job."),
    junit: Path | None = option("--junit", "Write JUnit XML to this file."),
    markdown: Path | None = option("--markdown", "Append a summary to this file."),
    overrides: DataOverrides = None,
) -> None:
    """Audit any model's predictions: rates, impact ratios and errors by group, calibration,
    gates.
    """


@command("monitor", "as_json", "store_url", "direct", reads="table")
def monitor(
    model: Model,
    data: str = option(
        "--data", "Known table, file, folder, URL, or DATABASE#TABLE of new rows.", ...
    ),
    gates: str | None = option("--gates", "YAML file: metrics of drift and their limits."),
    partition: str | None = option("--partition", TABLE_PARTITION_TEXT),
    since: str | None = option("--since", TABLE_SINCE_TEXT),
    overrides: DataOverrides = None,
) -> None:
    """Measure the drift of new rows from a model's training rows; the exit code is 1 if they have
    drifted.
    """


@command("export", "as_json", "store_url")
def export(
    model: Model,
    to: str = option("--format --to", "Format: bundle, onnx, sql or pmml.", ...),
    output: Path | None = option("--output", "File to write (SQL: default is stdout)."),
    dialect: str | None = option(
        "--dialect", "SQL of duckdb (default), postgres, bigquery, snowflake or spark."
    ),
    table: str = option("--table", "Name of the table that the query reads.", "people"),
    job: str | None = option(
        "--job", "Job whose section filter a proxy follows (default: of its name)."
    ),
    overrides: list[str] | None = option("--set", "KEY=VALUE for that job; may be repeated."),
) -> None:
    """Write a published model as one archive of its files, an ONNX graph, PMML, or a SQL query
    that decides in a warehouse.
    """


CasesFolder = Annotated[
    Path | None,
    typer.Option("--cases", help="Folder of the case store (default: cases in the store)."),
]
Case = Annotated[str, typer.Argument(help="Case: its 16 digits, its folder, or a file in it.")]


@command("case", "as_json", "store_url", name="make", to=case_app)
def make(
    model: Model,
    rows: str = option("--rows", "Table of people: file, folder or URL.", ...),
    row: str | None = option(
        "--row", "One person's id, or row number from 1 (default: all adverse decisions)."
    ),
    contract: str | None = option(
        "--contract", "Contract whose changeable and adverseReason count (default: the version's)."
    ),
    language: str = option(
        "--language", "Language of the reasons' texts and of the letter (en or de).", "en"
    ),
    metric: Path | None = option(
        "--metric", "Folder of the fair metric (default: that of the version's run, if kept)."
    ),
    radius: float = option("--radius", "Fair distance of comparable people.", 0.1),
    no_recourse: bool = option("--no-recourse", "Do not search what would change it.", False),
    no_proof: bool = option("--no-proof", "Do not look for comparable people.", False),
    with_letter: bool = option("--letter", "Write a letter in plain language too.", False),
    with_pdf: bool = option(
        "--pdf", "Write each page as PDF too; needs the extra documents.", False
    ),
    keep_days: int | None = option(
        "--keep-days", "Days until `case delete --expired` deletes it (default: 1095).", min=0
    ),
    key: Path | None = option("--key", KEY_TEXT),
    cases: CasesFolder = None,
) -> None:
    """Write case files of one row, or of all adverse decisions of a table."""


@command("case", "as_json", "store_url", name="review", to=case_app)
def review(
    case: Case,
    outcome: str = option("--outcome", "upheld or changed.", ...),
    reason: str = option("--reason", "Why, in a sentence.", ...),
    key: Path | None = option("--key", KEY_TEXT),
    cases: CasesFolder = None,
) -> None:
    """Record what a person who looked at the case decided."""


@command("case", "as_json", "store_url", name="replay", to=case_app)
def replay(
    case: Case,
    corrected: list[str] | None = option(
        "--correct", "NAME=VALUE, a corrected input; may be repeated."
    ),
    model: str | None = option(
        "--model", "Where the version is now, such as an archive (default: where it was)."
    ),
    key: Path | None = option("--key", KEY_TEXT),
    cases: CasesFolder = None,
) -> None:
    """Decide a case again on the same version, bit for bit, or with corrected values."""


@command("case", "as_json", "store_url", name="delete", to=case_app)
def delete(
    case: str | None = typer.Argument(None, help="Case: its 16 digits, or its folder."),
    is_expired: bool = option("--expired", "Delete all cases whose time is over.", False),
    reason: str = option("--reason", "Why, for the log; no personal data.", "on request"),
    key: Path | None = option("--key", KEY_TEXT),
    cases: CasesFolder = None,
) -> None:
    """Delete a person's case; the log stays verifiable."""


@command("case", "as_json", "store_url", name="verify", to=case_app)
def verify_cases(
    anchor: Path | None = option(
        "--anchor", "End of the log: written if the file is new, else compared."
    ),
    signed_by: SignedBy = None,
    cases: CasesFolder = None,
) -> None:
    """Check the log and the files of all cases; the exit code is 1 if any were changed."""


@command("case", "as_json", "store_url", name="ls", to=case_app)
def ls(cases: CasesFolder = None) -> None:
    """List the cases, without any value of a person."""


@command("documents", "as_json", "store_url")
def documents(
    model: str = typer.Argument(..., help="models:/NAME@ALIAS, models:/NAME/VERSION, or a name."),
    output: Path = option("--output", "Folder that gets a folder NAME-VERSION.", ...),
    notes: Path | None = option(
        "--notes", "YAML file: texts by the key of the point that they fill."
    ),
    pdf: bool = option("--pdf", "Write each document as PDF too.", False),
) -> None:
    """Write a version's model card, data sheet and technical file (EU AI Act, Annex IV)."""


@command("ask", "as_json", "store_url")
def ask(
    model: str = typer.Argument(
        ..., help="Model such as adult-dadi, models:/NAME@ALIAS, models:/NAME/VERSION, or a folder."
    ),
    known: list[str] | None = option("--known", "NAME=VALUE to start with; may be repeated."),
) -> None:
    """Ask a person only what is fair to use, one question at a time, and predict. Keeps no
    answer.
    """


@command("promote", "as_json", "store_url")
def promote(
    model: str = typer.Argument(
        ..., help="Version to promote: models:/NAME@ALIAS or models:/NAME/VERSION."
    ),
    alias: str = option("--alias --to", "Alias that the version gets.", "champion"),
    remeasured: bool = option(
        "--remeasure", "First measure it by its policy, in an empty store; only that counts.", False
    ),
    key: Path | None = option("--key", KEY_TEXT),
    policy_digest: str | None = option("--policy-digest", PIN_TEXT),
) -> None:
    """Make a version champion, if its recorded evaluation passed. With an older version:
    roll back.
    """


@command("promote", "as_json", "store_url")
def approve(
    model: str = typer.Argument(..., help="models:/NAME@ALIAS or models:/NAME/VERSION."),
    key: Path | None = option("--key", KEY_TEXT),
    policy_digest: str | None = option("--policy-digest", PIN_TEXT),
) -> None:
    """Record that you approve a version that someone else published, as it was measured under its
    policy.
    """


@command("promote", "as_json", "store_url")
def refuse(
    model: str = typer.Argument(..., help="models:/NAME@ALIAS or models:/NAME/VERSION."),
    reason: str = option("--reason", "Why, in a sentence that readers of the record see.", ...),
    key: Path | None = option("--key", KEY_TEXT),
) -> None:
    """Record that you refuse a version, and why: it becomes no champion until you approve it."""


@command("app", "as_json", "store_url", name="app")
def serve_app(
    host: str = option(
        "--host", "Address to listen on; any but this machine's needs --users or --proxy.", HERE
    ),
    port: int = option("--port", "Port to listen on; 0 takes a free one.", 0),
    allow_changes: bool = option(
        "--allow-changes", "Let approvers approve, refuse, promote and roll back.", False
    ),
    users: Path | None = option("--users", "YAML file of names, password hashes and roles."),
    proxy: Path | None = option(
        "--proxy", "YAML file of a proxy that signs people in (OpenID Connect), and of roles."
    ),
    hostname: list[str] | None = option(
        "--hostname", "Name by which browsers reach it through a proxy; may be repeated."
    ),
    jobs: Path | None = option(
        "--jobs", "Folder of jobs that owners and approvers may run, besides the shipped ones."
    ),
    is_demo: bool = option(
        "--demo", "Fill the store with the demonstration's models, a challenger and cases.", False
    ),
    hash_password: bool = option(
        "--hash-password", "Ask for a password, print its hash for --users, and end.", False
    ),
    key: Path | None = option("--key", KEY_TEXT),
) -> None:
    """Show models, versions and their records in a browser; read only by default."""


@command("promote", "as_json", "store_url")
def sign(
    model: str = typer.Argument(..., help="models:/NAME@ALIAS or models:/NAME/VERSION."),
    key: Path = option("--key", "PEM file with your private key (Ed25519).", ...),
) -> None:
    """Sign the files of a version, where its policy asks for signatures."""


@command("promote", "as_json", "store_url")
def history(
    model: ModelName,
    anchor: Path | None = option(
        "--anchor", "Write the end of the record to a file, to keep elsewhere."
    ),
) -> None:
    """Print who published, evaluated, approved and promoted which version, when, and by what."""


@command("promote", "as_json", "store_url")
def verify(
    model: ModelName,
    anchor: Path | None = option("--anchor", "File of `history --anchor` that must still hold."),
    signed_by: SignedBy = None,
    code: list[Path] | None = option(
        "--code", "Digests of a release's code (evenhand-VERSION.code.json); may be repeated."
    ),
) -> None:
    """Check a model's record and the files of all its versions; the exit code is 1 if any were
    changed.
    """


@command("promote", "as_json", "store_url", name="set", to=policy_app)
def set_policy(
    model: ModelName,
    gates: str = option("--gates", "YAML file: metrics and their limits, as in a job.", ...),
    holdout: str | None = option("--holdout", "Known table, file, folder or URL to evaluate on."),
    overrides: DataOverrides = None,
    required: list[str] | None = option("--require", "Metric that needs a value; may be repeated."),
    contract: str | None = option(
        "--contract", "Contract of the label and the sensitive columns (default: the champion's)."
    ),
    min_kept: float = option(
        "--min-kept", "Smallest share of each group's rows that is measured.", 0.95, min=0, max=1
    ),
    max_overlap: float = option(
        "--max-overlap", "Largest share of training rows.", 0.05, min=0, max=1
    ),
    max_unnoticed: float = option(
        "--max-unnoticed", "Largest copied share that may go unnoticed.", 0.1, min=0, max=1
    ),
    min_age: float = option("--min-age", "Hours since publication.", 0, min=0),
    groups: list[str] | None = option(
        "--group", "ATTRIBUTE:GROUP=SIZE, people of it at least measured; may be repeated."
    ),
    min_version: str | None = option(
        "--min-version", "Lowest version of evenhand that measures (default: this one)."
    ),
    alternative_gap: float | None = option(
        "--alternative-gap",
        "Largest gap to a less discriminatory alternative that a search may have found.",
        min=0,
    ),
    alternative_metric: str | None = option(
        "--alternative-metric", "Disparity that is searched (default: any)."
    ),
    alternative_models: int | None = option(
        "--alternative-models", "Models that the search judges at least (default: 50).", min=1
    ),
    alternative_no_worse: list[str] | None = option(
        "--alternative-no-worse",
        "METRIC by NUMBER, kept by alternatives (default: balanced_accuracy by 0.005).",
    ),
    alternative_share: float | None = option(
        "--alternative-share",
        "Largest share of random settings that may be better than the best, by the search's bound.",
        min=0,
        max=1,
    ),
    approvals: int | None = option(
        "--approvals",
        "People other than the author who approve (default: 1 with --approved-by, else 0).",
        min=0,
        max=100,
    ),
    promoters: list[str] | None = option(
        "--promoter", "Who may promote; may be repeated (default: all)."
    ),
    trained_by: list[Path] | None = option(
        "--trained-by", "Public key that may train; may be repeated."
    ),
    measured_by: list[Path] | None = option(
        "--measured-by", "Public key that may measure; may be repeated."
    ),
    approved_by: list[Path] | None = option(
        "--approved-by", "Public key that may approve; may be repeated."
    ),
    promoted_by: list[Path] | None = option(
        "--promoted-by", "Public key that may promote; may be repeated."
    ),
    set_by: list[Path] | None = option(
        "--set-by", "Public key that may replace this policy; may be repeated."
    ),
    key: Path | None = option("--key", KEY_TEXT),
    signed_by: SignedBy = None,
) -> None:
    """Set what a model's versions must have passed before one is promoted."""


@command("promote", "as_json", "store_url", name="show", to=policy_app)
def show_policy(model: ModelName) -> None:
    """Print a model's policy."""


@command("upgrade", "as_json", "store_url", name="upgrade-report")
def upgrade_report(
    jobs: list[str] | None = typer.Argument(None, help="Shipped jobs, or paths of job files."),
    deployments: Path | None = option(
        "--deployments", "File of deployments, such as deploy/prefect.yaml: its retrainings too."
    ),
    nights: int = option("--nights", "Nights over which listed models are spread.", 1, min=1),
    write: bool = option("--write", "Write the nights into the store, for the runs.", False),
) -> None:
    """Show what the installed code would train again, and why; train nothing. Run it before an
    upgrade, with the new release.
    """


@command("services", "as_json")
def notify(
    config: Path = typer.Argument(..., help="Notifications, such as deploy/notify.yaml."),
) -> None:
    """Configure the Prefect server to notify people of failed runs."""


@command("services", "as_json", "store_url")
def serve(
    config: Path = typer.Argument(Path("deploy/prefect.yaml"), help="File with deployments."),
    limit: int = option("--limit", "Runs at a time.", 1, min=1),
    metrics_port: int | None = option(
        "--metrics-port", "Serve /metrics (Prometheus) and /healthz on 127.0.0.1.", min=1, max=65535
    ),
) -> None:
    """Run the deployments of a file on their schedules, on this machine and with no work pool."""


@command("init", "as_json", *FORMS)
def init(
    table: str = typer.Argument(
        ..., help="File, folder or URL of a table, a known table, or with --sql a name for it."
    ),
    label: str = option(
        "--label", "Column to predict: two values, classes, or numbers with --at-least.", ...
    ),
    sensitive: list[str] | None = option(
        "--sensitive", "Sensitive column; repeat, or put commas between."
    ),
    positive: str | None = option("--positive", "The label's value that becomes 1."),
    favourable: str | None = option(
        "--favourable",
        "The label's value that is the good outcome for a person (default: as its words say); with "
        "--at-least: at-least or below.",
    ),
    at_least: float | None = option(
        "--at-least",
        "Threshold of a label of numbers: people with at least that much get label 1.",
    ),
    identifier: list[str] | None = option("--id", "Column that identifies people; never used."),
    name: str | None = option("--name", "Name of contract and job."),
    method: str = option("--method", "Method of the job.", "gbdt"),
    folder: Path = option("--output --into", "Folder to write into.", Path()),
    force: bool = option("--force", "Overwrite existing files.", False),
    use_sensitive: bool = option(
        "--use-sensitive", "Make the sensitive columns model inputs too.", False
    ),
    sql: str | None = option("--sql", "Query to read instead of a file."),
    connection: str | None = option(
        "--connection", "SQLAlchemy URL for --sql, or $NAME of a variable that has it."
    ),
    text: list[str] | None = option(
        "--text", "Column of sentences; repeat, or put commas between."
    ),
    terms: Path | None = option("--terms", "List of terms that are exchanged in the sentences."),
    ignore: list[str] | None = option(
        "--ignore", "Column that is no model input; repeat, or put commas between."
    ),
    legitimate: list[str] | None = option(
        "--legitimate",
        "Column whose differences between groups may count; repeat, or put commas between.",
    ),
    join_spellings: bool = option(
        "--join-spellings",
        "Read values that seem to be one, such as w and weiblich, as one.",
        False,
    ),
    keep_rare: bool = option(
        "--keep-rare", "Keep categories of fewer than 5 people, which else are read as one.", False
    ),
) -> None:
    """Understand a new table column by column, and write a contract and a job that runs."""


@command("demo", "as_json", "store_url")
def demo() -> None:
    """Compare three models on a generated table: plain, without the sensitive column, individually
    fair.
    """


@command("lists", "as_json")
def jobs() -> None:
    """List the shipped jobs."""


@command("lists", "as_json")
def datasets() -> None:
    """List the known tables."""


@command("lists", "as_json")
def methods(
    space: str | None = option("--space", "Method whose search space is shown instead."),
) -> None:
    """List the methods: classifiers by the kinds of label they predict, and proxies."""


@command("lists", "as_json")
def metrics() -> None:
    """List the metrics that gates may name."""


@command("report", "as_json", "store_url")
def report(
    run_id: str | None = typer.Argument(None, help="A run's id, or `latest` (the default)."),
    all_runs: bool = option(
        "--all", "Write a page over all runs of the store, and print its path.", False
    ),
) -> None:
    """Print the path of a run's report, or of a page over all runs."""


@command("lists", "as_json", "store_url", name="ls", to=cache_app)
def cached_steps() -> None:
    """List finished steps, newest first."""


@command("lists", "as_json", "store_url", name="gc", to=cache_app)
def prune_cache(
    keep: int = option("--keep", "Newest records of each step to keep, 0 for none.", 5, min=0),
) -> None:
    """Delete all but the newest results of each step, and the artifacts that only they refer to."""


@command("repair", "as_json", "store_url")
def repair() -> None:
    """Mend a store: a registry's file that a killed migration left, and leftovers of commands."""


def _help_position(command_info: Any) -> int:
    """Place of a command in `--help`: as `PANELS` lists it."""
    order = [name for names in PANELS.values() for name in names]
    return order.index(command_info.name)


app.registered_commands.sort(key=_help_position)
