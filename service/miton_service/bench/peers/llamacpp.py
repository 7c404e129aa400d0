"""llama.cpp beside us: the same weights file, a fresh process per configuration, its own HTTP server.

Time to first token is taken here, at the client, as it is for Miton; llama.cpp's own `timings` come along.
Protocol: llama.cpp, tools/server/README.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import httpx

from miton_service.bench.errors import PeerError

START_S = 300.0
SCORED = 4096  # tokens whose log-probability is asked for


@dataclass(frozen=True)
class LlamaCppSettings:
    """`cache_reuse` is llama.cpp's n_cache_reuse: the shortest run of tokens it moves instead of recomputing."""

    model: Path
    context_tokens: int
    threads: int
    cache_reuse: int = 0
    flash_attention: bool = True


@dataclass(frozen=True)
class Answer:
    """One completion. Milliseconds are wall-clock at the client; rates are llama.cpp's own, tokens/s."""

    text: str
    ttft_ms: float
    total_ms: float
    prompt_tokens: int
    cached_tokens: int
    prefill_rate: float
    decode_rate: float


class LlamaCpp:
    """A running llama.cpp. Use `LlamaCpp.start(settings)` as a context manager."""

    def __init__(self, url: str, system: str) -> None:
        self.system = system
        # llama.cpp drops idle connections after some seconds; a request on a dropped one would fail.
        fresh = httpx.Limits(max_keepalive_connections=0)
        self._client = httpx.Client(base_url=url, timeout=None, trust_env=False, limits=fresh)

    @classmethod
    @contextmanager
    def start(cls, settings: LlamaCppSettings) -> Iterator[LlamaCpp]:
        """Start it and wait until it answers; it ends with the block. Raises `PeerError` with its log's end."""
        if not available():
            raise PeerError("llama.cpp is missing; install it with: pip install xllamacpp")
        arguments = {
            "model": str(settings.model), "n_ctx": settings.context_tokens, "threads": settings.threads,
            "n_cache_reuse": settings.cache_reuse, "flash_attention": settings.flash_attention,
        }  # fmt: skip
        command = [sys.executable, "-m", "miton_service.bench.peers.llamacpp_process", json.dumps(arguments)]
        with tempfile.TemporaryFile("w+") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                start_new_session=True,  # Ctrl-C reaches us; we end it
            )  # fmt: skip
            try:
                ready = _wait_ready(process, log)
                peer = cls(ready["url"], ready["system"].strip())
                with peer._client:
                    yield peer
            finally:
                process.kill()
                process.wait()

    def token_ids(self, text: str, *, special: bool = False) -> list[int]:
        """Tokens of `text` under the model's own tokenizer."""
        body = {"content": text, "add_special": False, "parse_special": special}
        ids: list[int] = self._post("/tokenize", body)["tokens"]
        return ids

    def complete(
        self,
        prompt: str | Sequence[int],
        *,
        max_tokens: int,
        stop: Sequence[str] = (),
        ignore_eos: bool = False,
        cache_prompt: bool = True,
    ) -> Answer:
        """Continue `prompt` greedily; special tokens in a text prompt are parsed."""
        body = {
            "prompt": prompt if isinstance(prompt, str) else list(prompt),
            "n_predict": max_tokens, "stop": list(stop), "ignore_eos": ignore_eos, "cache_prompt": cache_prompt,
        }  # fmt: skip
        return self._stream("/completion", body)

    def infill(self, prefix: str, suffix: str, *, max_tokens: int, stop: Sequence[str] = ()) -> Answer:
        """Fill in the middle with llama.cpp's own prompt for it."""
        body = {"input_prefix": prefix, "input_suffix": suffix, "n_predict": max_tokens, "stop": list(stop),
                "prompt": "", "cache_prompt": True}  # fmt: skip
        return self._stream("/infill", body)

    def score(self, prompt: Sequence[int], target: Sequence[int]) -> list[float]:
        """Log-probability (natural) of each token of `target` after `prompt`.

        Its server scores no given text, so each token is looked up among the likeliest; one that is not there
        counts as the last that is, which is in llama.cpp's favour.
        """
        logprobs = []
        for index, token in enumerate(target):
            body = {"prompt": [*prompt, *target[:index]], "n_predict": 1, "n_probs": SCORED, "temperature": 0.0,
                    "cache_prompt": True}  # fmt: skip
            listed = self._post("/completion", body)["completion_probabilities"][0]["top_logprobs"]
            found = (item["logprob"] for item in listed if item["id"] == token)
            logprobs.append(float(next(found, listed[-1]["logprob"])))
        return logprobs

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = self._client.post(path, json=body)
        if answer.status_code != 200:
            raise PeerError(f"llama.cpp answered {answer.status_code} to {path}: {answer.text[:300]}")
        decoded: dict[str, Any] = answer.json()
        return decoded

    def _stream(self, path: str, body: dict[str, Any]) -> Answer:
        body = {**body, "stream": True, "temperature": 0.0, "top_k": 1}
        started = time.perf_counter()
        first: float | None = None
        text, last = "", {}
        with self._client.stream("POST", path, json=body) as answer:
            if answer.status_code != 200:
                raise PeerError(f"llama.cpp answered {answer.status_code}: {answer.read().decode()[:300]}")
            for line in answer.iter_lines():
                if not line.startswith("data: ") or line == "data: [DONE]":
                    continue
                last = json.loads(line[6:])
                if "error" in last:
                    raise PeerError(f"llama.cpp failed: {last['error']}")
                first = first or time.perf_counter()
                text += last.get("content", "")
        ended = time.perf_counter()
        timings = last.get("timings", {})
        return Answer(
            text=text,
            ttft_ms=((first or ended) - started) * 1e3,
            total_ms=(ended - started) * 1e3,
            prompt_tokens=timings.get("prompt_n", 0) + timings.get("cache_n", 0),
            cached_tokens=timings.get("cache_n", 0),
            prefill_rate=timings.get("prompt_per_second", 0.0),
            decode_rate=timings.get("predicted_per_second", 0.0),
        )


def available() -> bool:
    """Whether llama.cpp is installed."""
    try:
        metadata.version("xllamacpp")
    except metadata.PackageNotFoundError:
        return False
    return True


def version() -> str:
    """Version of the wheel that carries llama.cpp."""
    return f"xllamacpp {metadata.version('xllamacpp')}"


def _wait_ready(process: subprocess.Popen[str], log: Any) -> dict[str, str]:
    assert process.stdout is not None
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        line = process.stdout.readline()
        if line.startswith("READY "):
            ready: dict[str, str] = json.loads(line.removeprefix("READY "))
            return ready
        if not line:
            break
    log.seek(0)
    end = log.read()[-800:]
    raise PeerError(f"llama.cpp did not start (exit status {process.poll()}):{os.linesep}{end}")
