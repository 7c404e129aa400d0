"""Choosing the next token from logits: penalties, bias, temperature, top-k, top-p (arXiv 1904.09751)."""

from __future__ import annotations

import random
from collections import Counter

import torch
from torch import Tensor

from miton_engine.runtime.requests import Sampling


class Sampler:
    """The choice of tokens for one generation; with the same seed and logits it repeats itself exactly."""

    def __init__(self, sampling: Sampling, prompt_ids: list[int]) -> None:
        self.sampling = sampling
        self._seen = set(prompt_ids) if sampling.repetition_penalty != 1.0 else set()
        self._counts: Counter[int] = Counter()
        self._random = torch.Generator()
        seed = sampling.seed if sampling.seed is not None else random.getrandbits(63)
        self._random.manual_seed(seed % 2**63)

    @property
    def is_plain_greedy(self) -> bool:
        """True if the choice is the arg max of the raw logits, whatever was generated before."""
        s = self.sampling
        return (
            s.temperature == 0.0
            and s.presence_penalty == s.frequency_penalty == 0.0
            and s.repetition_penalty == 1.0
            and not s.logit_bias
        )

    def choose(self, logits: Tensor) -> int:
        """Pick a token id from `logits` [vocab] fp32 and remember it for the penalties."""
        token = int(logits.argmax()) if self.is_plain_greedy else self._choose_adjusted(logits)
        self._counts[token] += 1
        return token

    def _choose_adjusted(self, logits: Tensor) -> int:
        s, logits = self.sampling, logits.clone()
        if s.repetition_penalty != 1.0 and (seen := list(self._seen | self._counts.keys())):
            chosen = logits[seen]  # CTRL's penalty, arXiv 1909.05858
            logits[seen] = torch.where(
                chosen > 0, chosen / s.repetition_penalty, chosen * s.repetition_penalty
            )
        for token, count in self._counts.items():
            logits[token] -= s.presence_penalty + s.frequency_penalty * count
        for token, bias in s.logit_bias.items():
            if 0 <= token < len(logits):
                logits[token] += bias
        if s.temperature == 0.0:
            return int(logits.argmax())
        logits /= s.temperature
        if s.top_k and s.top_k < len(logits):
            logits[logits < logits.topk(s.top_k).values[-1]] = -torch.inf
        probabilities = logits.softmax(-1)
        if s.top_p < 1.0:
            ordered, order = probabilities.sort(descending=True)
            outside = ordered.cumsum(-1) - ordered >= s.top_p
            probabilities[order[outside]] = 0.0
        return int(torch.multinomial(probabilities, 1, generator=self._random))


def top_logprobs(logits: Tensor, token: int, count: int) -> tuple[float, list[tuple[int, float]]]:
    """Log-probability of `token` and the `count` likeliest (id, log-probability), from raw logits [vocab]."""
    logprobs = logits.log_softmax(-1)
    top = logprobs.topk(count) if count else None
    pairs = list(zip(top.indices.tolist(), top.values.tolist(), strict=True)) if top else []
    return float(logprobs[token]), pairs
