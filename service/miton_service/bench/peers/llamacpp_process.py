"""The process that holds llama.cpp: `python -m ... SETTINGS_JSON` serves llama.cpp's own HTTP until stdin closes.

It leans on xllamacpp, whose wheel carries llama.cpp's server. The parent holds our stdin: when the parent
ends, however it ends, so do we.
"""

from __future__ import annotations

import json
import os
import sys

import xllamacpp


def main() -> None:
    settings = json.loads(sys.argv[1])
    params = xllamacpp.CommonParams()
    params.model.path = settings["model"]
    params.n_ctx = settings["n_ctx"]
    params.n_parallel = 1
    params.n_cache_reuse = settings["n_cache_reuse"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    attention = xllamacpp.llama_flash_attn_type
    params.flash_attn_type = (
        attention.LLAMA_FLASH_ATTN_TYPE_ENABLED
        if settings["flash_attention"]
        else attention.LLAMA_FLASH_ATTN_TYPE_DISABLED
    )
    params.verbosity = -1
    server = xllamacpp.Server(params)
    ready = {"url": server.listening_address, "system": xllamacpp.get_system_info()}
    print("READY " + json.dumps(ready), flush=True)
    sys.stdin.read()
    os._exit(0)  # nothing to save; taking the server down in order would wait for a running request


if __name__ == "__main__":
    main()
