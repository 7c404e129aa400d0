"""What the features share: the documents, the folders, the service, and what the editor asked for at start."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

from miton_lsp.chunking.positions import PositionEncoding
from miton_lsp.client import Refused, ServiceClient, ServiceError, Unreachable
from miton_lsp.documents import Document, Documents
from miton_lsp.roots import Place, Roots

log = logging.getLogger("miton.lsp")

START_PATIENCE_S = 120.0
PROMPT_CHARACTERS, SUFFIX_CHARACTERS = 6000, 2000  # of a file outside all workspace folders


@dataclass(frozen=True)
class Options:
    """`initializationOptions` of the editor."""

    url: str = field(default_factory=lambda: os.environ.get("MITON_URL", "http://127.0.0.1:8377"))
    token: str = field(default_factory=lambda: os.environ.get("MITON_TOKEN", ""))
    start: bool = False  # start the service when none answers
    model: str = ""  # of a service that is started
    max_tokens: int = 128

    @classmethod
    def read(cls, given: Any) -> tuple[Options, list[str]]:
        """Options from what an editor sent, and what was wrong with it in words."""
        wrong: list[str] = []
        values: dict[str, Any] = {}
        names = {"maxTokens" if f.name == "max_tokens" else f.name: f.name for f in fields(cls)}
        defaults = cls()
        items = given.items() if isinstance(given, dict) else []
        for key, value in items:
            name = names.get(key)
            if name is None:
                wrong.append(f"{key} is no option; there are {', '.join(names)}")
            elif type(value) is not type(getattr(defaults, name)):
                wrong.append(f"{key} is {value!r}; it must be like {getattr(defaults, name)!r}")
            else:
                values[name] = value
        return cls(**values), wrong


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
    """The language server. Features are registered on it by `miton_lsp.server`."""

    def __init__(self, version: str) -> None:
        super().__init__(
            "miton", version, text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            protocol_cls=Protocol,
        )  # fmt: skip
        self.documents, self.roots = Documents(), Roots()
        self.options = Options()
        self.client = ServiceClient(self.options.url, self.options.token)
        self._pushes: dict[str, asyncio.Task[None]] = {}
        self._told: set[str] = set()
        self._started: subprocess.Popen[bytes] | None = None

    @property
    def encoding(self) -> PositionEncoding:
        """The negotiated position encoding."""
        chosen = self.protocol.workspace.position_encoding
        return cast("PositionEncoding", getattr(chosen, "value", "utf-16"))

    # -- documents -------------------------------------------------------------------------------------------------

    def did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        item = params.text_document
        self._push(self.documents.open(item.uri, item.language_id, item.version, item.text))

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
        self._push(document)

    def did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        document = self.documents.close(params.text_document.uri)
        place = None if document is None else self.roots.place(document.uri)
        if document is not None and place is not None:
            self._replace_push(document.uri, self._quietly(self.client.drop_document(place.root, place.path)))

    def push_all(self) -> None:
        """Give the service every open document (again)."""
        for document in self.documents:
            self._push(document)

    def _push(self, document: Document) -> None:
        place = self.roots.place(document.uri)
        if place is not None:
            self._replace_push(document.uri, self._push_soon(document, place))

    def _replace_push(self, uri: str, work: Any) -> None:
        """One push of a document at a time; a newer one takes the place of one that has not begun."""
        before = self._pushes.get(uri)

        async def after_the_one_before() -> None:
            if before is not None and not before.done():
                await asyncio.wait([before])
            await work

        self._pushes[uri] = asyncio.ensure_future(after_the_one_before())

    async def _push_soon(self, document: Document, place: Place) -> None:
        """Push the text as it is when the turn comes; keys that came meanwhile are in it."""
        if self.documents.get(document.uri) is not document or document.pushed == document.version:
            return
        version, text = document.version, document.text
        await self._quietly(self.client.put_document(place.root, place.path, text, version))
        document.pushed = version

    async def _quietly(self, call: Any) -> None:
        try:
            await call
        except Refused as error:
            log.info("%s", error)  # an ignored or secret file: a completion there says the same
        except Unreachable as error:
            self.tell_once(str(error))

    # -- the service -----------------------------------------------------------------------------------------------

    def request_at(self, document: Document, position: types.Position) -> dict[str, Any]:
        """The body of a completion at a position: by file and cursor, or by the text of a file of no folder."""
        offset = document.offset(position.line, position.character, self.encoding)
        place = self.roots.place(document.uri)
        if place is None:
            text, size = document.index.source, len(document.index.source)
            before = document.slice(0, offset)[-PROMPT_CHARACTERS:]
            after = text[offset:size].decode("utf-8", "surrogatepass")[:SUFFIX_CHARACTERS]
            return {"prompt": before, "suffix": after, "temperature": 0}
        line, character = document.index.position(offset, "utf-16")
        return {
            "workspace": str(place.root), "path": place.path, "buffer": document.text,
            "cursor": {"line": line, "character": character},
        }  # fmt: skip

    async def ask(self, call: Any) -> dict[str, Any] | None:
        """The service's answer, or None after telling the user once why there is none."""
        try:
            answer: dict[str, Any] = await call
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
        """Whether a service answers, after starting one if the editor asked for that."""
        with contextlib.suppress(ServiceError):
            await self.client.health()
            return True
        if not self.options.start:
            self.tell_once(
                f"Miton: no service answers at {self.client.url}. Start it with `miton serve`, or set "
                '`"start": true` in the initializationOptions.'
            )
            return False
        return await self._start_service()

    async def _start_service(self) -> bool:
        port = self.client.url.rpartition(":")[2]
        command = [sys.executable, "-m", "miton_service", "serve", "--log-level", "warning"]
        command += ["--port", port] if port.isdigit() else []
        command += ["--model", self.options.model] if self.options.model else []
        log_file = Path(tempfile.gettempdir()) / f"miton-lsp-{os.getpid()}.log"
        with log_file.open("wb") as output:
            self._started = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self.window_show_message(
            types.ShowMessageParams(
                types.MessageType.Info, f"Miton: starting the service; its log is {log_file}."
            )
        )
        deadline = asyncio.get_running_loop().time() + START_PATIENCE_S
        while asyncio.get_running_loop().time() < deadline and self._started.poll() is None:
            with contextlib.suppress(ServiceError):
                if (await self.client.health()).get("state", "ready") == "ready":
                    return True
            await asyncio.sleep(0.25)
        self.tell_once(f"Miton: the service did not start; {log_file} tells why.", types.MessageType.Error)
        return False

    async def close(self) -> None:
        """End what was begun; a service that this server started ends with it."""
        for task in self._pushes.values():
            task.cancel()
        await self.client.close()
        if self._started is not None and self._started.poll() is None:
            self._started.terminate()
            await asyncio.to_thread(self._started.wait)
