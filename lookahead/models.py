"""Models by name: the bundled family, pairs from the hub, and local folders, all loaded one way.

A spec is "pocket" (bundled, offline) or "target+draft", each a hub name or a folder. A pair must
share its vocabulary, token by token, and both models must have a cache that can be rolled back;
anything else is refused with an error that says what to do. No remote code, safetensors only.

On one GPU a family lies where it was put; a target that is too large for it is spread over all of them, layer by layer,
with its drafts on the first.

Knows transformers' loaders. It does not know strategies, nor how files come to be there: that is `hub`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import torch
from accelerate import init_empty_weights
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from . import cost, room, skip
from .attention import BY_BRANCH
from .cache import new_cache
from .events import ModelError
from .lm import CachedLM

BUNDLED = Path(__file__).parent.parent / "assets" / "models"
MOST_ROWS = 21  # of the passes that small machines make
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Models:
    """A target, its drafts by name, their tokenizer, and what was measured of them at load."""

    spec: str
    names: dict[str, str]
    tokenizer: PreTrainedTokenizerBase
    target: CachedLM
    drafts: dict[str, CachedLM]
    probe: cost.Exactness
    costs: cost.CostCurve
    draft_costs: dict[str, cost.CostCurve] = field(default_factory=dict)  # the same of every draft
    eos: frozenset[int] = field(default=frozenset())

    @property
    def exactness(self) -> str:
        """ "bit-exact" or "tie-aware", as probed on this machine."""
        return self.probe.kind

    @property
    def dtype(self) -> str:
        """The weights' type, such as "bfloat16"."""
        return str(self.target.model.dtype).removeprefix("torch.")

    def draft(self, name: str) -> CachedLM:
        """A fresh cache over the draft of that name, or a `ModelError` that lists them."""
        if name == skip.ROLE and name not in self.drafts:
            mend = "the first layers of this architecture cannot be used alone; choose another method."
            raise ModelError("draft", name, mend)
        if name not in self.drafts:
            have = f"choose one of {', '.join(self.drafts)}" if self.drafts else f'load "{self.spec}+DRAFT" to have one'
            raise ModelError("draft", name, f"{self.spec} has no such draft model; {have}.")
        return _drafter(self.drafts[name].model, self.target)


def _drafter(model: PreTrainedModel, target: CachedLM) -> CachedLM:
    """A fresh cache over a draft model. One as large as its target is there to agree with it, to the last bit."""
    size, whole = (sum(p.numel() for p in m.parameters()) for m in (model, target.model))
    return CachedLM(model, target.vocab, exact=size >= whole)


def load(
    spec: str = "pocket",
    progress: Progress = lambda text, share: None,
    *,
    dtype: torch.dtype | None = None,
    found: Mapping[str, Path] | None = None,
) -> Models:
    """Load a family and measure it. `progress(text, share)` is called as work proceeds.

    `dtype` None is chosen by a measurement. `found` says in which folder the files of a hub name lie already; other
    names are left to transformers. Raises `ModelError` when a model cannot be found, cannot be rolled back, or does
    not fit.
    """
    members, found = places(spec), found or {}
    folders = {role: str(found.get(place, place)) for role, place in members.items()}
    device = room.device()
    progress("Choosing the number format", 0.05)
    dtype = dtype or cost.pick_dtype(device)
    spread = len(room.gpus()) > 1 and _too_large(folders, dtype)
    loaded: dict[str, PreTrainedModel] = {}
    # The target last where it is to be spread: it takes what its drafts leave free.
    for i, role in enumerate(sorted(members, key=lambda role: spread and role == "target")):
        progress(f"Loading {shown(members[role])}", 0.1 + 0.6 * i / len(members))
        loaded[role] = _load_model(members[role], folders[role], dtype, device, spread and role == "target")
    tokenizer = _load_tokenizer(members["target"], folders["target"])
    for role, place in members.items():
        if role != "target":
            same_vocabulary(tokenizer, _load_tokenizer(place, folders[role]), shown(members["target"]), shown(place))
    vocab = min(model.config.get_text_config().vocab_size for model in loaded.values())
    progress("Probing exactness", 0.75)
    probe = _most_exact(loaded, vocab)
    target = CachedLM(loaded["target"], vocab)
    progress("Measuring what a pass costs", 0.85)
    cost.warm(target, MOST_ROWS)
    costs = cost.measure(target)
    drafts = {role: _drafter(loaded[role], target) for role in members if role != "target"}
    with suppress(ModelError):  # an architecture that cannot be cut short has no `self`
        if not spread:  # its first layers lie on one GPU and its head on another
            drafts[skip.ROLE] = skip.choose(target, costs)
    for draft in drafts.values():
        cost.warm(draft, 4)
    draft_costs = {
        role: cost.measure(draft, rows=(1, 3, 9, 17), after=target, costs=costs) for role, draft in drafts.items()
    }
    progress("Ready", 1.0)
    names = {role: shown(place) for role, place in members.items()}
    return Models(spec, names, tokenizer, target, drafts, probe, costs, draft_costs, _eos(loaded["target"], tokenizer))


