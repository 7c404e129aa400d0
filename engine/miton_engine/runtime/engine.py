"""The engine: one model, its chunk memory, its live contexts, one worker. Its public side is thread-safe."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch
from torch import Tensor

from miton_engine.errors import EngineClosed, ModelError
from miton_engine.kernels.build import load_library
from miton_engine.kernels.dequantise import dequantise
from miton_engine.kernels.native import NativeDecoder
from miton_engine.kernels.packed import Quantization, ThreadPool
from miton_engine.memory.chunk_prefill import ChunkPrefill
from miton_engine.memory.store import ChunkStore
from miton_engine.models.checkpoint import Checkpoint, QuantizedTensor, open_checkpoint
from miton_engine.models.decoder import Decoder, bf16_is_fast
from miton_engine.models.sources import default_cache_dir
from miton_engine.runtime.generation import Generation
from miton_engine.runtime.generation_task import GenerationRunner
from miton_engine.runtime.live_contexts import LiveContexts
from miton_engine.runtime.live_document import LiveContext
from miton_engine.runtime.memoriser import Memoriser
from miton_engine.runtime.model_runner import ModelRunner
from miton_engine.runtime.prompts import PromptEncoder
from miton_engine.runtime.requests import ChatPrompt, ChunkInfo, ChunkSource, GenerationRequest, Sampling
from miton_engine.runtime.scheduler import Priority, Scheduler, Task
from miton_engine.runtime.scoring import score

log = logging.getLogger(__name__)

DEFAULT_MODEL = "qwen2.5-coder-0.5b"
GIB = 1 << 30


@dataclass(frozen=True)
class EngineSettings:
    """How much an engine may use. Bytes are of chunk KV in memory, of live contexts, and of disk."""

    cache_dir: Path = Path()
    memory_bytes: int = 1 * GIB
    context_bytes: int = 1 * GIB
    disk_bytes: int = 20 * GIB
    threads: int = 0  # 0: one per physical core
    dtype: str = "auto"  # auto | bf16 | fp32
    quantization: Quantization = "native"  # of the decode path's weights: native | int8 | int4
    speculation: bool = True

    @property
    def directory(self) -> Path:
        return self.cache_dir if self.cache_dir != Path() else default_cache_dir()


class Engine:
    """Owns the model. `generate` and `memorise` return at once; `close` waits for the worker."""

    def __init__(self, checkpoint: Checkpoint, settings: EngineSettings = EngineSettings()) -> None:
        threads = settings.threads or _physical_cores()
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        started = time.perf_counter()
        self.settings = settings
        self.checkpoint = checkpoint
        self.config = checkpoint.config
        self.encoder = PromptEncoder(checkpoint.tokenizer, checkpoint.prompt_format)
        dtype, kernels = _dtype(settings.dtype), settings.directory / "kernels"
        library = load_library(kernels) if dtype is torch.bfloat16 else None  # its loader logs why it is None
        self._pool = ThreadPool(library, threads) if library is not None else None
        decoder = Decoder(checkpoint, dtype, self._dequantise)
        native = None
        if self._pool is not None:
            rotary = decoder.rotary
            native = NativeDecoder(
                checkpoint,
                rotary.cos,
                rotary.sin,
                cache=kernels,
                threads=threads,
                quantization=settings.quantization,
            )
        self.runner = ModelRunner(decoder, native, self._pool)
        self.chunk_prefill = ChunkPrefill(decoder, checkpoint.prompt_format.sink())
        self.store = ChunkStore(settings.directory / "chunks", settings.memory_bytes, settings.disk_bytes)
        self._scheduler = Scheduler()
        self._memoriser = Memoriser(
            self.chunk_prefill, self.store, self.encoder, checkpoint.fingerprint, self._scheduler
        )
        self._contexts = LiveContexts(
            lambda: LiveContext(self.runner, self.chunk_prefill), settings.context_bytes
        )
        self._generations = GenerationRunner(
            self.runner, self._memoriser, self._contexts, self.encoder, speculation=settings.speculation
        )
        self._counters = {"requests": 0, "cancelled": 0}
        self._unfinished: dict[object, Callable[[], None]] = {}  # what to end if the engine is closed first
        self._closed = False
        log.info("model %s ready in %.1f s", checkpoint.name, time.perf_counter() - started)

    @classmethod
    def open(
        cls,
        model: str = DEFAULT_MODEL,
        *,
        settings: EngineSettings = EngineSettings(),
        progress: Callable[..., None] | None = None,
    ) -> Engine:
        """Fetch (if needed) and load a model. Raises `ModelError` with the fix in its message."""
        return cls(open_checkpoint(model, cache=settings.directory / "models", progress=progress), settings)

    @property
    def model_name(self) -> str:
        return self.checkpoint.name

    @property
    def fingerprint(self) -> str:
        return self.checkpoint.fingerprint

    @property
    def context_length(self) -> int:
        return self.config.max_position_embeddings

    def token_count(self, text: str) -> int:
        """Tokens of plain text under the model's tokenizer."""
        return len(self.encoder.tokenizer.encode(text))

    def chunk_token_count(self, source: ChunkSource) -> int:
        """Tokens a chunk takes in memory, its anchor included."""
        return len(self.encoder.chunk(source))

    def is_memorised(self, source: ChunkSource) -> bool:
        """Whether the chunk's KV is stored."""
        return self.store.contains(self._memoriser.identify(source)[0])

    def memorise(self, source: ChunkSource) -> Future[ChunkInfo]:
        """Have a chunk's KV computed and stored in the background."""
        self._check_open()
        return self._memoriser.submit(source)

    def generate(self, request: GenerationRequest) -> Generation:
        """Start a generation; completions come before chats, both before background work."""
        self._check_open()
        generation = Generation(request)
        chat = isinstance(request.prompt, ChatPrompt)
        self._counters["requests"] += 1
        self._unfinished[generation] = generation.cancelled_at_close
        self._scheduler.submit(
            self._generation_task(generation), Priority.CHAT if chat else Priority.COMPLETION
        )
        return generation

    def score(
        self, request: GenerationRequest, target: str | Sequence[int], *, dense: bool = False
    ) -> Future[list[float]]:
        """Log-probability (natural) of each token of `target` after the request's prompt, teacher-forced.

        With `dense`, the attached chunks are part of the prompt and attended as one sequence: the reference.
        """
        self._check_open()
        future: Future[list[float]] = Future()
        self._unfinished[future] = lambda: future.set_exception(EngineClosed("The engine was closed."))
        self._scheduler.submit(self._score_task(request, target, dense, future), Priority.CHAT)
        return future

    def warm_up(self) -> None:
        """Run each path once, so that the first request does not pay for lazy initialisation."""
        prompt = ChatPrompt(({"role": "user", "content": "def main():\n" * 40},))
        self.generate(GenerationRequest(prompt, sampling=Sampling(max_tokens=2))).result()

    def status(self) -> dict[str, object]:
        """What the engine holds and does, for health, metrics and the status page."""
        return {
            "model": self.model_name,
            "dtype": str(self.runner.decoder.dtype).removeprefix("torch."),
            "threads": torch.get_num_threads(),
            "decode": f"native {self.settings.quantization}" if self.runner.native else "torch",
            "queue": self._scheduler.waiting(),
            "contexts": {"count": len(self._contexts), "bytes": self._contexts.nbytes},
            "store": self.store.stats(),
            "memorised_tokens": self._memoriser.computed_tokens,
            **self._counters,
        }

    def close(self) -> None:
        """Stop the worker after the piece in progress, end open generations, flush the store."""
        if self._closed:
            return
        self._closed = True
        self._scheduler.close()
        for end in list(self._unfinished.values()):
            end()
        self._memoriser.close()
        if self.runner.native is not None:
            self.runner.native.release()
        if self._pool is not None:
            self._pool.release()
        self.store.close()

    def _dequantise(self, blocks: QuantizedTensor) -> Tensor | None:
        return None if self._pool is None else dequantise(self._pool, blocks)

    def _check_open(self) -> None:
        if self._closed:
            raise EngineClosed("The engine is closed; open a new one.")

    def _generation_task(self, generation: Generation) -> Task:
        try:
            yield from self._generations.task(generation)
        finally:
            self._unfinished.pop(generation, None)
        if generation.cancelled:
            self._counters["cancelled"] += 1
        if (refresh := self._contexts.refresh_due(generation.request.document)) is not None:
            self._scheduler.submit(refresh, Priority.PAUSE)

    def _score_task(
        self,
        request: GenerationRequest,
        target: str | Sequence[int],
        dense: bool,
        future: Future[list[float]],
    ) -> Task:
        try:
            logprobs = yield from score(
                request,
                target,
                dense=dense,
                runner=self.runner,
                memoriser=self._memoriser,
                encoder=self.encoder,
                chunk_prefill=self.chunk_prefill,
            )
            future.set_result(logprobs)
        except Exception as error:
            future.set_exception(error)
        finally:
            if future.done():
                self._unfinished.pop(future, None)


def _dtype(name: str) -> torch.dtype:
    if name == "auto":
        return torch.bfloat16 if bf16_is_fast() else torch.float32
    try:
        return {"bf16": torch.bfloat16, "fp32": torch.float32}[name]
    except KeyError:
        raise ModelError(f"dtype is {name!r}; choose auto, bf16 or fp32.") from None


def _physical_cores() -> int:
    return psutil.cpu_count(logical=False) or os.cpu_count() or 1
