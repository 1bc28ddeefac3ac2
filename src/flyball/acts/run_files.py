"""A run's files, what its processes can see, and how one command of an act runs under its keeper."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import cache
from importlib import resources
from pathlib import Path

import msgspec

from flyball.agents import process, sandbox
from flyball.agents.sandbox import Bind, Sandbox, View, manager_roots, needed
from flyball.domain import events as e
from flyball.domain.settings import Settings
from flyball.errors import AgentError, Corrupt, FlyballError, Gone, UserError
from flyball.evidence.certificate import Story, story
from flyball.guard import policy as policies
from flyball.guard.secrets import redact
from flyball.journal import Row
from flyball.journal.sqlite import SqliteJournal
from flyball.runners import observe
from flyball.state.fold import BY_A_PERSON
from flyball.state.run import Run
from flyball.state_dir import RunDir, StateDir, changed_files, remove, write_whole
from flyball.workspace import Workspace
from flyball.workspace.repo import GIT_HOOKS

PASSED_ON = (
    "PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TERM",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)
UNSANDBOXED = "unsandboxed"
CALM = {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": "-p no:cacheprovider", "CI": "1", "NO_COLOR": "1"}


@cache
def shipped_policies() -> policies.Policies:
    return policies.parse(
        resources.files("flyball.guard").joinpath("policies/default.toml").read_text("utf-8")
    )


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """What a process of a run can see besides the system's own folders. `lent_…`: the user's own files that an agent may use."""

    files: Path
    home: Path
    network: str
    reads: tuple[str, ...] = ()
    bridges: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    lent_reads: tuple[Bind, ...] = ()
    lent_writes: tuple[Bind, ...] = ()
    read_only: bool = False


class RunFiles(msgspec.Struct, frozen=True):
    """The state directory as acts see it."""

    state_dir: Path
    sandbox: Sandbox
    environment: dict[str, str]
    verified: dict[str, tuple[int, str]] = msgspec.field(default_factory=dict[str, tuple[int, str]])
    """Of each run: the last event whose chain was verified here, and its hash."""

    def owner(self, run: Run) -> str:
        """The run whose checkout this run works in."""
        return run.id if run.owner else run.began.root

    @property
    def dirs(self) -> StateDir:
        return StateDir(self.state_dir)

    def run_dir(self, run: Run) -> RunDir:
        return self.dirs.run(self.owner(run))

    def folder_of_repo(self, run: Run) -> Path:
        return Path(run.began.repo)

    def act_folder(self, key: str) -> Path:
        return self.dirs.act(key)

    def workspace(self, run: Run) -> Workspace:
        return Workspace.open(self.run_dir(run).path)

    def policy(self, run: Run) -> policies.Policy:
        """The policy as it was when the run began."""
        pinned = self.run_dir(run).pinned / "policy.toml"
        text = pinned.read_text("utf-8") if pinned.exists() else ""
        return policies.parse(text, shipped_policies()).get(run.settings.policy)

    def instructions(self, run: Run, role: str) -> str:
        """What the repository adds to the prompt of this role, as it was when the run began."""
        pinned = self.run_dir(run).pinned / "prompts" / f"{role}.md"
        return pinned.read_text("utf-8") if pinned.is_file() else ""

    def story(self, run: Run, act: e.Act) -> Story:
        """From the journal, through a connection of this thread's own."""
        with self._journal() as journal:
            return story(journal, run, act)

    def _journal(self) -> closing[SqliteJournal]:
        return closing(SqliteJournal(self.dirs.journal))

    def ended_tasks(self, run: Run, most: int) -> list[tuple[Row, e.RunBegan]]:
        """The last tasks of this repository that ended in success, with their first events."""
        with self._journal() as journal:
            rows = journal.rows(repo=run.began.repo, status="ended", machine="task", limit=most)
            first = [next(iter(journal.read(row.run))) for row in rows if row.end == "success"]
        starts = {entry.run: e.decode(entry.body) for entry in first}
        began = ((row, starts.get(row.run)) for row in rows)
        return [(row, event) for row, event in began if isinstance(event, e.RunBegan)]

    def user_hooks(self, run: Run) -> Path:
        """The user's git hooks as they were when the run began."""
        return self.run_dir(run).pinned / GIT_HOOKS

    def tampered(self, run: Run, *, whole: bool = False) -> str:
        """GUARD-5: what was changed since the run began: a pinned file or the journal; "" if nothing was.

        After a turn only the events that are new since the last look are verified; with `whole`, all are.
        """
        if run.began.parent and not run.began.pinned:
            return ""  # it began before children knew
        changed = changed_files(self.run_dir(run).pinned, run.began.pinned)
        return changed[0] if changed else self._journal_touched(run, whole)

    def _journal_touched(self, run: Run, whole: bool) -> str:
        seq, head = (0, "") if whole else self.verified.get(run.id, (0, ""))
        try:
            with self._journal() as journal:
                if journal.hash_at(run.id, seq) != head:
                    return "the journal"
                for entry in journal.read(run.id, seq):
                    seq, head = entry.seq, entry.hash
        except Corrupt:
            return "the journal"
        self.verified[run.id] = (seq, head)
        return "" if seq else "the journal"

    def env(self, run: Run, home: Path) -> dict[str, str]:
        variables = self.known(run)
        passed_on = {name: variables[name] for name in PASSED_ON if name in variables}
        return {
            **passed_on,
            **manager_roots(variables),
            "HOME": str(home),
            "FLYBALL_RUN": run.id,
            "TMPDIR": "/tmp" if self.mounted(run) else str(home / "tmp"),
        }

    def known(self, run: Run) -> dict[str, str]:
        """The environment, with what was pinned when the run began: `resume` may come from another shell."""
        return {**self.environment, **run.began.environment}

    def allowed_hosts(self, run: Run) -> tuple[str, ...]:
        """Hosts that a person has allowed for this run or for the run that it is part of."""
        if not run.began.parent:
            return run.checkout.hosts
        with self._journal() as journal:
            kind = e.Told.__name__
            events = [e.decode(entry.body) for entry in journal.read(run.began.root) if entry.kind == kind]
            above = tuple(event.host for event in events if isinstance(event, e.Told) and event.host)
        return (*above, *run.checkout.hosts)

    def sandbox_of(self, run: Run) -> Sandbox:
        """The sandbox that the run has had from its start. If it no longer works, nothing runs without it."""
        mode = "none" if run.checkout.sandbox == UNSANDBOXED else run.checkout.sandbox or run.settings.sandbox
        fits = mode in (self.sandbox.kind, "auto", "required")
        chosen_sandbox = self.sandbox if fits else sandbox.probe(mode)
        if chosen_sandbox.kind == "none" and mode not in ("none", "auto"):
            raise Gone(f"the sandbox of this run is gone: {chosen_sandbox.why}")
        return chosen_sandbox

    def confined(self, run: Run) -> bool:
        return self.sandbox_of(run).kind != "none"

    def mounted(self, run: Run) -> bool:
        """The checkout is seen at the repository's own path."""
        return self.sandbox_of(run).mounts

    def never_began(self, folder: Path, exit_status: process.Exit) -> None:
        """If the sandbox cannot start anything, that is the machine's fault, not the command's."""
        why = sandbox.never_began(exit_status, process.read_err(folder))
        if why:
            text = f"the sandbox does not start: {redact(why)[:300]}"
            raise AgentError(text) if sandbox.vanished(why) else Gone(text)

    def _same(self, *paths: str) -> tuple[tuple[str, str], ...]:
        return tuple((path, path) for path in paths)

    def home(self, run: Run, name: str) -> Path:
        home = self.run_dir(run).home(name)
        (home / "tmp").mkdir(mode=0o700, parents=True, exist_ok=True)
        return home

    def fresh_home(self, run: Run, name: str) -> Path:
        """The same home, emptied."""
        remove(self.run_dir(run).home(name))
        return self.home(run, name)

    def enclosed(self, run: Run, argv: tuple[str, ...], reach: Reach) -> tuple[str, ...]:
        """The command inside its sandbox: the checkout at the repository's own path, all else out of reach."""
        chosen_sandbox = self.sandbox_of(run)
        if chosen_sandbox.kind == "none":
            return argv
        if chosen_sandbox.mounts:
            make_mount_points(reach.files, self.workspace(run).repo_root, run.settings.share)
        return tuple(sandbox.enclose(chosen_sandbox, argv, self._view(run, chosen_sandbox, reach)))

    def _view(self, run: Run, chosen_sandbox: Sandbox, reach: Reach) -> View:
        work, strict = self.workspace(run), run.settings.view == "strict"
        repo = str(work.repo_root)
        stores = self._same(
            *(str(s) for s in work.object_stores() if not (chosen_sandbox.mounts and s.is_relative_to(repo)))
        )  # what lies in the repository is seen through work.objects; there it would cover the checkout's own
        tools = needed(self.known(run), reach.programs, (repo, str(self.state_dir)), strict=strict)
        return View(
            checkout=str(reach.files),
            at=repo,
            home=str(reach.home),
            user_home=self.environment.get("HOME"),
            ro_binds=(*stores, *self._same(str(work.objects), *tools, *reach.reads), *reach.lent_reads),
            rw_binds=reach.lent_writes,
            hidden=(str(self.state_dir),),
            shares=self._same(*(f"{repo}/{n}" for n in run.settings.share if Path(repo, n).exists())),
            network=msgspec.convert(reach.network, sandbox.Network),
            bridges=reach.bridges,
            strict=strict,
            read_only=reach.read_only,
        )


