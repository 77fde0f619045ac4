"""Suggested pairs from the hub: for a processor, for one GPU, for several GPUs.

Models of a family have the same tokenizer, and their names begin alike. A trained head drafts for one target. Parameters and
licenses are as their authors state them.
"""

from dataclasses import dataclass
from math import inf

CPU, ONE_GPU, GPUS = "a processor", "one GPU", "several GPUs"


@dataclass(frozen=True, slots=True)
class Pair:
    """A target and a draft. `sizes` are in billions of parameters, the target's first."""

    target: str
    draft: str
    device: str
    sizes: tuple[float, float]
    family: str  # the common start of the names of models with this tokenizer
    note: str
    license: str = "Apache 2.0"  # both licenses, or the common one
    head: bool = False  # whether the draft is a trained head

    @property
    def spec(self) -> str:
        return f"{self.target}+{self.draft}"


LLAMA = "Llama 3.1 and Llama 3.2, gated"
ACCESS = "Request access on both model pages first, and start the server with an HF_TOKEN."
SUGGESTED = (
    Pair("HuggingFaceTB/SmolLM2-360M-Instruct", "HuggingFaceTB/SmolLM2-135M-Instruct", CPU, (0.36, 0.13), "HuggingFaceTB/SmolLM2-",
         "The smallest pair that follows instructions. It takes minutes to load and races fast."),
    Pair("openai-community/gpt2-medium", "distilbert/distilgpt2", CPU, (0.36, 0.08), "openai-community/gpt2",
         "The classic pair. It continues plain text and cannot chat. The draft was distilled from the same family.",
         "MIT and Apache 2.0"),
    Pair("Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct", CPU, (1.54, 0.49), "Qwen/Qwen2.5-",
         "Writes well for its size. On a processor, expect a few tokens per second."),
    Pair("Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B", ONE_GPU, (8.19, 0.6), "Qwen/Qwen3-",
         "The draft model has a fourteenth of the target's size, which suits speculative decoding."),
    Pair("Qwen/Qwen3-8B", "RedHatAI/Qwen3-8B-speculator.eagle3", ONE_GPU, (8.19, 0.4), "Qwen/Qwen3-",
         "A trained head: EAGLE-3, one layer that reads the target's hidden states at three depths.",
         "Apache 2.0 and see its page", head=True),
    Pair("Qwen/Qwen3-8B", "z-lab/Qwen3-8B-DFlash-b16", ONE_GPU, (8.19, 1.1), "Qwen/Qwen3-",
         "A trained head: DFlash, which drafts fifteen tokens in one pass.", "Apache 2.0 and see its page", head=True),
    Pair("Qwen/Qwen2.5-Coder-7B-Instruct", "Qwen/Qwen2.5-Coder-0.5B-Instruct", ONE_GPU, (7.62, 0.49), "Qwen/Qwen2.5-",
         "Code is predictable, so many drafted tokens are accepted."),
    Pair("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.2-1B-Instruct", ONE_GPU, (8.03, 1.24), "meta-llama/Llama-3.",
         ACCESS, LLAMA),
    Pair("Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", GPUS, (32.8, 0.6), "Qwen/Qwen3-",
         "It also fits, barely, on one GPU of 80 GB."),
    Pair("Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-1.5B-Instruct", GPUS, (72.7, 1.54), "Qwen/Qwen2.5-",
         "A pass of this target is so expensive that even a poor draft saves time.", "Qwen and Apache 2.0"),
    Pair("Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-7B-Instruct", GPUS, (72.7, 7.62), "Qwen/Qwen2.5-",
         "A better draft model that costs five times as much. Compare it with the small one.", "Qwen and Apache 2.0"),
    Pair("meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Llama-3.2-1B-Instruct", GPUS, (70.6, 1.24), "meta-llama/Llama-3.",
         ACCESS, LLAMA),
)  # fmt: skip


DRAFTS = [pair.draft for pair in SUGGESTED if not pair.head]


def fitting(target: str) -> list[str]:
    """Return the suggested draft models of a target's family that are smaller than it."""
    family = next((p.family for p in SUGGESTED if target.startswith(p.family) or target in (p.target, p.draft)), None)
    sizes = {p.draft: p.sizes[1] for p in SUGGESTED} | {p.target: p.sizes[0] for p in SUGGESTED}
    pairs = [p for p in SUGGESTED if p.family == family and not p.head]
    return [p.draft for p in pairs if p.sizes[1] < sizes.get(target, inf)]
