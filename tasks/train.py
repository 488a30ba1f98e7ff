"""Train: any method of the registry on the encoded training rows."""

from __future__ import annotations

import json
from typing import Any

from evenhand.fairlib.distances.registry import load_metric
from evenhand.fairlib.execution import derive_seed
from evenhand.fairlib.methods.registry import METHODS, installed, method_class, needed_extra
from evenhand.fairlib.preprocessing.counterfactuals import all_copies
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.tasks.dataset import read_dataset
from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.step import StepContext, StepResult

__all__ = ["train"]


def train(context: StepContext) -> StepResult:
    """
    Write ``model/`` and, where the method has them, ``history.json`` and ``without_adversary/``.

    The history has numbers over the training steps; ``without_adversary`` is the same model trained without
    the method's adversary, to measure the price of fairness.
    """
    spec = METHODS[context.parameters["method"]]
    if not installed(spec):
        # The job was checked on another machine, where the extra is installed.
        raise InputError(needed_extra(spec))
    data = read_dataset(context.inputs["train"])
    arguments = dict(context.parameters["arguments"])
    if spec.needs_metric:
        arguments["metric"] = load_metric(context.inputs["metric"])
    model = method_class(spec.name)(
        **arguments, random_state=derive_seed(context.parameters["seed"], "train")
    )
    chosen = context.parameters.get("sensitive", data.sensitive)
    groups = {name: data.sensitive[name].astype(str) for name in chosen}
    options: dict[str, Any] = {"checkpoint": context.checkpoint} if spec.resumable else {}
    if spec.needs_counterfactuals:
        encoder = TableEncoder.load(context.inputs["encoder"])
        try:
            options["counterfactuals"] = all_copies(encoder, data.X, context.parameters["counterfactuals"])
        except ValueError as error:
            raise InputError(str(error)) from None
    if spec.needs_feature_groups:
        # In the order of the matrix; the dataset lists them by name.
        options["feature_groups"] = dict(sorted(data.groups.items(), key=lambda group: group[1]))
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
