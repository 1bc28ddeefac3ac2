"""Reads what strace wrote: which process of which command executed, opened, moved or removed what."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

import msgspec

CALLS = (
    "execve,execveat,clone,clone3,fork,vfork,open,openat,openat2,creat,rename,renameat,renameat2,unlink,unlinkat,rmdir,"
    "link,linkat,symlink,symlinkat,mkdir,mkdirat,mknod,mknodat,chmod,fchmodat,chown,lchown,fchownat,truncate,"
    "utimensat,setxattr,lsetxattr,removexattr,mount,umount2,connect,ptrace,bpf,init_module"
)
MARKER = "/marker/"

_LINE = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\d+|\?)(<.*>)?(?: (E[A-Z]+).*)?.*")
_UNFINISHED = re.compile(r"(\d+) +(\w+)\((.*) <unfinished \.\.\.>")
_RESUMED = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>(.*)")
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"(\.\.\.)?')
_ESCAPE = re.compile(rb"\\(?:x([0-9a-f]{2})|([0-7]{1,3})|(.))", re.DOTALL)
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"f": b"\f", b"a": b"\a", b"b": b"\b"}
_FORKS = frozenset({"clone", "clone3", "fork", "vfork"})
_OPENS = frozenset({"open", "openat", "openat2", "creat"})
_WRITES = re.compile(r"O_(?:WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)")


class Deed(msgspec.Struct, frozen=True):
    """One thing that a process did. `parent` is who started it; `paths` are absolute."""

    command: int
    pid: int
    call: str
    paths: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    cut: bool = False
    detail: str = ""
    failed: str = ""


class Log:
    """A trace, told as deeds; who forked whom says to which command a process belongs."""

    def __init__(self) -> None:
        self.command = -1
        self.belongs: dict[int, int] = {}
        self.parents: dict[int, int] = {}
        self.runner = 0

    def deeds(self, lines: list[str]) -> Iterator[Deed]:
        calls = [match for line in _whole(lines) if (match := _LINE.fullmatch(line))]
        self.parents = {
            int(call[4]): int(call[1]) for call in calls if call[2] in _FORKS and call[4].isdigit()
        }
        self.runner = int(calls[0][1]) if calls else 0
        for call in calls:
            yield from self.births(call)
            deed = self.deed(call)
            if deed:
                yield deed

    def births(self, call: re.Match[str]) -> Iterator[Deed]:
        """A process is born when its parent's fork returns, or when it first does something: whichever is first."""
        born = int(call[4]) if call[2] in _FORKS and call[4].isdigit() else int(call[1])
        if born and born != self.runner and born not in self.belongs and born in self.parents:
            parent = self.parents[born]
            self.belongs[born] = self.command if parent == self.runner else self.belongs.get(parent, -1)
            if self.belongs[born] >= 0:
                yield Deed(self.belongs[born], born, "born", detail=str(parent))

    def deed(self, match: re.Match[str]) -> Deed | None:
        pid, call, arguments, where, failed = (
            int(match[1]),
            match[2],
            match[3],
            match[5] or "",
            match[6] or "",
        )
        if pid == self.runner:
            self.marked(arguments)
        command = self.belongs.get(pid, -1)
        if command < 0 or call in _FORKS:
            return None
        if call.startswith("execve"):
            texts = [unescaped(text) for text, _ in _TEXT.findall(arguments)]
            bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", arguments)
            return Deed(command, pid, "exec", tuple(texts[:1]), tuple(texts[1:]), "..." in bare, "", failed)
        if call in _OPENS:
            return self.opened(command, pid, call, arguments, where, failed)
        return Deed(command, pid, call, tuple(_paths(arguments)), (), False, arguments[:200], failed)

    def opened(self, command: int, pid: int, call: str, arguments: str, where: str, failed: str) -> Deed:
        writes = call == "creat" or _WRITES.search(re.sub(r'"(?:[^"\\]|\\.)*"', "", arguments))
        real = unescaped(where[1:-1]).removesuffix("(deleted)").rstrip() if where else ""
        paths = (real,) if real.startswith("/") else tuple(_paths(arguments)[:1])
        return Deed(command, pid, "write" if writes else "read", paths, (), False, arguments[:200], failed)

    def marked(self, arguments: str) -> None:
        match = re.search(rf'"{MARKER}(\d+)"', arguments)
        if match:
            self.command = int(match[1])


def _whole(lines: list[str]) -> Iterator[str]:
    """Calls that another process interrupted in the log are put together again."""
    open_calls: dict[tuple[str, str], str] = {}
    for raw in lines:
        line = raw.rstrip("\n")
        begun, ended = _UNFINISHED.fullmatch(line), _RESUMED.fullmatch(line)
        if begun:
            open_calls[begun[1], begun[2]] = line[: -len(" <unfinished ...>")]
            if begun[2] == "vfork" or begun[2].startswith("clone"):
                continue
        elif ended:
            yield open_calls.pop((ended[1], ended[2]), f"{ended[1]} {ended[2]}(") + ended[3].lstrip()
        else:
            yield line


def _paths(arguments: str) -> list[str]:
    """The paths of a call, absolute: each after its folder, which strace shows as `AT_FDCWD</where>` or `5</where>`."""
    found: list[str] = []
    folder = "/w/repo"
    for token in re.finditer(r'(?:AT_FDCWD|\d+)<((?:[^<>\\]|\\.)*)>|"((?:[^"\\]|\\.)*)"', arguments):
        if token[1] is not None:
            folder = unescaped(token[1])
        else:
            found.append(posixpath.normpath(posixpath.join(folder, unescaped(token[2]))))
    return found


def unescaped(text: str) -> str:
    raw = text.encode("latin-1", "replace")

    def one(match: re.Match[bytes]) -> bytes:
        if match[1]:
            return bytes([int(match[1], 16)])
        if match[2]:
            return bytes([int(match[2], 8) & 0xFF])
        return _LETTERS.get(match[3], match[3])

    return _ESCAPE.sub(one, raw).decode("utf-8", "replace")
