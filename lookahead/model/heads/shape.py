"""The sizes and options of a trained head, as its files name them."""

from dataclasses import dataclass

MEDUSA, MTP, EAGLE, BLOCK = "medusa", "mtp", "eagle", "block"
KINDS = (MEDUSA, MTP, EAGLE, BLOCK)
NONE, ALL_TAPS, PER_TAP = "none", "all taps", "per tap"  # norm of an EAGLE head's input: none, over all taps, per tap


@dataclass(frozen=True, slots=True)
class HeadShape:
    """Sizes of a head.

    `taps` index transformers' `hidden_states`: tap i is the output of the first i layers, after the norm for the last. `slots` is
    the number of tokens that one pass drafts.
    """

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
    draft_vocab: int = 0  # number of tokens that the head can draft; 0 for the whole vocabulary
    theta: float = 10_000.0
    eps: float = 1e-6
    head_norms: bool = False  # Qwen3's norms of queries and keys
    biased: bool = False  # biases of queries, keys and values
    window: int = 0  # tokens before a row that it attends to; 0 for all
    residual_normed: bool = False  # EAGLE-3: whether the residual is the normed feature
    fed_norm: str = NONE
    output_normed: bool = False  # whether the output feature is taken after the last norm
    mask: int = 0  # block: the token whose embedding is the input of a slot
    causal: bool = True  # block: whether a slot attends only to the slots before it
    from_anchor: bool = True  # block: whether the anchor's row also drafts a token
    rank: int = 0  # of the Markov head; 0 for none
    confident: bool = False  # whether there is a confidence head

    @property
    def input_width(self) -> int:
        """Width of the hidden states that are read per token."""
        return len(self.taps) * self.hidden

    @property
    def rows(self) -> int:
        """block: rows of a pass, including the anchor's."""
        return self.slots + (not self.from_anchor)

    @property
    def output_vocab(self) -> int:
        """The number of tokens that the head can draft."""
        return self.draft_vocab or self.vocab


def default_taps(kind: str, layers: int) -> tuple[int, ...]:
    """Return the default taps of a kind of head for a target with this many layers."""
    if kind in (MEDUSA, MTP):
        return (layers,)
    if kind == EAGLE:
        return tuple(max(1, min(layers, tap)) for tap in (2, layers // 2, layers - 3))
    first, last = min(2, layers - 1), max(1, layers - 2)
    return tuple(dict.fromkeys(round(first + (last - first) * i / 3) for i in range(4)))
