"""How a model wants to see a repository, a hole in a file, and a conversation, as token ids.

Qwen2.5-Coder's technical report (arXiv 2409.12186, section 3.1) and StarCoder2's (arXiv 2402.19173,
section 5) define repository and fill-in-the-middle tokens; models without them get anchors in plain text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from miton_engine.models.chat import ChatTemplate
from miton_engine.models.tokenizer import Tokenizer

REPOSITORY = "repository"  # the constant name in the sink: a real one would split the memory by folder name
REPOSITORY_TOKENS = (("<|repo_name|>", "<|file_sep|>"), ("<repo_name>", "<file_sep>"))
FIM_TOKENS = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
)


@dataclass(frozen=True, slots=True)
class FimPieces:
    """A fill-in-the-middle prompt in prefix-suffix-middle order; concatenated in the order of the fields."""

    head: list[int]
    prefix: list[int]
    middle: list[int]
    suffix: list[int]
    tail: list[int]


class PromptFormat:
    """The prompts of one model. `chat_template` is its Jinja source, if it has one."""

    def __init__(self, tokenizer: Tokenizer, chat_template: str | None = None) -> None:
        self.tokenizer = tokenizer
        self._repository = self._first_known(REPOSITORY_TOKENS)
        self._fim = self._first_known(FIM_TOKENS)
        self._chat_template = chat_template

    def sink(self) -> list[int]:
        """The constant prefix that every chunk and every request comes after; never empty."""
        tokenizer = self.tokenizer
        start = [tokenizer.bos_id] if tokenizer.adds_bos and tokenizer.bos_id is not None else []
        if self._repository is not None:
            return [*start, self._repository[0], *tokenizer.encode(f"{REPOSITORY}\n")]
        if not start and tokenizer.bos_id is not None:
            start = [tokenizer.bos_id]
        return [*start, *tokenizer.encode("\n")]

    def anchor(self, path: str) -> list[int]:
        """The header that says which file follows; `path` is relative to the workspace, with slashes."""
        if self._repository is not None:
            return [self._repository[1], *self.tokenizer.encode(f"{path}\n")]
        digest = hashlib.sha256(path.encode("utf-8", "replace")).hexdigest()[:8]
        return self.tokenizer.encode(f"[FILE:{digest}]{PurePosixPath(path).name}\n")

    def fim(self, path: str, prefix_ids: Sequence[int], suffix_ids: Sequence[int]) -> FimPieces | None:
        """A prompt for what lies between prefix and suffix; None if the model has no FIM tokens."""
        if self._fim is None:
            return None
        prefix, suffix, middle = self._fim
        return FimPieces([*self.anchor(path), prefix], list(prefix_ids), [suffix], list(suffix_ids), [middle])

    @cached_property
    def fim_stop_ids(self) -> frozenset[int]:
        """Tokens that end the middle: the end tokens, and every token that would start another part."""
        return self.tokenizer.eos_ids.union(self._fim or (), self._repository or ())

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
    ) -> list[int]:
        """Token ids of a conversation through the model's chat template.

        Special tokens written in a message's content stay plain text. A BOS token is left out where the sink
        begins with it. Raises `InvalidRequest` for messages the template refuses, `ModelError` if there is
        no template.
        """
        ids = self._chat.encode(messages, tools, add_generation_prompt)
        bos = self.tokenizer.bos_id
        return ids[1:] if self.tokenizer.adds_bos and ids[:1] == [bos] else ids

    @cached_property
    def _chat(self) -> ChatTemplate:
        return ChatTemplate(self._chat_template, self.tokenizer)

    def _first_known(self, families: Sequence[tuple[str, ...]]) -> tuple[int, ...] | None:
        for family in families:
            ids = [self.tokenizer.id_of(token) for token in family]
            if all(id is not None for id in ids):
                return tuple(id for id in ids if id is not None)
        return None
