"""The engine's exceptions: one hierarchy, each message says what was wrong and what to do about it."""

from __future__ import annotations


class EngineError(Exception):
    """Base of every error the engine raises on purpose."""


class ModelError(EngineError):
    """A model is unknown, missing, damaged, or of an architecture the decoder does not implement."""


class PromptTooLong(EngineError):
    """The request's own tokens do not fit the model's context."""


class InvalidRequest(EngineError):
    """A field of a generation request has a value the engine cannot serve."""


class StoreError(EngineError):
    """The chunk store cannot read or write its directory."""


class EngineClosed(EngineError):
    """The engine was closed while the call waited."""
