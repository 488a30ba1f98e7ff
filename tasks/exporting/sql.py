"""A published classifier or proxy as one SQL query, its encoding of raw columns included.

Expressions over raw columns are written once and translated by sqlglot. The sums of the model are
the same text in every dialect: numbers, CASE, AND and the names of our own columns.
"""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import sqlglot

from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.suites import needs_value
from evenhand.fairlib.arrays import Float
from evenhand.fairlib.certificates._tree_kernels import TreeArrays
from evenhand.fairlib.preprocessing.encoder import (
    DATE_KINDS,
    MISSING,
    MONTH,
    TRUTH,
    WEEKDAY,
    FittedColumn,
    TableEncoder,
    category_name,
)
from evenhand.fairlib.proxies.graph import SplittingGraph
from evenhand.fairlib.proxies.hash_uniform import DIGITS, UNHASHED
from evenhand.tasks.errors import InputError
from evenhand.tasks.exporting.score import (
    Score,
    calibrated,
    raw_splits,
    read_classifier,
    sigmoid,
)
from evenhand.tasks.filtering.checks import PROBABILITY
from evenhand.tasks.filtering.filter_bundle import FilterSettings, ProxyBundle, key_columns
from evenhand.tasks.registry.bundle import Bundle


class Dialect(NamedTuple):
    """What sqlglot does not translate."""

    hashed: str  # SHA-256 of a text in hexadecimal digits
    row: str = "*"  # the given row, in the first table expression
    given: str = "* EXCEPT ({})"  # the given columns without our own
    materialized: str = ""  # keeps the planner from repeating an expression wherever it is used
    float32: bool = False  # whether the sum of leaves can be XGBoost's own


DIALECTS = {
    "duckdb": Dialect("SHA256({})", given="* EXCLUDE ({})", float32=True),
    "postgres": Dialect(
        "ENCODE(SHA256(CONVERT_TO({}, 'UTF8')), 'hex')",
        "t AS evenhand_row",
        "(evenhand_row).*",
        " MATERIALIZED",
        float32=True,
    ),
    "bigquery": Dialect("TO_HEX(SHA256({}))"),
    "snowflake": Dialect("SHA2({}, 256)", given="* EXCLUDE ({})"),
    "spark": Dialect("SHA2({}, 256)", "STRUCT(*) AS evenhand_row", "evenhand_row.*", float32=True),
}
# Trees that are summed in one expression: DuckDB limits the depth of expressions.
TREES_PER_LAYER = 200
SEPARATOR = ",\n  "
OPERATIONS = {
    **{sign: f"({{}} {sign} {{}})" for sign in "+-*/"},
    "min": "LEAST({}, {})",
    "max": "GREATEST({}, {})",
    "exp": "EXP({})",
    "ln": "LN({})",
}
KEY_TYPES = {"integer": "BIGINT", "date": "DATE", "boolean": "BOOLEAN"}
LARGEST = float(np.finfo(np.float64).max)


