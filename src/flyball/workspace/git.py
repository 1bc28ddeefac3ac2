"""The only place that runs git, and the git directories that Flyball writes itself.

A call runs nothing but git: no hook, filter, monitor, pager or helper. It names its git directory, so git never
searches for one, and its environment is built here from nothing, so neither the user's settings nor an agent's
have an effect. `reading_user` is the one exception: it reads the user's configuration, with the user's own home,
and is used only for commands that start no program. `Objects` reads through one `git cat-file` that stays open.

Git directories are written file by file: every byte in them is known. Flyball is the only writer of its own
references, so it writes them as files, whole or not at all; a killed process leaves no lock behind.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import select
import shutil
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from msgspec import Struct
from msgspec.structs import replace

from flyball import state_dir
from flyball.errors import WorkspaceError

OLDEST = (2, 36)
TIMEOUT_S = 300
NAME, EMAIL = "Flyball", "flyball@localhost"

QUIET: Mapping[str, str] = {
    "core.fsmonitor": "",
    "core.hooksPath": "/dev/null",
    "core.untrackedCache": "false",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.alternateRefsCommand": "",
    "core.sshCommand": "false",
    "credential.helper": "",
    "protocol.allow": "never",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "commit.gpgSign": "false",
    "submodule.recurse": "false",
    "advice.detachedHead": "false",
}
EXACT: Mapping[str, str] = {
    "core.fileMode": "true",
    "core.symlinks": "true",
    "core.autocrlf": "false",
    "core.safecrlf": "false",
    "core.eol": "lf",
    "core.ignoreCase": "false",
    "core.precomposeUnicode": "false",
    "core.protectHFS": "false",
    "core.protectNTFS": "false",
    "core.trustctime": "true",
    "core.bigFileThreshold": "16m",
    "core.logAllRefUpdates": "false",
    "core.splitIndex": "false",
    "index.sparse": "false",
    "diff.renameLimit": "2000",
    "pack.threads": "2",
    "core.fsync": "committed",
    "core.fsyncMethod": "batch",
}


class Answer(Struct, frozen=True):
    """Git's output and exit status."""

    code: int
    out: bytes
    err: bytes


class Git(Struct, frozen=True):
    """Git for one git directory. Calling it returns the output, or raises with git's error message."""

    git_dir: Path
    work_tree: Path | None = None
    index: Path | None = None
    objects: Path | None = None
    settings: Mapping[str, str] | None = None
    author: tuple[str, str] = (NAME, EMAIL)

    def __call__(self, *args: str, stdin: bytes = b"", ok: Sequence[int] = (0,)) -> bytes:
        return self.ask(*args, stdin=stdin, ok=ok).out

    def line(self, *args: str, stdin: bytes = b"", ok: Sequence[int] = (0,)) -> str:
        return text(self(*args, stdin=stdin, ok=ok)).rstrip("\n")

    def ask(self, *args: str, stdin: bytes = b"", ok: Sequence[int] = (0,)) -> Answer:
        answer = _run(args, _environment(self), self.work_tree or self.git_dir, stdin)
        return _checked(answer, args, self.work_tree or self.git_dir, ok)

    def start(self, *args: str) -> Running:
        """A git that keeps running, to be written to and read from."""
        return Running(args, _environment(self), self.work_tree or self.git_dir)

    def beginning(self, *args: str, most: int) -> bytes:
        """The first `most` bytes of the output; git is stopped if it has more to say."""
        git = self.start(*args)
        out = git.read_up_to(most)
        if len(out) < most:
            _checked(git.end(), args, self.work_tree or self.git_dir, (0,))
        return out

    def over(self, *, work_tree: Path | None = None, index: Path | None = None) -> Git:
        """The same git directory, with other files or another index."""
        return replace(self, work_tree=work_tree or self.work_tree, index=index or self.index)


READ_BYTES = 1 << 17


