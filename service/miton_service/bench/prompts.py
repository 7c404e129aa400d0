"""The token ids that a peer gets: what Miton attends to, written out as one prompt in the model's own format."""

from __future__ import annotations

from collections.abc import Iterable

from miton_engine.models.checkpoint import Checkpoint, open_checkpoint
from miton_engine.models.sources import default_cache_dir
from miton_engine.runtime.prompts import PromptEncoder
from miton_engine.runtime.requests import ChunkSource, FimPrompt


def open_model(model: str) -> Checkpoint:
    """The checkpoint from the user's cache, for its tokenizer and prompt format (no weights are read)."""
    return open_checkpoint(model, cache=default_cache_dir() / "models")


class PromptWriter:
    """Writes prompts for one model."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._encoder = PromptEncoder(checkpoint.tokenizer, checkpoint.prompt_format)

    def count(self, text: str) -> int:
        """Tokens of a text."""
        return len(self._encoder.tokenizer.encode(text))

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, special tokens not parsed."""
        return self._encoder.tokenizer.encode(text)

    def decode(self, ids: list[int]) -> str:
        """Text of tokens."""
        return self._encoder.tokenizer.decode(ids)

    def write(self, chunks: Iterable[ChunkSource], prompt: FimPrompt) -> list[int]:
        """Sink, chunks in order, then the file with its hole."""
        return [*self._encoder.format.sink(), *self.write_after_sink(chunks, prompt)]

    def write_after_sink(self, chunks: Iterable[ChunkSource], prompt: FimPrompt) -> list[int]:
        """The same without the sink, which our engine puts before every prompt."""
        end = self._encoder.prompt(prompt)
        before = [token for chunk in chunks for token in self._encoder.chunk(chunk)]
        return [*before, *end.prefix, *end.suffix, *end.tail]
