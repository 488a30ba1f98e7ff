"""Pages of docs/reference made from the models, signatures and tables that the program itself uses.

They are committed, so that links to them work in a checkout; running this file renews them.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from evenhand.data_contracts.odcs import COLUMN_PROPERTIES, CONTRACT_PROPERTIES, ContractDocument
from evenhand.fairlib.catalogue import METRICS, Kind, names_of
from evenhand.fairlib.methods.registry import (
    METHODS,
    PROXIES,
    MethodSpec,
    method_class,
    proxy_class,
)
from evenhand.flows.cli import app
from evenhand.flows.job import METRIC_KINDS, Job
from evenhand.flows.predict import Predict
from evenhand.flows.resolved_job import RESERVED_ARGUMENTS

__all__ = ["pages", "write_pages"]

DOCS = Path(__file__).resolve().parents[2] / "docs"

Schema = dict[str, Any]

WIDTH = 120
# Spaces of a code span stand for themselves until the lines are wrapped.
KEPT_SPACE = "\x00"

TYPES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "map",
    "null": "null",
}
LIMITS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
# Meaning of keys whose docstrings give only a type.
PLAIN_KEYS = {
    "batch_size": "Rows of a mini-batch.",
    "constraint": "Rate that must be equal in all groups.",
    "cost_constraint": "Cost that must be equal in both groups.",
    "max_height": "Most splits from the root to a leaf.",
    "n_epochs": "Passes over the training rows.",
    "n_masks": "Selections that a prediction is the mean of.",
    "random_state": "Set by the job's seed.",
}
SYMBOLS = {
    r"\alpha": "α", r"\beta": "β", r"\gamma": "γ", r"\epsilon": "ε", r"\lambda": "λ", r"\rho": "ρ",
    r"\eta": "η", r"\theta": "θ", r"\delta": "δ", r"\phi": "φ", r"\sigma": "σ", r"\le": "≤", r"\ge": "≥",
}  # fmt: skip


class DescribedKeys(GenerateJsonSchema):
    """JSON schema whose properties are described by the docstrings below a model's fields.

    Pydantic can read these docstrings itself, but then whenever the class is made: in each process.
    """

    def model_schema(self, schema: Any) -> Schema:
        """Schema of one model, with the descriptions of its properties."""
        made = super().model_schema(schema)
        model: type[BaseModel] = schema["cls"]
        docstrings: dict[str, str] = {}
        for cls in reversed(model.__mro__):
            if issubclass(cls, BaseModel) and cls is not BaseModel:
                docstrings |= _attribute_docstrings(cls)
        for name, field in model.model_fields.items():
            key = name
            if self.by_alias:
                key = field.alias or name
            if name in docstrings and key in made.get("properties", {}):
                made["properties"][key].setdefault("description", docstrings[name])
        return made


def _attribute_docstrings(cls: type) -> dict[str, str]:
    """Strings that follow the annotated names of a class, by name."""
    source = textwrap.dedent(inspect.getsource(cls))
    body = ast.parse(source).body[0].body  # type: ignore[attr-defined]
    docstrings = {}
    for statement, following in zip(body, body[1:], strict=False):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(following, ast.Expr):
            continue
        text = following.value
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            docstrings[ast.unparse(statement.target)] = inspect.cleandoc(text.value)
    return docstrings


def write_pages(folder: Path) -> None:
    """Write every generated page below a copy of docs/."""
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """Text of every generated page by its path under docs/."""
    made = {
        "reference/job.md": job_page(),
        "reference/method-keys.md": method_keys_page(),
        "reference/contract.md": contract_page(),
        "reference/command-line.md": command_line_page(),
        "reference/metrics.md": metrics_page(),
    }
    return {name: f"{_shortened(text).rstrip()}\n" for name, text in made.items()}


# -------------------------------------------------------------------------------------------------
# the job


def job_page() -> str:
    """All sections and keys of a job."""
    schema = Job.model_json_schema(schema_generator=DescribedKeys)
    own = dict(schema["properties"])
    parts = [
        """\
# Job

A job is one YAML file. It names the table, the sensitive columns, the method and the gates. `evenhand init`
writes one for a table of your own ([how to](../how-to/own-table.md)). `evenhand jobs` lists the shipped
jobs, which are in `flows/jobs/` and called as their files. An unknown key is an error; the message names the
nearest known key.
`--set KEY=VALUE` changes any key for one run: `--set seed=3`, `--set method.eta=0.04`.

