"""What can go wrong in a benchmark, each with what to do."""

from __future__ import annotations

from miton_service.errors import ServiceError


class BenchmarkError(ServiceError):
    """A benchmark could not be run."""


class PeerError(BenchmarkError):
    """A peer is missing, did not start, or answered with an error."""


class PackageError(BenchmarkError):
    """An input package could not be fetched or is not the pinned one."""
