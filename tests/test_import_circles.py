"""No module of the product imports itself in a circle, imports inside of functions included.

Imports for type checkers alone (`if TYPE_CHECKING`) do not count: nothing runs them.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("flows", "tasks", "fairlib", "data_contracts")
Graph = Mapping[str, set[str]]


def modules() -> dict[str, Path]:
    """Path of each module by its import name."""
    paths = {}
    for folder in PRODUCT:
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(("evenhand", *parts)).removesuffix(".__init__")
            paths[name] = path
    return paths


def statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Import statements below a node that run, wherever they are."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            for branch in child.orelse:
                yield from statements(branch)
        else:
            yield from statements(child)


def imported(source: str, names: Collection[str]) -> set[str]:
    """Modules, of these names, that a source imports."""
    targets = set()
    for statement in statements(ast.parse(source)):
        if isinstance(statement, ast.Import):
            targets.update(alias.name for alias in statement.names)
            continue
        for alias in statement.names:
            module = f"{statement.module}.{alias.name}"
            targets.add(module if module in names else str(statement.module))
    return targets.intersection(names)


def graph_of(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Modules that each module imports."""
    return {name: imported(source, sources) for name, source in sources.items()}


def circle_from(start: str, graph: Graph) -> list[str] | None:
    """The shortest way from a module back to itself; None if there is none."""
    ways = [[start]]
    reached: set[str] = set()
    while ways:
        way = ways.pop(0)
        for target in sorted(graph[way[-1]]):
            if target == start:
                return [*way, start]
            if target not in reached:
                reached.add(target)
                ways.append([*way, target])
    return None


def test_no_module_imports_itself_in_a_circle() -> None:
    sources = {name: path.read_text() for name, path in modules().items()}
    graph = graph_of(sources)
    circles = []
    for name in sorted(graph):
        circle = circle_from(name, graph)
        if circle is not None:
            circles.append(" -> ".join(circle))
    assert circles == []


def test_a_circle_through_a_function_is_one() -> None:
    sources = {
        "p": "",
        "p.a": "from p import b",
        "p.b": "def f():\n    if x:\n        import p.c",
        "p.c": "from p.a import y",
    }
    assert circle_from("p.a", graph_of(sources)) == ["p.a", "p.b", "p.c", "p.a"]


def test_an_import_for_type_checkers_is_no_circle() -> None:
    sources = {"p.a": "from p.b import x", "p.b": "if TYPE_CHECKING:\n    from p.a import y"}
    assert circle_from("p.a", graph_of(sources)) is None
