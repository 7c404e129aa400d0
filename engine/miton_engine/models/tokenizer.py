"""Text to token ids and back, through the `tokenizers` library; a stream decoder that emits whole characters.

Byte-level BPE only, which the supported models use. A GGUF file names its pre-tokenizer
(`tokenizer.ggml.pre`); the expressions behind the names are those of the models' own tokenizer.json files.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, models, pre_tokenizers

from miton_engine.errors import ModelError

CONTROL, USER_DEFINED, UNUSED = 3, 4, 5  # tokenizer.ggml.token_type
END_TOKENS = ("<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "</s>")
QWEN2_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
LLAMA3_WORDS = QWEN2_WORDS.replace(r"|\p{N}|", r"|\p{N}{1,3}|")


class Tokenizer:
    """A model's tokenizer. Nothing is added to a text that the caller did not ask for (no BOS, no space)."""

    def __init__(
        self,
        parsing: tokenizers.Tokenizer,
        plain: tokenizers.Tokenizer,
        *,
        special_ids: Collection[int],
        eos_ids: Collection[int],
        bos_id: int | None = None,
        adds_bos: bool = False,
    ) -> None:
        """`parsing` knows the added tokens, `plain` has the same vocabulary without them.

        `special_ids` are never shown to a person; `adds_bos` says that the model expects `bos_id` first.
        """
        self._parsing, self._plain = parsing, plain
        self._added = {id: token.content for id, token in parsing.get_added_tokens_decoder().items()}
        self._bytes: dict[int, bytes] = {}
        self.special_ids, self.eos_ids = frozenset(special_ids), frozenset(eos_ids)
        self.bos_id, self.adds_bos = bos_id, adds_bos
        self.vocab_size: int = parsing.get_vocab_size()

    @property
    def added_tokens(self) -> Mapping[int, str]:
        """Tokens that are parsed as a whole with `special=True`, by id."""
        return self._added

    def id_of(self, token: str) -> int | None:
        """The id of a token given by its text in the vocabulary, for example "<|fim_prefix|>"."""
        found: int | None = self._parsing.token_to_id(token)
        return found

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Token ids of `text`. With `special`, the text of an added token becomes that token; else never."""
        chosen = self._parsing if special else self._plain
        # Lone surrogates, as a damaged file or a client may hold them, have no UTF-8 form.
        text = text.encode("utf-8", "replace").decode("utf-8")
        ids: list[int] = chosen.encode(text, add_special_tokens=False).ids
        return ids

    def token_bytes(self, token: int) -> bytes:
        """The UTF-8 bytes a token stands for, possibly part of a character; b"" for ids without a token."""
        found = self._bytes.get(token)
        if found is None:
            found = self._bytes[token] = self._look_up(token)
        return found

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """Text of `ids`; bytes that are no UTF-8 become U+FFFD."""
        kept = (id for id in ids if not (skip_special and id in self.special_ids))
        return b"".join(map(self.token_bytes, kept)).decode("utf-8", "replace")

    def stream_decoder(self) -> StreamDecoder:
        """A decoder for ids that arrive one by one."""
        return StreamDecoder(self)

    def _look_up(self, token: int) -> bytes:
        if token in self._added:
            return self._added[token].encode()
        text: str | None = self._parsing.id_to_token(token) if token >= 0 else None
        if text is None:
            return b""
        return b"".join(bytes([BYTE_OF[char]]) if char in BYTE_OF else char.encode() for char in text)


class StreamDecoder:
    """Turns ids into text as they come; a character is given out when its last byte is there."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """The text that `token` completes; "" for special tokens and parts of characters."""
        if token in self._tokenizer.special_ids:
            return ""
        return self._utf8.decode(self._tokenizer.token_bytes(token))

    def flush(self) -> str:
        """What is left at the end: U+FFFD if a character was cut, else ""."""
        rest = self._utf8.decode(b"", final=True)
        self._utf8.reset()
        return rest


def tokenizer_from_gguf(metadata: Mapping[str, Any]) -> Tokenizer:
    """Build the tokenizer from GGUF metadata. Raises `ModelError` unless byte-level BPE."""
    kind = metadata.get("tokenizer.ggml.model")
    if kind != "gpt2":
        raise ModelError(
            f"The GGUF file has a tokenizer of kind {kind!r}; only byte-level BPE ('gpt2') is supported. "
            "Choose another model with --model."
        )
    try:
        return _build(metadata)
    except ModelError:
        raise
    except (
        Exception
    ) as error:  # the library raises plain Exception for vocabularies that contradict themselves
        reason = str(error).splitlines()[0][:200] if str(error) else repr(error)
        raise ModelError(
            f"The tokenizer in the GGUF file is damaged ({reason}). Fetch the model again."
        ) from error


def _build(metadata: Mapping[str, Any]) -> Tokenizer:
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    types: Sequence[int] = metadata.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    merges = [tuple(merge.split(" ", 1)) for merge in metadata["tokenizer.ggml.merges"]]
    pre_tokenizer, ignore_merges = _pre_tokenizer(metadata.get("tokenizer.ggml.pre", "default"))
    vocab = {token: id for id, token in enumerate(tokens)}
    bpe = models.BPE(vocab, merges, ignore_merges=ignore_merges)

    def library() -> tokenizers.Tokenizer:
        made = tokenizers.Tokenizer(bpe)  # the vocabulary is shared, not copied
        made.pre_tokenizer = pre_tokenizer
        return made

    parsing, plain = library(), library()
    added = [
        (token, type) for token, type in zip(tokens, types, strict=True) if type in (CONTROL, USER_DEFINED)
    ]
    parsing.add_tokens(
        [AddedToken(token, special=type == CONTROL, normalized=False) for token, type in added]
    )
    special = {id for id, type in enumerate(types) if type in (CONTROL, UNUSED)}
    named = [metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom")]
    bos = metadata.get("tokenizer.ggml.bos_token_id")
    return Tokenizer(
        parsing,
        plain,
        special_ids=special,
        eos_ids={id for id in named if id is not None}
        | {vocab[t] for t in END_TOKENS if vocab.get(t) in special},
        bos_id=bos,
        adds_bos=bos is not None and bool(metadata.get("tokenizer.ggml.add_bos_token", ignore_merges)),
    )


def tokenizer_from_directory(directory: Path, eos_ids: Iterable[int] = ()) -> Tokenizer:
    """Read tokenizer.json (and tokenizer_config.json, if it is there). Raises `ModelError`."""
    file = directory / "tokenizer.json"
    try:
        text = file.read_text("utf-8")
        description = json.loads(text)
        parsing = tokenizers.Tokenizer.from_str(text)
    except FileNotFoundError as error:
        raise ModelError(
            f"{directory} has no tokenizer.json. Save the tokenizer with "
            "transformers.AutoTokenizer.from_pretrained(...).save_pretrained(directory)."
        ) from error
    except Exception as error:  # the library raises plain Exception for files it cannot parse
        raise ModelError(f"{file} cannot be read: {error}.") from error
    if description["model"].get("type") != "BPE" or '"ByteLevel"' not in json.dumps(
        description.get("decoder")
    ):
        raise ModelError(f"{file} is not a byte-level BPE tokenizer; other kinds are not supported.")
    plain = tokenizers.Tokenizer.from_str(json.dumps({**description, "added_tokens": []}))
    added = parsing.get_added_tokens_decoder()
    # Some publishers leave `special` false on control tokens such as <|fim_pad|>; the spelling tells.
    special = {id for id, t in added.items() if t.special or re.fullmatch(r"<\|.*\|>", t.content)}
    config = read_json(directory / "tokenizer_config.json")
    ids = {token.content: id for id, token in added.items()}
    bos, eos = (ids.get(_content(config.get(name))) for name in ("bos_token", "eos_token"))
    return Tokenizer(
        parsing,
        plain,
        special_ids=special,
        eos_ids={
            *eos_ids,
            *([] if eos is None else [eos]),
            *(ids[t] for t in END_TOKENS if ids.get(t) in special),
        },
        bos_id=bos,
        adds_bos=bos is not None and _adds_bos(config, description, bos),
    )


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object from `file`; {} if there is none. Raises `ModelError` if it cannot be read."""
    try:
        content = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ModelError(f"{file} cannot be read: {error}.") from error
    if not isinstance(content, dict):
        raise ModelError(f"{file} does not hold a JSON object.")
    return content


