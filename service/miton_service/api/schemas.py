"""The fields that requests may carry, as pydantic models; what they mean is in docs/api.md."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Body(BaseModel):
    """Fields we do not know are let through: clients of OpenAI's interface send many."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _whole_characters(cls, data: Any) -> Any:
        """Half a surrogate pair, which editors' buffers may hold, becomes U+FFFD: still one UTF-16 unit."""
        return (
            {name: _without_lone_surrogates(v) for name, v in data.items()}
            if isinstance(data, dict)
            else data
        )


def _without_lone_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value) if not _is_whole(value) else value
    if isinstance(value, list):
        return [_without_lone_surrogates(item) for item in value]
    return value


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Cursor(Body):
    """Zero-based; `character` counts UTF-16 code units, as editors do."""

    line: int = Field(ge=0)
    character: int = Field(ge=0)


class StreamOptions(Body):
    include_usage: bool = False


class SamplingFields(Body):
    """What the requests of OpenAI's two interfaces share."""

    model: str | None = None
    temperature: float | None = Field(None, ge=0, le=10)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=0)
    n: int | None = Field(None, ge=1, le=8)
    stop: str | list[str] | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    seed: int | None = None
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    repetition_penalty: float | None = Field(None, gt=0)
    logit_bias: dict[str, float] | None = None
    user: str | None = None


class AtCursor(Body):
    """A place in a file of an open workspace, and how much context may be attached there."""

    workspace: str | None = None
    path: str | None = None
    cursor: Cursor | None = None
    buffer: str | None = None
    context_tokens: int | None = Field(None, ge=0)


class CompletionRequest(SamplingFields, AtCursor):
    """POST /v1/completions"""

    prompt: str | list[int] | list[str] | list[list[int]] | None = None
    suffix: str | None = None
    max_tokens: int | None = Field(None, ge=1)
    best_of: int | None = None
    echo: bool | None = False
    logprobs: int | None = Field(None, ge=0, le=20)
    multi_line: bool | None = None


class ContextRequest(AtCursor):
    """POST /v1/context: a place in a file, or a question about the workspace."""

    question: str | None = None


class ChatMessage(Body):
    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None


class ChatRequest(SamplingFields):
    """POST /v1/chat/completions"""

    messages: list[ChatMessage] = Field(min_length=1)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool | None = False
    top_logprobs: int | None = Field(None, ge=0, le=20)
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    workspace: str | None = None
    context_tokens: int | None = Field(None, ge=0)


class InfillExtra(Body):
    text: str = ""
    filename: str = ""


class InfillRequest(Body):
    """POST /infill, as llama.cpp's server understands it."""

    input_prefix: str = ""
    input_suffix: str = ""
    input_extra: list[InfillExtra] = []
    prompt: str = ""
    n_predict: int = Field(-1, ge=-1)
    n_indent: int = Field(0, ge=0)
    stream: bool = False
    stop: list[str] = []
    temperature: float = Field(0.0, ge=0, le=10)
    top_k: int = Field(0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    seed: int | None = None
    t_max_predict_ms: float = 0
    response_fields: list[str] | None = None


class WorkspaceRequest(Body):
    root: str


class DocumentRequest(Body):
    workspace: str
    path: str
    text: str
    version: int = 0


class SymbolRequest(Body):
    """POST /v1/symbols: a name as the file `path` may mean it."""

    workspace: str
    path: str
    name: str = Field(min_length=1, max_length=200)


class ChoiceReference(Body):
    """A file's symbol and what is inside it; without `symbol` the whole file."""

    workspace: str
    path: str
    symbol: str = ""


class ChoiceRequest(ChoiceReference):
    """PUT /v1/choices"""

    kind: Literal["pin", "exclude"]


class DocumentReference(Body):
    workspace: str
    path: str