class Query:
    """Table expressions, each of which adds columns to the one before, for the rows of one table.

    The first reads and cleans the raw columns. ``terms`` has for each matrix column, in order, its
    number before scaling with that scaling, or the condition under which it is 1. An `InputError`
    for a malformed table name.
    """

    def __init__(self, encoder: TableEncoder, contract: Contract, dialect: str, table: str) -> None:
        self.encoder = encoder
        self.contract = contract
        self.dialect = dialect
        self.form = DIALECTS[dialect]
        self.real, self.double = (
            self.translate(f"CAST(x AS {kind})")[10:-1] for kind in ("FLOAT", "DOUBLE")
        )
        # the literals of PostgreSQL are decimal numbers, and a sum that begins with this is a
        # binary one
        self.zero = f"CAST(0 AS {self.double})"
        if not re.fullmatch(r"""[\w$."`-]+""", table):
            raise InputError(f"--table {table!r} is no table's name: give one such as shop.people.")
        self.table = table
        self.note = (
            f"{dialect} has no float32, to which the model rounds: a row may be decided otherwise "
            "where"
        )
        self.layers: list[dict[str, str]] = [{}]
        self.terms: list[tuple[str, FittedColumn | None]] = []
        self.valid: list[str] = []  # conditions without which there is no answer
        self.numbers: dict[str, str] = {}  # of each column its number, where it has one
        self.texts: dict[str, str] = {}  # of each categorical column its category's name
        self.missing: dict[str, str] = {}  # condition of a missing value
        for place, item in enumerate(encoder.fitted_):
            slug = re.sub(r"[^a-z0-9]", "_", item.name.lower())[:30]
            self._read(item, f"evenhand_{place}_{slug}")

    def translate(self, text: str) -> str:
        """Write an expression of sqlglot's common dialect in the query's dialect."""
        return sqlglot.parse_one(text).sql(dialect=self.dialect)

    def raw(self, name: str) -> str:
        """Column of the table."""
        # unquoted names, the usual ones, are upper case in Snowflake
        plain = self.dialect == "snowflake" and re.fullmatch("[a-z_][a-z0-9_]*", name)
        if plain:
            name = name.upper()
        return quoted(name, '"')

    def add(self, **columns: str) -> None:
        """Add a table expression with columns."""
        self.layers.append(columns)

    def _read(self, item: FittedColumn, name: str) -> None:
        """Add a column of the table: its number, its category's name, and the terms that it
        gives.
        """
        kind = self.contract.column(item.name).logical_type
        gone = self._gone(item, kind)
        raw = self.raw(item.name)
        number = f"CAST({raw} AS DOUBLE)"
        if item.kind in DATE_KINDS:
            number = f"DATE_DIFF(CAST({raw} AS DATE), CAST('1970-01-01' AS DATE), DAY)"
        if item.kind in ("onehot", "binary", "ordinal"):
            text = self._read_text(item, name, kind, gone, number)
            if item.kind != "ordinal":
                self._add_categories(item, name, kind, number)
                return
            ranks = [f"WHEN {quoted(c)} THEN {rank}" for rank, c in enumerate(item.categories)]
            number = f"CASE {text} {' '.join(ranks)} END"
        self._add_numbers(item, name, gone, number)

    def _read_text(self, item: FittedColumn, name: str, kind: str, gone: str, number: str) -> str:
        """Add the category's name of a column; its expression."""
        value = self._category(item, kind, number)
        text = f"CASE WHEN {gone} THEN {quoted(MISSING)} ELSE {value} END"
        self.texts[item.name] = f"{name}_text"
        self.layers[0][f"{name}_text"] = self.translate(text)
        self.missing[item.name] = f"{name}_text = {quoted(MISSING)}"
        if self.encoder.unseen == "error":
            accepted = self._literals(self.encoder.accepted(item.name))
            self.valid.append(f"{name}_text IN ({accepted})")
        return text

    def _add_categories(self, item: FittedColumn, name: str, kind: str, number: str) -> None:
        """Add a term for each encoded category of a column."""
        if kind in ("integer", "number"):
            self.numbers[item.name] = f"{name}_number"
            self.layers[0][f"{name}_number"] = self.translate(number)
        encoded = item.categories
        if item.kind != "onehot":
            encoded = item.categories[1:]
        for category in encoded:
            self.terms.append((f"{name}_text = {self._literals([category])}", None))

    def _add_numbers(self, item: FittedColumn, name: str, gone: str, number: str) -> None:
        """Add the numbers of a column, those of a calendar's month and weekday too, as terms."""
        first = self.layers[0]
        raw = self.raw(item.name)
        parts = {"": (number, item)}
        if item.kind == "calendar":
            month = FittedColumn("", "standard", *MONTH)
            weekday = FittedColumn("", "standard", *WEEKDAY)
            parts["_month"] = (f"EXTRACT(MONTH FROM CAST({raw} AS DATE))", month)
            parts["_weekday"] = (f"MOD(MOD({number} + 3, 7) + 7, 7)", weekday)
        for part, (value, scaling) in parts.items():
            if item.missing:
                value = f"CASE WHEN {gone} THEN NULL ELSE {value} END"
            filled = f"COALESCE(CAST({value} AS DOUBLE), {literal(scaling.mean)})"
            first[name + part] = self.translate(f"CAST({filled} AS DOUBLE)")
            self.terms.append((name + part, scaling))
            if not part:
                first[f"{name}_missing"] = self.translate(f"{value} IS NULL")
        self.valid.append(f"{name} BETWEEN {literal(-LARGEST)} AND {literal(LARGEST)}")
        self.missing[item.name] = f"{name}_missing"
        self.numbers.setdefault(item.name, name)
        if item.indicates_missing:
            self.terms.append((f"{name}_missing", None))

    def _gone(self, item: FittedColumn, kind: str) -> str:
        """Condition of a missing value."""
        raw = self.raw(item.name)
        texts = [str(value) for value in item.missing]
        if not texts:
            return f"{raw} IS NULL"
        if kind in ("integer", "number") and not any(
            isinstance(value, str) for value in item.missing
        ):
            return (
                f"{raw} IS NULL OR CAST({raw} AS DOUBLE) IN "
                f"({', '.join(map(literal, item.missing))})"
            )
        return f"{raw} IS NULL OR TRIM(CAST({raw} AS TEXT)) IN ({', '.join(map(quoted, texts))})"

    def _category(self, item: FittedColumn, kind: str, number: str) -> str:
        """Name of a category, as the encoder gives it."""
        text = f"CAST({self.raw(item.name)} AS TEXT)"
        if kind == "boolean":
            whens = [
                f"WHEN {quoted(key)} THEN '{category_name(truth)}'" for key, truth in TRUTH.items()
            ]
            return f"CASE LOWER(TRIM({text})) {' '.join(whens)} ELSE {text} END"
        if kind in ("integer", "number"):
            whens = [
                f"WHEN {literal(float(category))} THEN {quoted(category)}"
                for category in item.categories
                if category != MISSING
            ]
            if not whens:
                return "''"
            return f"CASE {number} {' '.join(whens)} ELSE '' END"
        if item.other:
            listed = ", ".join(map(quoted, item.categories))
            return f"CASE WHEN {text} IN ({listed}) THEN {text} ELSE {quoted(item.other)} END"
        return text

    def _literals(self, values: Iterable[Any]) -> str:
        """Values as a list of the dialect's literals."""
        literals = []
        for value in values:
            text = quoted(value) if isinstance(value, str) else str(value)
            literals.append(self.translate(text))
        return ", ".join(literals)

    def encode(self) -> None:
        """Add the encoded matrix, rounded to float32 where the dialect has it."""
        columns = {}
        for place, (term, scaling) in enumerate(self.terms):
            value = f"CASE WHEN {term} THEN 1 ELSE 0 END"
            if scaling is not None:
                scaled = f"({term} - {literal(scaling.centre)}) / {literal(scaling.scale)}"
                value = f"CAST({scaled} AS {self.real})"
            columns[f"evenhand_e{place}"] = f"CAST({value} AS {self.double})"
        self.add(**columns)

    def linear(self, weights: Float, intercept: float) -> str:
        """Sum of the encoded columns' terms in their order, as the model adds them."""
        used = [f" + evenhand_e{place} * {literal(w)}" for place, w in enumerate(weights) if w]
        return f"{self.zero}{''.join(used)} + {literal(intercept)}"

    def _splits(self, score: Score) -> dict[int, str]:
        """By node the condition under which a split sends a row left."""
        conditions: dict[int, str] = {}
        for node, column, cut in raw_splits(score, [scaling for _, scaling in self.terms]):
            term, scaling = self.terms[column]
            if scaling is None:
                conditions[node] = _left_of(term, cut)
            else:
                sign = "<" if scaling.scale > 0 else ">="
                conditions[node] = f"{term} {sign} {literal(cut)}"
        return conditions

    def classify(self, score: Score, negative: Any, positive: Any) -> dict[str, str]:
        """Add the score and the probability of a classifier; the columns that the query answers
        with.
        """
        if score.trees is None:
            self.encode()
            ((weights, bias),) = score.layers
            self.add(evenhand_score=self.linear(weights[:, 0], float(bias[0])))
        else:
            trees = score.trees
            splits = self._splits(score)
            total = f"CAST({literal(trees.base)} AS {self.real})"
            for start in range(0, len(trees.roots), TREES_PER_LAYER):
                name = f"evenhand_sum{start}"
                for root in trees.roots[start : start + TREES_PER_LAYER]:
                    total += f"\n  + CAST({_tree(trees, int(root), splits)} AS {self.real})"
                self.add(**{name: total})
                total = name
            self.add(evenhand_score=total)
        margin = f"({self.zero} + evenhand_score)"
        if score.trees is None:
            probability = sigmoid(self, margin)
        else:  # XGBoost computes it in float32
            single = sigmoid(self, margin, lambda value: f"CAST({_operand(value)} AS {self.real})")
            probability = f"CAST({single} AS {self.double})"
        self.add(evenhand_p=probability, evenhand_valid=" AND ".join(self.valid) or "1 = 1")
        sign = ">=" if score.rising else "<"
        decided = f"evenhand_score {sign} {literal(score.cut)}"
        if np.isinf(score.cut):
            decided = "1 = 1" if score.cut < 0 else "1 = 0"
        chosen = (
            f"CASE WHEN {decided} THEN {self._literals([positive])} ELSE "
            f"{self._literals([negative])} END"
        )
        outputs = {
            "prediction": chosen,
            "probability": calibrated(self, score.calibration, "evenhand_p"),
        }
        return {name: f"CASE WHEN evenhand_valid THEN {text} END" for name, text in outputs.items()}

    def __call__(self, operator: str, *operands: Any) -> str:
        """Write an operation for :func:`calibrated`."""
        return OPERATIONS[operator].format(*map(_operand, operands))

    def keep(self, name: str, value: str) -> str:
        """Add a column for a result that is used more than once."""
        self.add(**{f"evenhand_{name}": value})
        return f"evenhand_{name}"

    def interpolate(self, x: str, knots: Sequence[float], values: Sequence[float]) -> str:
        """Write a piecewise linear function, constant outside its knots."""
        whens = [f"WHEN {x} <= {literal(knots[0])} THEN {literal(values[0])}"]
        for (a, b), (low, high) in zip(
            itertools.pairwise(knots), itertools.pairwise(values), strict=True
        ):
            line = f"{literal(low)} + ({x} - {literal(a)}) * {literal((high - low) / (b - a))}"
            whens.append(f"WHEN {x} <= {literal(b)} THEN {line}")
        return f"CASE {' '.join(whens)} ELSE {literal(values[-1])} END"

    def accept(self, graph: SplittingGraph, acceptance: Float) -> str:
        """Add the shares of a proxy's graph, in the order of the kernel; the acceptance
        probability.
        """
        self.encode()
        self.add(**self._shares(graph))
        nodes = len(graph.one)
        level = [0] + [1] * (nodes - 1)
        whole = f"CAST(1 AS {self.double})"
        received: dict[int, str] = {}
        if not nodes:
            received[-1] = whole
        for node in range(nodes):
            weight = f"evenhand_w{node}" if node else whole
            share = f"evenhand_share{node}"
            for child, sent in ((graph.one[node], ""), (graph.zero[node], f"{weight} - ")):
                received[child] = f"{received.get(child, self.zero)} + ({sent}{weight} * {share})"
                if child >= 0:
                    level[child] = max(level[child], level[node] + 1)
        for depth in range(1, max(level, default=0) + 1):
            inside = [node for node in range(nodes) if level[node] == depth]
            self.add(**{f"evenhand_w{node}": received.get(node, self.zero) for node in inside})
        total = ""
        for group, rho in enumerate(acceptance):
            total += f" + ({received.get(-1 - group, self.zero)}) * {literal(rho)}"
        return f"LEAST({self.zero}{total}, 1e0)"

    def _shares(self, graph: SplittingGraph) -> dict[str, str]:
        """The share of a row that each node of the graph sends to its first child."""
        halves = [*zip(graph.coefficients, graph.intercepts, graph.mixture, strict=True)]
        shares = {}
        for node, (start, stop) in enumerate(itertools.pairwise(graph.starts)):
            parts = ""
            for normal, b, p in halves[int(start) : int(stop)]:
                parts += f" + CASE WHEN {self.linear(normal, b)} > 0 THEN {literal(p)} ELSE 0 END"
            shares[f"evenhand_share{node}"] = f"LEAST({self.zero}{parts}, 1e0)"
        return shares

    def uniform(self, key: Sequence[str], seed: int) -> str:
        """Add the SHA-256 of the key; the number in [0, 2**52) of its first 13 digits, exact as a
        double.

        The text is that of :func:`evenhand.fairlib.proxies.hash_uniform.sha256_uniforms`.
        """
        text = quoted(str(seed))
        kinds = {column.name: column.logical_type for column in self.contract.columns}
        for name in sorted(key):
            kind = kinds.get(name, "string")
            value = self.raw(name)
            if kind == "number":
                raise InputError(f"the key column {name!r} of numbers with fractions {UNHASHED}")
            if kind in KEY_TYPES:
                value = f"CAST({value} AS {KEY_TYPES[kind]})"
            text += (
                f" || {quoted(f'|{name}=')} || COALESCE(CAST({value} AS TEXT), {quoted(MISSING)})"
            )
        self.layers[0]["evenhand_hash"] = self.form.hashed.format(self.translate(text))
        number = self.zero
        for place in range(1, DIGITS + 1):
            digit = self.translate(
                f"STRPOS('123456789abcdef', SUBSTRING(evenhand_hash, {place}, 1))"
            )
            number += f" + {digit} * {literal(16.0 ** (DIGITS - place))}"
        return number

    def rules(self, features: Sequence[str], *, observed_too: bool = False) -> None:
        """Add the contract's rules for values, so that rows that a filter sets aside have no
        answer; with `observed_too` also bounds that `init` only observed.
        """
        for name in features:
            column = self.contract.column(name)
            missing = self.missing[name]
            dropped = column.role == "sensitive" and self.contract.missing_sensitive == "drop"
            if dropped or needs_value(column, self.contract):
                self.valid.append(f"NOT {missing}")
            number = self.numbers.get(name, "")
            if column.allowed is not None and name in self.texts:
                allowed = self._literals(map(category_name, column.allowed))
                self.valid.append(f"({missing} OR {self.texts[name]} IN ({allowed}))")
            elif column.allowed is not None:
                allowed = ", ".join(map(_bound, column.allowed))
                self.valid.append(f"({missing} OR {number} IN ({allowed}))")
            if self.contract.rules_observed and not observed_too:
                continue
            for sign, bound in ((">=", column.minimum), ("<=", column.maximum)):
                if bound is not None:
                    self.valid.append(f"({missing} OR {number} {sign} {_bound(bound)})")

    def select(
        self, notes: Sequence[str], outputs: Mapping[str, str], where: Sequence[str] = ()
    ) -> str:
        """Write the query: the table's own columns, and outputs, of the rows that meet
        conditions.
        """
        later = repr([self.layers[1:], outputs, where])
        used = set(re.findall(r"evenhand_\w+", later))
        self.layers[0] = {name: text for name, text in self.layers[0].items() if name in used}
        source = f"{self.table} AS t"
        parts = []
        for number, columns in enumerate(self.layers, 1):
            row = self.form.row if number == 1 else "*"
            listed = [row, *(f"{text} AS {name}" for name, text in columns.items())]
            body = f"SELECT\n  {SEPARATOR.join(listed)}\nFROM {source}"
            parts.append(f"evenhand{number} AS{self.form.materialized} ({body})")
            source = f"evenhand{number}"
        added = [name for columns in self.layers for name in columns]
        listed = [
            self.form.given.format(", ".join(added)),
            *(f"{text} AS {name}" for name, text in outputs.items()),
        ]
        condition = ""
        if where:
            condition = f"\nWHERE {' AND '.join(where)}"
        comment = "".join(f"-- {' '.join(note.split())}\n" for note in notes)
        tables = ",\n".join(parts)
        columns_text = SEPARATOR.join(listed)
        return f"{comment}WITH {tables}\nSELECT\n  {columns_text}\nFROM {source}{condition};\n"