A job may be a variant of another: `base` names a shipped job, or a file in the same folder, which may
have a base itself. Of a list of bases a later one has its keys over those of an earlier one. A base may
have a paper's whole table, with `methods` and a `table` in place of `paper.row`: a job shows the row of its
method.

    name: people-shallow
    base: people.yaml
    method: {max_depth: 3}

The job has the base's keys, except `name`, `description` and `tuned`, with its own over them. Sections
merge key by key, lists are replaced, and `null` removes a key; of the method's keys it is a value. A
`method` or `table` with another `name`, or a `fair_metric` of another `kind`, replaces the base's section.
`--set` changes the merged job, relative paths refer to the job's folder, and a run keeps the merged job as
`job.yaml`. Files in `flows/jobs/` that begin with `_` are bases of the shipped jobs.
""",
        _keys(schema, schema, links=_job_links(own)),
    ]
    for key, field in own.items():
        if key == "fair_metric":
            parts += _metric_kinds(schema, field)
            continue
        section = _section_of(field, schema)
        if section is not None:
            parts += [f"## {key}\n", _keys(section, schema, prefix=f"{key}.")]
            parts += _inner_sections(key, section, schema)
    parts.append(GATES)
    predict = Predict.model_json_schema(schema_generator=DescribedKeys)
    parts += [PREDICT, _keys(predict, predict, prefix="predict.")]
    return "\n".join(parts)


GATES = """\
## gates

The limits that a model must meet to be published, by metric. [The metrics](metrics.md) and `evenhand
metrics` list the names.

    gates:
      balanced_accuracy: {min: 0.80, bound: interval}
      gap_max.sex: {max: 0.16}

| key | type | meaning |
|---|---|---|
| `min` | number | the smallest value that passes |
| `max` | number | the largest value that passes |
| `bound` | `point` (default) or `interval` | compare the estimate, or the unfavourable end of its interval |

With too few people for a metric, its gate neither passes nor refuses: the run ends with [exit code
3](exit-codes.md).

## method

`name` is one of `evenhand methods`. All other keys are the method's own: [keys of the
methods](method-keys.md).

    method: {name: gbdt, eta: 0.05, n_steps: 200}
"""


PREDICT = """\
## Keys of predict

`evenhand predict` has no job. Its option `--set` takes these keys ([how to](../how-to/score-new-people.md)).
"""


def _job_links(own: Mapping[str, Any]) -> dict[str, str]:
    """Anchor of each key that has a part of its own below."""
    return {
        key: f"#{key}"
        for key, field in own.items()
        if _is_section(field) or key in ("gates", "method")
    }


def _metric_kinds(schema: Schema, field: Schema) -> list[str]:
    parts = [
        "## fair_metric\n",
        f"{_meaning(field, schema)} [Fair metrics](../fair-metric.md) explains the kinds.\n",
    ]
    for kind, model in METRIC_KINDS.items():
        section = schema["$defs"][model.__name__]
        parts += [f"### kind: {kind}\n", _keys(section, schema, prefix="fair_metric.")]
    return parts


def _inner_sections(path: str, section: Schema, schema: Schema) -> list[str]:
    parts = []
    for key, field in section["properties"].items():
        inner = _section_of(field, schema)
        if inner is not None:
            parts += [f"### {path}.{key}\n", _keys(inner, schema, prefix=f"{path}.{key}.")]
    return parts


# -------------------------------------------------------------------------------------------
# method's keys


def method_keys_page() -> str:
    """Arguments that a job may give each method."""
    parts = [
        """\
# Keys of the methods

