"""Folders named as ours in the working directory shadow nothing, and models published before still
load.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("flows", "tasks", "fairlib", "data_contracts")
SHADOW = "raise RuntimeError(f'a module of the working directory was imported: {__file__}')\n"
# `python -m probe` puts the working directory first on the path, as a Prefect worker does when it
# starts `python -m prefect.flow_engine`; a notebook's kernel has '' there
PROBE = """
import json, sys
from pathlib import Path

sys.path.insert(0, "")
root, deployments, *models = map(Path, sys.argv[1:])

import evenhand.fairlib.methods.budro, evenhand.tasks.steps.publish_step, evenhand.data_contracts.model
from evenhand.flows.prefect_flows import retrain
from evenhand.flows.services import read_deployments
from prefect.flows import EntrypointType, load_flow_from_entrypoint

entrypoints = {item.entrypoint for item in read_deployments(deployments)}
# what `evenhand serve` registers, and its subprocess loads
entrypoints.add(retrain.to_deployment("x", entrypoint_type=EntrypointType.MODULE_PATH).entrypoint)
for entrypoint in entrypoints:
    load_flow_from_entrypoint(entrypoint)
ours = [module.__file__ for name, module in sys.modules.items() if name.startswith("evenhand.")]
assert all(Path(file).is_relative_to(root) for file in ours if file), ours

import mlflow, pandas

for model in models:
    expected = json.loads((model / "expected.json").read_text())
    found = mlflow.pyfunc.load_model(str(model)).predict(pandas.DataFrame(expected["rows"]))
    assert found["prediction"].tolist() == expected["prediction"], model
    assert found["probability"].tolist() == expected["probability"], model
taken = [module.__file__ for name, module in sys.modules.items() if name.split(".")[0] == "fairlib"]
assert taken, "the older model brings its own code"
assert all(Path(file).is_relative_to(models[0]) for file in taken), taken
print(json.dumps(sorted(entrypoints)))
"""


@pytest.fixture(scope="module")
def shadowed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with packages and modules named as ours, which fail if they are imported."""
    folder = tmp_path_factory.mktemp("shadowed")
    for name in FOLDERS:
        for path in (ROOT / name).rglob("*.py"):
            target = folder / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(SHADOW)
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """
    Two published models with the predictions that they gave when they were made.

    The first was published when the import name was `fairlib`; it carries only the modules that it
    imports. The second has the same parameters and carries the code of today."""
    before, today = (tmp_path_factory.mktemp("models") / name for name in ("before", "today"))
    with zipfile.ZipFile(Path(__file__).with_name("published-before.zip")) as archive:
        archive.extractall(before)
    shutil.copytree(before, today, ignore=shutil.ignore_patterns("code"))
    ignored = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
    shutil.copytree(ROOT / "fairlib", today / "code/evenhand/fairlib", ignore=ignored)
    shutil.copy(ROOT / "tasks/serving/model_code.py", today)
    return [before, today]


def run(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command in the folder, which is also on Python's path."""
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ
        | {
            "PYTHONPATH": str(folder),
            "EVENHAND_STORE": str(folder / "store"),
            "MLFLOW_DISABLE_TELEMETRY": "true",
        },
        capture_output=True,
        text=True,
    )


def test_the_command_line_is_not_shadowed(shadowed: Path) -> None:
    done = run(shadowed, Path(sys.executable).with_name("evenhand"), "jobs")
    assert done.returncode == 0, done.stderr
    assert "loans-budro" in done.stdout


@pytest.mark.long
def test_flows_notebooks_and_published_models_are_not_shadowed(
    shadowed: Path, models: list[Path]
) -> None:
    (shadowed / "probe.py").write_text(PROBE)
    done = run(shadowed, sys.executable, "-m", "probe", ROOT, ROOT / "deploy/prefect.yaml", *models)
    assert done.returncode == 0, done.stderr[-3000:]
    flows = {"retrain", "filter_flow", "evaluate", "monitor", "tune"}
    assert json.loads(done.stdout) == sorted(
        f"evenhand.flows.prefect_flows.{name}" for name in flows
    )
