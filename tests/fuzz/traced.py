"""Allowed lines run for real: they execute nothing that was not judged, and write nothing outside the workspace.

What may follow from a judged call without a judgement of its own, and nothing else:
- a tool that runs the project's own code (`OWN`: make, npm, python, a compiler, …) may run whatever that code runs,
  and use its private home and temporary folder;
- a tool may run its own helpers (`HELPERS`: git its subcommands, tar its compressor, …);
- bash, sort and patch may use files of their own in the temporary folder.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import msgspec
from tests.fuzz import room
from tests.fuzz.judged import POLICY
from tests.fuzz.lines import Lines
from tests.fuzz.trace import Deed

from flyball.guard import word_set
from flyball.guard.commands import calls_of, judge_command
from flyball.guard.commands.args import Arg

BATCH = 200
SHELLS = word_set("bash sh dash rbash")
WRAPPERS = word_set("env timeout nice xargs find time nohup stdbuf setsid ionice flock chrt taskset")
OWN = re.compile(
    r"g?make|ninja|cmake|ctest|npm|npx|node|python[\d.]*|pytest|perl|ruby|g?cc|[gc]\+\+|man|x86_64-.*|ld|collect2"
)
HELPERS = {
    "git": re.compile(r"git|git-.*|/usr/lib/git-core/.*|cat|less|gpg|editor"),
    "tar": re.compile(r"sh|gzip|bzip2|xz|zstd"),
    "tar sh": re.compile(r"gzip|bzip2|xz|zstd"),
    "zip": re.compile(r"unzip|zip"),
    "zcat": re.compile(r"gzip"),
    "zgrep": re.compile(r"grep|gzip|sed|sh|cat|rm|mktemp|bzip2|xz"),
    "unzip": re.compile(r"zipinfo"),
    "less": re.compile(r"sh|lesspipe|dash|cat"),
    "cal": re.compile(r"ncal"),
}
_FREE = re.compile(
    r"/dev/(?:null|tty|zero|full|stdout|stderr|ptmx|pts/.*|fd/.*)|/proc/(?:self|\d+)/(?:fd|task)/.*|(?:pipe|socket|anon_inode):.*"
)
_SCRATCH = re.compile(r"/tmp/(?:sh-thd[.\w]*|sh-np[.\w]*|sort\w+|p[opr]\w{6})")
_OWN_PLACES = ("/tmp/", "/var/tmp/", f"{room.HOME}/")
_PROTECTED = re.compile(rf"{room.WORKSPACE}/(?:\.flyball|\.claude|\.env|\.git/hooks|\.git/config)(?:/.*)?")
_CHANGES = word_set(
    "write rename renameat renameat2 unlink unlinkat rmdir link linkat symlink symlinkat mkdir mkdirat mknod mknodat chmod "
    "fchmodat chown lchown fchownat truncate utimensat setxattr lsetxattr removexattr mount umount2"
)


class Escape(msgspec.Struct, frozen=True):
    command: str
    what: str


class Traced(msgspec.Struct):
    """What running many allowed lines came to. `escapes` must be empty."""

    ran: int = 0
    executed: int = 0
    written: int = 0
    escapes: list[Escape] = []

    def join(self, other: Traced) -> None:
        self.ran += other.ran
        self.executed += other.executed
        self.written += other.written
        self.escapes += other.escapes


def allowed(seed: int, count: int, seen: set[str] | None = None) -> Iterator[str]:
    """Distinct lines of one seed that the guard allows."""
    lines, known = Lines(seed), set[str]() if seen is None else seen
    for _ in range(count * 60):
        line = lines.calm()
        if line in known or "\0" in line or judge_command(line, POLICY).verdict != "allow":
            continue
        known.add(line)
        yield line
        count -= 1
        if count <= 0:
            return


def batch(commands: Sequence[str], project: Path, folder: Path) -> Traced:
    deeds = room.run(commands, project, folder)
    found = Traced(ran=len({deed.command for deed in deeds}))
    judges = [Witness(command) for command in commands]
    for deed in deeds:
        found.executed += deed.call == "exec"
        found.written += deed.call in _CHANGES
        what = judges[deed.command].wrong(deed)
        if what:
            found.escapes.append(Escape(commands[deed.command], what))
    if found.ran != len(commands):
        found.escapes.append(Escape("", f"only {found.ran} of {len(commands)} commands left a trace"))
    return found


class Witness:
    """Holds the deeds of one command against what the guard judged."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.calls = calls_of(command, POLICY)
        self.program: dict[int, str] = {}
        self.root = 0

    def wrong(self, deed: Deed) -> str:
        """What is wrong with a deed, or ''."""
        if deed.call == "born":
            self.program[deed.pid] = self.program.get(int(deed.detail), "bash")
            return ""
        if deed.call == "exec":
            return self.executed(deed)
        if deed.call in _CHANGES:
            return self.changed(deed)
        if deed.call == "read" and any(path.startswith(f"{room.HOME}/.ssh") for path in deed.paths):
            return f"reads {deed.paths[0]}"
        if deed.call == "connect" and "AF_INET" in deed.detail and not self.own(deed.pid):
            return f"connects: {deed.detail}"
        if deed.call in {"ptrace", "bpf", "init_module"}:
            return f"calls {deed.call}"
        return ""

    def running(self, pid: int) -> str:
        """What a process runs: what it executed, else what its parent ran when it was born; 'own …' for `OWN`."""
        return self.program.get(pid, "")

    def own(self, pid: int) -> bool:
        return self.running(pid).startswith("own ")

    def executed(self, deed: Deed) -> str:
        if not self.root:
            self.root = deed.pid
            self.program[deed.pid] = "bash"
            return ""
        before, name = self.running(deed.pid), posixpath.basename(deed.paths[0] if deed.paths else "")
        if deed.failed:
            return (
                ""
                if before.startswith("own ") or deed.failed == "ENOENT"
                else self.unjudged(deed, before, name)
            )
        own = before.startswith("own ") or OWN.fullmatch(name) is not None
        wrong = "" if before.startswith("own ") else self.unjudged(deed, before, name)
        self.program[deed.pid] = f"own {name}" if own else f"tar {name}" if before == "tar" else name
        return wrong

    def unjudged(self, deed: Deed, before: str, name: str) -> str:
        helper = HELPERS.get(before)
        if helper and (helper.fullmatch(name) or helper.fullmatch(deed.paths[0])):
            return ""
        if re.search(r"~[\w+-]", self.command):
            return ""  # whose home that is, the guard does not know and the machine may
        if before in SHELLS | WRAPPERS and any(matches(call, deed) for call in self.calls):
            return ""
        return f"{before} executes {list(deed.argv)[:12]}"

    def changed(self, deed: Deed) -> str:
        for path in deed.paths:
            if path.startswith(f"{room.WORKSPACE}/") or path == room.WORKSPACE:
                if _PROTECTED.fullmatch(path) and self.running(deed.pid) not in {
                    "git",
                    "own npm",
                    "own make",
                }:
                    return f"{deed.call} of the protected {path}"
            elif not self.may_change(path, deed):
                return f"{deed.call} of {path} ({deed.detail[:120]})"
        return ""

    def may_change(self, path: str, deed: Deed) -> bool:
        if _FREE.fullmatch(path) or _SCRATCH.fullmatch(path):
            return True
        if (
            deed.call.startswith("mkdir")
            and deed.failed in {"EEXIST", "EROFS"}
            and room.WORKSPACE.startswith(path)
        ):
            return True
        return self.own(deed.pid) and path.startswith(_OWN_PLACES)


def matches(call: tuple[Arg, ...], deed: Deed) -> bool:
    """Whether what was executed is what was judged: literal arguments to the letter, unknown ones whatever they are."""
    argv = (
        deed.argv[1:] if deed.argv[:1] == ("time",) else deed.argv
    )  # a keyword of bash, a program elsewhere
    return _fits(call, deed.argv, deed.cut) or _fits(call, argv, deed.cut)


def _fits(call: tuple[Arg, ...], argv: tuple[str, ...], cut: bool) -> bool:
    @cache
    def fit(at: int, to: int) -> bool:
        if at == len(call):
            return to == len(argv)
        if not call[at].literal:
            return any(fit(at + 1, further) for further in range(to, len(argv) + 1))
        if to == len(argv):
            return cut
        return argv[to] == call[at].text and fit(at + 1, to + 1)

    return fit(0, 0)