The keys of the section `method` in a job, next to `name`. Defaults are those of the class; shipped jobs set
values that suit their table. [All methods](../methods.md) describes the methods, [choose a
method](../choose-a-method.md) compares them.
"""
    ]
    parts.append(_items(_overview(spec) for spec in (METHODS | PROXIES).values()))
    classes = {name: (spec.summary, method_class(name), {}) for name, spec in METHODS.items()}
    classes |= {
        name: (spec.summary, proxy_class(name), spec.fixed) for name, spec in PROXIES.items()
    }
    for name, (summary, kind, fixed) in classes.items():
        parts += [f"## {name}\n", f"{_sentence(summary)}\n", _arguments(kind, fixed)]
    return "\n".join(parts)


def _overview(spec: MethodSpec) -> str:
    """A method in the list of all methods."""
    needs = {
        "fair metric": spec.needs_metric,
        "groups": spec.needs_groups,
        "counterfactuals": spec.needs_counterfactuals,
    }
    needed = [name for name, is_needed in needs.items() if is_needed]
    labels = ", ".join(spec.tasks).replace("proxy", "none")
    details = [f"labels: {labels}"]
    if needed:
        details.append(f"needs: {', '.join(needed)}")
    if spec.extra:
        details.append(f"extra: `{spec.extra}`")
    source = f" ({spec.source})" if spec.source else ""
    # the address of a heading, as the site makes it
    address = spec.name.lower().replace(":", "")
    return f"[`{spec.name}`](#{address}): {spec.summary}{source}; {'; '.join(details)}"


def _arguments(kind: type[Any], fixed: Mapping[str, Any]) -> str:
    constructor: Any = kind.__init__
    types = inspect.get_annotations(constructor, eval_str=True)
    meanings = documented_parameters(kind)
    rows = []
    for key, parameter in inspect.signature(constructor).parameters.items():
        if key == "self" or key in RESERVED_ARGUMENTS or key in fixed:
            continue
        schema = TypeAdapter(types[key]).json_schema()
        meaning = meanings.get(key) or PLAIN_KEYS[key]
        rows.append(_entry(f"`{key}`", _type(schema, {}), _value(parameter.default), meaning))
    return _items(rows)


def documented_parameters(kind: type[Any]) -> dict[str, str]:
    """Meaning of each constructor argument, from the numpydoc sections `Parameters` of a class and
    its bases.

    "As in :class:`module.Name`" stands for what that class says.
    """
    found: dict[str, str] = {}
    for base in kind.__mro__:
        text = inspect.cleandoc(base.__doc__ or "")
        section = re.search(
            r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)", text, re.DOTALL | re.MULTILINE
        )
        if section is None:
            continue
        # a list of names may go on in the next line
        body = re.sub(r"^(\S[^\n:]*),\n(?=\S)", r"\1, ", section[1], flags=re.MULTILINE)
        for names, meaning in re.findall(
            r"^(\w[\w, ]*?)(?: ?:[^\n]*)?\n((?:[ ]+[^\n]*\n?|\n)*)", body, re.MULTILINE
        ):
            words = " ".join(meaning.split())
            other = re.match(r"As in :class:`([\w.]+)\.(\w+)`", words)
            elsewhere = _documented_elsewhere(other[1], other[2]) if other else {}
            for name in (item.strip() for item in names.split(",")):
                found.setdefault(name, elsewhere.get(name) or _markdown(words))
    return found


def _documented_elsewhere(module: str, name: str) -> dict[str, str]:
    return documented_parameters(getattr(importlib.import_module(module), name))


def _markdown(text: str) -> str:
    """Turn a docstring's reStructuredText into Markdown: roles as code, symbols as Unicode."""

    def formula(match: re.Match[str]) -> str:
        tex = match[1]
        for command, symbol in SYMBOLS.items():
            tex = re.sub(re.escape(command) + r"(?![a-z])", symbol, tex)
        return tex if re.fullmatch(r"\w", tex) else f"`{tex}`"

    text = re.sub(r":math:`([^`]*)`", formula, text)
    text = re.sub(r":\w+:`~?([^`]*\.)?([^`.]*)`", r"`\2`", text)
    # None is null in YAML; at the start of a sentence it stands for the default
    text = re.sub(r"\bNone(?= [a-z])", "`null`", re.sub(r"\bNone(?=: | for )", "Default", text))
    text = text.replace("Default for ", "Default: ").replace("; Default:", "; default:")
    return text.replace("``", "`")


# -------------------------------------------------------------------------------------------- the
# contract


