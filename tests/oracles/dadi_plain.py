"""DADI as the paper describes it, in plain PyTorch: the reference for tests and timings.

No memory vector is shared between people or time steps, and autograd gives every gradient. Random
numbers are drawn in the same order: both see the same people and explore alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from evenhand.fairlib.execution import generator
from evenhand.fairlib.methods.dadi import DADIClassifier
from evenhand.fairlib.methods.dadi.agent_training import network_shapes
from evenhand.fairlib.methods.dadi.decision_problem import Problem
from evenhand.fairlib.methods.dadi.network import NetworkShape

__all__ = ["PlainDADI", "PlainNetwork", "dense_rows", "load_parameters", "weighted_losses"]

Named = Mapping[str, NDArray[Any]]
HIDDEN_LAYERS = (0, 2, 4)
# the gates of SetNetwork are input, forget, output, candidate, and those of nn.LSTMCell input,
# forget, candidate, output: the permutation is its own inverse
GATES = (0, 1, 3, 2)


def _perceptron(inputs: int, hidden: tuple[int, int], outputs: int) -> nn.Sequential:
    first, second = hidden
    return nn.Sequential(
        nn.Linear(inputs, first),
        nn.ReLU(),
        nn.Linear(first, second),
        nn.ReLU(),
        nn.Linear(second, outputs),
    )


class PlainEncoder(nn.Module):
    """Set encoder (appendix B): a reading block shared by all columns, and an LSTM with
    attention.
    """

    indicator: Tensor

    def __init__(self, columns: int, hidden: tuple[int, int], memory: int, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.read = _perceptron(1 + columns, hidden, memory)
        self.lstm = nn.LSTMCell(memory, memory)
        # the sum of two biases is one bias
        self.lstm.bias_hh.requires_grad_(False)
        nn.init.zeros_(self.lstm.bias_hh)
        self.register_buffer("indicator", torch.eye(columns))

    def forward(self, values: Tensor, known: Tensor) -> Tensor:
        """Readings (n, D) of the columns `known` (n, d), 0 or 1, of people with `values` (n, d)."""
        indicator = self.indicator.expand(len(values), -1, -1)
        memory = self.read(torch.cat([values[:, :, None], indicator], dim=2))
        weights = known / known.sum(dim=1, keepdim=True).clamp(min=1)
        reading = torch.einsum("nd,ndk->nk", weights, memory)
        query, cell = torch.zeros_like(reading), torch.zeros_like(reading)
        for _ in range(self.steps):
            query, cell = self.lstm(reading, (query, cell))
            scores = torch.einsum("ndk,nk->nd", memory, query)
            # finite, because a softmax of minus infinities only, and its gradient, would be NaN
            scores = scores.masked_fill(known == 0, -1e30)
            reading = torch.einsum("nd,ndk->nk", scores.softmax(dim=1) * known, memory)
        return reading


class PlainNetwork(nn.Module):
    """Encoder and heads; the adversary has no policy."""

    def __init__(self, shape: NetworkShape, steps: int) -> None:
        super().__init__()
        self.encoder = PlainEncoder(shape.columns, shape.hidden, shape.memory, steps)
        self.classify = _perceptron(shape.memory, shape.hidden, shape.classes)
        self.policy = (
            _perceptron(shape.memory, shape.hidden, shape.actions) if shape.actions else None
        )

    def forward(self, values: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the classes and values of the actions."""
        reading = self.encoder(values, known)
        actions = (
            reading.new_zeros(len(reading), 0) if self.policy is None else self.policy(reading)
        )
        return self.classify(reading), actions


def _linear_layers(network: PlainNetwork) -> dict[str, nn.Linear]:
    """All layers but the first of the reading block and the LSTM, by the names of SetNetwork."""
    blocks = {"encoder": network.encoder.read, "classify": network.classify}
    if network.policy is not None:
        blocks["policy"] = network.policy
    layers = {
        f"{name}.{{}}{place + 1}": block[index]
        for name, block in blocks.items()
        for place, index in enumerate(HIDDEN_LAYERS)
    }
    del layers["encoder.{}1"]
    return layers  # type: ignore[return-value]


def _swap_gates(weights: Any) -> Any:
    return np.concatenate([np.split(weights, 4, axis=-1)[gate] for gate in GATES], axis=-1)


