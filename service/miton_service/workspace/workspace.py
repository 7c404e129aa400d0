"""One open workspace: its files, their chunks and symbols, open buffers, and how far its memory is built."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from miton_lsp.chunking import Chunk, ChunkedFile, ChunkOptions, chunk_file, decode_text, rechunk
from miton_lsp.symbols import SymbolGraph, file_symbols
from miton_service.workspace.bm25 import BM25Index
from miton_service.workspace.choices import Choice, Choices, Kind
from miton_service.workspace.errors import WorkspaceError
from miton_service.workspace.file_state import Document, FileState
from miton_service.workspace.filters import (
    reason_by_bytes,
    reason_by_text,
)
from miton_service.workspace.progress import Progress
from miton_service.workspace.walk import Listing, examine, read_bytes, reason_of_buffer

ANCHOR_TOKENS = 8  # what the anchor adds to a chunk, about
SETTLE_S = 1.5  # a chunk being typed in is not memorised at every key, and its symbols are not read again
LENT_S = 60.0  # how long a buffer that came with a request counts when nothing follows it
RECENT_FILES = 8


class Workspace:
    """Holds everything recall needs. Thread-safe; nothing here computes KV.

    Attributes are read under `lock`; only methods change them.
    """

    def __init__(self, root: Path, options: ChunkOptions, choices: Choices | None = None) -> None:
        self.root = root
        self.choices = choices or Choices(root)
        self.lock = threading.RLock()
        self.graph = SymbolGraph()
        self.bm25 = BM25Index()
        self.files: dict[str, FileState] = {}
        self.documents: dict[str, Document] = {}
        self.recent: dict[str, float] = {}  # path -> when it was last edited or asked about
        self.skipped: dict[str, str] = {}
        self.failed: dict[str, str] = {}  # path -> why a chunk of it could not be memorised
        self.error = ""
        self.watch_error = ""
        self.scanned = False
        self.opened = time.time()
        self.progress = Progress()
        self.selections: dict[str, Any] = {}  # recall's last choice per file
        self._options = options
        self._live: dict[str, ChunkedFile] = {}  # with syntax trees: of open files only
        self._indexed: dict[str, set[str]] = {}  # path -> content hashes whose KV is stored
        self._pending: dict[str, None] = {}  # paths with chunks whose KV is not stored, as they came
        self._symbols_due: set[str] = set()
        self._tickets = itertools.count(1)
        self._listing: Listing | None = None

    # -- files -------------------------------------------------------------------------------------------------

    def read(self, path: str) -> FileState | None:
        """Take the file as it is now: the open buffer, else the disk. None if it is gone, ignored or skipped."""
        with self.lock:
            ticket = next(self._tickets)
            document, known = self.documents.get(path), self.files.get(path)
        if document is not None:
            return self._take(path, document.text, (), ticket, document.crlf)
        found = examine(self.root, path)
        if found is None or not self._is_listed(path):
            self._forget(path, ticket)
            return None
        if known is not None and found.stamp == known.stamp:
            return known
        reason = found.reason
        if reason is None:
            try:
                data = read_bytes(self.root, path)
            except FileNotFoundError:
                self._forget(path, ticket)
                return None
            except OSError as error:
                self._skip(path, f"unreadable: {error.strerror}", ticket)
                return None
            if (reason := reason_by_bytes(data)) is None:
                decoded = decode_text(data)
                if (reason := reason_by_text(path, decoded.text)) is None:
                    return self._take(path, decoded.text, found.stamp, ticket, decoded.newline == "\r\n")
        self._skip(path, reason, ticket)
        return None

    def skip(self, path: str, reason: str) -> None:
        """The file is not read, for a reason that can be asked for."""
        with self.lock:
            if path not in self.documents:
                self._skip(path, reason, next(self._tickets))

    def forget(self, path: str) -> None:
        """The file is gone: nothing of it is recalled any more."""
        with self.lock:
            self._forget(path, next(self._tickets))

    def rules_changed(self) -> None:
        """Ignore files may say something else now."""
        listing = Listing(self.root)
        with self.lock:
            self._listing = listing

    # -- buffers -----------------------------------------------------------------------------------------------

    def put_document(self, path: str, text: str, version: int) -> None:
        """An editor's buffer. Raises `WorkspaceError`, keeping nothing, when its version goes backwards or it is
        a file never read."""
        self._refuse(path, text)
        with self.lock:
            known = self.documents.get(path)
            pushed = known is not None and known.expires is None
            if known is not None and pushed and version < known.version:
                raise WorkspaceError(
                    f"{path} is open at version {known.version}; version {version} is older. Send newer ones only."
                )
            edited = time.monotonic() if pushed else 0.0
            self.documents[path] = Document(_unix(text), version, edited, crlf="\r\n" in text)
            self.recent[path] = time.time()
        if self._is_listed(path):
            self.read(path)

    def lend_buffer(self, path: str, text: str) -> None:
        """A request's unsaved text: seen like an open document, for a while, without one having been pushed."""
        self._refuse(path, text)
        now = time.monotonic()
        with self.lock:
            known = self.documents.get(path)
            document = Document(_unix(text), 0, now, now + LENT_S, "\r\n" in text)
            if known is not None and known.expires is None:
                document = replace(document, version=known.version, expires=None)
            self.documents[path] = document
        if self._is_listed(path):
            self.read(path)

    def drop_document(self, path: str) -> None:
        """The editor closed the buffer; the file on disk counts again. Unknown paths are let pass."""
        with self.lock:
            self.documents.pop(path, None)
            self._live.pop(path, None)
        self.read(path)

    def drop_lent_buffer(self, path: str) -> None:
        """Drop what an earlier request lent, for a request without a buffer means the file as it is. A document
        that an editor has open stays."""
        with self.lock:
            known = self.documents.get(path)
        if known is not None and known.expires is not None:
            self.drop_document(path)

    def expire_buffers(self) -> None:
        """Drop what requests lent and did not come back for."""
        now = time.monotonic()
        with self.lock:
            old = [p for p, d in self.documents.items() if d.expires is not None and d.expires < now]
        for path in old:
            self.drop_document(path)

    def text_of(self, path: str) -> tuple[str, bool]:
        """LF text of an open document or of the file on disk, and whether its lines end in CRLF.

        Raises `WorkspaceError`, saying why, for a file that is not there or not read.
        """
        self._refuse(path, "")
        with self.lock:
            document = self.documents.get(path)
        if document is not None:
            return document.text, document.crlf
        state = self.read(path)
        if state is not None:
            return state.text, state.crlf
        with self.lock:
            reason = self.skipped.get(path, "")
        if reason == "empty":
            return "", False
        if not reason:
            known = examine(self.root, path) is not None
            reason = "git ignores it" if known else "there is no such file"
        raise WorkspaceError(
            f"{path} cannot be used ({reason}). Send its text as `buffer`, or name another file."
        )

    # -- what a user chose -------------------------------------------------------------------------------------

    def choose(self, path: str, symbol: str, kind: Kind | None) -> None:
        """Attach a file's symbol (the whole file if it is empty) always or never; None: as recall finds.

        Raises `WorkspaceError` for one that is not there, and if it cannot be kept.
        """
        with self.lock:
            state = self.files.get(path)
        if kind is not None:
            if state is None:
                raise WorkspaceError(
                    f"{path} is none of the workspace's files; GET /v1/workspaces tells why not."
                )
            choice = Choice(path, symbol, kind)
            if not any(choice.covers(chunk) for chunk in state.chunks):
                raise WorkspaceError(
                    f"{path} has no chunk called {symbol!r}; take a symbol from a `context`."
                )
        self.choices.set(path, symbol, kind)
        with self.lock:
            self.selections.clear()

    # -- what is to be memorised -------------------------------------------------------------------------------

    def next_chunks(self, count: int) -> list[tuple[Chunk, int]]:
        """Up to `count` chunks whose KV is not stored yet, with tokens: open files, what they import and their
        neighbours, then the rest."""
        with self.lock:
            chosen: list[tuple[Chunk, int]] = []
            for path in self._by_priority():
                state = self.files[path]
                indexed = self._indexed.get(path, set())
                missing = [
                    (chunk, tokens)
                    for chunk, tokens in zip(state.chunks, state.tokens, strict=True)
                    if chunk.content_hash not in indexed
                ]
                chosen += missing[: count - len(chosen)]
                if len(chosen) >= count:
                    break
            return chosen

    def has_urgent_chunks(self, doing: Iterable[Chunk]) -> bool:
        """Whether an open document has chunks to memorise that are not among those in progress."""
        busy = {(chunk.path, chunk.content_hash) for chunk in doing}
        first = self.next_chunks(len(busy) + 1)
        return any(c.path in self.documents and (c.path, c.content_hash) not in busy for c, _ in first)

    def mark_indexed(self, chunk: Chunk) -> None:
        """The chunk's KV is stored (or cannot be computed, and must not hold up the others for ever)."""
        with self.lock:
            state = self.files.get(chunk.path)
            if state is None:
                return
            indexed = self._indexed.setdefault(chunk.path, set())
            indexed.add(chunk.content_hash)
            if all(other.content_hash in indexed for other in state.chunks):
                self._pending.pop(chunk.path, None)

    def mark_failed(self, chunk: Chunk, reason: str) -> None:
        """The chunk could not be memorised; it is tried again when its file changes."""
        with self.lock:
            self.failed[chunk.path] = reason
        self.mark_indexed(chunk)

    def refresh_symbols(self) -> None:
        """Bring the symbol graph up to date with buffers that were typed in and now rest."""
        with self.lock:
            rested = self._symbols_due - self._being_typed()
            due = [(path, self.files[path]) for path in rested if path in self.files]
            self._symbols_due -= rested
        for path, state in due:
            symbols = file_symbols(state.text, path)
            with self.lock:
                if path in self.files:
                    self.graph.update(path, symbols)

    def snapshot(self) -> dict[str, Any]:
        """State and progress, as GET /v1/workspaces tells them."""
        with self.lock:
            total = sum(sum(state.tokens) for state in self.files.values())
            left = sum(
                tokens
                for path in self._pending
                for chunk, tokens in zip(self.files[path].chunks, self.files[path].tokens, strict=True)
                if chunk.content_hash not in self._indexed.get(path, ())
            )
            state = "ready" if self.scanned and not left else "indexing"
            return {
                "root": str(self.root),
                "state": "error" if self.error else state,
                "error": self.error or None,
                "files": len(self.files),
                "chunks": sum(len(state.chunks) for state in self.files.values()),
                "tokens": total,
                "indexed_tokens": total - left,
                "seconds_left": self.progress.seconds_left(left),
                "open_documents": sum(document.expires is None for document in self.documents.values()),
                "skipped": [{"path": p, "reason": r} for p, r in sorted(self.skipped.items())],
                "failed": [{"path": p, "reason": r} for p, r in sorted(self.failed.items())],
                "watching": not self.watch_error,
            }

    # -- inside ------------------------------------------------------------------------------------------------

    def _refuse(self, path: str, text: str) -> None:
        if path.startswith("/") or "\0" in path or not {"", ".", ".."}.isdisjoint(path.split("/")):
            raise WorkspaceError(
                f"The path is {path!r}; give it relative to the workspace, without . and .. in it."
            )
        reason = reason_of_buffer(self.root, path, text)
        if reason is not None:
            raise WorkspaceError(f"{path} is not used ({reason}).")

    def _is_listed(self, path: str) -> bool:
        if self._listing is None:
            self.rules_changed()
        assert self._listing is not None
        return self._listing.includes(path)

    def _take(
        self, path: str, text: str, stamp: tuple[int, ...], ticket: int, crlf: bool
    ) -> FileState | None:
        """Chunk `text` as the file's content and make it what recall sees, unless a later look did already."""
        with self.lock:
            known, before, is_open = self.files.get(path), self._live.get(path), path in self.documents
            if known is not None and known.text == text:
                self.files[path] = known = replace(known, stamp=stamp, ticket=ticket, crlf=crlf)
                return known
        chunked = chunk_file(text, path, options=self._options) if before is None else rechunk(before, text)
        chunks = tuple(chunked.chunks)
        counted = (
            {c.content_hash: n for c, n in zip(known.chunks, known.tokens, strict=True)} if known else {}
        )
        tokens = tuple(
            counted.get(c.content_hash) or self._options.count_tokens(c.header + c.text) + ANCHOR_TOKENS
            for c in chunks
        )
        # Symbols cost ten times what re-chunking costs: of a buffer that is typed in they may be a moment older.
        symbols = None if is_open and known is not None else file_symbols(text, path)
        state = FileState(path, text, chunks, tokens, stamp, ticket, crlf)
        with self.lock:
            newer = self.files.get(path)
            if newer is not None and newer.ticket > ticket:
                return newer
            self.files[path] = state
            self.skipped.pop(path, None)
            self.failed.pop(path, None)
            if symbols is None:
                self._symbols_due.add(path)
            else:
                self.graph.update(path, symbols)
            self.bm25.replace(path, chunks)
            if path in self.documents:
                self._live[path] = chunked
            hashes = {chunk.content_hash for chunk in chunks}
            kept = self._indexed.get(path, set()) & hashes
            self._indexed[path] = kept
            if kept != hashes:
                self._pending.setdefault(path)
            else:
                self._pending.pop(path, None)
        return state

    def _skip(self, path: str, reason: str, ticket: int) -> None:
        with self.lock:
            self._forget(path, ticket)
            if path not in self.files:
                self.skipped[path] = reason

    def _forget(self, path: str, ticket: int) -> None:
        with self.lock:
            known = self.files.get(path)
            if known is not None and known.ticket > ticket:
                return
            self.graph.remove(path)
            self.bm25.replace(path, ())
            for held in (
                self.files,
                self._live,
                self.skipped,
                self.failed,
                self.recent,
                self._indexed,
                self._pending,
            ):
                held.pop(path, None)

    def _being_typed(self) -> set[str]:
        now = time.monotonic()
        return {p for p, d in self.documents.items() if d.edited and now - d.edited < SETTLE_S}

    def _by_priority(self) -> Iterator[str]:
        """Pending paths, each once. The caller holds the lock."""
        if not self._pending:
            return
        recent = sorted(self.recent, key=lambda path: -self.recent[path])[:RECENT_FILES]
        near = dict.fromkeys((*self.documents, *recent))
        imported = [target for path in near for target, _ in self.graph.imports_of(path)]
        given = self._being_typed()
        folders = {path.rpartition("/")[0] for path in near}
        beside = (p for p in self._pending if folders and p.rpartition("/")[0] in folders)
        for path in itertools.chain(near, imported, beside, self._pending):
            if path in self._pending and path not in given:
                given.add(path)
                yield path


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