def contract_page() -> str:
    """All keys of a contract, and the properties that Evenhand adds."""
    schema = ContractDocument.model_json_schema(by_alias=True, schema_generator=DescribedKeys)
    defs = schema["$defs"]
    parts = [
        """\
# Contract

A contract states what holds for every row of a table. It is one YAML file in the form of the Open Data
Contract Standard v3. `evenhand init` writes one for you to read and correct; the shipped ones are in
`data_contracts/`. A key for a check that Evenhand does not make is an error.

    schema:
    - name: people
      properties:
      - name: age
        logicalType: integer
        required: true
        logicalTypeOptions: {minimum: 16, maximum: 99}
        customProperties:
        - {property: role, value: feature}
""",
        _keys(schema, schema),
        f"{_documentary(schema)}\n",
    ]
    for title, name in CONTRACT_PARTS.items():
        section = defs[name]
        parts += [
            f"## {title}\n",
            f"{_markdown(section['description'].splitlines()[0])}\n",
            _keys(section, schema),
        ]
        if _documentary(section):
            parts.append(f"{_documentary(section)}\n")
    parts += [
        "## Properties of a column\n",
        "`customProperties` of a column:\n",
        _items(f"`{name}`: {PROPERTIES[name]}" for name in COLUMN_PROPERTIES),
        """\
`onehot` makes a column of 0 and 1 for each category, `binary` a single one, `standard` is (x − mean) /
standard deviation, `unit` is (x − minimum) / (maximum − minimum). `ordinal` standardises the position of a
category in `validValues`, which must be in their order; a missing one is treated as a missing number.
`calendar` makes three columns of a date: its age in days (minus the standardised date), its month and its
weekday. Default: `standard` for numbers and dates, else `onehot`.
""",
        "## Properties of the contract\n",
        "`customProperties` of the contract:\n",
        _items(f"`{name}`: {PROPERTIES[name]}" for name in CONTRACT_PROPERTIES),
    ]
    return "\n".join(parts)


# Meaning of each of our `customProperties`.
PROPERTIES = {
    "role": (
        "`label`, `sensitive`, `feature`, `id` or `ignore`; every column has one, and one is the "
        "label. There is no role for sampling weights: a run trains, decides and measures by rows, "
        "and says so on its page; `evenhand audit --weight` measures predictions with weights."
    ),
    "use": "`feature`: a sensitive column that is a model input too.",
    "positive": (
        "The label's value that becomes 1, none of a label of numbers with `atLeast` or of more "
        "than two values; with "
        "`encoding: binary` "
        "the value that becomes 1."
    ),
    "favourable": (
        "The value of a label of two values that is the good outcome for a person, such as "
        "`granted`; "
        "selection rates, impact ratios and equal opportunity are of it. `{positive: adverse}` "
        "says it where "
        "the other value has no name; with `atLeast` it is `at-least` or `below`. Left out, the "
        "positive value counts as favourable, and every run says "
        "so."
    ),
    "atLeast": (
        "Threshold of a label of numbers, such as `50000`: people with at least that much get "
        "label 1, those "
        "below it label 0."
    ),
    "encoding": (
        "How a model input becomes numbers: `onehot`, `binary`, `ordinal`, `standard`, `unit`, "
        "`calendar` or `text`."
    ),
    "bins": "Cut points of a numeric sensitive column, such as `[25]`; they make its groups.",
    "missing": "Texts and numbers that stand for a missing value, such as `['?', 999]`.",
    "other": (
        "The one of `validValues` that every other value becomes, such as `other`; for categories in text with the "
        "encoding `onehot`. `init` writes it where values are those of fewer than five people."
    ),
    "unit": "Unit of a number, such as `months`, that `evenhand ask` shows.",
    "valueNames": (
        "Names of coded values, such as `{1: male, 2: female}`, that pages show in their place; "
        "nothing is "
        "computed from them."
    ),
    "legitimate": (
        "`true`: differences between groups in this feature may count, such as those of "
        "experience. A learned fair metric keeps them, unless the job lists others in "
        "`fair_metric.legitimate`; nothing else depends on it."
    ),
    "changeable": (
        "Whether a person can change the value of this feature: `fixed`, `up`, `down` or `free`. "
        "`evenhand case` says which changes would have led to the favourable decision; columns "
        "that do not say it stay as they are. `up` and `down` need numbers or an order."
    ),
    "adverseReason": (
        "Text of the principal reason that this feature gives for an adverse decision, or texts "
        "by language, such as `{en: Too few years of work, de: Zu wenige Berufsjahre}`; "
        "`evenhand case` uses it."
    ),
    "extends": (
        "Name of a shipped contract. Keys that this contract leaves out, and keys that a column "
        "listed here "
        "leaves out, are taken from there."
    ),
    "unseenCategories": "A category that no training row had: `error` (default), or `ignore`.",
    "onViolation": "`stop` (default): bad rows end the run; `quarantine`: they are set aside.",
    "quarantineShare": "Largest share of rows that may be set aside, 0 to 1; default: 0.05.",
    "missingSensitive": "A missing sensitive value: `error` (default); `own_group`, which keeps the row, shows "
    "it apart and compares it with no group; or `drop` the row.",
    "rules": "Whether a person has `stated` bounds, `validValues` and `required` (default), or `init` has "
    "`observed` them in a table: then `predict` sets rows outside bounds aside, `filter` uses them, "
    "and both count them and set other rows aside.",
}

