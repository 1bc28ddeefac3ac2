"""What goes in and out of a kept process: streams copied to files, and a stdin that a driver speaks on."""

import os
import sys

CHUNK = 1 << 16
OUT_MOST = 64 << 20


def sealed(name: str) -> int:
    """A file's content to read from, as a descriptor that leads to no file.

    /proc/self/fd/0 opens again whatever stdin is, also for writing and past every mount: were it the file itself, the
    process could write into the state directory. A sealed copy in memory takes no writing.
    """
    if sys.platform != "linux":
        return os.open(name, os.O_RDONLY)
    import fcntl

    copy, source = os.memfd_create("stdin", os.MFD_ALLOW_SEALING), os.open(name, os.O_RDONLY)
    while data := os.read(source, CHUNK):
        while data:
            data = data[os.write(copy, data) :]
    os.close(source)
    os.lseek(copy, 0, os.SEEK_SET)
    seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    fcntl.fcntl(copy, fcntl.F_ADD_SEALS, seals)
    return copy


class Copy:
    """One output stream: a pipe that is read, and the file that keeps its first `most` bytes."""

    def __init__(self, name: str, most: int) -> None:
        self.pipe, self.theirs = os.pipe()
        self.file = os.open(name, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self.most, self.kept, self.dropped, self.error = most, 0, 0, ""
        os.set_blocking(self.pipe, False)

    def pump(self) -> int:
        """Bytes that came; 0 at the end of the stream, -1 if there is nothing now."""
        try:
            data = os.read(self.pipe, CHUNK) if self.pipe >= 0 else b""
        except BlockingIOError:
            return -1
        if not data and self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1
        room = max(0, self.most - self.kept)
        count = self.write(data[:room])
        self.kept += count
        self.dropped += len(data) - count
        return len(data)

    def write(self, data: bytes) -> int:
        written = 0
        try:
            while written < len(data):
                written += os.write(self.file, data[written:])
        except OSError as fault:
            self.error = f"output was not kept: {fault.strerror}"
        return written

    def finish(self) -> None:
        """Read what is left in the pipe and make the file durable."""
        for _ in range(OUT_MOST // CHUNK):
            if self.pump() <= 0:
                break
        if not self.error:
            os.fsync(self.file)


class HeldInput:
    """A stdin that the driver writes through us, for protocols that speak on it."""

    def __init__(self) -> None:
        self.theirs, self.pipe = os.pipe()
        self.waiting, self.closing, self.open = b"", False, True
        os.set_blocking(self.pipe, False)

    def give(self, text: str | None) -> None:
        self.closing = self.closing or text is None
        self.waiting += (text or "").encode(errors="replace")
        self.pump()

    def pump(self) -> None:
        try:
            while self.open and self.waiting:
                self.waiting = self.waiting[os.write(self.pipe, self.waiting) :]
        except BlockingIOError:
            return
        except OSError:
            self.closing = True  # nobody reads it any more
        if self.open and self.closing:
            os.close(self.pipe)
            self.open = False
