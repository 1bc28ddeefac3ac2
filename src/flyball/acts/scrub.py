"""What a process wrote stays on the disk for people to read; no secret of it does.

Done once its end is known and read. Done again it changes nothing, so a crash in between costs nothing.
"""

from __future__ import annotations

from pathlib import Path

from flyball.guard.secrets import redact
from flyball.state_dir import write_whole

WRITTEN = ("out", "err")
CHUNK = 1 << 18


def scrub(place: Path) -> None:
    """The act's output as it may be kept."""
    for name in WRITTEN:
        _scrub(place / name)


def _scrub(file: Path) -> None:
    try:
        before = file.read_bytes()
    except OSError:
        return
    after = b"".join(_clean(chunk) for chunk in _chunks(before))
    if after != before:
        write_whole(file, after, sync=False)


def _chunks(data: bytes) -> list[bytes]:
    """Whole lines, a good many at a time; a key of many lines is not cut in two if it fits."""
    parts, at = list[bytes](), 0
    while at < len(data):
        end = data.find(b"\n", at + CHUNK)
        end = len(data) if end < 0 else end + 1
        opened = data.rfind(b"-----BEGIN", at, end)
        closed = data.find(b"-----END", opened, opened + CHUNK) if opened >= 0 else -1
        if closed >= end:
            newline = data.find(b"\n", closed)
            end = len(data) if newline < 0 else newline + 1
        parts.append(data[at:end])
        at = end
    return parts


def _clean(chunk: bytes) -> bytes:
    text = chunk.decode("utf-8", "surrogateescape")
    kept = redact(text)
    return chunk if kept == text else kept.encode("utf-8", "surrogateescape")
