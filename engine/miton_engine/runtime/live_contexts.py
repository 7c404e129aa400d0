"""The live contexts an engine keeps: one per edited document, a few for everything else; LRU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from miton_engine.memory.chunk_kv import ChunkKV
from miton_engine.runtime.live_document import LiveContext, PromptTokens
from miton_engine.runtime.scheduler import Task

SCRATCH_CONTEXTS = 4  # contexts shared by requests that name no document (chats, plain prompts)


@dataclass(slots=True)
class _Slot:
    document: str
    context: LiveContext
    used: int
    busy: bool = False
    refresh_is_due: bool = False


class LiveContexts:
    """Hands out a context per request; used by the engine's one worker thread only.

    A named document has exactly one context: two windows on two files never disturb each other. A request
    without a document gets the free scratch context that already holds most of what it needs.
    """

    def __init__(self, create: Callable[[], LiveContext], memory_bytes: int) -> None:
        self._create, self._memory_bytes = create, memory_bytes
        self._slots: list[_Slot] = []
        self._clock = 0

    @property
    def nbytes(self) -> int:
        return sum(slot.context.cache.nbytes for slot in self._slots)

    def __len__(self) -> int:
        return len(self._slots)

    def take(self, document: str, chunks: Sequence[ChunkKV], prompt: PromptTokens) -> LiveContext | None:
        """The context to use, marked busy; None while the document's own is busy with another request."""
        same = [slot for slot in self._slots if slot.document == document]
        free = [slot for slot in same if not slot.busy]
        if document:
            if same and not free:
                return None
            slot = free[0] if free else self._add(document)
        else:
            best = max(free, key=lambda slot: slot.context.reusable(chunks, prompt), default=None)
            if best is None or (not best.context.reusable(chunks, prompt) and len(same) < SCRATCH_CONTEXTS):
                slot = self._add("")
            else:
                slot = best
        self._clock += 1
        slot.used, slot.busy = self._clock, True
        return slot.context

    def give_back(self, context: LiveContext) -> None:
        """End of use; the least recently used free contexts go while the total is above the limit."""
        for slot in self._slots:
            if slot.context is context:
                slot.busy = False
        for slot in sorted(self._slots, key=lambda slot: slot.used):
            if self.nbytes <= self._memory_bytes:
                return
            if not slot.busy and slot.context is not context:
                self._slots.remove(slot)

    def refresh_due(self, document: str) -> Task | None:
        """The task that computes the document's stale suffix again, once: None while one is waiting to run."""
        for slot in self._slots:
            is_free = document and slot.document == document and not slot.busy
            if is_free and slot.context.suffix_is_stale and not slot.refresh_is_due:
                slot.refresh_is_due = True
                return self._refresh(slot)
        return None

    def _refresh(self, slot: _Slot) -> Task:
        slot.refresh_is_due = False
        if slot.busy or slot not in self._slots or not slot.context.suffix_is_stale:
            return
        used = slot.used
        for _ in slot.context.refresh_suffix():
            yield
            if slot.used != used:  # a request came in between; the rest of the suffix is its business now
                return

    def _add(self, document: str) -> _Slot:
        slot = _Slot(document, self._create(), self._clock)
        self._slots.append(slot)
        return slot
