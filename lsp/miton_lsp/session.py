"""What the features share: the open documents, the workspace folders, and the way to the service."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import tempfile
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

from miton_lsp.chunking.positions import LineIndex, PositionEncoding
from miton_lsp.client import Refused, ServiceClient, ServiceError
from miton_lsp.documents import Document, Documents
from miton_lsp.options import Options
from miton_lsp.roots import Roots

log = logging.getLogger("miton.lsp")

START_PATIENCE_S, STOP_PATIENCE_S, POLL_S = 120.0, 5.0, 0.25
LOOPBACK = ("127.0.0.1", "localhost", "::1")
PROMPT_CHARACTERS, SUFFIX_CHARACTERS = 6000, 2000  # of a file outside all workspace folders


class Protocol(LanguageServerProtocol):
    """Documents are ours alone: pygls ends lines at form feeds and other letters, where the LSP has none."""

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        self._server.did_open(params)  # type: ignore[attr-defined]

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        self._server.did_change(params)  # type: ignore[attr-defined]

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        self._server.did_close(params)  # type: ignore[attr-defined]


class MitonServer(LanguageServer):
    """The language server's state. `start_command` starts a service, for editors that ask for that."""

    def __init__(self, version: str, start_command: Sequence[str]) -> None:
        super().__init__(
            "miton", version, text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            protocol_cls=Protocol,
        )  # fmt: skip
        self.documents, self.roots = Documents(), Roots()
        self.options = Options()
        self.client = ServiceClient(self.options.url, self.options.token)
        self._start_command = start_command
        self._served: dict[str, tuple[Document, LineIndex]] = {}  # what the service has of each
        self._pushes: dict[str, asyncio.Task[None]] = {}
        self._told: set[str] = set()
        self._started: subprocess.Popen[bytes] | None = None
        self._log_file = Path(tempfile.gettempdir()) / f"miton-lsp-{os.getpid()}.log"
        self._reaching, self._closed = asyncio.Lock(), False

    @property
    def encoding(self) -> PositionEncoding:
        """The negotiated position encoding."""
        chosen = self.protocol.workspace.position_encoding or types.PositionEncodingKind.Utf16
        return types.PositionEncodingKind(chosen).value

    # -- documents -------------------------------------------------------------------------------------------------

    def did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        item = params.text_document
        self.documents.open(item.uri, item.language_id, item.version, item.text)
        self._push(item.uri)

    def did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        document = self.documents.get(params.text_document.uri)
        if document is None:
            log.warning("a change of %s, which is not open, is left out", params.text_document.uri)
            return
        for change in params.content_changes:
            if isinstance(change, types.TextDocumentContentChangePartial):
                start, end = change.range.start, change.range.end
                document.replace(
                    document.offset(start.line, start.character, self.encoding),
                    document.offset(end.line, end.character, self.encoding),
                    change.text,
                )
            else:
                document.replace(0, len(document.index.source), change.text)
        document.version = params.text_document.version
        self._push(document.uri)

    def did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        document = self.documents.close(params.text_document.uri)
        if document is not None:
            self._push(document.uri)

    def push_all(self) -> None:
        """Give every open document to a service that has none of them yet."""
        self._served.clear()
        for document in self.documents:
            self._push(document.uri)

    def _push(self, uri: str) -> None:
        """See to it that the service gets a document as it is now; one push of a document runs at a time."""
        running = self._pushes.get(uri)
        if running is None or running.done():
            self._pushes[uri] = asyncio.ensure_future(self._push_until_same(uri))

    async def _push_until_same(self, uri: str) -> None:
        """What is typed during a push goes with the next one; a closed document is dropped.

        So is one that was opened again meanwhile: its versions begin anew, and the service takes none backwards.
        """
        place = self.roots.place(uri)
        while place is not None:
            document = self.documents.get(uri)
            owner, text = self._served.get(uri, (None, None))
            try:
                if owner is not None and owner is not document:
                    await self.client.drop_document(place.root, place.path)
                    del self._served[uri]
                elif document is not None and document.index is not text:
                    index = document.index
                    await self.client.put_document(place.root, place.path, document.text, document.version)
                    self._served[uri] = document, index
                else:
                    return
            except Refused as error:
                log.info("%s", error)  # a file that the service never reads: a completion there says the same
                return
            except ServiceError as error:
                self.tell_once(str(error))
                return

    # -- the service -----------------------------------------------------------------------------------------------

    def request_at(self, document: Document, position: types.Position) -> dict[str, Any]:
        """The body of a completion at a position: by file and cursor, or by the text of a file of no folder."""
        offset = document.offset(position.line, position.character, self.encoding)
        place = self.roots.place(document.uri)
        if place is None:
            before = document.slice(0, offset)[-PROMPT_CHARACTERS:]
            after = document.slice(offset, None)[:SUFFIX_CHARACTERS]
            return {"prompt": before, "suffix": after, "temperature": 0}
        line, character = document.index.position(offset, "utf-16")
        return {
            "workspace": str(place.root), "path": place.path, "buffer": document.text,
            "cursor": {"line": line, "character": character},
        }  # fmt: skip

    async def ask(self, call: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any] | None:
        """The service's answer, or None after telling the user once why there is none."""
        try:
            answer = await call
        except ServiceError as error:
            self.tell_once(str(error))
            return None
        self._told.clear()
        return answer

    def tell_once(self, message: str, kind: types.MessageType = types.MessageType.Warning) -> None:
        """Show a message; the same one again only after the service has answered in between."""
        if message not in self._told:
            self._told.add(message)
            self.window_show_message(types.ShowMessageParams(kind, message))

    async def reach_service(self) -> bool:
        """Whether a service is ready to answer, after waiting for one that loads or starting one if asked to."""
        async with self._reaching:  # two that find none must not start two
            loop = asyncio.get_running_loop()
            deadline = loop.time() + START_PATIENCE_S
            while not self._closed and loop.time() < deadline:
                state = await self._state()
                if state == "ok":
                    self._told.clear()
                    return True
                if state is None and not self._is_starting() and not self._start_service():
                    return False
                if state == "error":
                    break
                await asyncio.sleep(POLL_S)
            if not self._closed:
                message = f"Miton: the service at {self.client.url} did not become ready; its log tells why."
                self.tell_once(message, types.MessageType.Error)
            return False

    async def _state(self) -> str | None:
        """The service's own word for its state ("ok", "loading", ...); None if nothing answers."""
        with contextlib.suppress(ServiceError):
            return str((await self.client.health())["status"])
        return None

    def _is_starting(self) -> bool:
        return self._started is not None and self._started.poll() is None

    def _start_service(self) -> bool:
        """Start one if the editor asked for that, once; else tell how."""
        where = urlsplit(self.client.url)
        if self._started is not None:
            self.tell_once(f"Miton: the service ended; {self._log_file} tells why.", types.MessageType.Error)
            return False
        if self._closed or not self.options.start or where.hostname not in LOOPBACK:
            self.tell_once(
                f"Miton: no service answers at {self.client.url}. Start it with `miton serve`, or, for one on this "
                'machine, set `"start": true` in the initializationOptions.'
            )
            return False
        command = [*self._start_command, "--port", str(where.port or 80)]
        command += ["--model", self.options.model] if self.options.model else []
        try:
            with self._log_file.open("wb") as output:
                self._started = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
                )
        except OSError as error:
            self.tell_once(f"Miton: the service cannot be started: {error}.", types.MessageType.Error)
            return False
        message = f"Miton: starting the service; its log is {self._log_file}."
        self.window_show_message(types.ShowMessageParams(types.MessageType.Info, message))
        return True

    async def close(self) -> None:
        """End what was begun; a service that this server started ends with it."""
        self._closed = True
        for task in self._pushes.values():
            task.cancel()
        if self._started is not None and self._started.poll() is None:
            self._started.terminate()
            try:
                await asyncio.to_thread(self._started.wait, STOP_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._started.kill()
        async with self._reaching:
            await self.client.close()