def literal(number: Any) -> str:
    """A float64 in all its digits; the exponent makes it a binary number where literals may be
    decimal.
    """
    text = repr(float(number))
    if "e" not in text:
        text += "e0"
    return text


def _operand(value: Any) -> str:
    return value if isinstance(value, str) else literal(value)


def quoted(text: str, mark: str = "'") -> str:
    """A text, or with double quotes a name, in sqlglot's common dialect."""
    return f"{mark}{text.replace(mark, mark * 2)}{mark}"


def _bound(value: Any) -> str:
    """A number, or the days of a date since 1970-01-01."""
    if isinstance(value, dt.date):
        value = (value - dt.date(1970, 1, 1)).days
    return literal(value)


def _left_of(term: str, cut: float) -> str:
    """Condition under which a term of 0 or 1 is left of a cut: always, only for 0, or never."""
    if cut > 1:
        return "1 = 1"
    if cut > 0:
        return f"NOT {term}"
    return "1 = 0"


def _tree(trees: TreeArrays, node: int, splits: Mapping[int, str]) -> str:
    """A tree, or the part of one below a node, as a CASE."""
    if node not in splits:
        return literal(trees.value[node])
    left_sql, right_sql = (
        _tree(trees, int(child[node]), splits) for child in (trees.left, trees.right)
    )
    return f"CASE WHEN {splits[node]} THEN {left_sql} ELSE {right_sql} END"


