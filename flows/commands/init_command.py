"""``evenhand init``: understand a new table, and write a starter contract and job for it."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from evenhand.data_contracts.arrow import MISSING_GROUP, bin_names, coerce, known_groups
from evenhand.data_contracts.contract_yaml import to_yaml
from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.favourable import describe_outcome, guess_favourable
from evenhand.data_contracts.inference import Columns, ignored, in_words, infer_contract
from evenhand.data_contracts.roles import PROTECTED, words_of
from evenhand.data_contracts.values import sample_rows
from evenhand.fairlib.methods.registry import PROXIES
from evenhand.flows import starter_job
from evenhand.flows.classifier_jobs import check_labels
from evenhand.flows.commands.terminal import exact_stdout, print_table
from evenhand.flows.data_source import KNOWN_TABLES
from evenhand.flows.init_forms import (
    partly_read,
    refuse_lost_columns,
    stated_forms,
    without_columns,
)
from evenhand.flows.job import NAME
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve, with_terms
from evenhand.tasks.credentials import holds_credential
from evenhand.tasks.errors import InputError, input_errors, without_secrets
from evenhand.tasks.escaping import terminal_text
from evenhand.tasks.written_input import FORM_KEYS

if TYPE_CHECKING:
    from evenhand.data_contracts.model import Column, Contract
    from evenhand.tasks.execution.dataset import StoredTable
    from evenhand.tasks.sources.table_forms import TableForms

# A group of fewer rows may miss in the training or the test rows, and then a run refuses the table.
SMALL_GROUP = 20
# Fewest values of a column that a split by it can tell apart.
FEWEST_UNITS = 20
SHOWN = 8


@dataclass(frozen=True)
class Understanding:
    """What `init` says about a table."""

    contract: Contract
    leaks: dict[str, Any]  # what `evenhand.tasks.steps.profile_step.leak_report` gives
    groups: dict[str, dict[str, int]]  # rows of each group in the sample, by sensitive column
    warnings: list[str]
    flips: dict[str, Any]  # counterfactuals that flip the sensitive model inputs
    people: str | None  # id column of people of whom there are several rows


def init(
    table: str,
    label: str,
    sensitive: Sequence[str] | None,
    positive: str | None,
    favourable: str | None,
    identifier: Sequence[str] | None,
    name: str | None,
    method: str,
    folder: Path,
    force: bool,
    use_sensitive: bool,
    sql: str | None,
    connection: str | None,
    as_json: bool,
    text: Sequence[str] | None,
    terms: Path | None,
    encoding: str | None,
    decimal: Sequence[str] | None,
    dates: Sequence[str] | None,
    ignore: Sequence[str] | None,
) -> None:
    """Write ``NAME.contract.yaml`` and ``NAME.yaml``, both or none, and print how columns were
    understood.

    Raises `InputError` if the table cannot be read, a named column does not exist, or a file exists
    already.
    """
    spec = starter_job.check_method(method, bool(sensitive) or terms is not None)
    if terms is not None and (len(text or ()) != 1 or not terms.is_file()):
        lack = (
            "one --text column that they are in"
            if terms.is_file()
            else f"a file, and {terms} is none"
        )
        raise InputError(f"--terms needs {lack}.")
    if name is not None and not NAME.fullmatch(name):
        raise InputError(
            f"--name {name!r} is not a valid job name: use letters, digits, dots, dashes, "
            "underscores."
        )
    source, shown = _source(table, sql, connection, folder)
    plain = re.sub(
        r"[^A-Za-z0-9_-]+", "-", shown.split("?")[0].rstrip("/").split("/")[-1].split(".")[0]
    )
    name = name or plain[:60].strip("-_") or "table"
    contract_file = folder / f"{name}.contract.yaml"
    job_file = folder / f"{name}.yaml"
    for path in (contract_file, job_file):
        if path.exists() and not force:
            raise InputError(f"{path} exists: choose another --name, or overwrite with --force.")
    place = Path(table).expanduser().resolve()
    source |= stated_forms(encoding, decimal or (), dates or ())
    with _stored(source, place) as (rows, forms), input_errors("", ContractError):
        as_input = use_sensitive or starter_job.needs_inputs(spec)
        given = (sensitive, identifier, text, ignore)
        asked, ids, texts, unused = (_columns(each or [], rows.column_names) for each in given)
        found = understand(
            rows, name, label, asked, positive, ids, as_input, texts, unused, favourable=favourable
        )
    refuse_lost_columns(found.contract)
    source |= forms.keys
    found.warnings.extend(partly_read(found.contract, forms.partly))
    if method not in PROXIES:
        check_labels(found.contract, method)
    keys, notes = starter_job.method_needs(spec, found.contract, found.groups)
    notes = [*forms.notes, *notes]
    if found.people is not None:
        keys["split"] = {"by": found.people}
        notes.append(
            f"rows with the same {found.people} stay together in training or test rows (split.by)"
        )
    flips = {} if method in PROXIES else dict(found.flips)
    if terms is not None:
        listed = os.path.relpath(terms.resolve(), folder.resolve())
        flips["identity"] = {"terms": listed, "column": texts[0]}
    source = {"name": name, **source}
    job = starter_job.job_text(
        name, source, shown, found.contract, contract_file.name, spec, keys, flips
    )
    comments = list(found.warnings)
    if not found.contract.label.classes:
        comments.append(_favourable(found.contract.label))
    _write(folder, {contract_file.name: to_yaml(found.contract, comments), job_file.name: job})
    document = _document(found, notes, contract_file, job_file, method)
    if as_json:
        print(json.dumps(document))
    else:
        _show(document)


def _columns(given: Sequence[str], known: Sequence[str]) -> list[str]:
    """Names of columns, also those that stand in one argument with commas between them."""
    return [
        name.strip() for item in given for name in ([item] if item in known else item.split(","))
    ]


def understand(
    table: Columns,
    name: str,
    label: str,
    sensitive: Sequence[str],
    positive: str | None,
    ids: Sequence[str],
    use_sensitive: bool,
    text: Sequence[str] = (),
    unused: Sequence[str] = (),
    favourable: str | None = None,
) -> Understanding:
    """Infer a contract, and leave leaks out of its model inputs.

    Raises `ContractError` as :func:`evenhand.data_contracts.inference.infer_contract` does, and if
    nothing but leaks is left.
    """
    from evenhand.tasks.steps.profile_step import leak_report

    contract = infer_contract(
        table,
        name,
        label,
        sensitive,
        positive,
        ids,
        use_sensitive=use_sensitive,
        text=text,
        favourable=favourable,
    )
    contract = without_columns(contract, unused)
    sampled = sample_rows(table.num_rows)
    sample = pa.table({column: table.column(column).take(sampled) for column in table.column_names})
    typed = coerce(sample, contract)
    leaks = leak_report(typed, contract, typed.num_rows)
    reasons = {item["name"]: _reason(item, label) for item in leaks["columns"]}
    columns = [ignored(c, reasons[c.name]) if c.name in reasons else c for c in contract.columns]
    if not any(column.is_feature for column in columns):
        raise ContractError(
            f"no column is left as a model input: {', '.join(reasons)} tell the label '{label}' or "
            "a "
            "sensitive column: give a table with other columns"
        )
    contract = replace(contract, columns=tuple(columns))
    groups = starter_job.group_sizes(typed, contract)
    warnings = _warnings(contract, leaks, reasons, groups)
    flips = starter_job.counterfactuals(typed, contract)
    return Understanding(contract, leaks, groups, warnings, flips, _people(table, contract))


def _people(table: Columns, contract: Contract) -> str | None:
    """The id column whose values are in several rows, of several the one with the fewest values."""
    ids = [column.name for column in contract.columns if column.role == "id"]
    counts = {name: pc.count_distinct(table.column(name)).as_py() for name in ids}
    several = [name for name in ids if FEWEST_UNITS <= counts[name] < table.num_rows]
    return min(several, key=counts.__getitem__, default=None)


def _reason(leak: Mapping[str, Any], label: str) -> str:
    cure = "to use it all the same, set its role to feature"
    if leak["kind"] == "sensitive":
        return f"computed from the sensitive column '{leak['attribute']}'; {cure}"
    how = {
        "label": f"it determines '{label}' exactly",
        "alone": f"it predicts '{label}' almost perfectly",
        "joint": f"together with others it predicts '{label}' almost perfectly",
    }[leak["kind"]]
    return f"LEAK, {how} (AUC {leak['auc']:.3f}); {cure}"


def _warnings(
    contract: Contract,
    leaks: Mapping[str, Any],
    reasons: Mapping[str, str],
    groups: Mapping[str, Mapping[str, int]],
) -> list[str]:
    """Return what the user should read, leaks first."""
    found = [
        f"column {name} is ignored: {reason} in the contract" for name, reason in reasons.items()
    ]
    for attribute, told in leaks["stand_ins"].items():
        shown = [
            f"{item['name']} (AUC {item['auc']:.2f})"
            for item in told
            if item["name"] not in reasons
        ]
        if shown:
            more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
            found.append(
                f"stand-ins that tell {attribute}, kept as they are: "
                f"{', '.join(shown[:SHOWN])}{more}"
            )
    protected = [
        c.name for c in contract.features if c.role == "feature" and PROTECTED & {*words_of(c.name)}
    ]
    if protected:
        found.append(
            f"model inputs that look sensitive: {', '.join(protected)}; name them with "
            "--sensitive, so that "
            "a run measures by their groups"
        )
    missing = [f"{c.name} {', '.join(map(repr, c.missing))}" for c in contract.columns if c.missing]
    if missing:
        found.append(f"read as missing: {'; '.join(missing)}")
    wide = [c.name for c in contract.columns if c.role == "ignore" and "too many" in c.description]
    if wide:
        found.append(f"ignored for too many categories, group them to use them: {', '.join(wide)}")
    for attribute, sizes in groups.items():
        small = sum(count < SMALL_GROUP for count in sizes.values())
        if small:
            text = (
                f"a group of {attribute} has"
                if small == 1
                else f"{small} groups of {attribute} have"
            )
            found.append(
                f"{text} fewer than {SMALL_GROUP} rows: its figures will be uncertain, or a run "
                "refuse it"
            )
    if contract.missing_sensitive == "drop":
        found.append(
            "rows without a value of a sensitive model input are dropped (missingSensitive)"
        )
    return found


def _source(
    table: str, sql: str | None, connection: str | None, folder: Path
) -> tuple[dict[str, Any], str]:
    """Return the job's section ``table``, and a name to show."""
    if sql is not None:
        if not connection:
            raise InputError(
                "--sql needs --connection: a SQLAlchemy URL, or $NAME of a variable that has one."
            )
        if without_secrets(connection) != connection or holds_credential(connection):
            raise InputError(
                "--connection has a password, which the job file would keep: put the URL into an "
                "environment "
                "variable and give its name, as in --connection '$DATABASE'."
            )
        return {"sql": sql, "connection": connection}, table
    if connection is not None:
        raise InputError("--connection is for --sql: give the query too, or leave it out.")
    if table in KNOWN_TABLES:
        return {"name": table}, table
    if "://" in table:
        if without_secrets(table) != table or holds_credential(table):
            raise InputError(
                "the address has a password, which the job file would keep: put it into an "
                "environment "
                "variable and write $NAME in its place."
            )
        return {"path": table}, table
    path = Path(table).expanduser()
    if not path.exists():
        raise InputError(
            f"there is no file {table}: give a file, a folder, a URL or a known table."
        )
    return {"path": os.path.relpath(path.resolve(), folder.resolve())}, path.resolve().name


