"""Runs inside the sandbox: each command of the batch in a bash of its own, with a mark in the trace before it."""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/home/dev",
    "USER": "dev",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PAGER": "cat",
}


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000_000, 20_000_000))
    resource.setrlimit(resource.RLIMIT_CPU, (3, 3))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main(batch: str, marker: str, seconds: str) -> None:
    commands = json.loads(Path(batch).read_text("utf-8"))
    for number, command in enumerate(commands):
        with contextlib.suppress(OSError):
            os.open(f"{marker}{number}", os.O_RDONLY)
        child = subprocess.Popen(
            ["/bin/bash", "-c", command],
            cwd="/w/repo",
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=limited,
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(float(seconds))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


main(*sys.argv[1:])