def load_parameters(network: PlainNetwork, named: Named) -> None:
    """Copy what ``NetworkShape.named`` gives into a network, which then computes the same."""
    memory = len(named["encoder.bias3"])
    first: Any = network.encoder.read[0]
    lstm, lstm_bias = _swap_gates(named["encoder.lstm"]), _swap_gates(named["encoder.lstm_bias"])
    pairs: list[tuple[Tensor, NDArray[Any]]] = [
        (first.weight, np.vstack([named["encoder.value"], named["encoder.column"]]).T),
        (first.bias, named["encoder.bias1"]),
        (network.encoder.lstm.weight_hh, lstm[:memory].T),
        (network.encoder.lstm.weight_ih, lstm[memory:].T),
        (network.encoder.lstm.bias_ih, lstm_bias),
    ]
    for name, layer in _linear_layers(network).items():
        pairs += [
            (layer.weight, named[name.format("weight")].T),
            (layer.bias, named[name.format("bias")]),
        ]
    with torch.no_grad():
        for parameter, value in pairs:
            parameter.copy_(torch.as_tensor(np.ascontiguousarray(value)))


def dense_rows(problem: Problem) -> NDArray[np.float32]:
    """The matrix (n, d) that a problem's rows were read from."""
    layout, rows = problem.layout, problem.rows
    X = np.empty((len(rows.own), layout.group_of.size), np.float32)
    X[:, layout.two] = np.where(rows.upper, layout.high, layout.low)
    X[:, layout.own] = rows.own
    return X


def weighted_losses(logits: Tensor, outcome: Any, people: NDArray[np.int64]) -> Tensor:
    """Weighted cross-entropy (nats) of people, whose logits are a block of the outputs."""
    start = torch.as_tensor(outcome.start[people])
    block = logits.gather(1, start[:, None] + torch.arange(outcome.classes))
    losses = cross_entropy(block, torch.as_tensor(outcome.code[people]), reduction="none")
    return torch.as_tensor(outcome.weight[people]).to(logits) * losses


def _best(values: NDArray[Any]) -> NDArray[np.int64]:
    """Action of the highest value; of equal ones to stop (the last one), else the first."""
    highest = values.max(axis=1)
    return np.where(values[:, -1] == highest, values.shape[1] - 1, values.argmax(axis=1))


def _step(optimiser: torch.optim.Adam, loss: Tensor) -> None:
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