def _content(token: Any) -> str:
    return str(token.get("content", "")) if isinstance(token, dict) else str(token or "")


def _adds_bos(config: Mapping[str, Any], description: Mapping[str, Any], bos: int) -> bool:
    if config.get("add_bos_token") is not None:
        return bool(config["add_bos_token"])
    return f'"ids": [{bos}]' in json.dumps(description.get("post_processor"))


def _pre_tokenizer(
    name: str,
) -> tuple[pre_tokenizers.PreTokenizer, bool]:
    """The pre-tokenizer, and whether whole words of the vocabulary bypass the merges (as in llama 3)."""
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)

    def words(expression: str) -> pre_tokenizers.PreTokenizer:
        return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(expression), "isolated"), byte_level])

    match name:
        case "qwen2" | "deepseek-r1-qwen":
            return words(QWEN2_WORDS), False
        case "llama-bpe" | "llama3" | "llama-v3":
            return words(LLAMA3_WORDS), True
        case "smollm" | "starcoder" | "refact" | "codeshell":
            digits = pre_tokenizers.Digits(individual_digits=True)
            gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
            return pre_tokenizers.Sequence([digits, gpt2]), False
        case "default" | "gpt-2" | "gpt2":
            return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True), False
    raise ModelError(
        f"The GGUF file asks for the pre-tokenizer {name!r}, which is not supported. Use the model's "
        "safetensors directory, whose tokenizer.json describes it, or choose another model with --model."
    )


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins for bytes, from character to byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + index): byte for index, byte in enumerate(others)
    }


BYTE_OF = _byte_alphabet()
