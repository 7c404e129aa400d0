"""The live context of one document: attached chunks, the text before the cursor, the text after it.

It changes at every key, so it keeps what a keystroke leaves true: the KV of the prefix up to the edit is
exact; the KV of the suffix was computed under a slightly older prefix and is placed anew by one rotation.
When the prefix has drifted too far, the suffix is computed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from miton_engine.errors import PromptTooLong
from miton_engine.memory.chunk_kv import ChunkKV
from miton_engine.memory.chunk_prefill import ChunkPrefill
from miton_engine.memory.kv_cache import KVCache, SlotRange
from miton_engine.runtime.model_runner import ModelRunner

MEMORY, PREFIX, SUFFIX, TAIL = range(4)
"""Regions of the cache in the order of positions; the tail holds the last prompt tokens and the output."""

SUFFIX_DRIFT_LIMIT = 32  # tokens of the prefix that may change before the suffix is computed again


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """A prompt in its three parts: `tail` (never empty) is what the first new token's logits come from."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    tail: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.prefix) + len(self.suffix) + len(self.tail)


class LiveContext:
    """KV of one document's requests, reused from one to the next as far as it stays true."""

    def __init__(self, runner: ModelRunner, chunks: ChunkPrefill) -> None:
        self._runner, self._chunks = runner, chunks
        self.cache = KVCache(runner.config, regions=4, dtype=runner.decoder.dtype)
        self._attached: list[tuple[str, int]] = []  # key, tokens
        self._prefix: list[int] = []
        self._suffix: list[int] = []
        self._suffix_position = 0
        self._drift = 0
        self.prefilled = 0

    @property
    def suffix_is_stale(self) -> bool:
        return bool(self._suffix) and self._drift > 0

    @property
    def next_position(self) -> int:
        return sum(region.length for region in self.cache.regions)

    @property
    def visible(self) -> list[SlotRange]:
        """What the tail sees besides itself."""
        return [region.filled for region in self.cache.regions[:TAIL]]

    def attach(self, chunks: Sequence[ChunkKV]) -> int:
        """Place chunks after the sink, in order, reusing those that already lie there; returns tokens placed.

        If the memory changes, what was computed under the old one is dropped.
        """
        wanted = [(chunk.key, len(chunk.tokens)) for chunk in chunks]
        if wanted == self._attached and self.cache.regions[MEMORY].length:
            return 0
        same = 0
        while same < min(len(wanted), len(self._attached)) and wanted[same] == self._attached[same]:
            same += 1
        sink = len(self._chunks.sink_ids)
        self.cache.reserve(MEMORY, sink + sum(tokens for _, tokens in wanted))
        memory = self.cache.regions[MEMORY]
        self.cache.k[:, :, memory.start : memory.start + sink] = self._chunks.sink_k
        self.cache.v[:, :, memory.start : memory.start + sink] = self._chunks.sink_v
        memory.length = sink + sum(tokens for _, tokens in self._attached[:same])
        placed = 0
        for chunk in chunks[same:]:
            tokens = len(chunk.tokens)
            self._runner.place(self.cache, memory.end, chunk.k, chunk.v, memory.length - sink)
            memory.length += tokens
            placed += tokens
        self._attached = wanted
        self._forget_prompt()
        return placed

    def prefill(self, prompt: PromptTokens, room: int) -> Iterator[None]:
        """Bring prefix and suffix up to date, piece by piece; `prefilled` counts the tokens computed.

        Raises `PromptTooLong` if memory, prompt and `room` tokens of output pass the model's context.
        """
        self.prefilled = 0
        limit = self._runner.decoder.rotary.cos.shape[0]
        memory = self.cache.regions[MEMORY].length
        if memory + len(prompt) + room > limit:
            raise PromptTooLong(
                f"{memory} attached tokens, {len(prompt)} prompt tokens and {room} tokens of output pass the "
                f"model's context of {limit}. Shorten the prompt, or lower max_tokens."
            )
        yield from self._update_prefix(prompt.prefix)
        yield from self._update_suffix(prompt.suffix)
        self.cache.regions[TAIL].length = 0
        self.cache.reserve(TAIL, len(prompt.tail) + room)

    def refresh_suffix(self) -> Iterator[None]:
        """Compute a stale suffix again under the prefix as it is now (for idle moments)."""
        suffix, self._suffix = tuple(self._suffix), []
        self.cache.regions[SUFFIX].length = 0
        yield from self._update_suffix(suffix)

    def reusable(self, chunks: Sequence[ChunkKV], prompt: PromptTokens) -> int:
        """How many prompt tokens a request with these chunks would find computed."""
        if [(chunk.key, len(chunk.tokens)) for chunk in chunks] != self._attached:
            return 0
        return _common_prefix(self._prefix, prompt.prefix)

    def adopt_tail(self, prompt: PromptTokens, generated: Sequence[int]) -> None:
        """Keep the tail's KV as prefix, so that a chat's next turn finds its own answer computed.

        With a suffix the tail saw what the next request's prefix must not see, so nothing is kept then.
        """
        tail = self.cache.regions[TAIL]
        kept, tail_ids = tail.length, [*prompt.tail, *generated]
        if self._suffix or kept > len(tail_ids) or len(self._prefix) != len(prompt.prefix):
            return
        self.cache.reserve(PREFIX, len(self._prefix) + kept)
        prefix, tail = self.cache.regions[PREFIX], self.cache.regions[TAIL]
        source, target = slice(*tail.filled), slice(prefix.end, prefix.end + kept)
        self.cache.k[:, :, target] = self.cache.k[:, :, source]
        self.cache.v[:, :, target] = self.cache.v[:, :, source]
        prefix.length += kept
        tail.length = 0
        self._prefix += tail_ids[:kept]

    def _update_prefix(self, wanted: Sequence[int]) -> Iterator[None]:
        region = self.cache.regions[PREFIX]
        kept = _common_prefix(self._prefix, wanted)
        self._drift += max(len(self._prefix) - kept, len(wanted) - kept)
        del self._prefix[kept:]
        region.length = kept
        memory = self.cache.regions[MEMORY]
        yield from self._extend(PREFIX, self._prefix, wanted[kept:], memory.length + kept, [MEMORY])

    def _update_suffix(self, wanted: Sequence[int]) -> Iterator[None]:
        kept = _common_suffix(self._suffix, wanted) if self._drift <= SUFFIX_DRIFT_LIMIT else 0
        region = self.cache.regions[SUFFIX]
        memory, prefix = self.cache.regions[MEMORY], self.cache.regions[PREFIX]
        position, fresh = memory.length + prefix.length, len(wanted) - kept
        if not kept:
            region.length, self._drift = 0, 0
            self._suffix, self._suffix_position = [], position
            yield from self._extend(SUFFIX, self._suffix, wanted, position, [MEMORY, PREFIX])
            return
        dropped = len(self._suffix) - kept
        self._drift += fresh
        moved = (position + fresh) - (self._suffix_position + dropped)
        self.cache.reserve(SUFFIX, len(wanted))
        region = self.cache.regions[SUFFIX]
        if fresh != dropped:
            self.cache.move(region, dropped, fresh)
        if moved:
            keys = self.cache.k[:, :, region.start + fresh : region.start + fresh + kept]
            keys.copy_(self._runner.decoder.rotary.shift(keys, moved))
        # Until the front is computed the region is not whole: an interruption must not leave it looking so.
        trailing, self._suffix = list(wanted[fresh:]), []
        region.length = 0
        yield from self._extend(SUFFIX, self._suffix, wanted[:fresh], position, [MEMORY, PREFIX])
        self._suffix += trailing
        self._suffix_position = position
        self.cache.regions[SUFFIX].length = len(wanted)

    def _extend(
        self, region: int, held: list[int], new: Sequence[int], position: int, seen: list[int]
    ) -> Iterator[None]:
        visible_regions = seen
        done = 0
        self.cache.reserve(region, self.cache.regions[region].length + len(new))
        visible = [self.cache.regions[index].filled for index in visible_regions]
        for _ in self._runner.prefill(self.cache, region, new, position, visible):
            length = self.cache.regions[region].length - len(held)
            held.extend(new[done : done + length])
            self.prefilled += length
            done += length
            yield

    def _forget_prompt(self) -> None:
        self._prefix, self._suffix, self._drift = [], [], 0
        for index in (PREFIX, SUFFIX, TAIL):
            self.cache.regions[index].length = 0


def _common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    count = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        count += 1
    return count


def _common_suffix(left: Sequence[int], right: Sequence[int]) -> int:
    return _common_prefix(left[::-1], right[::-1])