CONTRACT_PARTS = {
    "description": "Description",
    "schema": "TableDocument",
    "properties: a column": "PropertyDocument",
    "logicalTypeOptions": "TypeOptions",
    "quality of a column": "ValidValues",
    "quality of the table": "RowCount",
    "customProperties": "CustomProperty",
}


def _documentary(section: Schema) -> str:
    """A sentence that lists the keys that are accepted but not used."""
    names = [
        f"`{name}`" for name, field in section["properties"].items() if "description" not in field
    ]
    return f"Accepted but not used: {', '.join(names)}." if names else ""


# -------------------------------------------------------------------------------- command line and
# metrics


def command_line_page() -> str:
    """Every command with its arguments and options."""
    command = typer.main.get_command(app)
    parts = [
        f"# Command line\n\n{command.help}\n",
        "`evenhand COMMAND --help` prints the same in the terminal. The [exit code](exit-codes.md) "
        "gives the result of a command.\n",
        "`evenhand --verbose COMMAND` shows on stderr what is trained, what is computed and what is "
        "taken from the cache.\n",
        *_commands(command, typer.Context(command, info_name="evenhand")),
    ]
    return "\n".join(parts)


def _commands(group: Any, context: typer.Context) -> Iterable[str]:
    for name, command in group.commands.items():
        if command.hidden:
            continue
        inner = typer.Context(command, info_name=name, parent=context)
        if hasattr(command, "commands"):
            yield from _commands(command, inner)
            continue
        yield f"## {inner.command_path}\n"
        yield f"{command.help}\n"
        usage = command.get_usage(inner).removeprefix("Usage: ")
        yield f"    {' '.join(usage.split())}\n"
        records = [parameter.get_help_record(inner) for parameter in command.params]
        rows = [f"`{record[0]}`: {' '.join(record[1].split())}" for record in records if record]
        if rows:
            yield _items(rows)


def metrics_page() -> str:
    """Every metric of the catalogue."""
    return "\n".join(
        [
            """\
# Metrics

Gates, sweeps, reports and `--json` use these names. `<attr>` stands for a sensitive attribute, `<name>`
for a counterfactual of the job, `<column>` for a model input, `<class>` for a value of a label of more than
two. Each metric has an interval (`evaluate.level`): rates and what follows from them an exact one
or one that combines exact ones, the others a bootstrap's (`evaluate.draws`). None has width 0. The interval
of a largest difference contains 0 where all groups may be equal. A metric that compares groups is of those
with enough people (`evaluate.min_cell`) in the cells that it needs; the others, and missing values, are
named with their counts. With fewer than two groups left it has no value, and the report gives the reason.
""",
            "## Of classifiers\n",
            "A label of more than two values has those of "
            f"{', '.join(f'`{name}`' for name in names_of('classifier', any_classes=True))}.\n",
            _metrics("classifier"),
            "## Of proxies\n",
            _metrics("proxy"),
            "## Of drift\n",
            _metrics("drift"),
        ]
    )


def _metrics(kind: Kind) -> str:
    rows = []
    for name in names_of(kind):
        info = METRICS[name]
        explanation = info.explanation.replace("{subject}", info.subject)
        source = f" ({info.source})" if info.source else ""
        better = f"{info.direction} is better" if info.direction else "for information"
        rows.append(
            f"`{name}`: **{info.title}** ({better}; {info.unit}). {explanation} "
            f"Formula: {info.formula}{source}."
        )
    return _items(rows)


