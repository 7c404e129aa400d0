"""Miton as a user runs it: `miton serve` on a free port with an empty chunk memory, asked over HTTP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from miton_engine.models.sources import default_cache_dir
from miton_service.bench.errors import BenchmarkError

SHARED = ("models", "kernels")  # taken from the user's cache; everything else starts empty
STOP_S = 5.0


@dataclass(frozen=True)
class Completion:
    """One completion. `ttft_ms` is wall-clock at the client, from sending to the first event of text."""

    text: str
    ttft_ms: float
    total_ms: float
    context: tuple[dict[str, Any], ...]
    timings: dict[str, float]
    live_from: int = 0  # line from which the file was taken as text

    @property
    def context_tokens(self) -> int:
        return sum(int(item["tokens"]) for item in self.context)

    @property
    def prefill_rate(self) -> float:
        """Tokens per second."""
        return self.timings["prefill_tokens"] / max(self.timings["prefill_ms"], 1e-6) * 1e3

    @property
    def decode_rate(self) -> float:
        """Tokens per second."""
        return self.timings["decode_tokens"] / max(self.timings["decode_ms"], 1e-6) * 1e3


class RunningService:
    """A started service. Use `RunningService.start(...)` as a context manager."""

    def __init__(self, url: str, pid: int | None = None) -> None:
        """A connection to the service at `url`; `pid` is its process where we started it."""
        self.url, self.pid = url, pid
        self.client = httpx.Client(base_url=url, timeout=None, trust_env=False)

    @classmethod
    @contextmanager
    def start(cls, model: str, threads: int, cache: Path | None = None) -> Iterator[RunningService]:
        """Start it and wait until it is ready; it is gone after the block. `cache` keeps chunk memory between
        starts, else a temporary one is used. Raises `BenchmarkError` with the log's end."""
        with tempfile.TemporaryDirectory(prefix="miton-bench-") as scratch:
            home = cache or Path(scratch)
            for name in SHARED:
                (default_cache_dir() / name).mkdir(parents=True, exist_ok=True)
                if not (home / name).exists():
                    (home / name).symlink_to(default_cache_dir() / name)
            command = [
                sys.executable, "-m", "miton_service.bench.service_process", "serve", "--port", "0", "--model", model,
                "--threads", str(threads), "--log-level", "warning",
            ]  # fmt: skip
            environment = {name: value for name, value in os.environ.items() if not name.startswith("MITON_")}
            environment["MITON_CACHE"] = str(home)
            with tempfile.TemporaryFile("w+") as log:
                process = subprocess.Popen(
                    command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                    text=True, start_new_session=True,  # Ctrl-C reaches us; we end it
                )  # fmt: skip
                try:
                    service = cls(_wait_ready(process, log), process.pid)
                    with service.client:
                        yield service
                finally:
                    _stop(process)

    def open(
        self, root: Path, report: Callable[[int, int], None] = lambda done, total: None
    ) -> dict[str, Any]:
        """Open a workspace and wait until it is memorised; `report` gets tokens done and in all."""
        self.begin(root)
        while True:
            listed = self._json("GET", "/v1/workspaces")["data"]
            state: dict[str, Any] = next(item for item in listed if item["root"] == str(root.resolve()))
            if state["state"] == "error":
                raise BenchmarkError(f"Indexing {root} failed: {state.get('error')}")
            report(state["indexed_tokens"], state["tokens"])
            if state["state"] == "ready":
                return state
            time.sleep(0.2)

    def begin(self, root: Path) -> None:
        """Open a workspace; it is memorised in the background."""
        self._json("POST", "/v1/workspaces", {"root": str(root)})

    def kill(self) -> None:
        """kill -9. Nothing of the process runs any more when this returns."""
        assert self.pid is not None
        process = psutil.Process(self.pid)
        process.kill()
        process.wait()

    def settle(self, root: Path) -> None:
        """Wait until what was edited is memorised, so that background work is not in the next figure."""
        self.open(root)

    def status(self) -> dict[str, Any]:
        """What GET /v1/status tells: the engine's counters among it."""
        return self._json("GET", "/v1/status")

    def put_document(self, root: Path, path: str, text: str, version: int) -> None:
        """Push a buffer, as editors do."""
        body = {"workspace": str(root), "path": path, "text": text, "version": version}
        self._json("PUT", "/v1/documents", body)

    def complete_at(
        self,
        root: Path,
        path: str,
        buffer: str,
        cursor: tuple[int, int],
        *,
        max_tokens: int,
        context_tokens: int | None = None,
    ) -> Completion:
        """A completion at a zero-based line and UTF-16 character."""
        body: dict[str, Any] = {
            "workspace": str(root), "path": path, "buffer": buffer, "max_tokens": max_tokens,
            "cursor": {"line": cursor[0], "character": cursor[1]},
        }  # fmt: skip
        if context_tokens is not None:
            body["context_tokens"] = context_tokens
        return self._complete(body)

    def complete(
        self, prompt: str | list[int], *, max_tokens: int, suffix: str | None = None, **more: Any
    ) -> Completion:
        """A plain or fill-in-the-middle completion, greedy."""
        body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, **more}
        return self._complete(body if suffix is None else {**body, "suffix": suffix})

    def _complete(self, body: dict[str, Any]) -> Completion:
        started = time.perf_counter()
        first: float | None = None
        text, last = "", {}
        with self.client.stream("POST", "/v1/completions", json={**body, "stream": True}) as answer:
            if answer.status_code != 200:
                raise BenchmarkError(f"Miton answered {answer.status_code}: {answer.read().decode()[:400]}")
            for line in answer.iter_lines():
                if not line.startswith("data: ") or line == "data: [DONE]":
                    continue
                last = json.loads(line[6:])
                if "error" in last:
                    raise BenchmarkError(f"Miton failed: {last['error']}")
                first = first or time.perf_counter()
                text += "".join(choice["text"] for choice in last["choices"])
        ended = time.perf_counter()
        miton = last.get("miton", {})
        return Completion(
            text, ((first or ended) - started) * 1e3, (ended - started) * 1e3,
            tuple(miton.get("context", ())), miton.get("timings", {}), (miton.get("window") or {}).get("start_line", 0),
        )  # fmt: skip

    def _json(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = self.client.request(method, path, json=body)
        if answer.status_code != 200:
            raise BenchmarkError(f"Miton answered {answer.status_code} to {path}: {answer.text[:400]}")
        decoded: dict[str, Any] = answer.json()
        return decoded


def _wait_ready(process: subprocess.Popen[str], log: Any) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("ready "):
            return line.split()[1]
    log.seek(0)
    raise BenchmarkError(f"The service did not start (status {process.wait()}):\n{log.read()[-1000:]}")


def _stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
