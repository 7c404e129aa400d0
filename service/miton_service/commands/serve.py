"""`miton serve`: take the port, load the model, open the workspaces, say ready, answer until told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import NoReturn

import httpx
import uvicorn
from rich.console import Console
from rich.logging import RichHandler
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from miton_service.app import create_app
from miton_service.commands.example import curl_example
from miton_service.errors import ServiceError, SettingsError
from miton_service.security import load_or_create_token
from miton_service.service import Loading, Service
from miton_service.settings import ServiceSettings

SHUTDOWN_S = 1.7  # after this long a stop no longer waits: the store survives a kill at any moment
log = logging.getLogger(__name__)


def serve(settings: ServiceSettings, console: Console) -> NoReturn:
    """Run the service until a signal ends it, then exit. Progress and log go to `console` (stderr)."""
    for root in settings.workspaces:
        if not root.is_dir():
            raise SettingsError(f"The workspace {root} is not a directory; give the root of a repository.")
    token = load_or_create_token(settings) if settings.needs_token else None
    listener = _listen(settings)
    _log_to(console, settings.log_level)
    asyncio.run(_serve(settings, token, listener, console))


def _listen(settings: ServiceSettings) -> socket.socket:
    """The bound socket, before anything slow is begun. Raises `ServiceError` that names who has the port."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise ServiceError(_who_has(settings)) from None
        if error.errno == errno.EACCES:
            raise ServiceError(
                f"Port {settings.port} needs more rights than you have; take one above 1023 with --port."
            ) from None
        raise ServiceError(
            f"{settings.host}:{settings.port} cannot be used: {error.strerror or error}."
        ) from None
    return listener


def _who_has(settings: ServiceSettings) -> str:
    url = settings.url()
    try:
        answer = httpx.get(url + "/health", timeout=2, trust_env=False).json()
    except (httpx.HTTPError, ValueError):
        answer = {}
    if isinstance(answer, dict) and answer.get("service") == "miton":
        return (
            f"Miton {answer.get('version')} already runs at {url} ({answer.get('status')}). "
            "`miton status` shows it and `miton index DIR` gives it another workspace; "
            "--port N starts a second one."
        )
    return f"Another program has port {settings.port}; choose another with --port N or MITON_PORT."


async def _serve(
    settings: ServiceSettings, token: str | None, listener: socket.socket, console: Console
) -> NoReturn:
    service = Service(settings, token=token)
    config = uvicorn.Config(
        create_app(service), log_config=None, access_log=False, lifespan="off",
        timeout_graceful_shutdown=1, server_header=False,
    )  # fmt: skip
    server = _Server(config)
    stopping = asyncio.Event()
    _handle_signals(service, stopping, console)
    answering = asyncio.ensure_future(server.serve(sockets=[listener]))
    url = settings.url(listener.getsockname()[1])
    loading = asyncio.ensure_future(asyncio.to_thread(_load, service, console))
    stop = asyncio.ensure_future(stopping.wait())
    await asyncio.wait({answering, loading, stop}, return_when=asyncio.FIRST_COMPLETED)
    if stop.done() and not loading.done():
        # Nothing can be lost: a download goes on where it stopped, KV files are written whole or not at all.
        os._exit(0)
    code = 0
    try:
        if not answering.done():
            loading.result()
            if not stop.done():
                await asyncio.to_thread(_announce, service, url)
    except Exception as error:
        console.print(f"[red]error[/red] {error}", highlight=False, soft_wrap=True)
        code = 1
    else:
        await asyncio.wait({answering, stop}, return_when=asyncio.FIRST_COMPLETED)
    threading.Thread(target=_exit_late, args=(code,), daemon=True).start()
    service.stop_generations()
    server.should_exit = True
    await answering
    await asyncio.to_thread(service.close)
    log.info("stopped")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # all is closed; taking the interpreter with torch in it apart would take seconds


class _Server(uvicorn.Server):
    """uvicorn without its own signal handling."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _handle_signals(service: Service, stopping: asyncio.Event, console: Console) -> None:
    def stop() -> None:
        if stopping.is_set():
            os._exit(130)
        console.print("stopping (again to stop at once)")
        service.stop_generations()
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stop)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop))


def _exit_late(code: int) -> None:
    time.sleep(SHUTDOWN_S)
    os._exit(code)


def _load(service: Service, console: Console) -> None:
    """Load with a progress bar on a terminal, a line per stage elsewhere."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task("", visible=False)
        last: tuple[str, int] = ("", -1)

        def show(loading: Loading) -> None:
            nonlocal last
            if console.is_terminal:
                bars.update(bar, description=loading.stage, completed=loading.done,
                            total=loading.total or None, visible=loading.total > 0)  # fmt: skip
            tenth = loading.done * 10 // loading.total if loading.total else 0
            if (loading.stage, tenth) == last:
                return
            if loading.stage != last[0] or not console.is_terminal:
                share = f" {tenth * 10}%" if loading.total else ""
                console.print(f"{loading.stage}{share} ...", highlight=False)
            last = (loading.stage, tenth)

        service.load(show)


def _announce(service: Service, url: str) -> None:
    """The ready line, alone on stdout with the example that follows it."""
    print(f"ready {url}", flush=True)
    example = curl_example(service, url)
    print(f"\nStatus page: {url}/\nTry it:\n{example}\n", flush=True)
    if service.token is not None:
        where = "that was given" if service.settings.token else f"in {service.settings.token_file}"
        print(f"Clients need the token {where}.", flush=True)


def _log_to(console: Console, level: str) -> None:
    handler: logging.Handler
    if console.is_terminal:
        handler = RichHandler(console=console, show_path=False, markup=False, log_time_format="%X")
        handler.setFormatter(logging.Formatter("%(message)s"))
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel("WARNING")
    for name in ("miton_service", "miton_engine", "miton_lsp"):
        logging.getLogger(name).setLevel(level.upper())
