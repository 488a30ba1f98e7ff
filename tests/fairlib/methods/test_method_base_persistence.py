from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from numpy.typing import NDArray

from evenhand.fairlib.distances import SensitiveSubspace
from evenhand.fairlib.file_digests import ESTIMATOR_FILE
from evenhand.fairlib.methods import METHODS, load_model, method_class
from evenhand.fairlib.methods.registry import installed

People = Callable[..., tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]
ENDINGS = {".json", ".ubj", ".safetensors"}
SMALL: dict[str, dict[str, Any]] = {
    "dadi": {
        **{"hidden": (8, 8), "memory_size": 4, "agents": 8},
        # how many trees there are depends on the table
        **{"pretrain_iterations": 20, "n_iterations": 20, "trees_weight": 0},
    },
    "faias": {"hidden": (8, 8), "n_epochs": 3, "batch_size": 32},
    "adversarial-debiasing": {"hidden": (8,), "n_epochs": 3},
    "exponentiated-gradient": {"max_iter": 5},
    "sklearn:HistGradientBoostingClassifier": {"max_iter": 5, "max_leaf_nodes": 4},
    "sklearn:RandomForestClassifier": {"n_estimators": 5, "max_leaf_nodes": 4},
    "lightgbm": {"n_estimators": 5, "num_leaves": 4},
    "catboost": {"n_estimators": 5, "depth": 2},
}


def train(
    name: str, X: NDArray[Any], y: NDArray[Any], group: NDArray[Any], **arguments: Any
) -> Any:
    spec, extra = METHODS[name], dict[str, Any]()
    if spec.needs_metric:
        arguments["metric"] = SensitiveSubspace(indicators=[0]).fit(
            X, sensitive_features={"g": group}
        )
    if spec.needs_counterfactuals:
        copy = X.copy()
        copy[:, 0] = 1 - copy[:, 0]
        extra["counterfactuals"] = [copy]
    if spec.needs_feature_groups and not spec.asks:
        extra["feature_groups"] = {"g": [0], **{f"x{j}": [j] for j in range(1, X.shape[1])}}
    arguments = SMALL.get(name, {}) | arguments
    taken = method_class(name)().get_params(deep=False)
    arguments |= {
        key: value for key, value in {"n_steps": 5, "max_depth": 2}.items() if key in taken
    }
    model = method_class(name)(random_state=0, **arguments)
    return model.fit(X, y, sensitive_features={"g": group}, **extra)


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module", params=sorted(METHODS))
def saved(
    request: pytest.FixtureRequest, people: People, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Any, Path]:
    """Name of a method, a model that it trained on 300 people, and where that is saved."""
    if request.param in ("lightgbm", "catboost"):
        pytest.importorskip(request.param)
    is_boosting = request.param == "sklearn:HistGradientBoostingClassifier"
    if is_boosting and sklearn.__version__.startswith("1.8."):
        pytest.skip("the extra `estimators` needs 1.9: skops cannot import the losses of 1.8")
    if not installed(METHODS[request.param]):
        pytest.skip(f"{METHODS[request.param].install_command} installs its trainer")
    X, y, group = people(300)
    model = train(request.param, X, np.where(y == 1, "bad", "good"), group)
    folder = tmp_path_factory.mktemp(request.param) / "model"
    model.save(folder)
    return request.param, model, folder


def test_loaded_model_predicts_the_same(saved: tuple[str, Any, Path], people: People) -> None:
    _, model, folder = saved
    X = people(150, seed=1)[0]
    for loaded in (load_model(folder), type(model).load(folder)):
        assert type(loaded) is type(model)
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        assert list(loaded.classes_) == ["bad", "good"]
        assert loaded.n_features_in_ == 5
        expected = {**model.get_params(deep=False), "metric": None}
        expected = {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in expected.items()
        }
        assert {"metric": None, **loaded.get_params(deep=False)} == expected
        with pytest.raises(ValueError, match="4 features"):
            loaded.predict(X[:, :4])


def test_saving_again_writes_the_same_bytes(saved: tuple[str, Any, Path], tmp_path: Path) -> None:
    _, _, folder = saved
    load_model(folder).save(tmp_path / "second")
    assert files(folder) == files(tmp_path / "second")


