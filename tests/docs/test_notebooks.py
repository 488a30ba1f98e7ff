"""The notebooks of docs/notebooks: they run, are stored without outputs, and use public names
alone.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="what reads notebooks is in the extra `docs`")
pytest.importorskip("mkdocs", reason="the site's generator is in the extra `docs`")

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    """The hook that makes pages of notebooks."""
    place = ROOT / "deploy/docs/notebooks.py"
    spec = importlib.util.spec_from_file_location("notebooks_hook", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def code_of(path: Path) -> ast.Module:
    """The code of all cells, as one module."""
    cells = nbformat.read(path, as_version=4).cells
    return ast.parse("\n".join(cell.source for cell in cells if cell.cell_type == "code"))


@every_notebook
def test_a_notebook_is_valid_and_holds_no_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}


@every_notebook
def test_a_notebook_imports_public_names_that_exist(path: Path) -> None:
    found = [
        node for node in ast.walk(code_of(path)) if isinstance(node, ast.ImportFrom | ast.Import)
    ]
    ours = 0
    for node in found:
        if not isinstance(node, ast.ImportFrom):
            continue
        assert node.module is not None
        module = importlib.import_module(node.module)
        ours += node.module.startswith("evenhand.")
        for name in node.names:
            assert not re.search(r"(^|\.)_", f"{node.module}.{name.name}")
            assert hasattr(module, name.name) or importlib.util.find_spec(
                f"{node.module}.{name.name}"
            )
    assert ours


@every_notebook
def test_a_link_of_a_notebook_leads_to_a_file(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert links
    for link in links:
        assert (path.parent / link).is_file(), link


@every_notebook
def test_a_page_shows_tables_pictures_and_text(path: Path, hook: ModuleType) -> None:
    output = nbformat.v4.new_output
    notebook = hook.read_notebook(path)
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    table = '<table border="1" class="dataframe">\n<tr><td>1</td></tr>\n</table>'
    frame = f"<div><style>x</style>\n{table}\n</div>"
    first.source = '# Rates & "limits"\ndraw()'
    first.outputs = [
        output("stream", name="stdout", text="printed\n"),
        output("stream", name="stderr", text="warned\n"),
        output("display_data", {"image/svg+xml": "<svg></svg>", "text/plain": "Chart"}),
        output("execute_result", {"text/html": frame, "text/plain": "1"}),
        output("execute_result", {"text/html": "<script>1</script>", "text/plain": "Model()"}),
    ]
    page = hook.as_markdown(notebook)
    assert page.startswith("# ")
    assert "```text\nprinted\n```" in page
    assert "warned" not in page
    assert (
        'alt="Rates &amp; &quot;limits&quot;" src="data:image/svg+xml;base64,PHN2Zz48L3N2Zz4="'
        in page
    )
    assert "<table>\n<tr><td>1</td></tr>\n</table>" in page
    assert "```text\nModel()\n```" in page
    assert "<style" not in page
    assert "<script" not in page


@every_notebook
@pytest.mark.long  # half a minute each
def test_a_notebook_runs_and_its_charts_are_described(path: Path, hook: ModuleType) -> None:
    pytest.importorskip("nbclient", reason="what executes notebooks is in the extra `docs`")
    notebook: Any = hook.read_notebook(path)
    hook.execute(notebook, path.name)
    outputs = [(cell, output) for cell in notebook.cells for output in cell.get("outputs", ())]
    drawn = [cell for cell, output in outputs if "image/svg+xml" in output.get("data", {})]
    assert len(drawn) >= {"audit": 1}.get(path.stem, 4)
    assert all(cell.source.startswith("# ") for cell in drawn)
    assert not [output for _, output in outputs if output.output_type == "stream"], (
        "a warning or a print"
    )
    page = hook.as_markdown(notebook)
    assert page.count('<img class="chart"') == len(drawn)
    assert page.count("<table>") >= 4
    assert not re.search(r"<(script|link|iframe)|(?:src|href)=.https?:", page)


def test_a_cell_that_fails_ends_the_build_and_is_named(hook: ModuleType) -> None:
    from mkdocs.exceptions import PluginError

    pytest.importorskip("nbclient", reason="what executes notebooks is in the extra `docs`")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")])
    with pytest.raises(
        PluginError, match=r"(?s)broken\.ipynb cannot be executed.*ZeroDivisionError"
    ):
        hook.execute(notebook, "broken.ipynb")
