"""Recall: which chunks of a workspace matter for a place in a file or for a question, and why."""

from miton_service.context.recall import (
    RankedChunk,
    Selection,
    just_above,
    live_window,
    rank,
    select,
    select_for_question,
)
from miton_service.context.window import Cursor, Window, window_at

__all__ = [
    "Cursor",
    "RankedChunk",
    "Selection",
    "Window",
    "just_above",
    "live_window",
    "rank",
    "select",
    "select_for_question",
    "window_at",
]
