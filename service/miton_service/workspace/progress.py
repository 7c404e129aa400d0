"""How fast memorising goes, and how long the rest will take."""

from __future__ import annotations

import threading
import time
from collections import deque

RATE_WINDOW_S = 30.0


class Progress:
    """Thread-safe record of tokens computed in the last half minute."""

    def __init__(self) -> None:
        self._finished: deque[tuple[float, int]] = deque()
        self._lock = threading.Lock()

    def record(self, tokens: int) -> None:
        """`tokens` were computed just now; what was found stored is not work done and is not recorded."""
        with self._lock:
            self._finished.append((time.monotonic(), tokens))

    def seconds_left(self, remaining_tokens: int) -> float | None:
        """Estimate for the rest; None while there is nothing to estimate from."""
        if remaining_tokens <= 0:
            return 0.0
        now = time.monotonic()
        with self._lock:
            while self._finished and self._finished[0][0] < now - RATE_WINDOW_S:
                self._finished.popleft()
            if len(self._finished) < 2:
                return None
            tokens = sum(count for _, count in self._finished) - self._finished[0][1]
            return remaining_tokens * (now - self._finished[0][0]) / max(tokens, 1)
