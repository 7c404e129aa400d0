"""What the answers of OpenAI's two interfaces share: ids, sampling fields, usage, refusals that say why."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from miton_engine.runtime.requests import Sampling
from miton_service.api.running import Usage
from miton_service.api.schemas import SamplingFields
from miton_service.errors import ApiError
from miton_service.request_log import RequestRecord

if TYPE_CHECKING:
    from miton_engine.models.tokenizer import Tokenizer
    from miton_engine.runtime.engine import Engine

MAX_STOPS = 16


def new_id(kind: str) -> str:
    """An id such as cmpl-..., unique enough for one machine."""
    return f"{kind}-{secrets.token_hex(12)}"


def created() -> int:
    """Seconds since the epoch, as OpenAI stamps answers."""
    return int(time.time())


def sampling_of(
    body: SamplingFields, *, max_tokens: int, temperature: float, logprobs: int | None, choice: int
) -> Sampling:
    """The engine's sampling for one choice; a seed differs per choice, so that choices differ."""
    return Sampling(
        max_tokens=max_tokens,
        temperature=temperature if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        top_k=body.top_k or 0,
        seed=None if body.seed is None else body.seed + choice,
        presence_penalty=body.presence_penalty or 0.0,
        frequency_penalty=body.frequency_penalty or 0.0,
        repetition_penalty=body.repetition_penalty or 1.0,
        stop=stops(body.stop),
        logprobs=logprobs,
        logit_bias=_logit_bias(body.logit_bias),
    )


def stops(stop: str | Sequence[str] | None) -> tuple[str, ...]:
    """The stop strings as a tuple. Raises `ApiError` for empty ones or too many."""
    listed = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if len(listed) > MAX_STOPS:
        raise ApiError(400, f"`stop` has {len(listed)} strings; at most {MAX_STOPS} are taken.", param="stop")
    if any(not string for string in listed):
        raise ApiError(400, "`stop` holds an empty string; leave it out.", param="stop")
    return listed


def check_token_ids(engine: Engine, ids: Iterable[int], param: str) -> None:
    """Raises `ApiError` for an id that the model's vocabulary does not have."""
    for token_id in ids:
        if not 0 <= token_id < engine.config.vocab_size:
            raise ApiError(
                400,
                f"`{param}` holds token id {token_id}; the ids are 0 to {engine.config.vocab_size - 1}.",
                param=param,
            )


def token_name(tokenizer: Tokenizer, token_id: int, text: str) -> str:
    """A token's text; a part of a character is told by its bytes, as OpenAI does ("bytes:\\xe6")."""
    if "\N{REPLACEMENT CHARACTER}" not in text:
        return text
    return "bytes:" + "".join(f"\\x{byte:02x}" for byte in tokenizer.token_bytes(token_id))


def refuse(param: str, message: str) -> ApiError:
    """A field that OpenAI's interface has and this service does not serve."""
    return ApiError(400, message, param=param, code="unsupported_parameter")


def miton(record: RequestRecord) -> dict[str, Any]:
    """The `miton` object of an answer: what was attached and why, and where the time went."""
    data = record.to_json()
    return {name: data[name] for name in ("context", "window", "timings")}


def last_event(usage: Usage, record: RequestRecord, *, include_usage: bool) -> dict[str, Any]:
    """Fields of a stream's last event."""
    fields: dict[str, Any] = {"miton": miton(record)}
    if include_usage:
        fields["usage"] = usage.to_json()
    return fields


def _logit_bias(biases: dict[str, float] | None) -> dict[int, float]:
    try:
        return {int(token): value for token, value in (biases or {}).items()}
    except ValueError:
        raise ApiError(
            400, "`logit_bias` must map token ids (whole numbers) to biases.", param="logit_bias"
        ) from None
