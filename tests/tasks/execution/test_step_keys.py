"""Cache keys: everything that can change a result changes the key, and nothing else does."""

from __future__ import annotations

import ast
import hashlib
import shutil
from pathlib import Path

import pytest

import evenhand.tasks.execution.fingerprint
import evenhand.tasks.execution.step
from evenhand.fairlib.methods.registry import METHODS
from evenhand.tasks.execution.fingerprint import code_digest, library_versions, source_closure
from evenhand.tasks.execution.step import SPECIAL, STEPS, step_key
from evenhand.tasks.execution.store import Artifact

ROOT = Path(__file__).resolve().parents[3]
CODE = ("flows", "tasks", "fairlib", "data_contracts")
BUDRO = METHODS["budro"].module
GIVEN = {"train": Artifact("/a", "11", "dataset", 3, {})}
PARAMETERS = {"method": "budro", "arguments": {"eta": 0.05}, "seed": 0}


def key_of_training(**changes: object) -> str:
    return step_key(STEPS["train"], {**PARAMETERS, **changes}, GIVEN, [BUDRO])


def test_the_same_is_the_same() -> None:
    assert key_of_training() == key_of_training()
    assert key_of_training(seed=0) == key_of_training()
    backwards = dict(reversed(PARAMETERS.items()))
    assert step_key(STEPS["train"], backwards, GIVEN, [BUDRO]) == key_of_training()


@pytest.mark.parametrize(
    "changes", [{"seed": 1}, {"arguments": {"eta": 0.04}}, {"arguments": {}}, {"method": "project"}]
)
def test_a_parameter_or_seed_changes_the_key(changes: dict[str, object]) -> None:
    assert key_of_training(**changes) != key_of_training()


def test_an_inputs_digest_changes_the_key_and_its_place_does_not() -> None:
    step = STEPS["train"]
    key = step_key(step, PARAMETERS, GIVEN)
    assert (
        step_key(step, PARAMETERS, {"train": Artifact("/elsewhere", "11", "dataset", 3, {})}) == key
    )
    assert step_key(step, PARAMETERS, {"train": Artifact("/a", "12", "dataset", 3, {})}) != key
    assert step_key(step, PARAMETERS, {"test": GIVEN["train"]}) != key
    assert step_key(step, PARAMETERS, {}) != key


def test_every_step_has_a_key_of_its_own() -> None:
    assert len({step_key(STEPS[name], {}, {}) for name in STEPS}) == len(STEPS)


def test_a_library_version_changes_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key_of_training()
    versions = library_versions()
    assert {"numpy", "pandas", "pyarrow", "scikit-learn", "torch"} <= set(versions)
    monkeypatch.setattr(
        evenhand.tasks.execution.step, "library_versions", lambda: {**versions, "numpy": "0.0"}
    )
    assert key_of_training() != before


def test_the_key_is_the_digest_of_its_parts_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(evenhand.tasks.execution.step, "library_versions", lambda: {"numpy": "9"})
    monkeypatch.setattr(
        evenhand.tasks.execution.step,
        "code_digest",
        lambda modules: asked.append(list(modules)) or "c0de",
    )
    written = (
        '{"code": "c0de", "format": 1, "inputs": {"train": "11"}, "libraries": {"numpy": "9"}, '
        '"parameters": {"a": [true, 0.5], "b": null}, "step": "publish"}'
    )
    key = step_key(STEPS["publish"], {"b": None, "a": [True, 0.5]}, GIVEN, ["evenhand.x"])
    assert key == hashlib.sha256(written.encode()).hexdigest()
    assert asked == [
        ["evenhand.tasks.steps.publish_step", "evenhand.tasks.serving.model_code", "evenhand.x"]
    ]


def test_numbers_that_json_lacks_make_no_key() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        key_of_training(arguments={"eta": float("nan")})


# which source files count


