"""What a trained head is made of: the sizes and choices that its files name."""

from dataclasses import dataclass

MEDUSA, EAGLE, BLOCK = "medusa", "eagle", "block"
KINDS = (MEDUSA, EAGLE, BLOCK)
NONE, WHOLE, EACH = "none", "whole", "each"  # norms of what an EAGLE head reads: none, one over all taps, one a tap


@dataclass(frozen=True, slots=True)
class HeadShape:
    """Sizes of a head. Of `taps` it reads hidden states, numbered as transformers' `hidden_states`: after so many layers,
    the last with the norm. `slots` is how many tokens one pass drafts, `fed` the width of what it reads of one token."""

    kind: str
    hidden: int
    vocab: int
    taps: tuple[int, ...]
    slots: int = 1
    heads: int = 1
    kv_heads: int = 1
    head_dim: int = 1
    inner: int = 1
    layers: int = 1
    draft_vocab: int = 0  # of a head that only knows the most frequent tokens; 0 where it knows all
    theta: float = 10_000.0
    eps: float = 1e-6
    head_norms: bool = False  # Qwen3's norms of queries and keys
    biased: bool = False  # biases of queries, keys and values
    window: int = 0  # tokens back that its attention reaches; 0 is all of them
    residual_normed: bool = False  # EAGLE-3: whether the residual is the feature's norm
    fed_norm: str = NONE
    output_normed: bool = False  # whether the feature handed on has been through the last norm
    mask: int = 0  # block: the token whose embedding stands in a slot
    causal: bool = True  # block: whether a slot sees only the slots before it
    from_anchor: bool = True  # block: whether the anchor's slot drafts the token after it
    rank: int = 0  # of the Markov head; 0 for none
    confident: bool = False  # whether there is a confidence head

    @property
    def fed(self) -> int:
        """Width of what is read of a token."""
        return len(self.taps) * self.hidden

    @property
    def rows(self) -> int:
        """block: rows of a pass, the anchor's first."""
        return self.slots + (not self.from_anchor)

    @property
    def known(self) -> int:
        """Tokens that it can draft."""
        return self.draft_vocab or self.vocab


def usual_taps(kind: str, layers: int) -> tuple[int, ...]:
    """Where heads of a kind read a target of so many layers, unless told otherwise."""
    if kind == MEDUSA:
        return (layers,)
    if kind == EAGLE:
        return tuple(max(1, min(layers, tap)) for tap in (2, layers // 2, layers - 3))
    first, last = min(2, layers - 1), max(1, layers - 2)
    return tuple(dict.fromkeys(round(first + (last - first) * i / 3) for i in range(4)))