@contextmanager
def _stored(source: Mapping[str, Any], local: Path) -> Iterator[tuple[StoredTable, TableForms]]:
    """The table as a run reads it, a local one from its place, in a file that is removed again.

    With the forms of its text, which are inferred where `source` does not state them.
    """
    from evenhand.tasks.execution.dataset import StoredTable
    from evenhand.tasks.execution.store import Store
    from evenhand.tasks.sources.fetching import fetch_source
    from evenhand.tasks.sources.table_forms import TableForms
    from evenhand.tasks.sources.table_reader import infer_table_forms, read_source
    from evenhand.tasks.steps.ingest_step import write_raw

    given = {"name": "table", **source}
    if "://" not in (source.get("path") or "://"):
        given["path"] = str(local)
    with tempfile.TemporaryDirectory() as scratch:
        store = Store(scratch)
        files = {name: store.fetch(item) for name, item in fetch_source(store, given).items()}
        stored = Path(scratch) / "table"
        forms = TableForms()
        if given.get("path") or given.get("sql"):
            (file,) = files.values()
            forms = infer_table_forms(file, given)
        elif any(given.get(key) for key in FORM_KEYS):
            raise InputError(
                "a known table has a form of its own: leave out --encoding, --decimal and --dates."
            )
        write_raw(read_source({**given, **forms.keys}, files, 0), stored)
        yield StoredTable(stored), forms


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Write both files or none: beside their places, checked as a run checks them, then renamed."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    before: dict[Path, bytes | None] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".init-", dir=folder) as name:
            for file, text in files.items():
                (Path(name) / file).write_text(text, encoding="utf-8")
            job, place = load_job(str(Path(name) / [*files][-1]))
            resolve(with_terms(job, str(folder)), place)
            for file in files:
                target = folder / file
                before[target] = target.read_bytes() if target.exists() else None
                (Path(name) / file).replace(target)
    except (OSError, InputError) as error:
        for target, content in before.items():
            if content is not None:
                target.write_bytes(content)
            else:
                target.unlink(missing_ok=True)
        for path in made:
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{folder} cannot be written ({error.strerror}): choose another with --into."
        ) from None


