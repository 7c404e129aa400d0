"""A real service on a real port: uvicorn, the engine, and the tiny random model."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from miton_service.app import create_app
from miton_service.service import Service
from miton_service.settings import ServiceSettings

ENDLESS = {"temperature": 1, "logit_bias": {str(token): -100.0 for token in (0, *range(256, 264))}}
"""Fields of a request that only its `max_tokens` ends: by chance alone the tiny model soon draws a stop token."""


@dataclass
class RunningService:
    """A service that answers at `url`, and its own object to look into."""

    url: str
    service: Service
    client: httpx.Client

    def metric(self, line: str) -> float:
        """The value of one line of /metrics."""
        text = self.client.get("/metrics").text
        return next((float(row.rpartition(" ")[2]) for row in text.splitlines() if row.startswith(line)), 0.0)

    def settled(self, condition: Callable[[], bool], seconds: float = 20) -> bool:
        """Whether a condition comes true in time."""
        end = time.monotonic() + seconds
        while not condition() and time.monotonic() < end:
            time.sleep(0.01)
        return condition()


@contextlib.contextmanager
def running(
    settings: ServiceSettings, *, token: str | None = None, load: bool = True
) -> Iterator[RunningService]:
    """Serve on a free port for as long as the context lasts."""
    service = Service(settings, token=token)
    if load:
        service.load()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(create_app(service), log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    headers = {"authorization": f"Bearer {token}"} if token else {}
    try:
        with httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False) as client:
            yield RunningService(url, service, client)
    finally:
        service.stop_generations()
        server.should_exit = True
        thread.join(10)
        service.close()


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small repository whose files use each other, with files that must never be served."""
    root = tmp_path_factory.mktemp("workspace") / "shop"
    files = {
        "shop/prices.py": (
            "def price_with_tax(net: float, tax_rate: float, currency: str) -> str:\n"
            '    """The gross price as text."""\n'
            "    gross = net * (1 + tax_rate)\n"
            '    return f"{gross:.2f} {currency}"\n'
        ),
        "shop/cart.py": (
            "from shop.prices import price_with_tax\n\n\n"
            "class Cart:\n"
            "    def __init__(self) -> None:\n"
            "        self.items: list[float] = []\n\n"
            "    def total(self) -> str:\n"
            "        net = sum(self.items)\n"
            "        return price_with_tax(\n"
        ),
        "windows.py": "def add(a, b):\r\n    return a + b\r\n\r\n\r\ndef subtract(a, b):\r\n",
        "emoji.py": 'FACE = "😀😀"\nNAME = "日本"\n',
        "ignored.py": "SECRET_CONSTANT = 1\n",
        ".env": "API_KEY=very-secret-value\n",
        ".gitignore": "ignored.py\n",
    }  # fmt: skip
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    (root.parent / "outside.py").write_text("OUTSIDE = 'never to be read'\n")
    (root / "link.py").symlink_to(root.parent / "outside.py")
    return root


@pytest.fixture(scope="session")
def running_service(
    tiny_model: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    """The tiny model's service with the small repository open."""
    settings = ServiceSettings(
        model=str(tiny_model), cache_dir=tmp_path_factory.mktemp("cache"), workspaces=(repository,), port=0
    )
    with running(settings) as started:
        yield started


def events_of(lines: Iterator[bytes] | list[bytes]) -> list[dict[str, Any]]:
    """The JSON events of an SSE body."""
    data = [line[6:] for line in lines if line.startswith(b"data: ")]
    return [json.loads(item) for item in data if item != b"[DONE]"]
