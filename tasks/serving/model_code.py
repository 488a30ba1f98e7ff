"""MLflow models-from-code: this file is the code of a published model, whose parameters are in its
bundle.

A published model contains a copy of :mod:`fairlib` and needs nothing else of this project. Before
that copy is imported, the whole folder of the model is compared with its list, and then each module
once more when it is executed: code that is not listed never runs, and neither does bytecode.
"""

import contextlib
import hashlib
import importlib
import json
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

ROOT = Path(__file__).parent
# Code of this project is executed from a model's folder only.
PUBLISHED = (ROOT / "MLmodel").is_file()
PACKAGE = "evenhand"
SCIENCE = "evenhand.fairlib"
DAMAGED = "the model is damaged: {fault}. Fetch it again, or publish it again."


def _listed_source(path: str, listed: dict[str, Any]) -> bytes:
    """Read a file of the model's code; ValueError unless it is the regular file that the
    list has.
    """
    with contextlib.suppress(OSError):
        # a link is not followed, and a pipe does not block
        descriptor = os.open(ROOT / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        source = b""
        with os.fdopen(descriptor, "rb") as stream:
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            if regular:
                source = stream.read()
        entry = listed.get(path)
        file = {"sha256": hashlib.sha256(source).hexdigest(), "bytes": len(source)}
        if regular and entry == file:
            return source
    raise ValueError(DAMAGED.format(fault=f"{path} was changed"))


def _keep_kernels_elsewhere() -> None:
    """Have Numba keep compiled kernels in the user's cache: it would execute those next to
    the code.
    """
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    place = Path(base, "evenhand", "numba")
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        writable = os.access(place, os.W_OK)
    except OSError:
        writable = False
    if writable:
        cache = str(place)
    else:
        cache = tempfile.mkdtemp()
    cache = os.environ.setdefault("NUMBA_CACHE_DIR", cache)
    if "numba" in sys.modules:
        config = sys.modules["numba"].config
        if not config.CACHE_DIR:
            config.CACHE_DIR = cache


def _check_folder() -> dict[str, Any]:
    """Compare the model's folder with its list, by the listed module that does it; return
    the list.
    """
    # other files next to the listed packages must not be imported in place of installed ones
    sys.path[:] = [place for place in sys.path if place != str(ROOT / "code")]
    # Python wrote this file's bytecode: the next process would execute it in place of this file
    cached = Path(globals().get("__cached__") or ROOT / "none")
    with contextlib.suppress(OSError):
        cached.unlink()
        cached.parent.rmdir()
    path = "code/evenhand/fairlib/file_digests.py"
    place = ROOT / "artifacts" / "bundle" / "digests.json"
    if any(item.is_symlink() for item in (place, *place.parents[:2])) or not place.is_file():
        raise ValueError(DAMAGED.format(fault="artifacts/bundle/digests.json is missing"))
    _keep_kernels_elsewhere()
    listed: dict[str, Any] = json.loads(place.read_bytes())
    checks = ModuleType("model_file_digests")
    exec(compile(_listed_source(path, listed), str(ROOT / path), "exec"), checks.__dict__)
    faults = checks.model_faults(ROOT, running=Path(__file__).stem)
    if faults is None:
        raise ValueError(DAMAGED.format(fault="it has no list of its files"))
    if faults:
        raise ValueError(DAMAGED.format(fault=faults[0]))
    if "yaml" in sys.modules:  # MLflow has read the file by it
        declared = sys.modules["yaml"].safe_load(checks.read_regular(ROOT / "MLmodel"))
        fault = checks.other_code(declared)
        if fault:
            raise ValueError(DAMAGED.format(fault=fault))
    return listed


class ListedLoader(SourceFileLoader):
    """Executes the source that was compared with the list, and reads and writes no bytecode."""

    listed: dict[str, Any]

    def get_code(self, fullname: str) -> CodeType:
        """Compile the listed source; ValueError if the file was changed."""
        source = _listed_source(Path(self.path).relative_to(ROOT).as_posix(), self.listed)
        code: CodeType = compile(source, self.path, "exec", dont_inherit=True)
        return code


class ListedCode(MetaPathFinder):
    """Finds the modules of the model's copy of the code by its list of files."""

    def __init__(self, listed: dict[str, Any]) -> None:
        self.listed = listed

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a listed module, unless the process has imported another copy of the package."""
        if fullname == PACKAGE:
            return self._package()
        ours = str(ROOT / "code" / PACKAGE)
        if not fullname.startswith(f"{SCIENCE}.") and fullname != SCIENCE:
            return None
        if not any(place == ours or place.startswith(f"{ours}{os.sep}") for place in path or ()):
            return None
        file = f"code/{fullname.replace('.', '/')}"
        place = f"{file}.py"
        folders = None
        if f"{file}/__init__.py" in self.listed:
            place = f"{file}/__init__.py"
            folders = [str(ROOT / file)]
        if place not in self.listed:
            return None
        loader = ListedLoader(fullname, str(ROOT / place))
        loader.listed = self.listed
        return spec_from_file_location(
            fullname, ROOT / place, loader=loader, submodule_search_locations=folders
        )

    def _package(self) -> ModuleSpec | None:
        """The package with the model's list of public names, and with the places of an installed
        one behind ours.
        """
        folders = [str(ROOT / "code" / PACKAGE)]
        installed = PathFinder.find_spec(PACKAGE)
        if installed is not None:
            folders.extend(installed.submodule_search_locations or ())
        names = f"code/{PACKAGE}/__init__.py"
        if names not in self.listed:
            spec = ModuleSpec(PACKAGE, None, is_package=True)
            spec.submodule_search_locations = folders
            return spec
        loader = ListedLoader(PACKAGE, str(ROOT / names))
        loader.listed = self.listed
        return spec_from_file_location(
            PACKAGE, ROOT / names, loader=loader, submodule_search_locations=folders
        )


if PUBLISHED:
    listed_files = _check_folder()
    # a process that has another copy already goes on with that one
    if SCIENCE not in sys.modules:
        sys.meta_path.insert(0, ListedCode(listed_files))

# the imports below execute the model's code, so they follow the check
import mlflow.pyfunc  # noqa: E402
import pandas as pd  # noqa: E402
from mlflow.models import set_model  # noqa: E402

from evenhand.fairlib.methods.decided import predictions_of  # noqa: E402
from evenhand.fairlib.methods.registry import load_model  # noqa: E402
from evenhand.fairlib.preprocessing.encoder import TRUTH, TableEncoder  # noqa: E402

Answer = Callable[[Any, pd.DataFrame], dict[str, Any]]


def _booleans(values: pd.Series) -> pd.Series:
    """Convert the spellings of raw tables (true, yes, 1); the encoder refuses all other values."""
    converted: list[Any] = []
    for value in values:
        if pd.isna(value):
            converted.append(None)
        else:
            converted.append(TRUTH.get(str(value).strip().lower(), value))
    return pd.Series(converted, index=values.index, dtype=object)


def _classifier(folder: Path, labels: list[Any]) -> Answer:
    """Predictions and probabilities of encoded rows; the raw rows have the groups that a few models
    need.
    """
    model = load_model(folder)
    decides_by_group = getattr(model, "decides_by", None) is not None

    def answer(matrix: Any, rows: pd.DataFrame) -> dict[str, Any]:
        groups = model.rule.groups_of(rows) if decides_by_group else None
        decided, probability, asked_features = predictions_of(model, matrix, groups)
        columns = {
            "prediction": [labels[int(label)] for label in decided],
            "probability": probability,
        }
        if asked_features is not None:
            columns["asked"] = asked_features
        return columns

    return answer


def _proxy(folder: Path) -> Answer:
    """Acceptance probabilities of encoded rows."""
    # Imported lazily: a classifier does not need it.
    from evenhand.fairlib.methods.registry import load_proxy

    proxy = load_proxy(folder)
    return lambda matrix, rows: {"acceptance_probability": proxy.acceptance(matrix)}


class PublishedModel(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
    """Encoder and estimator or proxy, loaded from the bundle's parameter files."""

    def load_context(self, context: Any) -> None:
        """Load the bundle: JSON, safetensors and UBJSON only.

        Importing this file has compared all files of the model with its list: that finds damage,
        and code that was added, but not an attacker who changes this file too.
        """
        if PUBLISHED:
            # MLmodel, which no list of the model covers, may name another folder
            bundle = ROOT / "artifacts" / "bundle"
        else:
            bundle = Path(context.artifacts["bundle"])
        self.bundle = bundle
        self.inputs = json.loads((bundle / "inputs.json").read_text())
        self.encoder = TableEncoder.load(bundle / "encoder.json")
        labels = self.inputs.get("label_values")
        if labels:
            self.answer = _classifier(bundle / "model", labels)
        else:
            self.answer = _proxy(bundle / "model")

    def predict(
        self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> pd.DataFrame:
        """Predict for raw rows.

        Parameters
        ----------
        model_input : DataFrame
            The contract's feature columns under their names, in any order; other columns are
            ignored, so sensitive columns that are no model input need not be there, unless
            decisions depend on them.

        Returns
        -------
        DataFrame
            Same index. A classifier gives ``prediction`` (a value of the label) and ``probability``
            (of the positive value; of a label of more than two values that of the predicted one);
            one that asks for features also ``asked``, their names in order, joined by commas. A
            proxy gives ``acceptance_probability``.
        """
        if not isinstance(model_input, pd.DataFrame):
            raise ValueError(
                f"the model wants a DataFrame of raw columns, got {type(model_input).__name__}."
            )
        missing = [name for name in self.inputs["features"] if name not in model_input.columns]
        if missing:
            raise ValueError(
                f"the input lacks the columns {missing}: give every column of the contract."
            )
        rows = model_input.copy(deep=False)
        for name in self.inputs["booleans"]:
            if name in rows:
                rows[name] = _booleans(rows[name])
        answers = self.answer(self.encoder.transform(rows), rows)
        return pd.DataFrame(answers, index=model_input.index)

    def questionnaire(self) -> Any:
        """Return ``next_feature(known)`` and ``predict(known)`` for one person, of a model that
        asks.
        """
        # Imported by name, so that the code digest of other models does not include it.
        module = importlib.import_module("evenhand.fairlib.methods.dadi.questionnaire")
        return module.Questionnaire.load(self.bundle)


set_model(PublishedModel())