def make_mount_points(files: Path, repo: Path, share: Sequence[str]) -> None:
    """What is shared is mounted over something: a checkout that may only be read cannot be given it later.

    An agent may have put a link in the way; nothing is made through one.
    """
    for name in share:
        places = [files / part for part in (*reversed(Path(name).parents), Path(name))]
        if not (repo / name).exists() or any(place.is_symlink() for place in places):
            continue
        place = files / name
        with suppress(OSError):  # something of the agent's is in the way: the sandbox says so
            folder = place if (repo / name).is_dir() else place.parent
            folder.mkdir(parents=True, exist_ok=True)
            place.touch()


def require(settings: Settings) -> Sandbox:
    """The sandbox that a run gets; refused if the settings require one that is not available."""
    sandbox_ = sandbox.probe(settings.sandbox)
    if sandbox_.kind == "none" and settings.sandbox not in ("none", "auto"):
        name = {"bwrap": "bubblewrap", "landlock": "Landlock"}.get(settings.sandbox, "a sandbox")
        raise UserError(
            f"guard.sandbox requires {name}, but it does not work here: {sandbox_.why}. "
            "Install bubblewrap or set guard.sandbox."
        )
    return sandbox_


def share_links(run: Run, repo: Path, files: Path) -> None:
    """Without a sandbox the shared folders are links into the repository."""
    for name in run.settings.share:
        target, link = repo / name, files / name
        if target.exists() and not os.path.lexists(link):
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)


