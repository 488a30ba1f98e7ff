"""The documentation site: it builds strictly, its reference is whole, and nothing in it asks the
network.
"""

from __future__ import annotations

import html
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from pydantic import BaseModel

import evenhand
from evenhand.data_contracts.odcs import COLUMN_PROPERTIES, CONTRACT_PROPERTIES, ContractDocument
from evenhand.fairlib.catalogue import METRICS
from evenhand.fairlib.methods.registry import METHODS, PROXIES, method_class, proxy_class
from evenhand.flows.cli import app
from evenhand.flows.job import Job
from evenhand.flows.resolved_job import RESERVED_ARGUMENTS

pytest.importorskip("mkdocs", reason="the site's generator is in the extra `docs`")
pytest.importorskip("nbclient", reason="what executes its notebooks is in the extra `docs`")

ROOT = Path(__file__).parents[2]
# what makes a browser fetch something as soon as the page is opened
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|embed|video|audio)\b[^>]*?\bsrc=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b[^>]*?\bhref=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|(?:url\(|@import )["']?((?:https?:)?//[^"')\s]+)"""
)


def build(folder: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of a folder that has mkdocs.yml, as `make docs` does, but execute no
    notebook.
    """
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(target)],
        cwd=folder,
        env=os.environ
        | {"PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1", "EXECUTE_NOTEBOOKS": "no"},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    target = tmp_path_factory.mktemp("site")
    done = build(ROOT, target)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module")
def code_in(site: Path) -> dict[str, set[str]]:
    """What stands in code font, by page of the reference."""
    return {
        page.stem: {
            html.unescape(re.sub(r"<[^>]+>", "", text))
            for text in re.findall(
                r"<code>(.*?)</code>", page.read_text(encoding="utf-8"), re.DOTALL
            )
        }
        for page in (site / "reference").glob("*.html")
    }


def sections(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a type holds, however deep."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from sections(inner)


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every key of a model and of the sections below it, by its path."""
    for name, field in model.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        yield key, field
        for metadata in (field.annotation, *field.metadata):
            for section in sections(metadata):
                yield from keys(section, f"{key}.")


def test_reference_has_every_key_of_a_job(code_in: dict[str, set[str]]) -> None:
    found = dict(keys(Job))
    assert {"table.path", "fair_metric.pairs", "evaluate.certificate.budget"} <= set(found)
    assert set(found) - code_in["job"] == set()


@pytest.mark.parametrize("page", ["job", "contract"])
def test_every_key_has_a_line_of_meaning(page: str) -> None:
    text = (ROOT / "docs" / "reference" / f"{page}.md").read_text(encoding="utf-8")
    entries = [line for line in text.splitlines() if line.startswith("- `")]
    assert len(entries) > 40
    assert [line for line in entries if not re.search(r"[`)]: \S", line)] == []


def test_reference_has_every_key_of_a_contract(code_in: dict[str, set[str]]) -> None:
    names = {key.rpartition(".")[2] for key, _ in keys(ContractDocument)}
    assert {"schema", "logicalType", "mustBeBetween"} <= names
    assert (names | {*COLUMN_PROPERTIES, *CONTRACT_PROPERTIES}) - code_in["contract"] == set()


def test_reference_has_every_argument_of_every_method(site: Path) -> None:
    text = (site / "reference/method-keys.html").read_text(encoding="utf-8")
    parts = dict(re.findall(r'<h2 id="([^"]+)">(.*?)(?=<h2 |</article>)', text, re.DOTALL))
    classes = {name: (method_class(name), ()) for name in METHODS}
    classes |= {name: (proxy_class(name), spec.fixed) for name, spec in PROXIES.items()}
    for name, (kind, fixed) in classes.items():
        wanted = {
            key
            for key in inspect.signature(kind.__init__).parameters
            if key != "self" and key not in RESERVED_ARGUMENTS and key not in fixed
        }
        heading = re.sub(r"[^\w-]", "", name).lower()
        items = re.findall(r"<li><code>(\w+)</code>(.*?)</li>", parts[heading], re.DOTALL)
        assert {key for key, _ in items} == wanted, name
        without = [key for key, text in items if not re.search(r"\):\s+\S", text)]
        assert without == [], f"{name}: keys without a meaning"


def test_reference_has_every_command_and_option(site: Path) -> None:
    text = html.unescape((site / "reference/command-line.html").read_text(encoding="utf-8"))
    parts = dict(re.findall(r'<h2 id="([^"]+)">(.*?)(?=<h2 |</article>)', text, re.DOTALL))

    def commands(group: Any, name: str) -> Iterator[tuple[str, Any]]:
        for key, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from commands(command, f"{name}-{key}")
            else:
                yield f"{name}-{key}", command

    found = dict(commands(typer.main.get_command(app), "evenhand"))
    assert {"evenhand-run", "evenhand-cache-gc"} <= set(found)
    assert set(parts) == set(found)
    for name, command in found.items():
        for parameter in command.params:
            shown = parameter.opts[0] if parameter.param_type_name == "option" else parameter.name
            assert shown in parts[name], f"{name} lacks {shown}"


def test_reference_has_every_metric(code_in: dict[str, set[str]]) -> None:
    assert {*METRICS} - code_in["metrics"] == set()


def test_reference_has_every_public_name_and_search_finds_it(site: Path) -> None:
    index = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
    places = {entry["location"] for entry in index["docs"]}
    for name in set(evenhand.__all__) - {"__version__"}:
        assert f"reference/python.html#evenhand.{name}" in places
    text = (site / "reference/python.html").read_text(encoding="utf-8")
    # reStructuredText that was not converted
    assert re.findall(r":(?:class|func|meth|math):|\.\. math::", text) == []


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    pages = [*site.rglob("*.html"), *site.rglob("*.css"), *site.rglob("*.svg")]
    assert len(pages) > 20
    found = {
        (str(page.relative_to(site)), next(filter(None, match)))
        for page in pages
        for match in FETCHED.findall(page.read_text(encoding="utf-8"))
    }
    assert found == set()


@pytest.mark.parametrize(
    "markup",
    [
        '<link rel="stylesheet" href="https://fonts.example/css">',
        "<script src=//cdn.example/x.js></script>",
        "a { background: url('https://example.org/a.png') }",
    ],
)
def test_what_fetches_is_recognised(markup: str) -> None:
    assert FETCHED.search(markup)


def test_a_broken_link_anchor_or_orphan_fails_the_build(tmp_path: Path) -> None:
    """With this site's settings and two pages; without a fault its own pages are built."""
    shutil.copytree(ROOT / "deploy/docs", tmp_path / "deploy/docs")
    for name in ("evenhand", "fairlib"):
        (tmp_path / name).symlink_to(ROOT / name)
    settings, _, _ = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")
    (tmp_path / "mkdocs.yml").write_text(f"{settings}\nnav:\n  - index.md\n  - other.md\n")
    pages = tmp_path / "docs"
    pages.mkdir()
    for name in ("favicon.svg", "site.css"):
        shutil.copy(ROOT / "docs" / name, pages)
    (pages / "other.md").write_text("# Another page\n")
    (pages / "index.md").write_text(
        "# Home\n\n[gone](gone.md) [part](other.md#no-such-part) [up](../README.md)\n"
    )
    (pages / "orphan.md").write_text("# In no menu\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    for fault in ("'gone.md'", "#no-such-part", "'../README.md'", "orphan.md"):
        assert fault in done.stderr
