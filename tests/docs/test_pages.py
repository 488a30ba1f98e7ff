"""Pages of docs/ and the README in a checkout: links lead somewhere, the reference is that of the
code.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import pytest

from evenhand.fairlib.catalogue import METRICS

ROOT = Path(__file__).resolve().parents[2]
WIDEST_LINE = 140
RENEW = "python deploy/docs/reference_pages.py"
LINK = re.compile(r"!?\[[^\]]*\]\(\s*([^)\s]+)[^)]*\)")


def pages() -> list[Path]:
    """The README, the changelog and every page of docs/."""
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def prose(text: str) -> str:
    """A page without its code: fenced blocks, indented blocks and code within a line."""
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"(?<=\n\n)(?: {4}.*\n)+", "", text)
    return re.sub(r"`[^`\n]*`", "code", text)


def anchors(text: str) -> set[str]:
    """Anchors of a page's headings, as forges and MkDocs make them."""
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        found.add(slug if slug not in found else f"{slug}-1")
    return found


def broken_links(page: Path) -> list[str]:
    """Relative links of a page that lead to no file or to no heading."""
    broken = []
    for link in LINK.findall(prose(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = unquote(link).partition("#")
        target = (page.parent / place).resolve() if place else page
        if (
            not target.exists()
            or not target.is_relative_to(ROOT)
            or anchor
            and anchor not in anchors(target.read_text(encoding="utf-8"))
        ):
            broken.append(link)
    return broken


def reference() -> ModuleType:
    """The module that makes the pages of docs/reference."""
    path = ROOT / "deploy/docs/reference_pages.py"
    spec = importlib.util.spec_from_file_location("reference_pages", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_relative_link_leads_somewhere() -> None:
    found = {str(page.relative_to(ROOT)): broken_links(page) for page in pages()}
    assert len(found) > 25
    assert {name: links for name, links in found.items() if links} == {}


@pytest.mark.parametrize(
    "link", ["gone.md", "README.md#no-such-part", "#nowhere", "../../outside.md"]
)
def test_a_broken_link_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    page = tmp_path / "README.md"
    page.write_text(
        f"# Here\n\n[one]({link}) [two](#here) `[three](code.md)`\n\n    [four](code.md)\n"
    )
    assert broken_links(page) == [link]


def test_the_reference_is_that_of_the_code() -> None:
    stale = [
        name
        for name, text in reference().pages().items()
        if not (ROOT / "docs" / name).is_file()
        or (ROOT / "docs" / name).read_text(encoding="utf-8") != text
    ]
    assert stale == [], (
        f"docs/{stale[0]} is not that of the code: run {RENEW} and commit what changed"
    )


def test_the_readme_is_short_and_shows_a_result() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    picture = re.search(r"!\[[^\]]+\]\((docs/[^)]+\.(?:png|svg))\)", text)
    assert picture is not None
    assert (ROOT / picture[1]).stat().st_size < 200_000
    assert {"make demo", "make test"} <= set(re.findall(r"make \w+", text))


def test_architecture_names_every_folder_of_the_product() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 190
    for folder in ("flows", "tasks", "fairlib"):
        for inner in (ROOT / folder).iterdir():
            if (inner / "__init__.py").is_file():
                assert f"`{folder}/{inner.name}" in text, f"{folder}/{inner.name}"


def test_modules_that_a_page_names_are_there() -> None:
    """Paths and import names in docs, README and changelog are those of the code."""
    lacking = set()
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if page.name == "CHANGELOG.md" or page.name.startswith("changes-before"):
            continue
        found = {
            *re.findall(
                r"\b(?:flows|tasks|fairlib|data_contracts|benchmarks|tests|deploy)/[\w/.-]+\.\w+",
                text,
            ),
            *(
                f"{name.replace('.', '/')}.py"
                for name in re.findall(
                    r"\bevenhand\.((?:flows|tasks|fairlib|data_contracts)(?:\.[a-z_]+)+)", text
                )
            ),
        }
        for name in found:
            is_link = (page.parent / name).exists() or (page.parent.parent / name).exists()
            if is_link or "NAME" in name:  # NAME stands for any name
                continue
            path = ROOT / name
            # a dotted name may end in a function of its module
            if not (
                path.exists()
                or path.with_suffix("").is_dir()
                or path.parent.with_suffix(".py").exists()
            ):
                lacking.add((page.name, name))
    assert lacking == set()


def test_no_line_of_a_page_is_wider_than_a_screen() -> None:
    wide = []
    for page in pages():
        if page.name == "CHANGELOG.md":
            continue
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            if len(line) > WIDEST_LINE:
                wide.append(f"{page.relative_to(ROOT)}:{number}")
    assert wide == []


def test_metrics_of_the_glossary_are_those_of_the_catalogue() -> None:
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    entries = re.findall(r"^- \*\*.*?(?=^- \*\*|^#|\Z)", text, re.DOTALL | re.MULTILINE)
    assert len(entries) >= 60
    named = set()
    for entry in entries:
        listed = re.search(r"Metrics?: (.*?)\.(?:\s|$)", " ".join(entry.split()))
        if listed:
            named |= set(re.findall(r"`([a-z_.<>]+)`", listed[1]))
    assert len(named) > 25
    assert named - set(METRICS) == set()