def test_size_does_not_grow_with_the_training_rows(
    saved: tuple[str, Any, Path], people: People, tmp_path: Path
) -> None:
    name, _, folder = saved
    train(name, *people(1500)).save(tmp_path / "larger")
    sizes = [
        sum(len(content) for content in files(each).values())
        for each in (folder, tmp_path / "larger")
    ]
    # trees of depth 2 have up to 4 leaves each; 1,500 rows of 5 floats alone are 30,000 bytes
    assert sizes[1] < 1.25 * sizes[0] + 200
    assert sizes[1] < 15_000


@pytest.mark.parametrize("name", sorted(METHODS))
def test_no_row_label_or_group_is_in_a_saved_model(
    name: str, people: People, tmp_path: Path
) -> None:
    if name in ("lightgbm", "catboost"):
        pytest.importorskip(name)
    X, y, _ = people(200)
    rng = np.random.default_rng(1)
    X[:, 1:] += rng.normal(scale=1e-3, size=(200, 4)).astype(
        np.float32
    )  # every value unlike any other
    groups = np.where(X[:, 0] == 1, "planted-violet", "planted-orange")
    labels = np.where(y == 1, 1234567, 7654321)
    train(name, X, labels, groups).save(tmp_path / "model")
    content = b"\0".join(files(tmp_path / "model").values())
    for dtype in (np.float32, np.float64, ">f4", ">f8"):
        for row in X.astype(dtype):
            # two neighbouring values of a person: a single one may be a threshold of a tree
            assert row[1:3].tobytes() not in content
            assert row[3:5].tobytes() not in content
    for text in (b"planted", b"violet", b"orange"):
        assert text not in content
    for dtype in ("int8", "int32", "int64", "float32", "float64"):
        assert y[:24].astype(dtype).tobytes() not in content
        assert labels[:24].astype("float64" if dtype == "int8" else dtype).tobytes() not in content
    assert len(json.loads((tmp_path / "model" / "model.json").read_text())["classes"]) == 2


def test_the_search_for_rows_can_find_one(people: People, tmp_path: Path) -> None:
    X, _, _ = people(5)
    np.save(tmp_path / "rows.npy", X)
    assert X[3, 1:3].tobytes() in files(tmp_path)["rows.npy"]


def test_nothing_is_pickled(saved: tuple[str, Any, Path]) -> None:
    _, _, folder = saved
    for path, content in files(folder).items():
        assert Path(path).suffix in ENDINGS or path == ESTIMATOR_FILE
        assert content[:1] != b"\x80", f"{path} starts like a pickle"
        if path == ESTIMATOR_FILE:
            # an archive of arrays and JSON, whose parts are checked before it is loaded
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                for member in archive.namelist():
                    assert Path(member).suffix in (".json", ".npy")
            continue
        assert not content.startswith(b"PK"), f"{path} is an archive"
    json.loads((folder / "model.json").read_text())


def test_numpy_arguments_are_saved_as_numbers(people: People, tmp_path: Path) -> None:
    X, y, _ = people(60)
    network = method_class("nn")(
        hidden=np.array([7]), n_steps=np.int64(3), learning_rate=np.float64(0.01)
    )
    network.fit(X, y).save(tmp_path / "nn")
    loaded = load_model(tmp_path / "nn")
    np.testing.assert_array_equal(loaded.predict_proba(X), network.predict_proba(X))
    assert (loaded.hidden, loaded.n_steps, loaded.learning_rate) == ([7], 3, 0.01)


@pytest.mark.parametrize("stranger", ["os.system", "Method", "", None, ["GBDTClassifier"]])
def test_only_our_own_classes_are_loaded(stranger: Any, people: People, tmp_path: Path) -> None:
    train("gbdt", *people(60)).save(tmp_path)
    description = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps(description | {"class": stranger}))
    with pytest.raises(ValueError, match="not a method of this version"):
        load_model(tmp_path)


def test_load_refuses_another_class_or_format(people: People, tmp_path: Path) -> None:
    train("gbdt", *people(60)).save(tmp_path)
    with pytest.raises(ValueError, match="holds no BudroClassifier of format 1"):
        method_class("budro").load(tmp_path)
    description = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps(description | {"format": 2}))
    with pytest.raises(ValueError, match="holds no GBDTClassifier of format 1"):
        load_model(tmp_path)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_an_unfitted_model_is_not_saved(name: str, tmp_path: Path) -> None:
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        method_class(name)().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
