"""The plan of a training run: shapes, mixes, budgets and rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lookahead.train.optimizers import MATRIX_RATE, OTHER_RATE, WEIGHT_DECAY


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a Llama. The width of a head is `width / heads`."""

    layers: int
    width: int
    heads: int
    inner: int  # width of the feed-forward part


@dataclass(frozen=True, slots=True)
class Plan:
    """All settings of a run, except corpus, device and time."""

    seed: int = 0
    vocab: int = 4096
    context: int = 2048  # positions that the models accept
    # Deep rather than wide: on a CPU the cost of a layer hardly depends on its width, so a shallow draft is cheap
    # compared with a deep target. The draft has two layers because one layer cannot attend to the token after an earlier
    # occurrence of the same word.
    target: Shape = Shape(12, 320, 5, 864)
    draft: Shape = Shape(2, 320, 5, 384)
    offdomain: Shape = Shape(2, 192, 3, 384)  # the mismatched draft: its text matters, not its size
    # Share of the training tokens by domain.
    mix: Mapping[str, float] = field(
        default_factory=lambda: {
            "stories": 0.30, "tales": 0.17, "explain": 0.14, "records": 0.16, "code": 0.10,
            "arithmetic": 0.09, "dialogue": 0.04,
        }
    )  # fmt: skip
    # The mismatched draft is not trained on stories, tales, explanations or conversations.
    offdomain_mix: Mapping[str, float] = field(
        default_factory=lambda: {"records": 0.4, "code": 0.35, "arithmetic": 0.25}
    )
    # The length of rows grows: (until this share of the budget, tokens per row). Short rows are cheap. Long rows train the
    # later positions.
    rows: tuple[tuple[float, int], ...] = ((0.3, 256), (0.85, 512), (1.0, 1024))
    step_tokens: int = 8192
    # Learning rates of Muon and AdamW: constant after the warm-up, then linear to zero.
    matrix_rate: float = MATRIX_RATE
    other_rate: float = OTHER_RATE
    weight_decay: float = WEIGHT_DECAY
    refining: float = 0.6  # factor on both rates when training starts from trained weights
    warm_steps: int = 60
    cooling_share: float = 0.45
    # Shares of a time budget. The remaining quarter is for text of the target, measurements and the card.
    target_share: float = 0.55
    draft_share: float = 0.02  # for each of: plain labels (to compare with), soft labels
    writing_share: float = 0.12  # the target's distributions on text that it wrote
    offdomain_share: float = 0.02
    draft_speed: int = 3  # training speed of a draft, relative to the target
    texts_together: int = 256  # texts that the target writes at once
    writing_tokens: int = 9_000_000  # tokens that the target writes for its draft; fewer after a short training
    answer_tokens: int = 472  # tokens of a chat model's row after its opening
    writing_temperatures: tuple[float, ...] = (0.0, 0.0, 0.7, 1.0)
    likeliest_weight: float = 0.5  # weight of the target's likeliest token; see `losses.like_writing`
    # Trained heads.
    heads_share: Mapping[str, float] = field(
        default_factory=lambda: {"medusa": 0.02, "mtp": 0.04, "eagle": 0.06, "block": 0.08}
    )
    states_bytes: int = 24_000_000_000  # disk space for the stored outputs of the target
    head_step_tokens: int = 2048  # few tokens per step, because a head has few weights and reads each text many times
    save_every_s: float = 300.0
    check_every_s: float = 60.0  # seconds between measurements of a head's tokens per pass

    def on_a_gpu(self) -> Plan:
        """Return the plan with larger batches and without stored outputs, because a GPU computes them faster than a disk."""
        return replace(self, texts_together=2048, head_step_tokens=16_384, states_bytes=0)

    @property
    def drafts_share(self) -> float:
        """The share of the time for all stages of the draft."""
        return 2 * self.draft_share + self.writing_share