# ---------------------------------------------------------------------------------------- tables
# and types


def _keys(
    section: Schema, schema: Schema, *, prefix: str = "", links: Mapping[str, str] | None = None
) -> str:
    """A list with an item for each key that is used."""
    required = section.get("required", [])
    rows = []
    for name, field in section["properties"].items():
        meaning = _meaning(field, schema)
        if not meaning:
            continue
        key = f"`{prefix}{name}`"
        if links and name in links:
            key = f"[{key}]({links[name]})"
        default = "required" if name in required else _default(field)
        rows.append(_entry(key, _type(field, schema), default, meaning))
    return _items(rows)


def _meaning(field: Schema, schema: Schema) -> str:
    """Description of a key; Pydantic leaves out one that equals its section's."""
    described = (
        field
        if "description" in field
        else schema["$defs"].get(field.get("$ref", "").rpartition("/")[2])
    )
    # a row of a table is one line
    return " ".join((described or {}).get("description", "").split())


def _default(field: Schema) -> str:
    if _is_section(field) or "default" not in field:
        return ""
    return _value(field["default"])


def _value(value: Any) -> str:
    if value is None or value is inspect.Parameter.empty or value in ("", [], {}):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, list | tuple):
        return f"`[{', '.join(str(item) for item in value)}]`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _section_of(field: Schema, schema: Schema) -> Schema | None:
    """Schema of the section that a key holds, or None."""
    found = [option["$ref"] for option in [field, *field.get("anyOf", [])] if "$ref" in option]
    return schema["$defs"][found[0].rpartition("/")[2]] if found else None


def _is_section(field: Schema) -> bool:
    return (
        "$ref" in field
        or "oneOf" in field
        or any("$ref" in option for option in field.get("anyOf", []))
    )


def _type(field: Schema, schema: Schema) -> str:
    """A JSON schema's type in words."""
    if "$ref" in field or "oneOf" in field:
        return "section"
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return " or ".join(f"`{item}`" for item in field["enum"])
    if "anyOf" in field:
        kinds = [_type(option, schema) for option in field["anyOf"] if option.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds)) if len(kinds) < 4 else "value"
    if field.get("type") == "array":
        items = field.get("items") or {}
        return f"list of {_plural(_type(items, schema))}" if items else "list"
    if field.get("format") == "date":
        return "date"
    kind = TYPES.get(field.get("type", ""), "anything")
    limits = [f"{sign} {field[name]:,}" for name, sign in LIMITS.items() if name in field]
    return f"{kind} {', '.join(limits)}" if limits else kind


def _plural(kind: str) -> str:
    return {"text": "texts", "section": "sections", "value": "values"}.get(
        kind, kind.replace("number", "numbers")
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _entry(key: str, kind: str, default: str, meaning: str) -> str:
    """A key with its type, its default and its meaning."""
    details = kind
    if default == "required":
        details = f"{kind}, required"
    elif default:
        details = f"{kind}, default {default}"
    return f"{key} ({details}): {meaning}"


def _items(items: Iterable[str]) -> str:
    """A list in Markdown."""
    return "".join(f"- {item}\n" for item in items)


def _shortened(text: str) -> str:
    """The page with its long lines wrapped, but for code."""
    lines: list[str] = []
    for line in text.split("\n"):
        if len(line) <= WIDTH or line.startswith(("    ", "|", "#")):
            lines.append(line)
        else:
            lines += _wrapped(line)
    return "\n".join(lines)


def _wrapped(line: str) -> list[str]:
    kept = re.sub(r"`[^`]{1,100}`", lambda span: span[0].replace(" ", KEPT_SPACE), line)
    # a line that begins with such a sign would begin a list
    kept = re.sub(r" (?=(?:[-+*#>|=]|\d+[.)])(?: |$))", KEPT_SPACE, kept)
    wrapped = textwrap.wrap(
        kept[2:] if kept.startswith("- ") else kept,
        WIDTH,
        initial_indent="- " if kept.startswith("- ") else "",
        subsequent_indent="  " if kept.startswith("- ") else "",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.replace(KEPT_SPACE, " ") for part in wrapped]


if __name__ == "__main__":
    write_pages(DOCS)
