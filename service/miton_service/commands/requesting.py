"""`miton complete`, `miton ask`, `miton index`, `miton status`: what a person asks of the running service."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from miton_service.commands.client import ServiceClient
from miton_service.commands.output import print_json
from miton_service.commands.places import Place, containing, repository_of
from miton_service.errors import ServiceError

POLL_S = 0.3


def complete(
    client: ServiceClient, place: Place, *, max_tokens: int, show_context: bool, as_json: bool, notes: Console
) -> None:
    """Print the completion at a place as it is written."""
    root = _workspace_for(client, place.file, notes)
    body = {
        "workspace": str(root),
        "path": place.file.relative_to(root).as_posix(),
        "cursor": {"line": place.line, "character": place.character},
        "buffer": place.text,
        "max_tokens": max_tokens,
    }
    if as_json:
        print_json(client.post("/v1/completions", body))
        return
    last: dict[str, Any] = {}
    for event in client.stream("/v1/completions", body):
        for choice in event["choices"]:
            _write(choice["text"])
        last = event
    _write("\n")
    if show_context:
        _print_context(last.get("miton", {}), notes)


def ask(
    client: ServiceClient,
    question: str,
    *,
    workspace: Path | None,
    max_tokens: int,
    as_json: bool,
    notes: Console,
) -> None:
    """Print the answer to a question about a workspace as it is written, then what it was based on."""
    root = workspace.resolve() if workspace is not None else Path.cwd()
    opened = _workspace_for(client, root, notes)
    body = {
        "messages": [{"role": "user", "content": question}],
        "workspace": str(opened),
        "temperature": 0,
        "max_tokens": max_tokens,
    }
    if as_json:
        print_json(client.post("/v1/chat/completions", body))
        return
    last: dict[str, Any] = {}
    for event in client.stream("/v1/chat/completions", body):
        for choice in event["choices"]:
            _write(choice["delta"].get("content") or "")
        last = event
    _write("\n")
    _print_context(last.get("miton", {}), notes)


def index(client: ServiceClient, root: Path, *, wait: bool, as_json: bool, notes: Console) -> None:
    """Open a workspace and follow its indexing to the end."""
    snapshot = client.post("/v1/workspaces", {"root": str(root.resolve())})
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=notes, transient=True, disable=not notes.is_terminal) as bars:
        bar = bars.add_task(f"indexing {snapshot['root']}", total=None, left="")
        while wait and snapshot["state"] == "indexing":
            time.sleep(POLL_S)
            listed = client.get("/v1/workspaces")["data"]
            found = [item for item in listed if item["root"] == snapshot["root"]]
            if not found:
                raise ServiceError(f"{snapshot['root']} was closed while it was indexed.")
            (snapshot,) = found
            seconds = snapshot.get("seconds_left")
            left = f"tokens, {seconds:.0f} s left" if seconds is not None else "tokens"
            bars.update(
                bar, completed=snapshot["indexed_tokens"], total=snapshot["tokens"] or None, left=left
            )
    if as_json:
        print_json(snapshot)
        return
    print(_workspace_line(snapshot))
    if snapshot["state"] == "error":
        raise ServiceError(
            f"{snapshot['root']} could not be indexed: {snapshot.get('error') or 'see the log'}"
        )
    for item in snapshot["skipped"][:5]:
        notes.print(f"  skipped {item['path']}: {item['reason']}", highlight=False)
    if len(snapshot["skipped"]) > 5:
        notes.print(
            f"  and {len(snapshot['skipped']) - 5} more; GET /v1/workspaces lists them", highlight=False
        )


def status(client: ServiceClient, *, as_json: bool, console: Console) -> None:
    """Print what the service is, holds and last did."""
    health = client.health()
    if health["status"] in ("loading", "error"):
        if as_json:
            print_json(health)
        else:
            loading = health.get("loading", {})
            console.print(
                f"{client.url}: {health['status']} {loading.get('stage') or health.get('message', '')}"
            )
        return
    state = client.get("/v1/status")
    workspaces = client.get("/v1/workspaces")["data"]
    requests = client.get("/v1/requests?limit=5")["data"]
    if as_json:
        print_json({"url": client.url, **state, "workspaces": workspaces, "requests": requests})
        return
    engine = state.get("engine", {})
    console.print(
        f"[bold]{client.url}[/bold]  {state['status']}, version {state['version']}", highlight=False
    )
    console.print(
        f"model {engine.get('model')} ({engine.get('dtype')}, {engine.get('threads')} threads)",
        highlight=False,
    )
    settings = state["settings"]
    console.print(
        f"limits: {settings['memory_bytes'] / 2**30:.1f} GB memory, "
        f"{settings['disk_bytes'] / 2**30:.0f} GB disk, "
        f"{settings['context_tokens']} context tokens; token {settings['token']}",
        highlight=False,
    )
    for item in workspaces:
        console.print(_workspace_line(item), highlight=False)
    if not workspaces:
        console.print("no workspace is open; `miton index DIR` opens one", highlight=False)
    if requests:
        console.print(_request_table(requests))


def _workspace_for(client: ServiceClient, path: Path, notes: Console) -> Path:
    """The open workspace a path is in; opens its repository when there is none."""
    roots = [item["root"] for item in client.get("/v1/workspaces")["data"]]
    if (found := containing(path, roots)) is not None:
        return found
    root = repository_of(path)
    opened = client.post("/v1/workspaces", {"root": str(root)})
    notes.print(f"opened {root} (indexing goes on in the background)", style="dim", highlight=False)
    return Path(opened["root"])


def _workspace_line(item: dict[str, Any]) -> str:
    share = f"{item['indexed_tokens'] / item['tokens']:.0%}" if item["tokens"] else "0%"
    return (
        f"{item['root']}: {item['state']}, {item['files']} files, {item['chunks']} chunks, "
        f"{item['indexed_tokens']:,} of {item['tokens']:,} tokens in memory ({share}), "
        f"{len(item['skipped'])} skipped"
    )


def _request_table(requests: Iterable[dict[str, Any]]) -> Table:
    table = Table(title="last requests", title_justify="left", box=None, pad_edge=False)
    for name in ("when", "kind", "path", "outcome"):
        table.add_column(name)
    for name in ("first token", "new", "from memory", "written"):
        table.add_column(name, justify="right")
    for item in requests:
        timings = item["timings"]
        table.add_row(
            time.strftime("%X", time.localtime(item["time"])), item["kind"], item["path"] or "-",
            item["outcome"],
            f"{timings['recall_ms'] + timings['ttft_ms']:.0f} ms", str(timings["prefill_tokens"]),
            str(timings["cached_tokens"]), str(timings["decode_tokens"]),
        )  # fmt: skip
    return table


def _print_context(miton: dict[str, Any], notes: Console) -> None:
    for item in miton.get("context", []):
        where = f"{item['path']}:{item['start_line'] + 1}"
        reasons = ", ".join(item["reasons"])
        notes.print(
            f"  {where} {item['symbol']}  ({item['tokens']} tokens; {reasons})", style="dim", highlight=False,
            soft_wrap=True,
        )  # fmt: skip


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
