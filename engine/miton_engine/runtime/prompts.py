"""From a request's prompt to token ids in three parts (prefix, suffix, tail), and the ids that end it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from miton_engine.errors import InvalidRequest
from miton_engine.models.prompt_format import PromptFormat
from miton_engine.models.tokenizer import Tokenizer
from miton_engine.runtime.live_document import PromptTokens
from miton_engine.runtime.requests import ChatPrompt, ChunkSource, FimPrompt, Prompt, TextPrompt, TokenPrompt


@dataclass(frozen=True)
class PromptEncoder:
    """Renders prompts and chunks with one model's tokenizer and prompt format."""

    tokenizer: Tokenizer
    format: PromptFormat

    def chunk(self, source: ChunkSource) -> list[int]:
        """Anchor, header, text of a chunk; the text ends its last line, so chunks can follow each other."""
        text = source.header + source.text
        text = text if text.endswith("\n") else text + "\n"
        return [*self.format.anchor(source.path), *self.tokenizer.encode(text)]

    def prompt(self, prompt: Prompt) -> PromptTokens:
        """Token ids of a prompt. Raises `InvalidRequest` for an empty one or FIM without FIM tokens."""
        match prompt:
            case FimPrompt():
                prefix, suffix = self.tokenizer.encode(prompt.prefix), self.tokenizer.encode(prompt.suffix)
                pieces = self.format.fim(prompt.path, prefix, suffix)
                if pieces is not None:
                    return PromptTokens(
                        (*pieces.head, *pieces.prefix), (*pieces.middle, *pieces.suffix), tuple(pieces.tail)
                    )
                # A model without FIM tokens continues the prefix; the suffix cannot be told to it.
                return _plain([*self.format.anchor(prompt.path), *prefix])
            case TextPrompt():
                return _plain(self.tokenizer.encode(prompt.text, special=prompt.special))
            case TokenPrompt():
                return _plain(prompt.token_ids)
            case ChatPrompt():
                return _plain(self.format.chat(prompt.messages, tools=prompt.tools or None))

    def stop_ids(self, prompt: Prompt) -> frozenset[int]:
        """Ids that end a generation: the model's end tokens; in the middle of a file, any special token."""
        if isinstance(prompt, FimPrompt):
            return self.tokenizer.eos_ids | self.tokenizer.special_ids
        return frozenset(self.tokenizer.eos_ids)


def _plain(token_ids: Sequence[int]) -> PromptTokens:
    if not token_ids:
        raise InvalidRequest("The prompt is empty; give it at least one token.")
    return PromptTokens(tuple(token_ids[:-1]), (), (token_ids[-1],))
