"""Tokenizers from GGUF metadata and from directories against the tokenizers they were made from."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import transformers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers
from transformers.convert_slow_tokenizer import TikTokenConverter
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX as QWEN2_WORDS

from miton_engine.errors import ModelError
from miton_engine.models.checkpoint import open_checkpoint
from miton_engine.models.gguf import GGUFFile
from miton_engine.models.tokenizer import Tokenizer, tokenizer_from_directory, tokenizer_from_gguf

LLAMA3_WORDS = inspect.signature(TikTokenConverter).parameters["pattern"].default
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
PIECES = [
    *SPECIAL,
    *(
        "<|im_",
        "end|>",
        "def ",
        "self",
        "x1",
        "  ",
        "    ",
        "\n",
        "\r\n",
        "\t",
        "'s",
        "'LL",
        "don't",
        "_",
        "(",
        "):",
    ),
    *(
        "->",
        "12345",
        "3.14",
        "½",
        "x²",
        "١٢",
        "中文",
        "日本",
        "한국어",
        "😀",
        "👩‍👩‍👧",
        "é",
        "e\u0301",
        "\u00a0",
        "\u3000",
        "\x00",
    ),
]
texts = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=30).map("".join))


def words(expression: str) -> Any:
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(expression), "isolated"), byte_level])


def gpt2() -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=False)


PRE_TOKENIZERS: dict[str, tuple[Callable[[], Any], bool]] = {
    "default": (gpt2, False),
    "qwen2": (lambda: words(QWEN2_WORDS), False),
    "llama-bpe": (lambda: words(LLAMA3_WORDS), True),
    "smollm": (lambda: pre_tokenizers.Sequence([pre_tokenizers.Digits(True), gpt2()]), False),
}


@pytest.fixture(scope="module", params=PRE_TOKENIZERS)
def pair(
    request: pytest.FixtureRequest, trained: Callable[..., Any]
) -> tuple[tokenizers.Tokenizer, Tokenizer]:
    make, ignore_merges = PRE_TOKENIZERS[request.param]
    reference, path = trained(request.param, make(), ignore_merges=ignore_merges)
    return reference, tokenizer_from_gguf(GGUFFile(path).metadata)


@settings(deadline=None, max_examples=300)
@given(text=texts)
def test_ids_equal_the_original_tokenizer(text: str, pair: tuple[tokenizers.Tokenizer, Tokenizer]) -> None:
    reference, ours = pair
    assert ours.encode(text, special=True) == reference.encode(text, add_special_tokens=False).ids


@settings(deadline=None, max_examples=300)
@given(text=texts)
@example(text="<|im_end|>")
def test_special_tokens_in_plain_text_stay_text(
    text: str, pair: tuple[tokenizers.Tokenizer, Tokenizer]
) -> None:
    reference, ours = pair
    reference.encode_special_tokens = True
    try:
        expected = reference.encode(text, add_special_tokens=False).ids
    finally:
        reference.encode_special_tokens = False
    ids = ours.encode(text)
    assert ids == expected
    assert not ours.special_ids.intersection(ids)
    assert ours.decode(ids, skip_special=False) == text


@settings(deadline=None, max_examples=300)
@given(text=texts)
def test_the_stream_is_the_text_in_whole_characters(
    text: str, pair: tuple[tokenizers.Tokenizer, Tokenizer]
) -> None:
    _, ours = pair
    stream, pieces = ours.stream_decoder(), []
    end = ours.id_of("<|im_end|>")
    assert end is not None
    for token in ours.encode(text):
        pieces += [stream.push(token), stream.push(end)]  # special tokens are never shown, wherever they come
    assert "".join(pieces) + stream.flush() == text
    assert "\ufffd" not in "".join(pieces) or "\ufffd" in text


def test_a_cut_character_is_flushed_as_replacement(pair: tuple[tokenizers.Tokenizer, Tokenizer]) -> None:
    _, ours = pair
    ids = ours.encode("☃")  # not in the training text: one token per byte
    stream = ours.stream_decoder()
    assert [stream.push(token) for token in ids[:-1]] == [""] * (len(ids) - 1)
    assert stream.flush() == "\ufffd"
    assert stream.push(ours.encode("a")[0]) == "a"


def test_lone_surrogates_do_not_fail(pair: tuple[tokenizers.Tokenizer, Tokenizer]) -> None:
    assert pair[1].decode(pair[1].encode("a\ud83db")) == "a?b"


def test_ids_beyond_the_vocabulary_are_empty(pair: tuple[tokenizers.Tokenizer, Tokenizer]) -> None:
    assert pair[1].token_bytes(10**6) == b""
    assert pair[1].token_bytes(-1) == b""


def test_end_tokens_are_found(pair: tuple[tokenizers.Tokenizer, Tokenizer]) -> None:
    assert pair[1].eos_ids == {0, 2}


def test_an_unknown_pre_tokenizer_is_refused(trained: Callable[..., Any]) -> None:
    _, path = trained("pixtral", gpt2())
    with pytest.raises(ModelError, match="'pixtral'"):
        tokenizer_from_gguf(GGUFFile(path).metadata)


@pytest.mark.parametrize("kind", ["llama", "bert", None])
def test_other_kinds_of_tokenizers_are_refused(kind: str | None) -> None:
    with pytest.raises(ModelError, match="byte-level BPE"):
        tokenizer_from_gguf({"tokenizer.ggml.model": kind})


@settings(deadline=None, max_examples=100)
@given(text=texts)
def test_a_directory_gives_what_its_tokenizer_json_says(text: str, directory_pair: Any) -> None:
    reference, ours = directory_pair
    assert ours.encode(text, special=True) == reference.encode(text, add_special_tokens=False).ids
    ids = ours.encode(text)
    assert not ours.special_ids.intersection(ids)
    assert ours.decode(ids) == text


@pytest.fixture(scope="module")
def directory_pair(
    trained: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> tuple[tokenizers.Tokenizer, Tokenizer]:
    directory = tmp_path_factory.mktemp("tokenizer")
    reference, _ = trained("qwen2", words(QWEN2_WORDS))
    # As Qwen2.5-Coder's: a control token beyond the vocabulary whose `special` flag is false.
    reference.add_tokens([tokenizers.AddedToken("<|fim_pad|>", special=False, normalized=False)])
    reference.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(
        json.dumps(
            {"eos_token": "<|im_end|>", "bos_token": {"content": "<|endoftext|>"}, "add_bos_token": True}
        )
    )
    return reference, tokenizer_from_directory(directory, [1])


def test_a_directory_tells_its_begin_and_end_tokens(directory_pair: Any) -> None:
    ours = directory_pair[1]
    assert (ours.bos_id, ours.adds_bos) == (0, True)
    assert ours.eos_ids == {0, 1, 2}
    assert ours.id_of("<|fim_pad|>") in ours.special_ids


@pytest.mark.real_model
def test_the_default_models_ids_equal_transformers() -> None:
    checkpoint = open_checkpoint("qwen2.5-coder-0.5b")
    path = checkpoint.file.path  # type: ignore[attr-defined]
    reference = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    sources = [Path(__file__).read_text("utf-8"), inspect.getsource(json.decoder), "".join(PIECES) * 3]
    sources += [text.replace("\n", "\r\n") for text in sources]
    for text in sources:
        expected = reference(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        assert checkpoint.tokenizer.encode(text) == expected
        expected = reference(text, add_special_tokens=False)["input_ids"]
        assert checkpoint.tokenizer.encode(text, special=True) == expected
        assert checkpoint.tokenizer.decode(expected, skip_special=False) == text
