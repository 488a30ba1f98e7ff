"""Genetic proposals of NSGA-II and NSGA-III, whose children have the parameters of one method each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.fairlib.execution import generator
from evenhand.fairlib.tuning.study import Aim, beats
from evenhand.tasks.tuning.candidates import METHOD, Plan, distribution, optuna_quietly


def genetic_sampler(plan: Plan, seed: int) -> Any:
    """Build the sampler of the next trial.

    Optuna crosses only parameters that all trials have, and such a study has none. Here, as there, a parent
    is the better of two random trials (Deb et al., IEEE Trans. Evol. Comput. 2002). A child has the method
    of one parent. Each other value is that of either parent that has it, or with a probability of one in the
    number of values a random one.
    """
    samplers, rng = optuna_quietly().samplers, generator(seed, "children")
    base = samplers.NSGAIISampler if plan.sampler == "nsga2" else samplers.NSGAIIISampler
    space = {METHOD: optuna_quietly().distributions.CategoricalDistribution(list(plan.methods))}
    for method, dimensions in plan.methods.items():
        space |= {f"{method}.{name}": distribution(dimension) for name, dimension in dimensions.items()}

    class Genetic(base):  # type: ignore[misc, valid-type]
        def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
            return space

    free = Aim(plan.aim.objectives)

    def parent(items: Sequence[Any]) -> dict[str, Any]:
        pair = [items[index] for index in rng.integers(len(items), size=2)]
        misses = [sum(item.constraints.values()) for item in pair]
        told = [
            {name: {"value": value} for name, value in zip(free.objectives, item.values, strict=True)}
            for item in pair
        ]
        is_ahead = misses[1] < misses[0] or (misses[1] == misses[0] and beats(free, told[1], told[0]))
        found: dict[str, Any] = pair[int(is_ahead)].params
        return found

    def child(study: Any, space: Any, population: Sequence[Any]) -> dict[str, Any]:
        items = [item for item in population if METHOD in item.params]
        if not items:
            return {}
        first, second = parent(items), parent(items)
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