def classifier_query(bundle: Bundle, dialect: str, table: str) -> str:
    """A query of all rows with the columns ``prediction`` and ``probability``.

    Both are NULL for a category unseen in training, unless the contract ignores these, and for an
    infinite number or NaN. An `InputError` for a model that SQL cannot express.
    """
    encoder, score = read_classifier(bundle, "sql")
    query = Query(encoder, bundle.contract, dialect, table)
    outputs = query.classify(score, *bundle.inputs["label_values"])
    notes = [
        f"{bundle.uri}, {bundle.evaluation['method']}: prediction and probability of every row."
    ]
    if not query.form.float32:
        margin = "6e-8 of its terms" if score.trees is None else f"{score.rounding:.1g}"
        notes += [f"{query.note} evenhand_score is within {margin} of {score.cut:.3g}."]
    return query.select(notes, outputs)


def filter_query(bundle: Bundle, settings: FilterSettings, dialect: str, table: str) -> str:
    """A query of the rows that ``evenhand filter`` keeps; an `InputError` for another hash than
    SHA-256.
    """
    if settings.hash != "sha256":
        raise InputError(
            "SQL cannot compute the uniform numbers of this job: set filter.hash: sha256 in the "
            "job, or give --set filter.hash=sha256, and filter with the same setting."
        )
    proxy = ProxyBundle.load(bundle.folder)
    query = Query(proxy.raw.encoder, proxy.contract, dialect, table)
    query.rules(proxy.features)
    uniform = query.uniform(key_columns(proxy, settings), proxy.seed(settings.seed))
    acceptance = query.accept(proxy.raw.graph, proxy.raw.acceptance)
    query.add(evenhand_acceptance=acceptance, evenhand_uniform=uniform)
    is_kept = f"evenhand_uniform < evenhand_acceptance * {literal(16.0**DIGITS)}"
    outputs = {}
    if settings.probability:
        outputs[PROBABILITY] = "evenhand_acceptance"
    notes = [f"{bundle.uri}: the rows that it keeps."]
    if not query.form.float32:
        notes += [f"{query.note} a row is within 6e-8 of its terms of a halfspace's border."]
    return query.select(notes, outputs, [*query.valid, is_kept])
