"""One process of an act under its keeper: confined, ended in time, its output kept without secrets."""

from __future__ import annotations

from pathlib import Path

from flyball.acts.run_files import CALM, RunFiles
from flyball.agents import process
from flyball.core.run import BY_A_PERSON, Run
from flyball.errors import FlyballError
from flyball.guard.secrets import redact
from flyball.runners import observe
from flyball.state_dir import write_whole

LOG_MOST = 8 << 20
PROOF = "proof"  # the home of proofs
OBSERVED = ".observe"  # in that home: probes, and the reports they write
INTERRUPTIONS = {
    "stopped": BY_A_PERSON,
    "orphaned": "no process drove it",
    "lost": "its keeper was killed",
}


def interruption(ended: process.Exit) -> str:
    """Why a process did not come to its own end; "" if it did, or was ended for what it did."""
    return INTERRUPTIONS.get(ended.reason, "")


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
    argv = run_files.enclosed(run, ("/bin/sh", "-c", line), files, private, network, reads)
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
    """Wait for its end, then remove secrets from what it wrote."""
    ended = process.attend(place, stop=stop)
    scrub(place)
    return ended


class SetupStopped(FlyballError):
    """A setup or a proof was stopped before it had finished."""


def run_setup(run_files: RunFiles, run: Run, folder: Path, files: Path, home: str, stop: process.Stop) -> str:
    """`[workspace] setup` in a new checkout; what went wrong as a sentence, "" if nothing."""
    for number, command in enumerate(run.settings.setup):
        place = folder / f"setup-{number}"
        if process.look(place) == "unclaimed":
            limit = run.settings.proof_timeout_us
            process.begin(place, spec(run_files, run, command, files, home, limit, "all"))
        ended = attend(place, stop)
        if why := interruption(ended):
            raise SetupStopped(why)
        run_files.never_began(place, ended)
        if not ended.well:
            last = last_line(log_of(place))
            return f"The setup command '{command}' failed ({how(ended)}): {last}. Correct [workspace] setup."
    return ""


def log_of(place: Path) -> str:
    out, err = process.read_out(place, LOG_MOST), process.read_err(place, LOG_MOST)
    return (out + err).decode("utf-8", "replace")


def how(ended: process.Exit) -> str:
    return {"wall": "it exceeded its time limit", "swarm": ended.error, "cannot_start": ended.error}.get(
        ended.reason, f"exit code {ended.code}"
    )


def last_line(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return redact(lines[-1])[:300] if lines else ""


# ---- secrets in what it wrote --------------------------------------------------------------------------------

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
