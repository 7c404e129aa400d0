"""The language server's session against a real service: what an editor types reaches it, in order."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from lsprotocol import types

from miton_lsp import session
from miton_lsp.client import Refused, ServiceClient, Unreachable
from miton_lsp.options import Options
from miton_lsp.session import MitonServer
from miton_service.service import Service
from miton_service.settings import ServiceSettings

from .conftest import RunningService, running


def _server(url: str, root: Path, start_command: Sequence[str] = ()) -> MitonServer:
    server = MitonServer("0", start_command)
    server.client = ServiceClient(url)
    server.roots.add(root.as_uri())
    return server


def _free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def _open(server: MitonServer, uri: str, text: str, version: int = 1) -> None:
    item = types.TextDocumentItem(uri=uri, language_id="python", version=version, text=text)
    server.did_open(types.DidOpenTextDocumentParams(item))


def _type(server: MitonServer, uri: str, text: str, version: int) -> None:
    changed = types.VersionedTextDocumentIdentifier(uri=uri, version=version)
    change = types.TextDocumentContentChangeWholeDocument(text=text)
    server.did_change(types.DidChangeTextDocumentParams(changed, [change]))


def _close(server: MitonServer, uri: str) -> None:
    server.did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))


async def _settle(server: MitonServer) -> None:
    while running_now := [push for push in server._pushes.values() if not push.done()]:
        await asyncio.wait(running_now)


def _served(service: Service, root: Path, path: str) -> str | None:
    document = service.workspace(str(root)).documents.get(path)
    return document.text if document is not None and document.expires is None else None


def test_the_last_of_many_keys_arrives_and_a_closed_document_is_dropped(
    running_service: RunningService, repository: Path
) -> None:
    uri = (repository / "shop" / "typed.py").as_uri()

    async def typing() -> None:
        server = _server(running_service.url, repository)
        _open(server, uri, "x = 0\n")
        for key in range(1, 40):
            _type(server, uri, f"x = {key}\n", key + 1)
            await asyncio.sleep(0.001 * (key % 3))
        await _settle(server)
        assert _served(running_service.service, repository, "shop/typed.py") == "x = 39\n"
        _close(server, uri)
        await _settle(server)
        assert _served(running_service.service, repository, "shop/typed.py") is None
        await server.close()

    asyncio.run(typing())


@pytest.mark.parametrize("pause", [False, True])
def test_a_document_opened_again_starts_its_versions_anew(
    running_service: RunningService, repository: Path, pause: bool
) -> None:
    uri = (repository / "shop" / "again.py").as_uri()

    async def reopening() -> None:
        server = _server(running_service.url, repository)
        _open(server, uri, "first = 1\n", version=7)
        await _settle(server)
        _close(server, uri)
        if pause:
            await _settle(server)
        _open(server, uri, "second = 2\n", version=1)
        await _settle(server)
        assert _served(running_service.service, repository, "shop/again.py") == "second = 2\n"
        _close(server, uri)
        await _settle(server)
        await server.close()

    asyncio.run(reopening())


def test_a_service_that_comes_later_gets_what_was_typed_before(
    tiny_model: Path, repository: Path, tmp_path: Path
) -> None:
    nowhere = _free_address()
    uri = (repository / "shop" / "early.py").as_uri()
    settings = ServiceSettings(model=str(tiny_model), cache_dir=tmp_path, workspaces=(repository,), port=0)

    async def waiting() -> None:
        server = _server(nowhere, repository)
        _open(server, uri, "early = 1\n")
        await _settle(server)
        assert not await server.reach_service()
        with running(settings) as started:
            server.client = ServiceClient(started.url)
            assert await server.reach_service()
            server.push_all()
            await _settle(server)
            assert _served(started.service, repository, "shop/early.py") == "early = 1\n"
            await server.close()

    asyncio.run(waiting())


def test_a_loading_service_is_waited_for(tiny_model: Path, repository: Path, tmp_path: Path) -> None:
    settings = ServiceSettings(model=str(tiny_model), cache_dir=tmp_path, port=0)

    async def loading() -> None:
        with running(settings, load=False) as started:
            server = _server(started.url, repository)
            reached = asyncio.ensure_future(server.reach_service())
            await asyncio.sleep(0.4)
            assert not reached.done()
            await asyncio.to_thread(started.service.load)
            assert await reached
            await server.close()

    asyncio.run(loading())


DEAF = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "a").write("started\\n")
time.sleep(600)
"""
IMPATIENT = {"START_PATIENCE_S": 4.0, "STOP_PATIENCE_S": 0.5}


def test_one_service_is_started_and_gone_after_the_end_though_deaf(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in IMPATIENT.items():
        monkeypatch.setattr(session, name, value)

    async def starting() -> None:
        server = _server(_free_address(), repository, [sys.executable, "-c", DEAF, str(tmp_path / "starts")])
        server.options = Options(start=True)
        assert await asyncio.gather(server.reach_service(), server.reach_service()) == [False, False]
        assert (tmp_path / "starts").read_text() == "started\n"
        child = server._started
        assert child is not None
        late = asyncio.ensure_future(server.reach_service())
        await asyncio.sleep(0)
        await server.close()
        assert not await late
        assert child.wait(5) == -signal.SIGKILL

    asyncio.run(starting())


@pytest.mark.parametrize("command", [["/nowhere/miton"], [sys.executable, "-c", "raise SystemExit(1)"]])
def test_a_service_that_cannot_start_is_told(repository: Path, command: list[str]) -> None:
    async def starting() -> None:
        server = _server(_free_address(), repository, command)
        server.options = Options(start=True)
        assert not await server.reach_service()
        assert server._told
        await server.close()

    asyncio.run(starting())


def test_a_remote_service_is_never_started_here(repository: Path, tmp_path: Path) -> None:
    async def starting() -> None:
        server = _server("http://192.0.2.1:9", repository, ["touch", str(tmp_path / "started")])
        server.options = Options(start=True)
        assert not server._start_service()
        await server.close()

    asyncio.run(starting())
    assert not (tmp_path / "started").exists()


def test_refusals_and_other_programs_are_told_apart(
    running_service: RunningService, repository: Path
) -> None:
    async def other_program(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = json.dumps({"hello": "world"}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    async def asking() -> None:
        client = ServiceClient(running_service.url)
        with pytest.raises(Refused, match=r"link\.py") as refused:
            await client.put_document(repository, "link.py", "", 1)
        assert refused.value.status == 403
        await client.close()
        async with await asyncio.start_server(other_program, "127.0.0.1", 0) as other:
            client = ServiceClient(f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}")
            with pytest.raises(Unreachable, match="is not Miton"):
                await client.health()
            await client.close()

    asyncio.run(asking())
