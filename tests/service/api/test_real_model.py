"""The default model on real weights, through HTTP: answers that make sense, and no special token in any."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from miton_service.settings import ServiceSettings

from .conftest import RunningService, running

pytestmark = pytest.mark.real_model


@pytest.fixture(scope="module")
def real_service(repository: Path) -> Iterator[RunningService]:
    with running(ServiceSettings(workspaces=(repository,), port=0)) as started:
        yield started


@pytest.fixture(scope="module")
def client(real_service: RunningService) -> openai.OpenAI:
    return openai.OpenAI(base_url=real_service.url + "/v1", api_key="unused", max_retries=0)


def test_the_middle_is_filled_in(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model="any", prompt="def add(a, b):\n    return", suffix="\n\nprint(add(1, 2))\n",
        max_tokens=16,
    )  # fmt: skip
    assert answer.choices[0].text.startswith(" a + b")


def test_infill_gives_what_llama_cpp_clients_show(real_service: RunningService) -> None:
    body = {
        "input_prefix": "def add(a, b):\n", "prompt": "    return ", "input_suffix": "\n\nprint(add(1, 2))\n",
        "n_predict": 16,
    }  # fmt: skip
    assert real_service.client.post("/infill", json=body).json()["content"] == "a + b"


def test_a_cursor_completion_uses_the_other_file(real_service: RunningService, repository: Path) -> None:
    body = {"workspace": str(repository), "path": "shop/cart.py", "cursor": {"line": 9, "character": 30}}
    answer = real_service.client.post("/v1/completions", json=body).json()
    assert "net" in answer["choices"][0]["text"]
    assert "shop/prices.py" in {item["path"] for item in answer["miton"]["context"]}


def test_an_auto_closed_bracket_is_not_doubled(real_service: RunningService, repository: Path) -> None:
    buffer = "def area(width, height):\n    return width * height\n\n\nprint(area())\n"
    body = {
        "workspace": str(repository), "path": "shop/area.py", "buffer": buffer, "cursor": {"line": 4, "character": 11},
        "context_tokens": 0,
    }  # fmt: skip
    text = real_service.client.post("/v1/completions", json=body).json()["choices"][0]["text"]
    line = "print(area(" + text + "))"
    assert line.count("(") == line.count(")")
    assert "\n" not in text


def test_chat_answers_about_the_repository(client: openai.OpenAI, repository: Path) -> None:
    messages: Any = [{"role": "user", "content": "Which parameters does price_with_tax take? Name them."}]
    chunks = list(
        client.chat.completions.create(
            model="any", messages=messages, temperature=0, max_tokens=80, stream=True,
            extra_body={"workspace": str(repository)},
        )
    )  # fmt: skip
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert "tax_rate" in text
    assert "<|" not in text


def test_special_tokens_are_never_shown(client: openai.OpenAI) -> None:
    for prompt in ("def main():\n    ", "import os\n", "class A:", "#"):
        for suffix in ("", "\n", "\n    return 1\n"):
            answer = client.completions.create(model="any", prompt=prompt, suffix=suffix, max_tokens=24)
            assert "<|" not in answer.choices[0].text


def test_crlf_text_is_continued_with_crlf(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model="any", prompt="def fibonacci(n):\r\n", suffix="\r\n\r\nprint(fibonacci(10))\r\n", max_tokens=60
    )
    text = answer.choices[0].text
    assert text.count("\r\n") == text.count("\n") > 0


def test_characters_of_several_bytes_come_whole(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="any", messages=[{"role": "user", "content": "Say good morning in Chinese, then an emoji."}],
        temperature=0, max_tokens=40, stream=True,
    )  # fmt: skip
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    assert "早" in text
    assert "\N{REPLACEMENT CHARACTER}" not in text