def _document(
    found: Understanding, notes: Sequence[str], contract_file: Path, job_file: Path, method: str
) -> dict[str, Any]:
    """Return all that `init` found, as plain JSON types."""
    label = found.contract.label
    return {
        "contract": str(contract_file),
        "job": str(job_file),
        "method": method,
        "label": label.name,
        "positive": f"{label.name} has {len(label.classes)} classes"
        if label.classes
        else f"positive means {label.name} = {in_words(label.positive)}",
        "favourable": None if label.classes else _favourable(label),
        "columns": [
            {
                "name": column.name,
                "type": column.logical_type,
                "role": column.role,
                "input": column.is_feature,
                "encoding": column.encoding,
                "missing": list(column.missing or ()),
                "reason": column.description,
            }
            for column in found.contract.columns
        ],
        "groups": {
            column.name: _group_names(column, found.groups[column.name])
            for column in found.contract.sensitive
        },
        "leaks": found.leaks["columns"],
        "joint_auc": found.leaks["joint_auc"],
        "stand_ins": found.leaks["stand_ins"],
        "warnings": found.warnings,
        "notes": notes,
        "next": f"evenhand run {job_file}",
    }


def _favourable(label: Column) -> str:
    """Say which outcome is favourable and why, or that nothing says it and what to do."""
    outcome = describe_outcome(label)
    shown = f"{outcome['column']} = {outcome['favourable']}"
    if not outcome["stated"]:
        return (
            f"WARNING  nothing says whether {shown} is the favourable outcome: it is taken as "
            "such; if it is "
            "not, give --favourable VALUE"
        )
    guess = guess_favourable(label.name, label.allowed or ())
    reason = "as asked" if guess is None or guess.value != label.favourable else guess.reason
    return f"favourable outcome: {shown} ({reason})"


