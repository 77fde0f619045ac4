"""Gumbel noise that depends only on seed and position, so that drafter and target get the same noise."""

import random

import torch

BLOCK = 4096  # values are drawn in whole blocks, so that a padded vocabulary gets the same values
MAX_POSITIONS = 256  # whose noise is cached


class GumbelNoise:
    """Standard Gumbel noise: one value per token of the vocabulary at every absolute position."""

    def __init__(self, seed: int):
        self._seed, self._generator = seed, torch.Generator()
        self._drawn: dict[int, torch.Tensor] = {}

    def __call__(self, position: int, vocab: int) -> torch.Tensor:
        noise = self._drawn.get(position)
        if noise is None or noise.shape[0] < vocab:
            self._generator.manual_seed(random.Random(f"{self._seed}:{position}").getrandbits(63))
            # float64 has enough digits for rare large values. It takes a third of the time of `exponential_`.
            uniform = torch.rand(-(-vocab // BLOCK) * BLOCK, generator=self._generator, dtype=torch.float64)
            noise = -uniform.log_().neg_().float().log_()
            if len(self._drawn) > MAX_POSITIONS:
                self._drawn.clear()
            self._drawn[position] = noise
        return noise[:vocab]
