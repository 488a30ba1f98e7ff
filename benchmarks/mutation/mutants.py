"""Mutants of the core for :mod:`benchmarks.mutation.mutation_score`: which modules, which faults, and a sample of
them.

cosmic-ray's operators find and make the faults. Left out are faults in annotations, imports,
f-strings, an error's arguments and compiler options: no test should depend on these.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names


@dataclass(frozen=True)
class Group:
    """Modules, and the tests that guard them. `slow_tests` run only on mutants that survive
    `tests`.
    """

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    slow_tests: tuple[str, ...] = ()


# A pattern may match nothing: the table also fits checkouts with older names of files, and tests
# that stand in a folder of their module's name or one above it.
GROUPS = {
    "transport": Group(
        ("fairlib/transport/*.py",),
        ("tests/fairlib/test_transport*.py", "tests/fairlib/transport/test_*.py"),
        ("tests/fairlib/test_budro*.py", "tests/fairlib/methods/**/test_budro*.py"),
    ),
    "metrics": Group(
        (
            "fairlib/evaluation/metrics.py",
            "fairlib/evaluation/measuring.py",
            "fairlib/evaluation/metric_intervals.py",
            "fairlib/evaluation/closed_intervals.py",
            "fairlib/evaluation/group_selection.py",
            "fairlib/evaluation/predictions.py",
            "fairlib/evaluation/outcomes.py",
            "fairlib/evaluation/evaluate.py",
            "fairlib/evaluation/bootstrap.py",
            "fairlib/evaluation/paired.py",
        ),
        (
            "tests/fairlib/evaluation/test_closed_intervals.py",
            "tests/fairlib/evaluation/test_comparison.py",
            "tests/fairlib/evaluation/test_group_selection.py",
            "tests/fairlib/evaluation/test_metric*.py",
            "tests/fairlib/evaluation/test_outcomes*.py",
            "tests/fairlib/evaluation/test_predictions*.py",
            "tests/fairlib/evaluation/test_evaluate*.py",
            "tests/fairlib/evaluation/test_bootstrap*.py",
            "tests/fairlib/evaluation/test_paired*.py",
        ),
    ),
    "gates": Group(
        (
            "fairlib/evaluation/gates.py",
            "tasks/steps/gate_step.py",
            "tasks/evaluating/*limits.py",
        ),
        (
            "tests/fairlib/evaluation/test_*gates*.py",
            "tests/tasks/**/test_*gate*.py",
            "tests/tasks/**/test_*limits*.py",
            "tests/tasks/test_monitoring.py",
        ),
        (
            "tests/tasks/evaluating/test_*.py",
            "tests/**/test_*proxy_verdicts.py",
            "tests/**/test_monitor.py",
        ),
    ),
    "store": Group(
        ("tasks/execution/store.py",),
        ("tests/tasks/**/test_store*.py", "tests/tasks/**/test_step*.py"),
    ),
    "step keys": Group(
        (
            "tasks/execution/step.py",
            "tasks/steps.py",
            "tasks/execution/fingerprint.py",
            "tasks/artifacts.py",
        ),
        (
            "tests/tasks/**/test_step*.py",
            "tests/tasks/**/test_fingerprint*.py",
            "tests/tasks/**/test_store*.py",
        ),
    ),
    "proxies": Group(
        ("fairlib/proxies/*.py",),
        (
            "tests/fairlib/test_proxy*.py",
            "tests/fairlib/proxies/test_*.py",
            "tests/fairlib/test_coin.py",
            "tests/fairlib/test_hash_uniform.py",
            "tests/fairlib/test_raw_acceptance.py",
        ),
        (
            "tests/tasks/**/test_proxy_steps.py",
            "tests/tasks/steps/test_*proxy_step*.py",
            "tests/tasks/filtering/test_filter_rows.py",
            "tests/tasks/filtering/test_filter_engine.py",
        ),
    ),
    "auditor": Group(
        ("fairlib/auditor/*.py",),
        ("tests/fairlib/test_auditor.py", "tests/fairlib/auditor/test_*.py"),
        (
            "tests/fairlib/test_networks.py",
            "tests/fairlib/methods/**/test_networks*.py",
            "tests/fairlib/evaluation/test_certificates.py",
        ),
    ),
    "aliases": Group(
        ("tasks/aliases.py|tasks/registry/client.py",),
        (
            "tests/tasks/**/test_aliases*.py",
            "tests/tasks/**/test_registry*.py",
            "tests/tasks/registry/test_client*.py",
        ),
        ("tests/**/test_promote*.py", "tests/**/test_*champion*.py"),
    ),
}
ARITHMETIC = {"Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow"}
BITS = {"BitOr", "BitAnd", "BitXor"}
IDENTITY = {"Is", "IsNot"}


@dataclass(frozen=True)
class Mutant:
    """One fault: an operator of cosmic-ray at its n-th occurrence in a file."""

    group: str
    file: str
    line: int
    column: int
    operator: str
    occurrence: int

    def code(self, source: str) -> str | None:
        """Mutated source; None if it does not parse or means the same."""
        try:
            mutated = mutate_code(source, get_operator(self.operator)(), self.occurrence)
            same = mutated is None or ast.dump(ast.parse(mutated)) == ast.dump(ast.parse(source))
        except (
            SyntaxError,
            AttributeError,
        ):  # cosmic-ray does not replace an exception's dotted name
            return None
        return None if same else mutated


def is_used(operator: str) -> bool:
    """Leave out operators that need settings, and replacements that mostly raise a TypeError."""
    name, *parts = operator.partition("/")[2].split("_")
    if name == "ReplaceBinaryOperator":
        return set(parts) <= ARITHMETIC or set(parts) <= BITS
    if name == "ReplaceComparisonOperator":
        return set(parts) <= IDENTITY or not set(parts) & IDENTITY
    if name == "ReplaceUnaryOperator":
        return parts[0] == "Delete"
    return name not in ("VariableReplacer", "VariableInserter")


def is_skipped(node: Any) -> bool:
    """Whether a syntax node is part of an annotation, f-string, raised error, import or
    decorator.
    """
    if node.type == "decorator" and "njit" not in node.get_code():
        return False
    while node.parent is not None:
        child, node = node, node.parent
        if child.type in (
            "decorator",
            "raise_stmt",
            "fstring",
            "import_name",
            "import_from",
            "tfpdef",
        ):
            return True
        if node.type == "annassign" and child is node.children[1]:
            return True
        if node.type == "funcdef" and child is node.annotation:
            return True
        if node.type == "expr_stmt" and node.get_code().lstrip().startswith("__all__"):
            return True
    return False


def list_places(root: Path, group: str) -> list[list[Mutant]]:
    """List all mutants of a group's modules.

    Mutants of one kind at one place stand together, such as all replacements of a certain ``+``.
    """
    places: dict[tuple[str, str, tuple[int, int]], list[Mutant]] = {}
    for path in find_files(root, GROUPS[group].sources):
        file = str(path.relative_to(root))
        nodes = list(ast_nodes(get_ast(path.read_text())))
        for name in filter(is_used, operator_names()):
            operator, occurrence = get_operator(name)(), 0
            for node in nodes:
                for start, _ in operator.mutation_positions(node):
                    if not is_skipped(node):
                        mutant = Mutant(group, file, start[0], start[1], name, occurrence)
                        places.setdefault((file, name.partition("_")[0], start), []).append(mutant)
                    occurrence += 1
    return list(places.values())


def sample_mutants(
    root: Path, seed: int, count: int
) -> tuple[list[tuple[Mutant, str]], dict[str, int]]:
    """Draw mutants with their code, in proportion to the number of places in each group, at most
    one a place.

    Returns
    -------
    sample, number of places by group
    """
    rng = np.random.default_rng(seed)
    places = {group: list_places(root, group) for group in GROUPS}
    sizes = {group: len(found) for group, found in places.items()}
    exact = {group: count * size / sum(sizes.values()) for group, size in sizes.items()}
    quotas = {group: int(share) for group, share in exact.items()}
    by_remainder = sorted(GROUPS, key=lambda group: quotas[group] - exact[group])
    for group in by_remainder[: count - sum(quotas.values())]:
        quotas[group] += 1
    drawn: list[tuple[Mutant, str]] = []
    for group, quota in quotas.items():
        before = len(drawn)
        for index in rng.permutation(sizes[group]):
            if len(drawn) == before + quota:
                break
            for choice in rng.permutation(len(places[group][index])):
                mutant = places[group][index][choice]
                code = mutant.code((root / mutant.file).read_text())
                if code is not None:
                    drawn.append((mutant, code))
                    break
    return [drawn[index] for index in rng.permutation(len(drawn))], sizes


def find_files(root: Path, patterns: Sequence[str]) -> list[Path]:
    """Files of some patterns, each once; of alternatives with ``|`` between them the first that
    fits.
    """
    found: list[Path] = []
    for pattern in patterns:
        choices = (sorted(root.glob(choice)) for choice in pattern.split("|"))
        found += next(filter(None, choices), [])
    return list(dict.fromkeys(found))