def _group_names(column: Column, sizes: Mapping[str, int]) -> list[str]:
    """Names of groups: of a cut number from low to high, else by size."""
    if column.bins is not None:
        return [*bin_names(column), *(name for name in sizes if name == MISSING_GROUP)]
    return sorted(known_groups(column) | set(sizes), key=lambda name: (-sizes.get(name, 0), name))


def _show(document: Mapping[str, Any]) -> None:
    head = ["column", "type", "role", "encoding", "reason"]
    rows = []
    for item in document["columns"]:
        role = (
            f"{item['role']}, input"
            if item["role"] == "sensitive" and item["input"]
            else item["role"]
        )
        reason = item["reason"].removeprefix("Ignored: ")
        rows.append([item["name"], item["type"], role, item["encoding"] or "", reason])
    if sys.stdout.isatty():
        _print_rich(head, rows)
    else:
        print_table([head, *rows])
    print(f"\n{document['positive']}")
    if document["favourable"]:
        print(document["favourable"])
    for attribute, names in document["groups"].items():
        shown = ", ".join(name.strip() for name in names[:SHOWN])
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        print(f"groups of {attribute}: {shown}{more}")
    for warning in document["warnings"]:
        print(f"WARNING  {warning}")
    for note in document["notes"]:
        print(f"note: {note}")
    print(
        f"\nwrote {document['contract']}  (the data contract: check roles, ranges and descriptions)"
    )
    print(
        f"wrote {document['job']}  (the job: the method {document['method']}, and comments on "
        "gates)"
    )
    print(f"next: {document['next']}")


def _print_rich(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for title in head:
        # names wrap before the reason gets too narrow
        shown.add_column(
            title, overflow="fold", ratio=None, min_width=8 if title != "reason" else 20
        )
    for row in rows:
        style = "bold red" if "LEAK" in row[-1] else "dim" if row[2] == "ignore" else ""
        shown.add_row(*(Text(terminal_text(cell), style=style) for cell in row))
    Console(file=exact_stdout()).print(shown)
