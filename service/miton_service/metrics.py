"""What /metrics tells Prometheus: requests by outcome, latencies, tokens, what engine and workspaces hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from miton_service.request_log import RequestRecord

SECONDS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30)


class Metrics:
    """One registry per service, so that two services in one process never share counters."""

    def __init__(self, held: Callable[[], Mapping[str, float]]) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "miton_requests",
            "Finished requests by kind and outcome",
            ["kind", "outcome"],
            registry=self._registry,
        )
        self._first_token = Histogram(
            "miton_time_to_first_token_seconds", "From request to first token, recall included", ["kind"],
            buckets=SECONDS, registry=self._registry,
        )  # fmt: skip
        self._total = Histogram(
            "miton_request_seconds",
            "From request to its end",
            ["kind"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self._tokens = Counter(
            "miton_tokens", "Tokens by what was done with them", ["part"], registry=self._registry
        )
        self._registry.register(_Held(held))

    def observe(self, record: RequestRecord) -> None:
        """Count one finished request."""
        timings = record.timings
        self._requests.labels(record.kind, record.outcome).inc()
        self._total.labels(record.kind).observe(record.total_ms / 1e3)
        if timings.ttft_ms:
            self._first_token.labels(record.kind).observe((record.recall_ms + timings.ttft_ms) / 1e3)
        for part in ("prefill", "cached", "decode", "draft", "accepted"):
            self._tokens.labels(part).inc(max(0, getattr(timings, f"{part}_tokens")))

    def render(self) -> bytes:
        """The text format Prometheus scrapes."""
        return generate_latest(self._registry)


class _Held(Collector):
    """Gauges read at scrape time."""

    def __init__(self, held: Callable[[], Mapping[str, float]]) -> None:
        self._held = held

    def collect(self) -> Iterable[Metric]:
        for name, value in self._held().items():
            yield GaugeMetricFamily(f"miton_{name}", f"{name.replace('_', ' ')} now", value=value)


def flatten(status: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Numbers of a nested status as metric names: {"store": {"bytes": 3}} -> {"store_bytes": 3.0}."""
    flat: dict[str, float] = {}
    for name, value in status.items():
        full = f"{prefix}{name}".replace("-", "_").replace(".", "_")
        if isinstance(value, Mapping):
            flat.update(flatten(value, full + "_"))
        elif isinstance(value, bool | int | float):
            flat[full] = float(value)
    return flat
