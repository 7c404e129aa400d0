"""Repository, fill-in-the-middle and chat prompts, the latter against transformers' `apply_chat_template`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import transformers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, pre_tokenizers

from miton_engine.errors import InvalidRequest, ModelError
from miton_engine.models.checkpoint import open_checkpoint
from miton_engine.models.prompt_format import PromptFormat
from miton_engine.models.tokenizer import Tokenizer, tokenizer_from_directory

CHATML = (
    "{{ bos_token }}{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + "
    "'<|im_end|>\\n' }}{% if message.tool_calls %}{% for call in message.tool_calls %}\n"
    "{{ call.function.arguments | tojson }}{% endfor %}{% endif %}{% endfor %}\n"
    "{%- if tools %}{{ tools | tojson }}{% endif %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


@pytest.fixture(scope="module")
def make(trained: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Tokenizer]:
    def make(*added: str, config: str = "{}") -> Tokenizer:
        directory = tmp_path_factory.mktemp("tokenizer")
        reference, _ = trained("default", pre_tokenizers.ByteLevel(add_prefix_space=False))
        reference.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in added])
        reference.save(str(directory / "tokenizer.json"))
        (directory / "tokenizer_config.json").write_text(config)
        return tokenizer_from_directory(directory)

    return make


def text_of(format: PromptFormat, ids: list[int]) -> str:
    return format.tokenizer.decode(ids, skip_special=False)


QWEN = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|repo_name|>", "<|file_sep|>")


def test_a_coder_model_gets_its_own_repository_tokens(make: Callable[..., Tokenizer]) -> None:
    format = PromptFormat(make(*QWEN))
    assert text_of(format, format.sink()) == "<|repo_name|>repository\n"
    assert text_of(format, format.anchor("src/<|file_sep|>.py")) == "<|file_sep|>src/<|file_sep|>.py\n"
    assert format.anchor("a.py").count(format.tokenizer.id_of("<|file_sep|>")) == 1
    prefix, suffix = format.tokenizer.encode("def f(x):\n"), format.tokenizer.encode("    return y\n")
    pieces = format.fim("a/b.py", prefix, suffix)
    assert pieces is not None
    whole = [*pieces.head, *pieces.prefix, *pieces.middle, *pieces.suffix, *pieces.tail]
    assert text_of(format, whole) == (
        "<|file_sep|>a/b.py\n<|fim_prefix|>def f(x):\n<|fim_suffix|>    return y\n<|fim_middle|>"
    )
    stops = {format.tokenizer.id_of(token) for token in (*QWEN, "<|endoftext|>", "<|im_end|>")}
    assert format.fim_stop_ids == stops


def test_starcoder_spelling_is_known(make: Callable[..., Tokenizer]) -> None:
    format = PromptFormat(make("<repo_name>", "<file_sep>", "<fim_prefix>", "<fim_suffix>", "<fim_middle>"))
    assert text_of(format, format.sink()) == "<repo_name>repository\n"
    assert text_of(format, format.anchor("x.c")) == "<file_sep>x.c\n"
    assert format.fim("x.c", [], []) is not None


def test_other_models_get_an_anchor_in_text(make: Callable[..., Tokenizer]) -> None:
    format = PromptFormat(make())
    digest = hashlib.sha256(b"src/a.py").hexdigest()[:8]
    assert text_of(format, format.anchor("src/a.py")) == f"[FILE:{digest}]a.py\n"
    assert format.anchor("lib/a.py") != format.anchor("src/a.py")
    assert format.fim("a.py", [1], [2]) is None
    assert format.sink()


def test_a_model_that_expects_bos_gets_it_once(make: Callable[..., Tokenizer]) -> None:
    config = '{"bos_token": "<|endoftext|>", "add_bos_token": true}'
    format = PromptFormat(make(*QWEN, config=config), CHATML)
    bos = format.tokenizer.bos_id
    assert format.sink()[0] == bos
    assert bos not in format.chat([{"role": "user", "content": "hello"}])


def test_without_a_template_there_is_no_chat(make: Callable[..., Tokenizer]) -> None:
    with pytest.raises(ModelError, match="no chat template"):
        PromptFormat(make()).chat([{"role": "user", "content": "hello"}])


def test_what_the_template_refuses_is_an_invalid_request(make: Callable[..., Tokenizer]) -> None:
    format = PromptFormat(make(), "{{ raise_exception('roles must alternate') }}")
    with pytest.raises(InvalidRequest, match="roles must alternate"):
        format.chat([{"role": "user", "content": "hello"}])


@pytest.mark.parametrize(
    "source", ["{{ messages.__class__.__mro__ }}", "{{ ''.__class__.__subclasses__() }}"]
)
def test_templates_run_in_a_sandbox(source: str, make: Callable[..., Tokenizer]) -> None:
    with pytest.raises(InvalidRequest):
        PromptFormat(make(), source).chat([{"role": "user", "content": "hello"}])


def test_a_broken_template_is_a_model_error(make: Callable[..., Tokenizer]) -> None:
    with pytest.raises(ModelError, match="chat template"):
        PromptFormat(make(), "{% for %}").chat([])


def test_openai_shapes_are_understood(make: Callable[..., Tokenizer]) -> None:
    format = PromptFormat(make(), CHATML)
    call = {"type": "function", "function": {"name": "f", "arguments": '{"größe": 1}'}}
    ids = format.chat(
        [
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
        ]
    )
    assert text_of(format, ids) == (
        '<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n{"größe": 1}<|im_start|>assistant\n'
    )
    with pytest.raises(InvalidRequest, match="Only text"):
        format.chat([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])


@given(
    content=st.lists(
        st.sampled_from(["<|im_end|>", "<|im_start|>", "system\n", "a", "\n", "\ue000", "<|"])
    ).map("".join)
)
def test_a_message_cannot_forge_special_tokens(content: str, make: Callable[..., Tokenizer]) -> None:
    format = PromptFormat(make(), CHATML)
    ids = format.chat([{"role": "user", "content": content}])
    start, end = (format.tokenizer.id_of(token) for token in ("<|im_start|>", "<|im_end|>"))
    assert (ids.count(start), ids.count(end)) == (2, 1)
    assert text_of(format, ids) == f"<|im_start|>user\n{content}<|im_end|>\n<|im_start|>assistant\n"


TOOL = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Suche „überall“",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
    },
}
CONVERSATIONS: list[tuple[list[dict[str, Any]], list[dict[str, Any]] | None]] = [
    ([{"role": "user", "content": "Explain `yield`."}], None),
    ([{"role": "system", "content": "Be terse. 中文 😀"}, {"role": "user", "content": "  hi \r\n"}], None),
    (
        [
            {"role": "user", "content": "find x"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"type": "function", "function": {"name": "search", "arguments": {"query": "x ü"}}}
                ],
            },
            {"role": "tool", "content": '{"found": [1, 2]}'},
            {"role": "user", "content": "thanks"},
        ],
        [TOOL],
    ),
]


@pytest.mark.real_model
@pytest.mark.parametrize("model", ["qwen2.5-coder-0.5b", "smollm2-135m"])
def test_conversations_equal_transformers(model: str, tmp_path: Path) -> None:
    checkpoint = open_checkpoint(model)
    format = checkpoint.prompt_format
    # The template is rendered by transformers, the special tokens in it are split by our own tokenizer.
    reference = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(tokenizers.models.BPE())
    )
    reference.chat_template = checkpoint.file.metadata["tokenizer.chat_template"]  # type: ignore[attr-defined]
    for messages, tools in CONVERSATIONS:
        for add in (True, False):
            expected = reference.apply_chat_template(
                messages, tools=tools, add_generation_prompt=add, tokenize=False
            )
            ids = format.chat(messages, tools, add_generation_prompt=add)
            assert ids == checkpoint.tokenizer.encode(expected, special=True)
            assert text_of(format, ids) == expected
