"""The process in which generated code runs: limits first, then the program from stdin. Standard library only.

Run as `python -I candidate_process.py SECRET CPU_SECONDS MEMORY_BYTES`, with fd 1 a pipe to the judge.
Success is the secret on that pipe after the program's end: an early exit with status 0 is not a pass.
Limits are the kernel's for CPU, memory, file sizes and processes; an audit hook (PEP 578) refuses everything
that starts processes or threads, touches the network or changes files. That holds a language model's mistakes;
it is no jail for a determined attacker.
"""

from __future__ import annotations

import os
import sys

REFUSED = (
    "_thread.start_new_thread", "ctypes.", "ftplib.", "http.client.", "mmap.", "os.chdir", "os.chflags",
    "os.chmod", "os.chown", "os.exec", "os.fork", "os.kill", "os.link", "os.lockf", "os.mkdir", "os.posix_spawn",
    "os.putenv", "os.remove", "os.rename", "os.rmdir", "os.setxattr", "os.spawn", "os.startfile", "os.symlink",
    "os.system", "os.truncate", "os.unsetenv", "os.utime", "pty.spawn", "resource.prlimit", "resource.setrlimit",
    "shutil.", "signal.", "smtplib.", "socket.", "sqlite3.", "subprocess.", "syslog.", "tempfile.", "urllib.",
    "webbrowser.",
)  # fmt: skip
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Refused(BaseException):
    """The program asked for something it may not do; not an Exception, so that it is not swallowed."""


def refuse(event: str, arguments: tuple[object, ...]) -> None:
    """Audit hook: end what is not computation."""
    if event == "open":
        mode, flags = arguments[1], arguments[2]
        writes = isinstance(mode, str) and any(letter in mode for letter in "wax+")
        if writes or (isinstance(flags, int) and flags & WRITING):
            raise Refused(f"open {arguments[0]!r} for writing")
    elif event.startswith(REFUSED):
        raise Refused(event)


def limit(cpu_seconds: int, memory_bytes: int) -> None:
    """Set the kernel's limits; they hold for this process and cannot be raised again."""
    import resource

    for what, value in (
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_DATA, memory_bytes),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 32),
    ):
        resource.setrlimit(what, (value, value))


def main() -> None:
    secret, cpu_seconds, memory_bytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    program = sys.stdin.read()
    judge = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    del sys.argv[1:]
    limit(cpu_seconds, memory_bytes)
    sys.addaudithook(refuse)
    exec(compile(program, "candidate.py", "exec"), {"__name__": "candidate"})
    os.write(judge, secret.encode())


if __name__ == "__main__":
    main()
