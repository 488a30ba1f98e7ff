"""The job: one YAML file with the table, the sensitive attributes, the method and the gates."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from evenhand.fairlib.catalogue import MIN_DRAWS
from evenhand.fairlib.datasets.generated import GENERATED
from evenhand.fairlib.datasets.recipes import RECIPES
from evenhand.fairlib.methods.registry import TFIDF
from evenhand.tasks.written_input import as_number, check_bound, nearest

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
ALIAS = "^[A-Za-z0-9_-]{1,80}$"
SIZE = r"^\d+(\.\d+)? ?(MB|GB|TB|MiB|GiB|TiB)$"
# Thresholds in words that thresholds by group may go with.
GROUP_THRESHOLDS = ("observed", "balanced", "max_accuracy")
# In place of a counterfactual's columns: the adapted copies of a learned fair metric.
ADAPTED = "adapted"
# Keys of `evaluate` that only the run that trains a model can measure.
ONCE = {"certificate", "membership", "reasons"}


class Section(BaseModel):
    """A section of a job: unknown keys and numbers that are not finite are refused.

    The docstring below a key describes it; the reference page is generated from these docstrings.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    # keys of which one may be given
    alternatives: ClassVar[tuple[tuple[str, ...], ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _plain_numbers(cls, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        for key, value in content.items():
            annotation = "Any"
            if key in cls.model_fields:
                annotation = str(cls.model_fields[key].annotation)
            takes_boolean = "bool" in annotation or "Any" in annotation
            if isinstance(value, bool) and not takes_boolean:
                raise ValueError(f"{key} is {str(value).lower()}, which is no value of this key")
            try:
                check_bound(value)
            except ValueError as error:
                raise ValueError(f"{key} {error}") from None
        return content

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        for keys in self.alternatives:
            set_keys = [key for key in keys if getattr(self, key) is not None]
            if len(set_keys) > 1:
                raise ValueError(f"has both {set_keys[0]} and {set_keys[1]}: keep one")
        return self


def check_alias(value: str) -> str:
    """Return an alias; a ValueError if the registry does not accept it."""
    if not re.fullmatch(ALIAS.strip("^$"), value):
        raise ValueError("use letters, digits, dashes and underscores")
    if re.fullmatch(r"latest|v\d+", value, re.IGNORECASE):
        raise ValueError("the registry reserves `latest` and version numbers: choose another alias")
    return value


Mark = Literal["comma", "point"]
Order = Literal["day-first", "month-first", "year-first"]


def check_encoding(value: str) -> str:
    """Return the name of an encoding of text; a ValueError if there is none of this name."""
    try:
        "a\n".encode(value)
    except (LookupError, UnicodeError, ValueError):
        raise ValueError(
            f"{value!r} is no encoding of text: such are utf-8, cp1252, cp1250, utf-16"
        ) from None
    return value


Encoding = Annotated[str, AfterValidator(check_encoding)]
JoinedSpellings = dict[str, dict[str, Annotated[list[str], Field(min_length=1)]]]
Sheet = Annotated[int, Field(ge=1)] | Annotated[str, Field(min_length=1)]


class TableSource(Section):
    """Location of the table: a known name, a file, folder or URL, or a query."""

    name: str
    """A known table (`evenhand datasets`), or a name for the table."""
    path: str | None = None
    """File, folder of Parquet files or URL; relative to the job file. A known table needs none."""
    format: Literal["csv", "parquet", "excel"] | None = None
    """Default: by the file's ending."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """Delimiter of a CSV file; default: detected from its header."""
    null_values: list[str] | None = None
    """Texts that mean a missing value in a CSV file; default: the usual ones."""
    encoding: Encoding | None = None
    """Encoding of a CSV file, such as `cp1252`; default: UTF-8."""
    decimal: Mark | Annotated[dict[str, Mark], Field(min_length=1)] | None = None
    """Decimal mark of numbers in text, `comma` (1.234,56) or `point` (1,234.56), of all columns or
    by column; numbers with the other mark are refused. Default: plain numbers only.
    """
    dates: Order | Annotated[dict[str, Order], Field(min_length=1)] | None = None
    """Order of dates in text, `day-first` (31.12.2024), `month-first` or `year-first` (2024/12/31),
    of all columns or by column. Default: ISO dates only, such as 2024-12-31.
    """
    sheet: Sheet | None = None
    """Sheet of an Excel file, its name or its number from 1; default: the first one with rows."""
    headers: Literal["numbered"] | None = None
    """`numbered`: where a CSV file or a sheet has a column name twice, the second column is called
    NAME_2, and one without a name `unnamed`. Default: such a file is refused.
    """
    spellings: JoinedSpellings | None = None
    """By column and by value, other values that are read as it: `{sex: {female: [f, F]}}`."""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """Digest that the file must have."""
    sql: str | None = None
    """Query to read instead of a file."""
    connection: str | None = None
    """SQLAlchemy URL for the query, or `$NAME` of the environment variable that has it."""
    rows: Annotated[int, Field(ge=10)] | None = None
    """Number of rows to generate, only for the tables `loans` (default: 20,000) and `hiring`
    (8,000).
    """


class Split(Section):
    """Share of test rows, and whether the split is stratified by the label (a proxy's: by the
    groups).
    """

    alternatives = (("by", "hash"),)

    test: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """Share of the rows that are held out for all measurements."""
    by: str | None = None
    """Column whose equal values stay together, in the training rows or in the test rows, and where
    a training holds rows out.
    """
    unit: Literal["person", "group"] = "person"
    """What a value of `by` names: a `person` of whom there are several rows, or a `group` of rows
    of several people, such as a word, a place or a day. `evaluate.min_cell` counts people, or the
    rows of groups.
    """
    hash: Literal["row"] | Annotated[list[str], Field(min_length=1)] | None = None
    """Hold rows out by a hash of these columns, whose equal values stay together, or of the `row`
    without ids; added rows move no other.
    """
    stratify: bool = True
    """Keep the shares of the label, or of a proxy's groups, equal in training and test rows."""

    @model_validator(mode="after")
    def _unit_of_a_column(self) -> Split:
        if self.unit == "group" and self.by is None:
            raise ValueError("unit says what a value of split.by names: give by, or leave unit out")
        return self

    def parameters(self) -> dict[str, Any]:
        """Return the keys as a parameter of steps; without `unit` where it is the default, for old
        keys.
        """
        if self.unit == "person":
            return self.model_dump(exclude={"unit"})
        return self.model_dump()


class Certificate(Section):
    """The audit of comparable treatment."""

    budget: Annotated[float, Field(ge=0)]
    """Mean squared fair distance that the adversary may move people."""


class Membership(Section):
    """The membership inference attack on the model."""

    shadows: Annotated[int, Field(ge=4, le=1024, multiple_of=2)] = 16
    """Number of shadow models, each of which is trained as the model is; an even number."""


class Text(Section):
    """How sentences become vectors."""

    encoder: str = TFIDF
    """`tfidf`, `minilm` (extra `text`), or the path of a folder that sentence-transformers saved.
    """
    size: Annotated[int, Field(ge=1, le=1000)] = 100
    """Largest length of a vector of `tfidf`; other encoders have their own."""
    tune_layers: Annotated[int, Field(ge=0, le=100)] = 0
    """Number of the encoder's last layers that are trained on the training rows' labels; not of
    `tfidf`.
    """
    tune_epochs: Annotated[int, Field(ge=1, le=100)] = 1
    """Passes of that training over the training sentences."""
    tune_device: Literal["cuda", "cpu"] = "cuda"
    """Where that training runs; a processor must be asked for, as it takes long."""

    @model_validator(mode="after")
    def _layers_to_tune(self) -> Text:
        if self.tune_layers and self.encoder == TFIDF:
            raise ValueError(
                "tune_layers is for transformers, and tfidf has no layers: leave it out"
            )
        return self


class TermSwap(Section):
    """Counterfactual sentences: one term in place of another."""

    terms: str | list[str | list[str]]
    """File with a term a line, or a group of terms a line with commas; or the list itself."""
    column: str
    """Column of sentences."""


class Evaluate(Section):
    """Measurements and their intervals."""

    counterfactuals: dict[str, dict[str, list[str | int | float | bool] | Literal["all"]]] = {}
    """By name the columns that a copy changes, with values or `all`; metric `consistency.NAME`. The
    word `adapted` in their place stands for the adapted copies of a learned fair metric.
    """
    terms: dict[str, TermSwap] = {}
    """By name terms (`evaluate.terms.terms`) of sentences (`evaluate.terms.column`); or as above.
    """
    adapted: list[str] = []
    """Names of adapted copies; or as above, as in `counterfactuals: {counterpart: adapted}`."""
    draws: Annotated[int, Field(ge=0, le=100_000)] = 1000
    """Bootstrap draws of the intervals; 0 for none."""
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """Coverage of the intervals."""
    min_cell: Annotated[int, Field(ge=1)] = 5
    """Smallest number of people in a group for its metrics to have a value."""
    intersections: bool = False
    """Measure also the intersections of all sensitive attributes."""
    certificate: Certificate | None = None
    """Audit of comparable treatment; default: with the budget of the method's training."""
    membership: Membership | None = None
    """Measure how well training rows, and sensitive attributes, can be inferred; default: do not.
    """
    reasons: Annotated[int, Field(ge=1, le=100)] | None = None
    """Reasons per prediction that `reasons_kept` compares between counterfactuals; default: not
    measured.
    """
    proof_parts: Annotated[int, Field(ge=0, le=100_000)] | Literal["none"] = 8
    """Effort of the proof of a certificate: parts split per person and distance; none: no proof."""
    certified_people: Annotated[int, Field(ge=20, le=100_000)] | None = None
    """Test rows, drawn at random, for which a certificate is searched and proved; default: 500, of
    sentences 50.
    """
    show_sentences: bool = False
    """Show the test sentences that terms move most: only where no person wrote them, as for
    templates.
    """

    @model_validator(mode="before")
    @classmethod
    def _kinds_apart(cls, content: Any) -> Any:
        if not isinstance(content, dict) or not isinstance(content.get("counterfactuals"), dict):
            return content
        changed_columns = {}
        terms = {**content.get("terms", {})}
        adapted = [*content.get("adapted", [])]
        for name, value in content["counterfactuals"].items():
            if isinstance(value, dict) and set(value) == {"terms", "column"}:
                terms[name] = value
            elif value == ADAPTED and name not in adapted:
                adapted.append(name)
            elif value != ADAPTED:
                changed_columns[name] = value
        kinds = {"counterfactuals": changed_columns, "terms": terms, "adapted": adapted}
        return {**content, **kinds}

    @field_validator("draws")
    @classmethod
    def _enough_draws(cls, value: int) -> int:
        if 0 < value < MIN_DRAWS:
            raise ValueError(f"expected at least {MIN_DRAWS} draws for an interval, or 0 for none")
        return value


class Costs(Section):
    """Costs of the two kinds of wrong decisions, in any unit."""

    false_positive: Annotated[float, Field(gt=0)]
    """Cost of a positive decision about a person whose label is negative."""
    false_negative: Annotated[float, Field(gt=0)]
    """Cost of a negative decision about a person whose label is positive."""


class Equal(Section):
    """Thresholds by group, so that the groups' rates differ by no more than a tolerance."""

    criterion: Literal["equalized_odds", "equal_opportunity", "demographic_parity"]
    """Which rates: true and false positive rates; the share of people with the favourable label who
    are decided so (true positive rates, where the positive label is favourable); or rates of
    positive decisions.
    """
    tolerance: Annotated[float, Field(ge=0, le=1)] = 0.05
    """Largest difference between two groups' rates on the rows that the thresholds are chosen on.
    Groups with fewer than `evaluate.min_cell` of these rows of a label share one set of thresholds,
    and their rates may differ by more.
    """
    attribute: str | None = None
    """Sensitive column of the groups, or several as `sex&race`, whose crossed groups then get
    thresholds; default: the only one. They are needed wherever decisions are made.
    """
    smoothing: Annotated[float, Field(ge=0, le=1)] | Literal["auto"] = 0.0
    """On few rows: share by which calibrated probabilities count in place of labels when the
    thresholds are chosen, so that these do not follow single people; `auto` is 2000 / (2000 +
    rows) up to 5,000 rows, and 0 with more. `tolerance` is then about these shares.
    """


class DecisionRule(Section):
    """How decisions are made from the model's probabilities."""

    alternatives = (("threshold", "rate", "costs"),)

    threshold: (
        Annotated[float, Field(ge=0, le=1)]
        | Literal["observed", "balanced", "max_accuracy", "own"]
        | None
    ) = None
    """Positive from this probability on; `observed` for as many positive decisions as the data has,
    `balanced` (default) for the largest balanced accuracy, `max_accuracy` for the largest accuracy,
    `own` for the method's own decision."""
    rate: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Instead of a threshold: share of people with a positive decision."""
    costs: Costs | None = None
    """Instead of a threshold: costs of wrong decisions, whose expected sum is made smallest."""
    equal: Equal | None = None
    """Thresholds by group; together with `costs`, or with a threshold in words."""
    folds: Annotated[int, Field(ge=2, le=50)] | None = None
    """Calibrate and choose on all training rows, each predicted by a model of the other folds: so
    many more trainings. Default: on the rows that the method holds out, or a share of 0.15.
    """

    @field_validator("threshold", mode="before")
    @classmethod
    def _number_or_word(cls, value: Any) -> Any:
        threshold = as_number(value)
        if threshold is None or threshold in (*GROUP_THRESHOLDS, "own"):
            return threshold
        is_number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
        if is_number and 0 <= threshold <= 1:
            return threshold
        raise ValueError(
            f"is {value!r}, expected a number from 0 to 1, observed, balanced, max_accuracy or own"
        )

    @model_validator(mode="after")
    def _equal_by_a_rule(self) -> DecisionRule:
        if self.equal and (
            self.rate is not None or self.threshold not in (None, *GROUP_THRESHOLDS)
        ):
            other_rule = f"threshold {self.threshold}"
            if self.rate is not None:
                other_rule = "rate"
            raise ValueError(
                f"has both equal and {other_rule}: thresholds by group need costs, observed, "
                "balanced or max_accuracy"
            )
        return self

    @property
    def is_own(self) -> bool:
        """Whether the method itself decides."""
        return self.threshold == "own"

    @property
    def named_threshold(self) -> float | str | None:
        """The threshold, also where it is the default; None where costs or a share decide."""
        if self.threshold is None and self.rate is None and self.costs is None:
            return "balanced"
        return self.threshold


class Paper(Section):
    """The row of a paper that the report shows next to our results.

    A base may have a whole table instead of `row`: `methods`, and in `table` for each metric a list
    with a pair for each of them. A job shows the row of its method, if there is one.
    """

    source: str
    """Paper and table."""
    row: dict[str, tuple[float, float | None]]
    """By metric the printed mean and standard deviation; null if the paper prints none."""


class Publish(Section):
    """Name in the model registry, and alias of a model that has passed."""

    model: Annotated[str, Field(pattern=f"^{NAME.pattern}$")] | None = None
    """Name in the registry; default: the job's."""
    alias: Annotated[str, Field(pattern=ALIAS), AfterValidator(check_alias)] = "champion"
    """Alias of a model that has passed."""
    without_policy: bool = False
    """Make a model champion by the job's own gates alone, where `evenhand policy set` has set no
    policy.
    """
    intended_use: str | None = None
    """A sentence for the model card."""
    encoder_weights: bool = False
    """Copy the weights of the encoder of sentences into the model, which then loads without that
    encoder.
    """


class Retrain(Section):
    """When a retraining that runs only if something changed trains again."""

    on_code_change: Literal["never", "listed", "always"] = "always"
    """Whether a new release of evenhand or of a numeric library is a reason to train again, where
    data, job and contract are the same: `listed` waits for the night that `evenhand upgrade-report
    --write` gives the model.
    """


class ParallelSection(Section):
    """Engine that runs work in parallel, and its number of workers."""

    engine: str
    """Engine that runs the work."""
    workers: Annotated[int, Field(ge=1)] | None = None
    """Number of workers; default: one per core."""
    address: str | None = None
    """Address of a running Dask scheduler; default: a cluster on this machine."""

    @field_validator("address")
    @classmethod
    def _address_of_dask(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("engine") != "dask":
            raise ValueError(
                "address is that of a Dask scheduler: set engine to dask, or leave address out"
            )
        return value


class Cluster(Section):
    """The processes that run a run's steps."""

    dask: str | None = None
    """Address of a Dask scheduler (`tcp://scheduler:8786`); default: `DASK_SCHEDULER_ADDRESS`, or
    none.
    """


class Sweep(ParallelSection):
    """Engine that runs a grid: worker processes of this machine, or Dask."""

    engine: Literal["processes", "dask"] = "processes"
    """Worker processes of this machine, or Dask."""


class Balance(Section):
    """A published proxy that selects a classifier's training rows."""

    proxy: Annotated[str, Field(pattern=f"^{NAME.pattern}$")]
    """Name of the published proxy."""
    alias: Annotated[str, Field(pattern=ALIAS)] = "champion"
    """Alias of the proxy's version."""


class FileSection(ParallelSection):
    """How files are read and written, and the engine: threads of this process, or Dask."""

    format: Literal["parquet", "csv", "excel"] | None = None
    """Format of the input; default: by each file's ending."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """Delimiter of CSV input; default: detected from the header."""
    null_values: list[str] | None = None
    """Texts that mean a missing value in CSV input; default: the usual ones."""
    encoding: Encoding | None = None
    """Encoding of a CSV file, such as `cp1252`; default: as the model's table, or UTF-8."""
    decimal: Mark | Annotated[dict[str, Mark], Field(min_length=1)] | None = None
    """Decimal mark of numbers in text, `comma` (1.234,56) or `point` (1,234.56), of all columns or
    by column; numbers with the other mark are refused. Default: as the model's table.
    """
    dates: Order | Annotated[dict[str, Order], Field(min_length=1)] | None = None
    """Order of dates in text, `day-first` (31.12.2024), `month-first` or `year-first` (2024/12/31),
    of all columns or by column. Default: as the model's table.
    """
    sheet: Sheet | None = None
    """Sheet of Excel files, its name or its number from 1; default: as the model's table, or the
    first one with rows.
    """
    headers: Literal["numbered"] | None = None
    """Whether a column name that occurs twice gets a number; default: as the model's table."""
    spellings: JoinedSpellings | None = None
    """By column and by value, other values that are read as it; default: as the model's table."""
    compression: Literal["snappy", "zstd", "gzip", "lz4", "none"] = "snappy"
    """Compression of the output."""
    rows_per_unit: Annotated[int, Field(ge=1)] = 1_000_000
    """Largest number of rows of an output part; a Parquet row group is never divided."""
    settle_seconds: Annotated[float, Field(ge=0)] | None = None
    """Watch the input: files changed within so many seconds wait, and no new file is not an error.
    """
    partition_by: str | None = None
    """Column of an input table `URL#TABLE` whose values, such as days, are done one after another;
    default: the whole table at once.
    """
    partitions: str | None = None
    """Values of `partition_by` that are done, `A..B` with both ends; an end may be left out.
    Default: all that are new or have changed.
    """
    watermark: str | None = None
    """Column of an input table whose largest value shows that a partition has changed, in addition
    to its number of rows.
    """
    engine: Literal["threads", "dask"] = "threads"
    """Threads of this process, or Dask."""


class Filter(FileSection):
    """How a published proxy filters files, and its engine: threads of this process, or Dask."""

    seed: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    """Seed of the rows' uniform numbers; default: the job's."""
    hash: Literal["splitmix", "sha256"] = "splitmix"
    """Hash of the rows' uniform numbers; `sha256` is slower, and SQL can compute it (`evenhand
    export`).
    """
    key: Annotated[list[str], Field(min_length=1)] | None = None
    """Columns that identify a row; default: all model inputs that are not sensitive."""
    probability: bool = False
    """Add the column `acceptance_probability`, which discloses more than the kept row does."""
    sensitive: Literal["drop", "refuse"] = "drop"
    """Leave sensitive columns out of the output, or refuse a file that has one."""
    max_drift: Annotated[float, Field(ge=0)] = 0.2
    """Population stability index above which the report warns."""


# How long `evenhand tune` searches where the job gives no limit.
TUNE_MINUTES = 20.0


class Tune(ParallelSection):
    """What `evenhand tune` searches for, how long, and the engine that judges models."""

    engine: Literal["processes", "dask"] = "processes"
    """Worker processes of this machine, or Dask."""
    maximize: list[str] = []
    """Metrics to make as large as possible; default: `balanced_accuracy`, unless `minimize` has
    one.
    """
    minimize: list[str] = []
    """Metrics to make as small as possible."""
    where: list[str] = []
    """Limits, such as `gap_max.sex <= 0.1`."""
    prefer: str | None = None
    """Metric by which the winner is chosen among trials within the limits; default: the first
    objective.
    """
    confidence: Annotated[float, Field(ge=0.5, le=0.99)] | None = None
    """Chance of at least this much that unseen rows keep each limit, from 0.5, where the value of
    the validation rows decides, to 0.99. Default: 0.9; if no trial reaches it, the highest of 0.8,
    0.7, 0.6 and down to 0.2 that one reaches.
    """
    bound: Literal["auto", "interval", "point", "prediction"] | None = None
    """Old spelling of `confidence`, read with a note: `point` is 0.5, `interval` 0.8, `prediction`
    0.975, and `auto` is the default.
    """
    methods: Annotated[list[str], Field(min_length=1)] | None = None
    """Methods to try; default: the job's own, `gbdt`, `logistic`, `reweigh`, and with `consistency`
    also `project`.
    """
    space: dict[str, Any] = {}
    """By method the parameters, and `leave_out`, with values or ranges; also `decision`,
    `tolerance` and `calibration`.
    """
    sampler: Literal["tpe", "nsga2", "nsga3"] = "tpe"
    """How candidates are proposed: by density models of good ones, or by a genetic algorithm."""
    minutes: Annotated[float, Field(ge=0.5)] | None = None
    """Minutes within which the whole command ends; default: 20, unless `trials` or `cpu_minutes` is
    given.
    """
    cpu_minutes: Annotated[float, Field(ge=0.25)] | None = None
    """Minutes of CPU time of the whole command with all its processes on this machine."""
    alternative_to: str | None = None
    """A job, or a published model that the job trained. Models at least as good as it are searched
    that have a smaller disparity, the metric of `minimize` (default: `gap_max` of the first
    sensitive column).
    """
    no_worse: list[str] = []
    """What such a model must keep, such as `balanced_accuracy by 0.005`, which is the default."""
    alternative_gap: Annotated[float, Field(ge=0)] | None = None
    """Largest difference between the disparity of the model and that of the best alternative; with
    more, the command ends with 1.
    """
    until_gain: Annotated[float, Field(gt=0)] | None = None
    """A search for alternatives ends when one further random setting would gain at most so much of
    the disparity on average, by its bound.
    """
    trials: Annotated[int, Field(ge=1)] | None = None
    """Number of models that are judged in the whole study; each is one trial per rule of decisions.
    """
    folds: Annotated[int, Field(ge=2, le=50)] | None = None
    """Number of folds; default: 5, and 3 from 5,000 training rows on."""
    repeats: Annotated[int, Field(ge=0, le=100)] = 0
    """How often the winner is trained again with another seed, and measured on the same test rows.
    """
    study: Annotated[str, Field(pattern=f"^{NAME.pattern}$")] | None = None
    """Name of the study; default: the job's, with a digest of what is searched."""

    @property
    def wall_seconds(self) -> float:
        """Limit of wall-clock seconds; infinite where another limit is the only one."""
        has_other_limit = self.trials is not None or self.cpu_minutes is not None
        if self.minutes is None and has_other_limit:
            return math.inf
        return 60.0 * (self.minutes or TUNE_MINUTES)

    @property
    def shortest_seconds(self) -> float:
        """The smaller limit of seconds, of the wall clock or of the CPU."""
        if self.cpu_minutes is None:
            return self.wall_seconds
        return min(self.wall_seconds, 60.0 * self.cpu_minutes)


class Tuned(Section):
    """The study that chose a job's method; `evenhand tune` writes it."""

    study: str
    """Name of the study."""
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """Digest of what was searched and of all trials."""


# the section `fair_metric`: a class for each kind of metric

DEFAULT_KIND = "sensitive-subspace"
Names = Annotated[list[str], Field(min_length=1)]


class SubspaceMetric(Section):
    """The sensitive subspace."""

    kind: Literal["sensitive-subspace"] = "sensitive-subspace"
    """How the metric is learned."""
    indicators: list[str] | None = None
    """Model inputs whose columns are ignored; default: the sensitive ones."""
    learned: list[str] | None = None
    """Attributes whose predictive direction is ignored; default: all sensitive ones."""
    strength: Annotated[float, Field(gt=0)] = 0.1
    """Penalty of the logistic models whose coefficients are the directions."""


class ComparableMetric(Section):
    """A metric learned from comparable people: counterfactual copies, or rows that share some
    values.
    """

    alternatives: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("counterfactuals", "comparable_by"),
        ("corpus", "comparable_by"),
    )

    kind: str
    """How the metric is learned."""
    counterfactuals: Names | None = None
    """Learn from people and these copies of `evaluate.counterfactuals`; default: all."""
    comparable_by: Names | None = None
    """Or learn from people who share the values of these model inputs."""
    corpus: str | None = None
    """File of sentences, one a line, whose copies with other terms are learned from, in place of
    the training rows'; `{}` in a line is a place for a term.
    """

    def copies(self, defined: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of the job's counterfactuals to learn from; none with `comparable_by`."""
        if self.comparable_by:
            return {}
        return {name: defined[name] for name in self.counterfactuals or defined}


class FaceMetric(ComparableMetric):
    """The metric FACE."""

    alternatives = (*ComparableMetric.alternatives, ("n_directions", "explained_variance"))

    kind: Literal["face"]
    """How the metric is learned."""
    n_directions: Annotated[int, Field(ge=1)] | None = None
    """Number of directions to ignore; default: as many as `explained_variance` needs."""
    explained_variance: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of the squared differences to ignore; default: 0.95."""


class ExploreMetric(ComparableMetric):
    """The metric EXPLORE."""

    kind: Literal["explore"]
    """How the metric is learned."""
    strength: Annotated[float, Field(gt=0)] = 0.01
    """Penalty on the trace; a larger one ignores more."""
    pairs: Annotated[int, Field(ge=1)] = 20_000
    """Largest number of comparable, and of incomparable, pairs that are drawn."""


class LearnedByEvidence(Section):
    """A metric whose removed and adapted columns are chosen by evidence on the training rows."""

    kind: Literal["learned"]
    """How the metric is learned."""
    legitimate: list[str] | None = None
    """Model inputs whose differences between groups stay, and explain those of other columns;
    default: those that the contract marks as legitimate.
    """
    explained_variance: Annotated[float, Field(gt=0, le=1)] = 0.99
    """Share of the squared differences between people and their adapted copies to ignore."""


METRIC_KINDS: dict[str, type[Section]] = {
    "sensitive-subspace": SubspaceMetric,
    "face": FaceMetric,
    "explore": ExploreMetric,
    "learned": LearnedByEvidence,
}
FairMetric = Annotated[
    SubspaceMetric | FaceMetric | ExploreMetric | LearnedByEvidence, Field(discriminator="kind")
]


class Job(Section):
    """A job as written in its file."""

    name: str
    """Name of the job, and of its model in the registry unless `publish.model` gives another."""
    description: str = ""
    """One line that `evenhand jobs` and the report show."""
    table: TableSource
    """Location of the table; a known name alone is enough, as in `table: adult`."""
    contract: str | None = None
    """Shipped contract, or path relative to the job file; default: the contract named like the
    table.
    """
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    """Seed of the split, the training and the intervals."""
    memory: Annotated[str, Field(pattern=SIZE)] | None = None
    """Memory that training may use, such as `4GB`; default: what is free. Rows beyond it stay in
    files.
    """
    engine: Cluster = Cluster()
    """Processes that run the steps."""
    sensitive: Annotated[list[str], Field(min_length=1)] | None = None
    """Sensitive columns that the method uses, or that a proxy balances; default: all."""
    leave_out: list[str] = []
    """Columns that are no model inputs in this job; groups of sensitive ones are still measured."""
    text: Text = Text()
    """How sentences become vectors, for columns with the encoding `text`."""
    split: Split = Split()
    """How test rows are held out."""
    balance: Balance | None = None
    """A published proxy that filters the training rows; default: none."""
    fair_metric: FairMetric = SubspaceMetric()
    """The fair metric, for methods that use one: which differences between people count."""
    method: dict[str, Any]
    """The method's name and its own keys; a name alone is enough, as in `method: gbdt`."""
    calibration: Literal["auto", "none", "sigmoid", "isotonic", "beta"] = "auto"
    """Calibration of the probabilities on held-out rows; `auto` chooses by cross-validated log
    loss.
    """
    decision: DecisionRule = DecisionRule()
    """How decisions are made from the probabilities; a threshold alone is enough, as in `decision:
    own`.
    """
    evaluate: Evaluate = Evaluate()
    """Measurements and their intervals."""
    gates: dict[str, dict[str, Any]] = {}
    """Limits by metric for a model to be published: `min`, `max`, and `bound: point` or `interval`.
    """
    publish: Publish = Publish()
    """Name and alias of a model that has passed."""
    retrain: Retrain = Retrain()
    """When `evenhand run --if-changed` and scheduled retrainings train again."""
    sweep: Sweep = Sweep()
    """Workers that run a grid."""
    filter: Filter = Filter()
    """How the job's published proxy filters files; only for jobs that learn a proxy."""
    tune: Tune = Tune()
    """What `evenhand tune` searches for."""
    tuned: Tuned | None = None
    """The study that chose the method and its keys; default: none."""
    paper: Paper | None = None
    """A row of a paper, which the report shows next to our results; default: none."""

    @field_validator("name")
    @classmethod
    def _plain_name(cls, value: str) -> str:
        if not NAME.fullmatch(value):
            raise ValueError("use letters, digits, dots, dashes and underscores")
        return value

    @field_validator("memory", mode="before")
    @classmethod
    def _size_with_unit(cls, value: Any) -> Any:
        if value is None or re.fullmatch(SIZE, str(value)):
            return value
        raise ValueError(f"is {value!r}: write a number with MB, GB or TB, such as 4GB")

    @field_validator("sensitive")
    @classmethod
    def _each_once(cls, value: list[str] | None) -> list[str] | None:
        if value is not None and len(set(value)) < len(value):
            raise ValueError("a column is listed twice: keep one of them")
        return value

    @field_validator("table", "method", mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        return value

    @field_validator("decision", mode="before")
    @classmethod
    def _threshold_alone(cls, value: Any) -> Any:
        if isinstance(value, dict | DecisionRule):
            return value
        return {"threshold": value}

    @field_validator("fair_metric", mode="before")
    @classmethod
    def _default_kind(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {"kind": DEFAULT_KIND, **value}
        return value

    @field_validator("paper", mode="before")
    @classmethod
    def _row_of_method(cls, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, dict) or "methods" not in value:
            return value
        row = {key: item for key, item in value.items() if key not in ("methods", "table")}
        if "row" in row:
            return row
        try:
            chosen = list(value["methods"]).index(info.data.get("method", {}).get("name"))
            return row | {
                "row": {metric: pairs[chosen] for metric, pairs in value["table"].items()}
            }
        except ValueError:
            return None
        except (AttributeError, IndexError, KeyError, TypeError):
            raise ValueError(
                "needs a list of methods, and a table of metrics with a pair for each"
            ) from None

    @field_validator("gates", mode="before")
    @classmethod
    def _numbers(cls, value: Any) -> Any:
        return as_number(value)

    @property
    def decides(self) -> bool:
        """Whether the probabilities are calibrated or the job decides; else the method does all by
        itself.
        """
        return self.calibration != "none" or not self.decision.is_own

    @model_validator(mode="after")
    def _source_is_one(self) -> Job:
        if self.table.path and self.table.sql:
            raise ValueError("table has both path and sql: keep one")
        names = [*RECIPES, *GENERATED]
        has_place = self.table.path or self.table.sql
        if not has_place and self.table.name not in names:
            raise ValueError(
                f"table {self.table.name!r} is not a known table{nearest(self.table.name, names)}: "
                "give table.path or table.sql"
            )
        return self
