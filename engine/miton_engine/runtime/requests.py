"""What a caller asks of the engine and what it gets back: plain frozen data, no behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from miton_engine.errors import InvalidRequest

FinishReason = Literal["stop", "length", "cancelled", "error"]


@dataclass(frozen=True, slots=True)
class ChunkSource:
    """A piece of one file as the engine memorises it: anchor of `path`, then `header`, then `text`."""

    path: str
    header: str
    text: str


@dataclass(frozen=True, slots=True)
class FimPrompt:
    """Fill in the middle: the model writes what stands between `prefix` and `suffix` in the file `path`."""

    path: str
    prefix: str
    suffix: str


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """Continue `text`; with `special` its special tokens are parsed, else they are plain characters."""

    text: str
    special: bool = False


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """Continue a sequence that is already tokenised."""

    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """Answer `messages` (OpenAI's shape), rendered by the model's own chat template."""

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...] = ()


Prompt = FimPrompt | TextPrompt | TokenPrompt | ChatPrompt


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are chosen. temperature 0 is greedy; `logprobs` is how many alternatives to report."""

    max_tokens: int = 128
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    multi_line: bool = True
    speculation: bool = True

    def __post_init__(self) -> None:
        for name, good, rule in (
            ("max_tokens", self.max_tokens >= 1, "at least 1"),
            ("temperature", 0.0 <= self.temperature <= 10.0, "between 0 and 10"),
            ("top_p", 0.0 < self.top_p <= 1.0, "above 0 and at most 1"),
            ("top_k", self.top_k >= 0, "0 (off) or more"),
            ("repetition_penalty", self.repetition_penalty > 0.0, "above 0"),
            ("logprobs", self.logprobs is None or 0 <= self.logprobs <= 20, "between 0 and 20"),
        ):
            if not good:
                raise InvalidRequest(f"{name} is {getattr(self, name)}; it must be {rule}.")


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One generation. `attached` chunks are read before the prompt, the most relevant last.

    `document` names the live context whose KV is reused between requests (say root and path of the edited
    file); requests without one share a single scratch context.
    """

    prompt: Prompt
    attached: tuple[ChunkSource, ...] = ()
    sampling: Sampling = Sampling()
    document: str = ""


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Log-probability of a chosen token and of the likeliest alternatives, natural logarithm."""

    token_id: int
    text: str
    logprob: float
    top: tuple[tuple[int, str, float], ...] = ()


@dataclass(slots=True)
class Timings:
    """Where the time of one request went, milliseconds; token counts beside them."""

    queue_ms: float = 0.0
    attach_ms: float = 0.0
    prefill_ms: float = 0.0
    prefill_tokens: int = 0
    cached_tokens: int = 0
    ttft_ms: float = 0.0
    decode_ms: float = 0.0
    decode_tokens: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """A step of a stream: text that is final (whole characters only), and at the end why it ended."""

    text: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] | None = None
    finish_reason: FinishReason | None = None
    error: str | None = None
    error_type: str = ""  # name of the `EngineError` behind a failure


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """A finished generation: `text` without stop strings and special tokens."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    timings: Timings
    logprobs: tuple[TokenLogprob, ...] | None = None


@dataclass(frozen=True, slots=True)
class ChunkInfo:
    """What memorising a chunk gave: its content key, its length, and whether its KV was already there."""

    key: str
    tokens: int
    reused: bool