LOG_MOST = 4 << 20
HEAD_MOST = 1 << 20  # of a longer output, this and the last LOG_MOST bytes are kept
PROOF = "proof"  # the home of proofs
OBSERVED = ".observe"  # in that home: probes, and the reports they write
INTERRUPTIONS = {
    "stopped": BY_A_PERSON,
    "orphaned": "no Flyball process was running it",
    "lost": "its keeper was killed",
}


def interruption(exit_status: process.Exit) -> str:
    """Why a process did not end by itself; "" if it did, or if Flyball ended it because of what it did."""
    return INTERRUPTIONS.get(exit_status.reason, "")


def spec(
    run_files: RunFiles,
    run: Run,
    command: str,
    files: Path,
    home: str,
    limit_us: int,
    network: str,
    reads: tuple[str, ...] = (),
    *,
    observer: observe.Observer | None = None,
) -> process.Spec:
    """A shell command in a checkout, with a private home and a time limit.

    A proof's home is new each time and its environment names neither Flyball nor the run (EVID-1). `observer`: the
    test runners in it are asked for a report, and the room is dressed.
    """
    proving = home == PROOF
    private = run_files.fresh_home(run, home) if proving else run_files.home(run, home)
    line = observer.line(command) if observer else command
    reads = (*reads, str(observer.tools)) if observer and observer.tools else reads
    reach = Reach(files=files, home=private, network=network, reads=reads)
    argv = run_files.enclosed(run, ("/bin/sh", "-c", line), reach)
    env = {**run_files.env(run, private), **CALM}
    if proving:
        env = {name: value for name, value in env.items() if not name.startswith("FLYBALL_")}
    if observer:
        env = observer.prepare(private / OBSERVED, env)
    confined = run_files.confined(run)
    return process.Spec(
        argv=argv,
        cwd=str(files),
        env=env,
        wall_s=limit_us / 1_000_000,
        status=confined,
        processes=run.settings.processes,
    )


