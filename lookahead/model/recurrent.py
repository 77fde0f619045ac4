"""Roll back recurrent layers: state spaces, gated delta rules, short convolutions.

Their state cannot be cut back to fewer tokens. A pass therefore copies it before its root and draft (the snapshot). If not all
drafted rows are accepted, the snapshot is restored, and the next pass reads the accepted tokens again, before its own rows. It
then calls each recurrent layer twice: for these tokens, after which the new snapshot is taken, and for its own rows. So a
rejection costs rows, but no pass. A tree is computed as a batch with one text per path from the root to a leaf (`paths`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from types import CodeType
from typing import Any, NamedTuple

import torch
from transformers.cache_utils import LinearAttentionCacheLayerMixin

from ..core.tree import is_chain
from . import outside
from .cache import KeyValueCache
from .paths import Paths

STATEFUL = {"update_conv_state", "update_recurrent_state"}  # methods of a cache that a recurrent layer calls
PASS: ContextVar[StateCache | None] = ContextVar("pass", default=None)  # the cache of the pass under way


class Plan(NamedTuple):
    """How a pass runs through recurrent layers.

    The first `stem` rows are a chain. If `saves` is set, the states after them are kept. `paths` are those of the other rows, or
    None if they are a chain.
    """

    stem: int
    saves: bool
    paths: Paths | None


State = dict[tuple[str, int], torch.Tensor]  # by name and number of a state in its layer


def present(layer: LinearAttentionCacheLayerMixin) -> State:
    """Return the states of one layer of transformers' cache. Passes change them in place."""
    return {
        (name, i): state
        for name in ("conv_states", "recurrent_states")
        for i, state in getattr(layer, name).items()
        if state is not None
    }


def copied(states: State) -> State:
    """Return a copy of the states of a batch's first text."""
    return {key: state[:1].clone() for key, state in states.items()}


def restore(layer: LinearAttentionCacheLayerMixin, states: State, texts: int = 1) -> None:
    """Set states of a layer to copies of these, one for each of `texts` texts of a batch."""
    for (name, i), state in states.items():
        getattr(layer, name)[i] = state[:1].repeat(texts, *[1] * (state.dim() - 1))