class PlainDADI:
    """One trade-off's training.

    Parameters
    ----------
    problem : Problem
    config : DADIClassifier
        Its constructor parameters are used; start, people and exploration are those of its
        ``random_state``.
    """

    def __init__(self, problem: Problem, config: DADIClassifier) -> None:
        self.problem, self.config, self.iteration = problem, config, 0
        self.X = torch.as_tensor(dense_rows(problem))
        self.group = np.empty(self.X.shape[1], np.int64)
        for g, columns in enumerate(problem.layout.groups.values()):
            self.group[list(columns)] = g
        self._early = generator(config.random_state, "pretraining")
        self._random = generator(config.random_state, "joint training")
        shapes = network_shapes(config, problem)
        self.predictor, self.adversary = (
            PlainNetwork(shape, config.processing_steps) for shape in shapes
        )
        self.target = PlainNetwork(shapes[0], config.processing_steps)
        for network, shape in zip((self.predictor, self.adversary), shapes, strict=True):
            load_parameters(network, shape.named(shape.draw(self._early)))
        self._optimiser = self._adam()
        self.person = self._random.integers(0, len(self.X), config.agents)
        self.known = np.zeros((config.agents, problem.allowed.size), bool)

    def _adam(self) -> torch.optim.Adam:
        parameters = [*self.predictor.parameters(), *self.adversary.parameters()]
        return torch.optim.Adam(
            [p for p in parameters if p.requires_grad], lr=self.config.learning_rate
        )

    def _look(
        self, network: PlainNetwork, person: NDArray[Any], known: NDArray[Any]
    ) -> tuple[Tensor, Tensor]:
        columns = torch.as_tensor(known[:, self.group], dtype=torch.float32)
        return network(self.X[person], columns)  # type: ignore[no-any-return]

    def pretrain(self, iterations: int) -> None:
        """Train both classifiers; half of a batch has all features, in the other half groups are
        dropped.
        """
        n, groups, random = self.config.agents, self.problem.allowed.size, self._early
        optimiser, whole = self._adam(), (n + 1) // 2
        for _ in range(iterations):
            person = random.integers(0, len(self.X), n)
            draws = random.random((n - whole, 1 + groups))
            known = np.tile(self.problem.allowed, (n, 1))
            known[whole:] &= draws[:, 1:] >= draws[:, :1]
            label = weighted_losses(
                self._look(self.predictor, person, known)[0], self.problem.label, person
            )
            guess = self._look(self.adversary, person, known)[0]
            attribute = weighted_losses(guess, self.problem.attribute, person)
            _step(optimiser, label.mean() + attribute.mean())

    def joint(self, iterations: int) -> dict[str, float]:
        """Train all networks; return the mean losses and the mean squared error of the values."""
        config, logs = self.config, np.zeros(3)
        assert config.n_iterations is not None
        for _ in range(iterations):
            if self.iteration % config.target_every == 0:
                self.target.load_state_dict(self.predictor.state_dict())
            late = max(0.0, 2.0 * self.iteration / config.n_iterations - 1.0)
            rate = config.learning_rate + late * (config.final_learning_rate - config.learning_rate)
            self._optimiser.param_groups[0]["lr"] = rate
            label, attribute, error = self._collect()
            _step(self._optimiser, label + attribute + config.value_weight * error)
            logs += [label.item(), attribute.item(), error.item()]
            self.iteration += 1
        names = ("classification_loss", "adversary_loss", "value_error")
        return dict(zip(names, (logs / iterations).tolist(), strict=True))

    def _collect(self) -> tuple[Tensor, Tensor, Tensor]:
        """Take n steps with every agent: the mean losses, and that of the values."""
        config, problem, scale = self.config, self.problem, self.config.value_scale
        agents, stop = np.arange(config.agents), problem.allowed.size
        costs, fresh = (
            np.append(problem.costs, 0.0),
            self._random.integers(0, len(self.X), config.agents),
        )
        label_losses, attribute_losses, taken = [], [], []
        actions: list[NDArray[np.int64]] = []
        rewards: list[NDArray[Any]] = []
        ended: list[NDArray[np.bool_]] = []
        explored: list[NDArray[np.bool_]] = []
        expected: list[NDArray[Any]] = []
        before = at_stop = np.zeros(config.agents)
        for s in range(config.n_step + 1):
            last = s == config.n_step
            with torch.set_grad_enabled(not last):
                logits, values = self._look(self.predictor, self.person, self.known)
                guess, _ = self._look(self.adversary, self.person, self.known)
                label = weighted_losses(logits, problem.label, self.person)
                attribute = weighted_losses(guess, problem.attribute, self.person)
            possible = np.append(
                problem.allowed & ~self.known, np.ones((config.agents, 1), bool), axis=1
            )
            greedy = _best(np.where(possible, values.detach().numpy(), -np.inf))
            R = (
                ((1 - config.gamma) * attribute.double() - config.gamma * label.double())
                .detach()
                .numpy()
            )
            if s > 0:
                rewards.append(
                    np.where(ended[-1], at_stop, scale * (R - before - costs[actions[-1]]))
                )
                with torch.no_grad():
                    others = (
                        self._look(self.target, self.person, self.known)[1].numpy().astype(float)
                    )
                expected.append(others[agents, greedy])
            if last:
                break
            action = self._act(possible, greedy)
            actions.append(action)
            explored.append(action != greedy)
            ended.append(action == stop)
            # there is no reward before the first question
            before = np.where(self.known.any(axis=1), R, 0.0)
            at_stop = scale * (R - before)
            label_losses.append(label)
            attribute_losses.append(attribute)
            taken.append(values[agents, action])
            self._move(action, fresh)
        explored.append(np.ones(config.agents, bool))
        returned = np.zeros(config.agents)
        returns: list[NDArray[Any]] = []
        for s in reversed(range(config.n_step)):
            later = np.where(explored[s + 1], expected[s], returned)
            returned = rewards[s] + np.where(ended[s], 0.0, later)
            returns.insert(0, returned)
        error = torch.stack(taken) - torch.as_tensor(np.stack(returns), dtype=torch.float32)
        return (
            torch.stack(label_losses).mean(),
            torch.stack(attribute_losses).mean(),
            error.square().mean(),
        )

    def _act(self, possible: NDArray[np.bool_], greedy: NDArray[np.int64]) -> NDArray[np.int64]:
        """Epsilon-greedy."""
        config = self.config
        assert config.n_iterations is not None
        progress = min(1.0, self.iteration / max(1, config.n_iterations // 2))
        epsilon = config.exploration_start + progress * (
            config.exploration_end - config.exploration_start
        )
        explore, pick = self._random.random((len(possible), 2)).T
        place = (pick * possible.sum(axis=1)).astype(int)
        any_of = (possible & (possible.cumsum(axis=1) == 1 + place[:, None])).argmax(axis=1)
        return np.where(explore < epsilon, any_of, greedy)

    def _move(self, action: NDArray[np.int64], fresh: NDArray[np.int64]) -> None:
        """Ask, or go on to the next person."""
        stop = action == self.problem.allowed.size
        self.known[~stop, action[~stop]] = True
        self.known[stop] = False
        self.person = np.where(stop, fresh, self.person)
