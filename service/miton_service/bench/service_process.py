"""The process of a benchmark's service: `python -m ... serve ...` is `miton serve ...` until stdin closes.

The benchmark holds our stdin: when it ends, however it ends (SIGKILL runs no `finally`), so do we.
"""

from __future__ import annotations

import os
import threading

from miton_service.cli import main


def _end_with_stdin() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)  # the store survives an end at any moment


if __name__ == "__main__":
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    main()
