"""One running service: the engine, the workspaces, the last requests. The HTTP side only sees this object."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from miton_engine.runtime.generation import Generation
from miton_service.errors import ApiError
from miton_service.metrics import Metrics, flatten
from miton_service.request_log import RequestLog, RequestRecord
from miton_service.settings import ServiceSettings

if TYPE_CHECKING:
    from miton_engine.runtime.engine import Engine
    from miton_service.workspace import Workspace, Workspaces

log = logging.getLogger(__name__)


def version() -> str:
    """The installed version of the distribution."""
    return metadata.version("miton")


@dataclass(frozen=True, slots=True)
class Loading:
    """How far the start is: what is done now, and how much of it (bytes for a download; 0 total: unknown)."""

    stage: str = "starting"
    done: int = 0
    total: int = 0


class Service:
    """Owns engine and workspaces. `load` blocks; until it returned, `engine` and `workspaces` answer 503."""

    def __init__(self, settings: ServiceSettings, *, token: str | None = None) -> None:
        self.settings, self.token = settings, token
        self.requests = RequestLog()
        self.metrics = Metrics(self._held)
        self.loading = Loading()
        self.failure = ""
        self.started = time.time()
        self._engine: Engine | None = None
        self._workspaces: Workspaces | None = None
        self._running: set[Generation] = set()
        self._lock = threading.Lock()
        self._closing = False

    def load(self, on_progress: Callable[[Loading], None] = lambda loading: None) -> None:
        """Fetch and load the model, open the workspaces that the settings name. Raises what went wrong."""

        def report(stage: str, done: int = 0, total: int = 0) -> None:
            self.loading = Loading(stage, done, total)
            on_progress(self.loading)

        try:
            report("loading the libraries")
            from miton_engine.models.sources import locate
            from miton_engine.runtime.engine import Engine, EngineSettings
            from miton_service.workspace import Workspaces

            settings = self.settings
            directory = EngineSettings(cache_dir=settings.cache_dir).directory / "models"
            locate(
                settings.model,
                cache=directory,
                progress=lambda done, total, left: report(f"downloading {settings.model}", done, total),
            )
            report(f"loading {settings.model}")
            engine = Engine.open(
                settings.model,
                settings=EngineSettings(
                    cache_dir=settings.cache_dir,
                    memory_bytes=settings.memory_bytes,
                    disk_bytes=settings.disk_bytes,
                    threads=settings.threads,
                ),
            )
            report("warming up")
            engine.warm_up()
            workspaces = Workspaces(engine, settings.state_directory)
            for root in settings.workspaces:
                report(f"opening {root}")
                workspaces.open(root)
        except BaseException as error:
            self.failure = str(error) or type(error).__name__
            raise
        self._engine, self._workspaces = engine, workspaces
        self.loading = Loading("ready")

    @property
    def state(self) -> str:
        """loading | ready | error | stopping"""
        if self._closing:
            return "stopping"
        if self.failure:
            return "error"
        return "loading" if self._engine is None else "ready"

    @property
    def engine(self) -> Engine:
        """The engine. Raises `ApiError` 503 while there is none."""
        if self._closing:
            raise ApiError(503, "The service is shutting down; start it again with `miton serve`.",
                           type="server_error", code="stopping")  # fmt: skip
        if self._engine is None:
            raise self._not_ready()
        return self._engine

    @property
    def workspaces(self) -> Workspaces:
        """The open workspaces. Raises `ApiError` 503 while the engine is loading."""
        if self._workspaces is None:
            raise self._not_ready()
        return self._workspaces

    def workspace(self, root: str) -> Workspace:
        """An open workspace by its root. Raises `ApiError` 404 with the call that opens it."""
        found = self.workspaces.get(Path(root).expanduser()) if root else None
        if found is None:
            opened = ", ".join(str(workspace.root) for workspace in self.workspaces.list()) or "none"
            raise ApiError(
                404,
                f"The workspace {root!r} is not open (open: {opened}). "
                f'Open it with POST /v1/workspaces {{"root": "{root}"}} or `miton index {root}`.',
                param="workspace",
                code="workspace_not_open",
            )
        return found

    def track(self, generation: Generation) -> None:
        """Remember a running generation, so that a shutdown can cancel it."""
        with self._lock:
            self._running.add(generation)

    def untrack(self, generation: Generation) -> None:
        with self._lock:
            self._running.discard(generation)

    @property
    def running(self) -> int:
        """Generations in progress."""
        return len(self._running)

    def finish(self, record: RequestRecord) -> None:
        """A request's end: count it, and log it without any text of it."""
        self.metrics.observe(record)
        log.info(
            "%s %s %s %.0f ms (first token %.0f ms, %d new, %d from memory, %d written)",
            record.kind, record.outcome, record.path or "-", record.total_ms,
            record.timings.ttft_ms + record.recall_ms, record.timings.prefill_tokens,
            record.timings.cached_tokens, record.timings.decode_tokens,
        )  # fmt: skip

    def status(self) -> dict[str, Any]:
        """All that GET /v1/status tells."""
        answer: dict[str, Any] = {
            "status": self.state,
            "version": version(),
            "uptime_s": round(time.time() - self.started),
            "running": self.running,
            "settings": self.settings.shown(),
        }
        if self._engine is not None:
            answer["engine"] = self._engine.status()
            answer["context_length"] = self._engine.context_length
        return answer

    def stop_generations(self) -> None:
        """Refuse new work and cancel what runs: the first step of a shutdown."""
        self._closing = True
        with self._lock:
            running = list(self._running)
        for generation in running:
            generation.cancel()

    def close(self) -> None:
        """Close workspaces and engine; what was memorised is on disk."""
        self.stop_generations()
        if self._workspaces is not None:
            self._workspaces.shutdown()
        if self._engine is not None:
            self._engine.close()

    def _not_ready(self) -> ApiError:
        if self.failure:
            return ApiError(503, f"The model could not be loaded: {self.failure}", type="server_error",
                            code="load_failed")  # fmt: skip
        loading = self.loading
        share = f" ({loading.done / loading.total:.0%})" if loading.total else ""
        return ApiError(
            503,
            f"Still {loading.stage}{share}; try again in a moment. GET /health tells the progress.",
            type="server_error",
            code="loading",
        )

    def _held(self) -> dict[str, float]:
        held: dict[str, float] = {"running": float(self.running)}
        if self._engine is not None:
            held.update(flatten(self._engine.status(), "engine_"))
        if self._workspaces is not None:
            held["workspaces"] = float(len(self._workspaces.list()))
        return held
