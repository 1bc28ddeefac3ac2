"""Perform one turn of a script, as an agent would, without a model. It runs in the checkout, as a process of its own.

    python -P player.py TURN.json        (script.command() gives the whole line)

The file holds the turn that `script` chose. What happens is printed on stdout, one JSON line each. A turn is performed
even if it is unwise: checking it is the guard's job. The process starts anew for every turn, so what only some turns
need is imported by those.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Turn = dict[str, Any]  # of the keys that `script.KEYS` names
OUTPUT_MOST = 1 << 16


def play(turn: Turn) -> int:
    """Perform a turn in the current folder; returns the exit code that it asks for."""
    time.sleep(turn.get("sleep_s", 0))
    for path, text in turn.get("write", {}).items():
        _try("write", path, lambda path=path, text=text: _write(Path(path), text))
    for path in turn.get("delete", []):
        _try("delete", path, lambda path=path: _delete(Path(path)))
    if "run" in turn:
        _run(turn["run"])
    _tell(turn)
    if turn.get("hang"):
        signal.pause()
    return turn.get("exit", 0)


def _try(tool: str, path: str, deed: Callable[[], None]) -> None:
    """Something that cannot be done is a failed action, as for any agent; the turn continues."""
    try:
        deed()
    except (OSError, ValueError) as fault:
        _emit("action", tool=tool, input={"path": path}, result=str(fault), error=True)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        from flyball.state_dir import remove

        remove(path)
    else:
        path.unlink(missing_ok=True)


def _run(line: str) -> None:
    """The output goes to a file, not a pipe: what the command leaves running must not keep us waiting."""
    import subprocess
    import tempfile

    with tempfile.TemporaryFile() as output:
        process = subprocess.run(
            ["/bin/sh", "-c", line], stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        output.seek(max(0, output.seek(0, os.SEEK_END) - OUTPUT_MOST))
        text = output.read().decode(errors="replace")
    failed = process.returncode != 0
    _emit("action", tool="bash", input={"command": line}, result=text, exit=process.returncode, error=failed)


def _tell(turn: Turn) -> None:
    for action in turn.get("actions", []):
        _emit("action", **action)
    for key in ("usage", "finding"):
        if key in turn:
            _emit(key, **turn[key])
    if "ask" in turn:
        _emit("ask", text=turn["ask"])
    if "finish" in turn:
        _emit("finish", **turn["finish"])
    if "outcome" in turn or "data" in turn:
        _emit("outcome", name=turn.get("outcome"), data=turn.get("data", {}))
    _emit("message", text=turn.get("say", ""))
    if "limited" in turn:
        _emit("limited", **turn["limited"])
    if "error" in turn:
        _emit("error", text=turn["error"])


def _emit(kind: str, /, **fields: Any) -> None:
    line = json.dumps({"type": kind} | fields | {"type": kind})  # a finding may have a `type` of its own
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(play(json.loads(Path(sys.argv[1]).read_text("utf-8"))))