class Running:
    """A git process with open pipes. It ends when this object is closed or collected, or after `TIMEOUT_S` of silence."""

    def __init__(self, args: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self._what = f"git {args[0]} in {cwd}"
        self._output = bytearray()  # read, and not yet taken
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (a pipe that nobody reads could fill)
        try:
            self._process = subprocess.Popen(
                [_program(), *args],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=env,
                cwd=cwd,
            )
        except OSError as err:
            self._errors.close()
            raise WorkspaceError(f"git {args[0]} cannot start in {cwd}: {err.strerror}.") from err
        self._close = weakref.finalize(self, _close, self._process, self._errors)

    def ask(self, requests: bytes) -> None:
        """Send requests; they are small enough for the pipe, so that git's answers never block them."""
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(requests)
            stdin.flush()
        except OSError:
            raise self._failure() from None

    def line(self) -> bytes:
        """The next line of the output, without its end."""
        while (end := self._output.find(b"\n")) < 0:
            if not self._more():
                raise self._failure()
        return self._take(end + 1)[:-1]

    def exactly(self, count: int) -> bytes:
        """The next `count` bytes of the output."""
        data = self.read_up_to(count)
        if len(data) < count:
            raise self._failure()
        return data

    def read_up_to(self, most: int) -> bytes:
        """The next `most` bytes of the output, or all that come before its end."""
        while len(self._output) < most and self._more():
            pass
        return self._take(most)

    def _more(self) -> bool:
        """Wait for more output; False at its end."""
        stdout = self._process.stdout
        assert stdout is not None
        silence = select.poll()
        silence.register(stdout, select.POLLIN)
        if not silence.poll(TIMEOUT_S * 1000):
            self._process.kill()
        data = os.read(stdout.fileno(), READ_BYTES)
        self._output += data
        return bool(data)

    def _take(self, count: int) -> bytes:
        data = bytes(self._output[:count])
        del self._output[:count]
        return data

    def end(self) -> Answer:
        """Close it; its exit status and what it complained about."""
        _stop(self._process)
        self._errors.seek(0)
        complaint = self._errors.read(1 << 16)
        self._close()
        return Answer(self._process.returncode, b"", complaint)

    def _failure(self) -> WorkspaceError:
        return WorkspaceError(f"{self._what} failed: {_complaint(self.end())}.")


def _close(process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    _stop(process)
    errors.close()


def _stop(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            assert pipe is not None
            pipe.close()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def reading_user(cwd: Path, *args: str, git_dir: Path | None = None, ok: Sequence[int] = (0,)) -> Answer:
    """A read-only question that needs the user's own configuration; only for commands that start no program."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"):
        if name in os.environ:
            env[name] = os.environ[name]
    env |= _steady() | ({"GIT_DIR": str(git_dir)} if git_dir else {})
    return _checked(_run(args, env, cwd, b""), args, cwd, ok)


def as_user(cwd: Path, env: Mapping[str, str], settings: Mapping[str, str], *args: str) -> Answer:
    """A command that needs the user's own configuration and credentials, and may start programs of theirs."""
    own = {name: value for name, value in env.items() if not name.startswith("GIT_CONFIG_")}
    quiet = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_SSH_COMMAND": "ssh -oBatchMode=yes", **own}
    return _run(args, {**quiet, "LC_ALL": "C", **_settings(settings)}, cwd, b"")


def text(raw: bytes) -> str:
    """A path or a name as text; bytes that are no UTF-8 survive the way there and back."""
    return raw.decode("utf-8", "surrogateescape")


def raw(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def names(listing: bytes) -> list[bytes]:
    """The entries of a NUL-separated listing, each once, in order."""
    return list(dict.fromkeys(name for name in listing.split(b"\0") if name))


def require_git() -> tuple[int, int]:
    """The version of git; refuses one that is missing or too old."""
    version = _version(_program())
    if version < OLDEST:
        raise WorkspaceError(
            f"git {version[0]}.{version[1]} is too old; install git {OLDEST[0]}.{OLDEST[1]} or newer."
        )
    return version


@functools.lru_cache(maxsize=4)
def _version(program: str) -> tuple[int, int]:
    out = subprocess.run([program, "version"], capture_output=True, env=_steady(), timeout=TIMEOUT_S).stdout
    numbers = re.search(rb"(\d+)\.(\d+)", out)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


def _program() -> str:
    program = shutil.which("git")
    if not program or not Path(program).is_absolute():
        raise WorkspaceError(f"git was not found; install git {OLDEST[0]}.{OLDEST[1]} or newer.")
    return program


def _steady() -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": "true",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
    }


def _environment(git: Git) -> dict[str, str]:
    name, email = git.author
    env = _steady() | {
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_DIR": str(git.git_dir),
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": email,
        "GIT_COMMITTER_NAME": NAME,
        "GIT_COMMITTER_EMAIL": EMAIL,
    }
    places = {
        "GIT_WORK_TREE": git.work_tree,
        "GIT_INDEX_FILE": git.index,
        "GIT_OBJECT_DIRECTORY": git.objects,
    }
    env |= {key: str(path) for key, path in places.items() if path}
    return env | _settings(dict(QUIET) | dict(EXACT if git.settings is None else git.settings))


def _settings(overrides: Mapping[str, str]) -> dict[str, str]:
    """Settings by environment: they beat every configuration file, as `-c` does."""
    env = {"GIT_CONFIG_COUNT": str(len(overrides))}
    for number, (key, value) in enumerate(overrides.items()):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return env


def _run(args: Sequence[str], env: Mapping[str, str], cwd: Path, stdin: bytes) -> Answer:
    try:
        process = subprocess.run(
            [_program(), *args], input=stdin, capture_output=True, env=env, cwd=cwd, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise WorkspaceError(
            f"git {args[0]} took longer than {TIMEOUT_S} s in {cwd}; see what keeps the disk busy."
        ) from None
    except OSError as err:
        raise WorkspaceError(f"git {args[0]} cannot start in {cwd}: {err.strerror}.") from err
    return Answer(process.returncode, process.stdout, process.stderr)


def _checked(answer: Answer, args: Sequence[str], where: Path, ok: Sequence[int]) -> Answer:
    if answer.code in ok:
        return answer
    if b"No space left on device" in answer.err:
        raise WorkspaceError(f"The disk that holds {where} is full; free some space and resume.")
    raise WorkspaceError(f"git {args[0]} failed in {where}: {_complaint(answer)}.")


def _complaint(answer: Answer) -> str:
    """Git's own words: its last error line, or its last line, or its exit status."""
    lines = [text(line).strip() for line in answer.err.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("fatal:", "error:"))]
    words = (errors or lines or [f"exit status {answer.code}"])[-1]
    return words.removeprefix("fatal: ").removeprefix("error: ").rstrip(".")


REQUEST_BYTES = 16_384  # less than a pipe holds: writing never waits for git to read


class Objects:
    """Sizes and contents by id or by name (`<tree>:<path>`). Git is started with the first question."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._running: Running | None = None

    def sizes(self, oids: Iterable[str]) -> dict[str, int]:
        """The size of each object that is there."""
        names = list(dict.fromkeys(oids))
        heads = {name: self._head() for name in self._asked("info", names)}
        return {name: head[1] for name, head in heads.items() if head}

    def blobs(self, names: Sequence[str]) -> list[bytes | None]:
        """The content of each blob, by id or name; None for what is none."""
        plain = [name for name in dict.fromkeys(names) if not _breaks_lines(name)]
        contents = {name: self._content() for name in self._asked("contents", plain)}
        return [self._alone(name) if _breaks_lines(name) else contents[name] for name in names]

    def _asked(self, command: str, names: Sequence[str]) -> Iterator[str]:
        """Each name, when its answer is the next to be read. Requests are sent in batches."""
        waiting: list[str] = []
        requests = b""
        for name in names:
            request = command.encode() + b" " + raw(name) + b"\n"
            if waiting and len(requests) + len(request) > REQUEST_BYTES:
                self._open().ask(requests)
                yield from waiting
                waiting, requests = [], b""
            waiting.append(name)
            requests += request
        if waiting:
            self._open().ask(requests)
            yield from waiting

    def _open(self) -> Running:
        if self._running is None:
            self._running = self._git.start("cat-file", "--batch-command")
        return self._running

    def _head(self) -> tuple[bytes, int] | None:
        """An object's type and size; None if it is missing."""
        words = self._open().line().rsplit(b" ", 2)
        return (words[1], int(words[2])) if words[-1].isdigit() else None

    def _content(self) -> bytes | None:
        head = self._head()
        content = self._open().exactly(head[1] + 1)[:-1] if head else b""
        return content if head and head[0] == b"blob" else None

    def _alone(self, name: str) -> bytes | None:
        answer = self._git.ask("cat-file", "blob", name, ok=(0, 128))
        return None if answer.code else answer.out


def _breaks_lines(name: str) -> bool:
    return "\n" in name or "\r" in name


class Plan(Struct, frozen=True):
    """What a new git directory holds. `refs` are full names to object ids."""

    object_format: str
    alternates: Sequence[Path]
    head: str = "refs/heads/main"
    refs: Mapping[str, str] = {}
    shallow: bytes = b""
    attributes: bytes = b""
    bare: bool = True


def make_git_dir(path: Path, plan: Plan) -> None:
    """A git directory after the plan, complete enough for every git command."""
    for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info", "hooks"):
        (path / folder).mkdir(parents=True, exist_ok=True)
    (path / "objects/info/alternates").write_bytes(b"".join(_alternate(store) for store in plan.alternates))
    (path / "config").write_text(config_text(plan.object_format, bare=plan.bare))
    (path / "packed-refs").write_text("".join(f"{oid} {name}\n" for name, oid in sorted(plan.refs.items())))
    (path / "info/attributes").write_bytes(plan.attributes)
    if plan.shallow:
        (path / "shallow").write_bytes(plan.shallow)
    target = plan.head if len(plan.head) in (40, 64) else f"ref: {plan.head}"
    (path / "HEAD").write_text(f"{target}\n")


def config_text(object_format: str, *, bare: bool) -> str:
    """The whole configuration of a git directory made here."""
    version = 0 if object_format == "sha1" else 1
    lines = ["[core]", f"\trepositoryformatversion = {version}", "\tfilemode = true"]
    lines += [f"\tbare = {str(bare).lower()}", "\tlogallrefupdates = true", "[gc]", "\tauto = 0"]
    lines += ["[user]", f"\tname = {NAME}", f"\temail = {EMAIL}"]
    if version:
        lines += ["[extensions]", f"\tobjectFormat = {object_format}"]
    return "\n".join(lines) + "\n"


def _alternate(store: Path) -> bytes:
    name = os.fsencode(store)
    quoted = name.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    return b'"' + quoted + b'"\n' if name.startswith((b'"', b"#")) or b"\\" in name else name + b"\n"


def read_ref(git_dir: Path, name: str) -> str:
    """The object id a reference of ours holds; empty if there is none."""
    try:
        return (git_dir / name).read_text().strip()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""


def numbers_in(folder: Path) -> list[int]:
    """The references in a folder of ours that are called by a number, in order."""
    entries = folder.iterdir() if folder.is_dir() else iter(())
    return sorted(int(path.name) for path in entries if path.name.isdecimal())


def write_ref(git_dir: Path, name: str, oid: str) -> None:
    (git_dir / name).parent.mkdir(parents=True, exist_ok=True)
    write_whole(git_dir / name, f"{oid}\n".encode())


def write_whole(path: Path, content: bytes) -> None:
    """The file holds the old content or the new, never a part, also after a power cut."""
    try:
        state_dir.write_whole(path, content, mode=0o644)
    except OSError as err:
        raise WorkspaceError(f"{path} cannot be written: {err.strerror}.") from err


def pack_into(git: Git, target: Path, include: Sequence[str], exclude: Sequence[str]) -> None:
    """The objects of `wanted` that are not in `known`, as a pack in another git directory of ours."""
    revisions = "".join(f"{oid}\n" for oid in include) + "".join(f"^{oid}\n" for oid in exclude)
    base = str(target / "objects/pack/pack")
    git("pack-objects", "-q", "--revs", "--non-empty", base, stdin=revisions.encode())


@contextlib.contextmanager
def draft_of(index: Path) -> Generator[Path]:
    """A copy of an index to work on; it takes the original's place only if all went well.

    The copy keeps its time stamp: git tells by it which files changed too soon after the index to be trusted.
    """
    draft = index.with_name(f"{index.name}.{os.getpid()}.{threading.get_ident()}.draft")
    if index.exists():
        shutil.copy2(index, draft)
    try:
        yield draft
        if draft.exists():
            draft.replace(index)
    finally:
        draft.unlink(missing_ok=True)
        draft.with_name(draft.name + ".lock").unlink(missing_ok=True)