def test_training_depends_on_its_method_and_not_on_publishing() -> None:
    closure = source_closure(["evenhand.tasks.steps.train_step", BUDRO])
    assert {
        "evenhand.fairlib.methods.budro",
        "evenhand.fairlib.transport.dual",
        "evenhand.fairlib.transport._transport_kernels",
        "evenhand.fairlib.numerics",
        "evenhand.fairlib",
        "evenhand.tasks.execution.step",
    } <= set(closure)
    assert (
        closure["evenhand.fairlib.transport._transport_kernels"]
        == ROOT / "fairlib/transport/_transport_kernels.py"
    )
    for stranger in (
        "evenhand.tasks.steps.publish_step",
        "evenhand.tasks.steps.evaluate_step",
        "evenhand.tasks.pages.build",
        "evenhand.flows.cli",
    ):
        assert stranger not in closure
    assert "evenhand.fairlib.transport.dual" not in source_closure(
        ["evenhand.tasks.steps.train_step", METHODS["gbdt"].module]
    )


def test_every_module_of_the_folder_is_a_step() -> None:
    modules = [path.stem for path in (ROOT / "tasks/steps").glob("*_step.py")]
    assert sorted(STEPS) == sorted(name.removesuffix("_step") for name in modules)
    assert {step.name for step in SPECIAL} <= set(STEPS)
    for name, step in STEPS.items():
        path = ROOT / "tasks/steps" / f"{name}_step.py"
        tree = ast.parse(path.read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        first = (ast.get_docstring(tree) or "").split("\n\n")[0]
        assert step.summary == " ".join(first.split()) != ""


def test_no_step_depends_on_the_flows() -> None:
    for name in STEPS:
        step = STEPS[name]
        closure = source_closure([step.module, *step.modules])
        assert not [module for module in closure if module.startswith("evenhand.flows")]


def test_publishing_depends_on_the_code_that_it_ships() -> None:
    step = STEPS["publish"]
    closure = source_closure([step.module, *step.modules])
    assert {
        "evenhand.tasks.serving.model_code",
        "evenhand.fairlib.preprocessing.encoder",
        "evenhand.fairlib.methods.registry",
    } <= set(closure)


@pytest.fixture
def copy_of_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The fingerprint reads a copy of the packages that a test may edit."""
    for package in CODE:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    original = evenhand.tasks.execution.fingerprint._source

    def source(root: Path, name: str) -> Path | None:
        path = original(root, name)
        return path and tmp_path / path.relative_to(ROOT)

    monkeypatch.setattr(evenhand.tasks.execution.fingerprint, "_source", source)
    return tmp_path


@pytest.fixture(scope="module")
def roots() -> dict[str, list[str]]:
    """The modules that each step's digest starts from, for a run of budro."""
    found = {}
    for name in STEPS:
        step = STEPS[name]
        extra = [BUDRO] if name in OF_THE_METHOD else []
        found[name] = [step.module, *step.modules, *extra]
    return found


@pytest.fixture(scope="module")
def files(roots: dict[str, list[str]]) -> dict[str, set[str]]:
    """The source files that each step depends on."""
    return {
        name: {path.relative_to(ROOT).as_posix() for path in source_closure(modules).values()}
        for name, modules in roots.items()
    }


# steps that import the method's module by name
OF_THE_METHOD = {"train", "membership", "controls", "evaluate", "prove", "publish"}
# steps that decide or load a model, and so need the rules
DECIDING = {
    "decide",
    "controls",
    "evaluate",
    "prove",
    "measure_model",
    "measure_drift",
    "publish",
}
ENCODERS_USERS = {
    "tune_encoder",
    "preprocess",
    "profile",
    "balance",
    "fair_metric",
    "train",
    "membership",
    "measure_predictions",
    *DECIDING,
}
# steps that search the worst case of comparable people: an audit of predictions does so too
COMPARING = {"measure_predictions", *OF_THE_METHOD}
TOUCHED = [
    ("fairlib/transport/dual.py", COMPARING),
    ("fairlib/transport/_transport_kernels.py", COMPARING),
    ("fairlib/distances/sensitive_subspace.py", {"fair_metric", *COMPARING}),
    ("fairlib/distances/explore.py", {"fair_metric", *OF_THE_METHOD}),
    (
        "fairlib/preprocessing/counterfactuals.py",
        ENCODERS_USERS - {"profile", "balance", "decide"},
    ),
    ("fairlib/preprocessing/encoder.py", ENCODERS_USERS),
    ("fairlib/proxies/proxy_base.py", {"balance", "learn_proxy", "measure_proxy"}),
    ("fairlib/proxies/sampling.py", {"balance", "learn_proxy", "measure_proxy"}),
    (
        "fairlib/proxies/hash_uniform.py",
        {"balance", "tune_encoder", "preprocess", "measure_predictions", *DECIDING},
    ),
    ("fairlib/methods/decided.py", DECIDING),
    ("fairlib/methods/calibration.py", DECIDING),
    ("fairlib/evaluation/group_thresholds.py", DECIDING),
    ("tasks/registry/client.py", {"balance", "publish"}),
    ("fairlib/datasets/generated.py", {"ingest"}),
    (
        "data_contracts/checking.py",
        {"contract", "tune_encoder", "preprocess", "measure_drift", "measure_predictions"},
    ),
    ("tasks/serving/model_code.py", {"publish"}),
    ("tasks/pages/build.py", set()),
    ("flows/run.py", set()),
    ("tasks/execution/store.py", set(STEPS)),
]


@pytest.mark.parametrize(("path", "touched"), TOUCHED)
def test_a_step_depends_on_the_helpers_that_it_imports(
    files: dict[str, set[str]], path: str, touched: set[str]
) -> None:
    assert (ROOT / path).is_file()
    assert {name for name in STEPS if path in files[name]} == touched


def test_a_comment_in_a_helper_touches_dependent_steps(
    copy_of_code: Path, roots: dict[str, list[str]]
) -> None:
    def digests() -> dict[str, str]:
        return {name: code_digest(modules) for name, modules in roots.items()}

    before = digests()
    path, touched = TOUCHED[0]
    with (copy_of_code / path).open("a") as stream:
        stream.write("\n# a remark\n")
    after = digests()
    assert {name for name in STEPS if before[name] != after[name]} == touched


def test_a_public_name_more_changes_no_key(copy_of_code: Path, roots: dict[str, list[str]]) -> None:
    before = {name: code_digest(modules) for name, modules in roots.items()}
    for path in copy_of_code.rglob("__init__.py"):
        path.write_text(f"{path.read_text()}\nfrom evenhand.flows.cli import app\n")
    assert {name: code_digest(modules) for name, modules in roots.items()} == before


def test_imports_for_type_checkers_do_not_count(copy_of_code: Path) -> None:
    path = copy_of_code / "tasks/steps/gate_step.py"
    late = "from evenhand.fairlib.transport import dual\n"
    path.write_text(
        path.read_text() + f"\nif TYPE_CHECKING:\n    {late}else:\n    import evenhand.flows.job\n"
    )
    closure = source_closure(["evenhand.tasks.steps.gate_step"])
    assert "evenhand.fairlib.transport.dual" not in closure
    assert "evenhand.flows.job" in closure


def test_the_digest_sees_one_byte_of_one_file(copy_of_code: Path) -> None:
    before = code_digest(["evenhand.tasks.steps.train_step"])
    path = copy_of_code / "fairlib/methods/registry.py"
    content = path.read_bytes()
    path.write_bytes(content + b" ")
    changed = code_digest(["evenhand.tasks.steps.train_step"])
    assert changed != before
    path.write_bytes(content)
    assert code_digest(["evenhand.tasks.steps.train_step"]) == before


def test_the_imports_that_count_are_those_of_the_parser() -> None:
    for path in (item for folder in CODE for item in (ROOT / folder).rglob("*.py")):
        parsed: set[str] = set()
        waiting: list[ast.AST] = [ast.parse(path.read_bytes())]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
                waiting += node.orelse
                continue
            if isinstance(node, ast.Import):
                parsed |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                parsed |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            waiting += ast.iter_child_nodes(node)
        ours = {name for name in parsed if name.split(".")[0] == "evenhand"}
        assert set(evenhand.tasks.execution.fingerprint._imports(path.read_text())) == ours, path


def test_imports_within_functions_count(
    copy_of_code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy_of_code / "tasks/steps/gate_step.py"
    assert "evenhand.fairlib.transport.dual" not in source_closure(
        ["evenhand.tasks.steps.gate_step"]
    )
    path.write_text(
        path.read_text()
        + "\ndef late():\n    from evenhand.fairlib.transport import dual\n    return dual\n"
    )
    assert "evenhand.fairlib.transport.dual" in source_closure(["evenhand.tasks.steps.gate_step"])


def test_names_that_are_no_modules_of_ours_are_left_out() -> None:
    assert source_closure(["numpy", "json", "evenhand.fairlib.no_such_module"]).keys() <= {
        "evenhand.fairlib"
    }