def places(spec: str) -> dict[str, str]:
    """Role -> folder or hub name."""
    if not isinstance(spec, str) or not spec.strip():
        raise ModelError("models", spec, 'give "pocket", or "target+draft" as hub names or folders.')
    bundled = BUNDLED / spec
    if "/" not in spec and (bundled / "target" / "config.json").is_file():
        found = sorted(p.parent.name for p in bundled.glob("*/config.json"))
        order = ["target", *sorted(set(found) - {"target"})]
        return {role: str(bundled / role) for role in order}
    parts = [part.strip() for part in spec.split("+")]
    if not all(parts):
        raise ModelError("models", spec, 'a name is missing around "+"; give "target+draft".')
    if len(parts) == 1 and "/" not in spec and not Path(spec).is_dir():
        have = ", ".join(sorted(p.name for p in BUNDLED.iterdir() if p.is_dir())) if BUNDLED.is_dir() else "none"
        raise ModelError("models", spec, f'no such bundled family (there is: {have}); or give "org/target+org/draft".')
    return {"target" if i == 0 else "draft" if i == 1 else f"draft{i}": part for i, part in enumerate(parts)}


def shown(place: str) -> str:
    """A name for people: the family's own, the last parts of a folder, or the hub name."""
    path = Path(place)
    if path.is_relative_to(BUNDLED):  # trained partly on Llama 3.1 output, whose licence asks for the name
        return f"Llama-{path.parent.name} {path.name}"
    return f"{path.parent.name}/{path.name}" if path.is_dir() else place


def _explained(place: str, error: Exception) -> ModelError:
    first = " ".join(str(error).split())[:200]
    mend = f"it could not be loaded ({type(error).__name__}: {first}); check the name, the network, or give a local folder."
    return ModelError("model", shown(place), mend)


def empty(config: PreTrainedConfig) -> PreTrainedModel:
    """The model of a configuration without its weights: shapes, and a class to ask. Takes no memory to speak of."""
    with init_empty_weights(include_buffers=True):
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    model.tie_weights()
    return model


def _too_large(folders: Mapping[str, str], dtype: torch.dtype) -> bool:
    """Whether a family does not fit the first GPU. One that does is quicker on it alone."""
    try:
        held = [empty(AutoConfig.from_pretrained(folder, trust_remote_code=False)) for folder in folders.values()]
    except Exception:  # loading it will say what is wrong
        return False
    return room.SPARE * dtype.itemsize * sum(model.num_parameters() for model in held) > room.gpus()[0]


def _load_tokenizer(place: str, folder: str) -> PreTrainedTokenizerBase:
    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # transformers raises a dozen kinds here
        raise _explained(place, error) from error


def _load_model(place: str, folder: str, dtype: torch.dtype, device: torch.device, spread: bool) -> PreTrainedModel:
    """The model in evaluation mode, with attention that treats every row alike where it can."""
    options = {"dtype": dtype, "use_safetensors": True, "trust_remote_code": False}
    if spread:  # over GPUs only, with room left for keys and values on each
        most = {i: int(free / room.SPARE) for i, free in enumerate(room.gpus())}
        options |= {"device_map": "auto", "max_memory": most}
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        try:
            model = AutoModelForCausalLM.from_pretrained(
                folder, config=config, attn_implementation=BY_BRANCH, **options
            )
        except (ValueError, KeyError):  # an architecture with attention of its own
            model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", **options)
    except Exception as error:  # as above
        raise _explained(place, error) from error
    new_cache(model, in_blocks=True)  # refuses what cannot be rolled back
    if not spread:
        return model.to(device).eval()
    if {"cpu", "disk"} & {str(where) for where in model.hf_device_map.values()}:
        raise ModelError("model", shown(place), "it does not fit this machine's GPUs; choose a smaller one.")
    return model.eval()


def same_vocabulary(
    target: PreTrainedTokenizerBase, draft: PreTrainedTokenizerBase, target_name: str, draft_name: str
) -> None:
    """Same token for every id, or a `ModelError` that shows a difference."""
    ours, theirs = target.get_vocab(), draft.get_vocab()
    if ours == theirs:
        return
    odd = sorted(token for token in ours.keys() | theirs.keys() if ours.get(token) != theirs.get(token))
    example = (
        f"{odd[0]!r} is {ours.get(odd[0], 'absent')} in the target and {theirs.get(odd[0], 'absent')} in the draft"
    )
    mend = (
        f"its vocabulary differs from {target_name}'s in {len(odd):,} tokens ({example}); "
        "choose a draft that was trained with the target's tokenizer."
    )
    raise ModelError("draft", draft_name, mend)


def _most_exact(loaded: dict[str, PreTrainedModel], vocab: int) -> cost.Exactness:
    """Probe the target; where rows are not exact anyway, use the device's own fast attention."""
    target = loaded["target"]
    found = cost.probe(CachedLM(target, vocab))
    if found.kind == cost.BIT_EXACT or target.device.type == "cpu" or not target._supports_sdpa:
        return found
    for model in loaded.values():
        model.set_attn_implementation("sdpa")
    return cost.probe(CachedLM(target, vocab))


def _eos(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Every id that ends a text."""
    ids = model.generation_config.eos_token_id
    ids = ids if isinstance(ids, (list, tuple)) else [ids]
    return frozenset(i for i in (*ids, tokenizer.eos_token_id) if i is not None)
