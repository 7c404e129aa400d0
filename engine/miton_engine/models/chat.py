"""Chat templates: a model's own Jinja source, rendered in a sandbox, then tokenized without injection.

The environment is the one Hugging Face documents for `chat_template` (trimmed blocks, loop controls,
`raise_exception`, `strftime_now`, `tojson` that keeps non-ASCII text), so the rendered text is the same.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, NoReturn

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from miton_engine.errors import InvalidRequest, ModelError
from miton_engine.models.tokenizer import Tokenizer


class ChatTemplate:
    """Turns messages into token ids. Raises `ModelError` if the model has no template or a broken one."""

    def __init__(self, source: str | None, tokenizer: Tokenizer) -> None:
        if not source:
            raise ModelError(
                "The model has no chat template, so it cannot hold a conversation. Use an instruct model."
            )
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise ModelError(f"The model's chat template cannot be read: {error}.") from error
        self._tokenizer = tokenizer

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
    ) -> str:
        """The conversation as text. Raises `InvalidRequest` for messages the template refuses."""
        added = self._tokenizer.added_tokens
        bos = self._tokenizer.bos_id
        try:
            return self._template.render(
                messages=[_normalised(message) for message in messages],
                tools=list(tools) if tools else None,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                bos_token=added.get(bos, "") if bos is not None else "",
                eos_token=next((added[id] for id in self._tokenizer.eos_ids if id in added), ""),
            )
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            raise InvalidRequest(f"The model's chat template refused the messages: {error}.") from error

    def encode(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
    ) -> list[int]:
        """Token ids of the conversation; special tokens in contents, names and arguments stay plain text."""
        # Masked before rendering, unmasked after the template's own tokens were found: a file that mentions
        # <|im_end|> must not end the turn. The nonce keeps a message from forging the mask.
        mask = _Mask(self._tokenizer)
        text = self.render(mask.hide(messages), mask.hide(tools), add_generation_prompt)
        ids: list[int] = []
        position = 0
        for match in self._added.finditer(text) if self._added is not None else ():
            ids += self._tokenizer.encode(mask.show(text[position : match.start()]))
            ids.append(self._added_ids[match.group()])
            position = match.end()
        return ids + self._tokenizer.encode(mask.show(text[position:]))

    @cached_property
    def _added_ids(self) -> dict[str, int]:
        return {content: id for id, content in self._tokenizer.added_tokens.items()}

    @cached_property
    def _added(self) -> re.Pattern[str] | None:
        return _any_of(self._added_ids)


class _Mask:
    def __init__(self, tokenizer: Tokenizer) -> None:
        hidden = [text for id, text in tokenizer.added_tokens.items() if id in tokenizer.special_ids]
        nonce = secrets.token_hex(8)
        self._names = {text: f"\ue000{nonce}.{index}\ue001" for index, text in enumerate(hidden)}
        self._texts = {name: text for text, name in self._names.items()}
        self._hidden = _any_of(hidden)
        self._mask = re.compile(rf"\ue000{nonce}\.\d+\ue001")

    def hide(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._hidden.sub(lambda m: self._names[m.group()], value) if self._hidden else value
        if isinstance(value, Mapping):
            return {self.hide(key): self.hide(item) for key, item in value.items()}
        if isinstance(value, Sequence):
            return [self.hide(item) for item in value]
        return value

    def show(self, text: str) -> str:
        return self._mask.sub(lambda m: self._texts[m.group()], text)


def _any_of(texts: Sequence[str] | Mapping[str, int]) -> re.Pattern[str] | None:
    longest_first = sorted(texts, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


def _normalised(message: Mapping[str, Any]) -> dict[str, Any]:
    """OpenAI's shape to what templates expect: content as one string, call arguments as objects."""
    made = dict(message)
    content = made.get("content")
    if content is None:
        made["content"] = ""
    elif not isinstance(content, str):
        made["content"] = "".join(_text_of(part) for part in content)
    if calls := made.get("tool_calls"):
        made["tool_calls"] = [_with_parsed_arguments(call) for call in calls]
    return made


def _text_of(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping) and part.get("type") == "text":
        return str(part.get("text", ""))
    raise InvalidRequest("Only text can be part of a message; images and audio are not supported.")


def _with_parsed_arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return dict(call)
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        return dict(call)
    return {**call, "function": {**function, "arguments": arguments}}


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)
