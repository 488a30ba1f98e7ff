"""Genetic proposals of NSGA-II and NSGA-III, whose children have the parameters of one method each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.fairlib.execution import generator
from evenhand.tasks.tuning.candidates import METHOD, Plan, distribution, optuna_quietly


def genetic_sampler(plan: Plan, seed: int) -> Any:
    """Build the sampler of the next trial.

    Optuna crosses only parameters that all trials have, and such a study has none. Here a child has the
    method of one parent. Each other value is that of either parent that has it, or with a probability of one
    in the number of values a random one.
    """
    samplers, rng = optuna_quietly().samplers, generator(seed, "children")
    base = samplers.NSGAIISampler if plan.sampler == "nsga2" else samplers.NSGAIIISampler
    space = {METHOD: optuna_quietly().distributions.CategoricalDistribution(list(plan.methods))}
    for method, dimensions in plan.methods.items():
        space |= {f"{method}.{name}": distribution(dimension) for name, dimension in dimensions.items()}

    class Genetic(base):  # type: ignore[misc, valid-type]
        def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
            return space

    def child(study: Any, space: Any, population: Sequence[Any]) -> dict[str, Any]:
        parents = [item.params for item in population if METHOD in item.params]
        if not parents:
            return {}
        first, second = (parents[index] for index in rng.integers(len(parents), size=2))
        own = [name for name in space if name == METHOD or name.startswith(f"{first[METHOD]}.")]
        values = {}
        for name in own:
            known = [parent[name] for parent in (first, second) if name in parent]
            if name == METHOD:
                known = known[:1]
            if known and rng.random() >= 1 / len(own):
                values[name] = known[rng.integers(len(known))]
        return values

    return Genetic(seed=seed, child_generation_strategy=child)
