"""Train: any method of the registry on the encoded training rows."""

from __future__ import annotations

import json
from typing import Any

from fairlib.distances.sensitive_subspace import SensitiveSubspace
from fairlib.methods.registry import METHODS, method_class
from fairlib.randomness import derive_seed
from tasks.dataset import read_dataset
from tasks.errors import InputError, NotCarriedOut
from tasks.step import Step, StepContext, StepResult

__all__ = ["STEP", "method_modules"]


def method_modules(method: str) -> list[str]:
    """Modules that a method brings into the training step's key."""
    return [METHODS[method].module]


def train(context: StepContext) -> StepResult:
    """
    Write ``model/`` and, where the method has them, ``history.json`` and ``without_adversary/``.

    The history holds a number per training step; the latter is the model that the same trees give without
    the method's adversary, to measure what fairness cost.
    """
    spec = METHODS[context.parameters["method"]]
    data = read_dataset(context.inputs["train"])
    arguments = dict(context.parameters["arguments"])
    if spec.needs_metric:
        arguments["metric"] = SensitiveSubspace.load(context.inputs["metric"])
    model = method_class(spec.name)(
        **arguments, random_state=derive_seed(context.parameters["seed"], "train")
    )
    groups = {name: values.astype(str) for name, values in data.sensitive.items()}
    options: dict[str, Any] = {"checkpoint": context.checkpoint} if spec.resumable else {}
    try:
        model.fit(data.X, data.y, sensitive_features=groups, callback=context.progress, **options)  # type: ignore[attr-defined]
    except FloatingPointError as error:
        raise NotCarriedOut(f"training with {spec.name} failed: {error}") from None
    except (ValueError, TypeError) as error:
        raise InputError(f"method {spec.name}: {error}") from None
    model.save(context.workdir / "model")
    outputs = {"model": (context.workdir / "model", "model")}
    history = getattr(model, "history_", None)
    if history:
        (context.workdir / "history.json").write_text(json.dumps(history))
        outputs["history"] = (context.workdir / "history.json", "history")
    if hasattr(model, "without_adversary"):
        plain = model.without_adversary(len(data.y)).fit(data.X, data.y)
        plain.save(context.workdir / "without_adversary")
        outputs["without_adversary"] = (context.workdir / "without_adversary", "model")
    return StepResult(outputs, {"method": spec.name})


STEP = Step("train", train)
