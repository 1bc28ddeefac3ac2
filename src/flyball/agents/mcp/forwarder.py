"""The MCP server as an agent's CLI starts it: passes each message to the run's driver, and returns the answer.

Run as `python -I -S forwarder.py TOKEN confined|open`, with the hook's `program.py` and the driver's socket beside it.
It knows nothing about the tools. It waits for a driver that is not there yet; if none comes, the agent gets an
error, and
can still report in its final message.
"""

# ruff: noqa: PTH100, PTH120
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from flyball.agents.hooks import program
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import program

LINE_MOST = 1 << 20
DRIVER_COMES_S, RETRY_S = 15.0, 0.1
ABSENT, TOO_LONG = "Flyball is not running.", "The message is longer than 1 MB."


def main(argv: "list[str]") -> int:
    token, confined = argv[1], argv[2] == "confined"
    folder = os.path.dirname(os.path.abspath(__file__))
    for line in lines(0):
        answer = error(b"", TOO_LONG) if line is None else forwarded(folder, token, confined, line)
        while answer:
            answer = answer[os.write(1, answer) :]
    return 0


def lines(fd: int) -> "Iterator[bytes | None]":
    """Each line; None for one that is too long and is discarded."""
    rest, skipping = b"", False
    while data := os.read(fd, 1 << 16):
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            if not skipping and line.strip():
                yield line
            skipping = False
        if len(rest) > LINE_MOST:
            if not skipping:
                yield None
            rest, skipping = b"", True


def forwarded(folder: str, token: str, confined: bool, line: bytes) -> bytes:
    until = time.monotonic() + DRIVER_COMES_S
    while True:
        reply = program.ask_driver(folder, "mcp", token, line, confined)
        if reply is not None:
            return reply[1] + b"\n" if reply[1] else b""
        if time.monotonic() > until:
            return error(line, ABSENT)
        time.sleep(RETRY_S)


def error(line: bytes, message: str) -> bytes:
    """An error that the forwarder itself returns; a notification gets none."""
    import json

    try:
        name = json.loads(line).get("id") if line else None
    except (ValueError, AttributeError, RecursionError):
        name = None
    if line and name is None:
        return b""
    fault = {"code": -32603, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": name, "error": fault}).encode() + b"\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv))
