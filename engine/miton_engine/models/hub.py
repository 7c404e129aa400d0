"""Files from the model hub over HTTPS, resumed where they broke off.

The hub's `resolve` addresses answer Range requests (RFC 9110, section 14). `HF_ENDPOINT` names a mirror and
`HF_TOKEN` opens restricted models, as with Hugging Face's own tools.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx

from miton_engine.models.transfer import (
    ProgressMeter,
    SourceFailed,
    disk_full,
    is_disk_full,
)

CONNECT_SECONDS = 4.0
READ_SECONDS = 30.0
TRIES = 5  # without a byte of progress


def endpoint() -> str:
    """The hub's address."""
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def resolve_url(repository: str, revision: str, file: str) -> str:
    """The address of a file at a revision."""
    return f"{endpoint()}/{quote(repository)}/resolve/{quote(revision, safe='')}/{quote(file)}"


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository: name, bytes, SHA-256 (hex) where the hub knows it (large files)."""

    name: str
    size: int
    sha256: str | None


def list_files(repository: str, revision: str = "main") -> tuple[str, list[HubFile]]:
    """The commit behind `revision`, and its files. Raises `SourceFailed`."""
    url = f"{endpoint()}/api/models/{quote(repository)}/revision/{quote(revision, safe='')}?blobs=true"
    check_reachable(url)
    try:
        with _client() as client:
            answer = client.get(url)
        if answer.status_code != 200:
            raise SourceFailed(_explain(answer.status_code, repository))
        description = answer.json()
        files = [
            HubFile(entry["rfilename"], entry["size"], (entry.get("lfs") or {}).get("sha256"))
            for entry in description["siblings"]
        ]
        return description["sha"], files
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        raise SourceFailed(f"{urlsplit(url).netloc} gave no list of files ({error!r})") from error


def download(url: str, part: Path, size: int, meter: ProgressMeter) -> None:
    """Fetch `url` into `part`, continuing what is there. Raises `SourceFailed`, `DiskFull`.

    `size` is the file's length in bytes. A broken connection is taken up again; `part` stays for next time.
    """
    check_reachable(url)
    failures, first = 0, part.stat().st_size if part.exists() else 0
    while (done := part.stat().st_size if part.exists() else 0) != size:
        if done > size:
            part.unlink()  # left over from another file
            continue
        try:
            _continue(url, part, done, meter)
        except httpx.HTTPError as error:
            now = part.stat().st_size if part.exists() else 0
            failures = 0 if now > done else failures + 1
            unreachable = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) and now == first
            if unreachable or failures == TRIES:  # what never answered will not, the next source may
                raise SourceFailed(f"the connection failed: {error or type(error).__name__}") from error
            time.sleep(min(0.25 * 2**failures, 5))
            continue
        except OSError as error:
            if is_disk_full(error):
                raise disk_full(part.parent, size - done) from error
            raise
        if (part.stat().st_size if part.exists() else 0) <= done:
            raise SourceFailed(f"the server ended the file at {done:,} of {size:,} bytes")


def check_reachable(url: str) -> None:
    """Raise `SourceFailed` soon if the name does not resolve; the resolver knows no timeout of its own."""
    parts = urlsplit(url)
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return  # the proxy resolves names
    outcome: list[BaseException | None] = []

    def resolve() -> None:
        try:
            socket.getaddrinfo(parts.hostname, parts.port or 443)
            outcome.append(None)
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=resolve, daemon=True)
    thread.start()
    thread.join(CONNECT_SECONDS)
    if not outcome or outcome[0] is not None:
        raise SourceFailed(f"{parts.hostname} cannot be reached")


def _continue(url: str, part: Path, done: int, meter: ProgressMeter) -> None:
    headers = {"Range": f"bytes={done}-"} if done else {}
    with _client() as client, client.stream("GET", url, headers=headers) as answer:
        if answer.status_code >= 500:
            answer.raise_for_status()
        if answer.status_code not in (200, 206):
            raise SourceFailed(_explain(answer.status_code, url))
        resumed = answer.status_code == 206 and _starts_at(answer, done)
        with part.open("ab" if resumed else "wb") as file:
            done = done if resumed else 0
            for block in answer.iter_raw():  # as they come: a larger buffer would be lost with the connection
                file.write(block)
                done += len(block)
                meter.update(done)


def _starts_at(answer: httpx.Response, done: int) -> bool:
    return str(answer.headers.get("Content-Range")).startswith(f"bytes {done}-")


def _client() -> httpx.Client:
    headers = {"User-Agent": "miton", "Accept-Encoding": "identity"}
    if token := os.environ.get("HF_TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
    return httpx.Client(
        headers=headers, follow_redirects=True, timeout=httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    )


def _explain(status: int, what: str) -> str:
    if status in (401, 403):
        return f"{what} does not exist or needs permission (HTTP {status}); set HF_TOKEN if you have access"
    return f"{what} is not there (HTTP {status})" if status == 404 else f"the server answered HTTP {status}"