def mixers(model: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the modules of a model that read and update a state."""
    return [module for module in model.modules() if _is_mixer(type(module)) or type(module).__name__ in outside.COMPUTE]


def set_stepwise(layers: Sequence[Any], stepwise: bool) -> None:
    """Make recurrent layers compute the rows of a pass one by one, or together."""
    for layer in layers:
        layer.stepwise = stepwise


@cache
def _is_mixer(kind: type) -> bool:
    bases = [base for base in kind.__mro__ if not issubclass(Split, base)]
    return any(STATEFUL & _names(method) for base in bases for method in vars(base).values())


def _names(function: Any) -> set[str]:
    """Return the names that a function uses."""
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    return set(code.co_names) if isinstance(code, CodeType) else set()


class Split:
    """Added to the class of a recurrent layer, so that its passes follow the cache's `Plan`.

    With `stepwise`, the layer cannot continue a state with several rows, and each row is a call. `state_keys` are the states that it
    sets: several recurrent layers can share a layer of the cache, which has the same `number`.
    """

    number: int
    stepwise: bool | None = None
    state_keys: frozenset[tuple[str, int]] = frozenset()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        call: Any = super().forward  # type: ignore[misc]
        number, cache = self.number, PASS.get()
        if cache is None:
            return call(*args, **kwargs)
        plan, rows, layer = cache.plan, _rows(args, kwargs), cache.dynamic.layers[number]
        before = present(layer).keys()
        if compute := outside.COMPUTE.get(type(self).__name__):
            call = partial(compute, self, call, layer.recurrent_states)

        def current() -> State:
            return {key: state for key, state in present(layer).items() if key in self.state_keys}

        def run(index: slice | torch.Tensor) -> Any:
            columns = range(*index.indices(rows)) if isinstance(index, slice) else range(index.shape[1])
            if self.stepwise and current() and len(columns) > 1:
                steps = (slice(i, i + 1) if isinstance(index, slice) else index[:, i : i + 1] for i in columns)
                return _joined([run(step) for step in steps])
            parts = [_part(value, rows, index) for value in args]
            inner = PASS.set(None)  # a recurrent layer inside of this one computes the same rows
            try:
                return call(*parts, **{name: _part(value, rows, index) for name, value in kwargs.items()})
            finally:
                PASS.reset(inner)
                self.state_keys = self.state_keys or frozenset(present(layer).keys() - before)

        outputs = [run(slice(plan.stem))] if plan.stem else []
        if plan.saves:
            cache.save(number, current())
        if paths := plan.paths:
            restore(layer, current(), len(paths))
            outputs.append(paths.by_row(run(paths.rows)))
        elif plan.stem < rows:
            outputs.append(run(slice(plan.stem, rows)))
        return _joined(outputs)


@cache
def _split_class(kind: type) -> type:
    return type(kind.__name__, (Split, kind), {})


def split(model: torch.nn.Module) -> None:
    """Make the recurrent layers of a model follow the plan of their cache."""
    recurrent, named = {*mixers(model)}, list[tuple[str, Any]](model.named_modules())
    for name, module in named:
        if module in recurrent and not isinstance(module, Split):
            module.__class__ = _split_class(type(module))
            in_name = next((int(part) for part in name.split(".") if part.isdigit()), 0)
            module.number = getattr(module, "layer_idx", in_name)


def _rows(args: Sequence[Any], kwargs: dict[str, Any]) -> int:
    return next(
        value.shape[1] for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor) and value.dim() > 1
    )


def _part(value: Any, rows: int, index: slice | torch.Tensor) -> Any:
    """Return the rows `index` of an argument: tensors [1, rows, ...]; a table [texts, rows] of rows gives one text per entry."""
    if not isinstance(value, torch.Tensor) or value.dim() < 2:
        return value
    if value.dim() == 4 or value.shape[1] != rows:  # a mask
        return None
    return value[:, index] if isinstance(index, slice) else value[0, index.to(value.device)]


def _joined(outputs: Sequence[Any]) -> Any:
    """Concatenate outputs of consecutive rows."""
    if len(outputs) == 1 or not isinstance(outputs[0], tuple | torch.Tensor):
        return outputs[0]
    if isinstance(outputs[0], tuple):
        return tuple(_joined(parts) for parts in zip(*outputs, strict=True))
    return torch.cat(list(outputs), 1)


class StateCache(KeyValueCache):
    """A cache with recurrent states and one snapshot of them. `dynamic` is transformers' cache."""

    dynamic: Any

    def __init__(self, *args: Any):
        super().__init__(*args)
        self._tokens = 0  # number of tokens that the states have read
        self._is_valid = True  # False during a pass, after an interrupted pass, and after a tree
        self.plan, self._saves = Plan(0, False, None), -1
        self._saved: dict[int, State] = {}
        self._saved_at = -1  # number of tokens that the saved states have read

    def length(self) -> int:
        return self._tokens

    def snapshot(self, parents: Sequence[int], base: int, length: int) -> None:
        rows, is_inside = len(parents), base <= length <= base + len(parents)
        self._saves = length if is_inside else -1
        stem = length - base if is_inside else rows if is_chain(parents) else 0
        self.plan = Plan(stem, is_inside, None if is_chain(parents) else Paths(parents, stem))

    def save(self, number: int, states: State) -> None:
        """Keep copies of states of the layer with this number."""
        self._saved.setdefault(number, {}).update(copied(states))

    @contextmanager
    def computing(self, rows: int) -> Iterator[None]:
        self._is_valid = False
        if self._saves >= 0:
            self._saved_at = -1
        if self.paths:  # all layers compute a batch
            self.plan = self.plan._replace(paths=None)
            for _, layer in self._stateful():
                restore(layer, present(layer), len(self.paths))
        outer = PASS.set(self)
        try:
            yield
        finally:
            PASS.reset(outer)
        self._tokens += rows
        self._is_valid = not (self.plan.paths or self.paths)
        if self._saves >= 0:
            self._saved_at = self._saves

    def rewind(self, length: int) -> int:
        if not (self._is_valid and self._tokens <= length):
            self._tokens, self._is_valid = (self._saved_at if 0 <= self._saved_at <= length else 0), True
            for number, layer in self._stateful():
                if self._tokens:
                    restore(layer, self._saved[number])
                else:
                    LinearAttentionCacheLayerMixin.__init__(layer, layer.number_of_states)
        super().rewind(self._tokens)
        return self._tokens

    def _stateful(self) -> list[tuple[int, Any]]:
        """Return the numbers and layers of transformers' cache that have states."""
        layers = enumerate(self.dynamic.layers)
        return [(number, layer) for number, layer in layers if isinstance(layer, LinearAttentionCacheLayerMixin)]

    def gather(self, start: int, columns: Sequence[int]) -> None:
        """Move the hidden states only, because the keys and values after the snapshot are computed again."""
        if len(self.taps):
            self._states[start : start + len(columns)] = self._states[torch.tensor(columns, device=self._states.device)]

    def copy_from(self, other: Any) -> None:
        super().copy_from(other)
        self._tokens = other._tokens
        for layer, source in zip(self.dynamic.layers, other.dynamic.layers, strict=True):
            if isinstance(layer, LinearAttentionCacheLayerMixin):
                vars(layer).update(
                    {name: dict(value) for name, value in vars(source).items() if isinstance(value, dict)}
                )
                layer.device, layer.dtype = source.device, source.dtype
                restore(layer, copied(present(source)))