def attend(place: Path, stop: process.Stop) -> process.Exit:
    """Wait for its end, then remove secrets from what it wrote, and the middle of a flood."""
    exit_status = process.attend(place, stop=stop)
    for name in WRITTEN:
        _shorten(place / name)
    scrub(place, stop)
    return exit_status


class SetupStopped(FlyballError):
    """A setup or a proof was stopped before it had finished."""


def run_setup(run_files: RunFiles, run: Run, folder: Path, files: Path, home: str, stop: process.Stop) -> str:
    """`[workspace] setup` in a new checkout; what went wrong as a sentence, "" if nothing."""
    for number, command in enumerate(run.settings.setup):
        place = folder / f"setup-{number}"
        if process.look(place) == "unclaimed":
            limit = run.settings.proof_timeout_us
            process.begin(place, spec(run_files, run, command, files, home, limit, "all"))
        exit_status = attend(place, stop)
        if why := interruption(exit_status):
            raise SetupStopped(why)
        run_files.never_began(place, exit_status)
        if not exit_status.well:
            last = last_line(log_of(place))
            return f"The setup command '{command}' failed ({how(exit_status)}): {last}. Correct [workspace] setup."
    return ""


def log_of(place: Path) -> str:
    out, err = process.read_out(place, LOG_MOST), process.read_err(place, LOG_MOST)
    return (out + err).decode("utf-8", "replace")


def how(exit_status: process.Exit) -> str:
    return {
        "wall": "it exceeded its time limit",
        "swarm": exit_status.error,
        "cannot_start": exit_status.error,
    }.get(exit_status.reason, f"exit code {exit_status.code}")


def last_line(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return redact(lines[-1])[:300] if lines else ""


# ---- secrets in what it wrote --------------------------------------------------------------------------------

WRITTEN = ("out", "err")
CHUNK = 1 << 18
LINE_MOST = 1 << 20  # a longer line is cut: a thread that searches it lets no other one work meanwhile


def scrub(place: Path, stop: process.Stop | None = None) -> None:
    """The act's output as it may be kept. After a `stop` only the end of what is left is checked and kept."""
    for name in WRITTEN:
        _scrub(place / name, stop)


def _shorten(file: Path) -> None:
    """Checking every line of a flood for secrets would take minutes, and nobody reads it."""
    size = file.stat().st_size if file.exists() else 0
    if size <= HEAD_MOST + LOG_MOST + CHUNK:
        return
    with file.open("rb") as stream:
        head = stream.read(HEAD_MOST)
        stream.seek(size - LOG_MOST)
        tail = stream.read()
    head, tail = head[: _last_word(head)], tail[tail.find(b"\n", 0, CHUNK) + 1 :]
    note = f"\n[{size - len(head) - len(tail)} bytes left out]\n"
    write_whole(file, head + note.encode() + tail, sync=False)


def _last_word(data: bytes) -> int:
    """Where it begins: cut there, no word is cut in two, which may be a secret. One too long for that counts as none."""
    gap = max(data.rfind(sign, max(0, len(data) - CHUNK)) for sign in (b" ", b"\n", b"\t"))
    return gap + 1 if gap >= 0 else len(data)


def _scrub(file: Path, stop: process.Stop | None) -> None:
    try:
        before = file.read_bytes()
    except OSError:
        return
    after, chunks = list[bytes](), _chunks(before)
    for number, chunk in enumerate(chunks, 1):
        if stop is None or not stop.is_set() or number == len(chunks):
            after.append(_clean(chunk))
    if (clean_data := b"".join(after)) != before:
        write_whole(file, clean_data, sync=False)


def _chunks(data: bytes) -> list[bytes]:
    """Whole lines, a good many at a time; a key of many lines is not cut in two if it fits."""
    parts, at = list[bytes](), 0
    while at < len(data):
        end = data.find(b"\n", at + CHUNK, at + LINE_MOST)
        if end < 0 and len(data) - at > LINE_MOST:
            end = at + _last_word(data[at : at + LINE_MOST])
        else:
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
    text_ = redact(text)
    return chunk if text_ == text else text_.encode("utf-8", "surrogateescape")
