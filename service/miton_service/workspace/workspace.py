"""One open workspace: its files, their chunks and symbols, open buffers, and how far its memory is built."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from miton_engine.runtime.requests import ChunkSource
from miton_lsp.chunking import Chunk, ChunkedFile, ChunkOptions, chunk_file, rechunk
from miton_lsp.symbols import SymbolGraph, file_symbols

from miton_service.workspace.bm25 import BM25Index
from miton_service.workspace.errors import WorkspaceError
from miton_service.workspace.filters import reason_by_content, reason_by_name, reason_by_size
from miton_service.workspace.text import decode
from miton_service.workspace.walk import examine


@dataclass(frozen=True, slots=True)
class FileState:
    """What is known of one file: its text as memorised, and when that was read (0: an open buffer)."""

    path: str
    text: str
    chunks: tuple[Chunk, ...]
    tokens: tuple[int, ...]  # per chunk, anchor included
    modified_ns: int


@dataclass(slots=True)
class Document:
    """An open buffer; it wins over the disk until it is dropped."""

    text: str
    version: int


class Workspace:
    """Holds everything recall needs. Thread-safe; nothing here computes KV."""

    def __init__(self, root: Path, options: ChunkOptions) -> None:
        self.root = root
        self.lock = threading.RLock()
        self.graph = SymbolGraph()
        self.bm25 = BM25Index()
        self.files: dict[str, FileState] = {}
        self.documents: dict[str, Document] = {}
        self.recent: dict[str, float] = {}  # path -> when it was last edited or asked about
        self.skipped: dict[str, str] = {}
        self.error = ""
        self.scanned = False
        self.opened = time.time()
        self.indexed: set[tuple[str, str]] = set()  # (path, content hash) of chunks whose KV is stored
        self.selections: dict[str, tuple[int, int, list[Any]]] = {}  # recall's last choice per file
        self._options = options
        self._live: dict[str, ChunkedFile] = {}

    def read(self, path: str) -> FileState | None:
        """Take the file as it is now: the open buffer, else the disk. None if it is gone or skipped."""
        with self.lock:
            document = self.documents.get(path)
        if document is not None:
            return self.take(path, document.text, 0)
        found = examine(self.root, path)
        if found is None:
            self.forget(path)
            return None
        with self.lock:
            known = self.files.get(path)
        if known is not None and found.modified_ns == known.modified_ns:
            return known
        reason = found.reason
        if reason is None:
            try:
                data = (self.root / path).read_bytes()
            except FileNotFoundError:
                self.forget(path)
                return None
            except OSError as error:
                reason, data = f"unreadable: {error.strerror}", b""
            reason = reason or reason_by_content(data)
        if reason is not None:
            self.forget(path)
            with self.lock:
                self.skipped[path] = reason
            return None
        return self.take(path, decode(data), found.modified_ns)

    def take(self, path: str, text: str, modified_ns: int) -> FileState:
        """Chunk `text` as the file's content and make it what recall sees. Refuses names never read."""
        refused = reason_by_name(path) or reason_by_size(len(text))
        if refused is not None:
            raise WorkspaceError(f"{path} is not used ({refused}).")
        with self.lock:
            known = self.files.get(path)
            if known is not None and known.text == text:
                state = FileState(path, text, known.chunks, known.tokens, modified_ns)
                self.files[path] = state
                return state
            before = self._live.get(path)
        chunked = (
            rechunk(before, text) if before is not None else chunk_file(text, path, options=self._options)
        )
        chunks = tuple(chunked.chunks)
        tokens = tuple(self._options.count_tokens(c.header + c.text) + 8 for c in chunks)
        symbols = file_symbols(text, path)
        state = FileState(path, text, chunks, tokens, modified_ns)
        with self.lock:
            self.files[path] = state
            self.skipped.pop(path, None)
            self.graph.update(path, symbols)
            self.bm25.replace(path, chunks)
            if path in self.documents:
                self._live[path] = chunked  # holds the syntax tree: kept for open files only
            elif before is not None:
                del self._live[path]
            self.indexed -= {key for key in self.indexed if key[0] == path} - {
                (path, chunk.content_hash) for chunk in chunks
            }
        return state

    def forget(self, path: str) -> None:
        """The file is gone: nothing of it is recalled any more."""
        with self.lock:
            self.files.pop(path, None)
            self._live.pop(path, None)
            self.skipped.pop(path, None)
            self.recent.pop(path, None)
            self.graph.remove(path)
            self.bm25.replace(path, ())
            self.indexed = {key for key in self.indexed if key[0] != path}

    def put_document(self, path: str, text: str, version: int) -> None:
        """An editor's buffer. Raises `WorkspaceError` when its version goes backwards."""
        with self.lock:
            known = self.documents.get(path)
            if known is not None and version < known.version:
                raise WorkspaceError(
                    f"{path} is open at version {known.version}; version {version} is older. Send newer ones only."
                )
            self.documents[path] = Document(text.replace("\r\n", "\n").replace("\r", "\n"), version)
            self.recent[path] = time.time()
        self.read(path)

    def drop_document(self, path: str) -> None:
        """The editor closed the buffer; the file on disk counts again."""
        with self.lock:
            self.documents.pop(path, None)
        self.read(path)

    def chunks_by_priority(self) -> list[tuple[Chunk, int]]:
        """Chunks whose KV is not stored yet, with their tokens: open files, what they import, then the rest."""
        with self.lock:
            order: dict[str, None] = dict.fromkeys(path for path in self.documents if path in self.files)
            recent = sorted(self.recent, key=lambda path: -self.recent[path])
            order.update(dict.fromkeys(path for path in recent if path in self.files))
            for path in list(order):
                order.update(
                    (target, None) for target, _ in self.graph.imports_of(path) if target in self.files
                )
            order.update(dict.fromkeys(sorted(self.files, key=lambda path: (path.count("/"), path))))
            return [
                (chunk, tokens)
                for path in order
                for chunk, tokens in zip(self.files[path].chunks, self.files[path].tokens, strict=True)
                if (path, chunk.content_hash) not in self.indexed
            ]

    def mark_indexed(self, chunk: Chunk) -> None:
        """The chunk's KV is stored."""
        with self.lock:
            if chunk.path in self.files:
                self.indexed.add((chunk.path, chunk.content_hash))

    def snapshot(self) -> dict[str, Any]:
        """State and progress, as GET /v1/workspaces tells them."""
        with self.lock:
            pairs = [
                (chunk, tokens)
                for state in self.files.values()
                for chunk, tokens in zip(state.chunks, state.tokens, strict=True)
            ]
            total = sum(tokens for _, tokens in pairs)
            done = sum(t for chunk, t in pairs if (chunk.path, chunk.content_hash) in self.indexed)
            ready = self.scanned and done == total
            return {
                "root": str(self.root),
                "state": "error" if self.error else "ready" if ready else "indexing",
                "error": self.error or None,
                "files": len(self.files),
                "chunks": len(pairs),
                "tokens": total,
                "indexed_tokens": done,
                "open_documents": len(self.documents),
                "skipped": [{"path": p, "reason": r} for p, r in sorted(self.skipped.items())],
            }


def chunk_source(chunk: Chunk) -> ChunkSource:
    """The chunk as the engine memorises it."""
    return ChunkSource(chunk.path, chunk.header, chunk.text)


def chunk_sources(chunks: Iterable[Chunk]) -> tuple[ChunkSource, ...]:
    """Several chunks, in the order given."""
    return tuple(chunk_source(chunk) for chunk in chunks)
