"""Whatever part of the guard is broken, and however: no run goes on unguarded."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.helpers import ACCEPTS, FIXED, Yard, command

from flyball.acts.run_files import shipped_policies
from flyball.agents import landlock, reach
from flyball.agents.sandbox import probe
from flyball.guard.change import Change
from flyball.guard.changes import judge_changes
from flyball.guard.commands import default_policy, judge_command
from flyball.journal.database import Driver
from flyball.runtime.app import App
from flyball.runtime.start import RunRequest, launch
from flyball.state.run import Run

QUICK = "grep -q a.+.b calc.py"
POLICY = "[policy.default.radius]\nfiles_ask = 9\n"
FORBIDDEN = {".flyball/policy.toml": "# mine\n", "calc.py": FIXED}


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    made = Yard(tmp_path)
    made.make({".flyball/policy.toml": POLICY})
    yield made
    made.clear()


def unguarded(yard: Yard) -> list[str]:
    """Branches of runs on which something stands that the guard would have refused."""
    branches = yard.git("for-each-ref", "--format=%(refname)", "refs/heads/flyball").split()
    return [b for b in branches if yard.git("show", f"{b}:.flyball/policy.toml") != POLICY.strip()]


def broken_by(yard: Yard, deed: str, *more: str) -> tuple[int, str, str]:
    """A run whose agent, without a sandbox, breaks something and changes what it may not."""
    agent = yard.script(worker=[{"run": deed, "write": FORBIDDEN}])
    words = yard.words(agent, "--set", "guard.sandbox=none", *more, machine="loop", proof=None)
    done = yard.flyball(*words)
    facts = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    return done.returncode, (facts.get("stop_reason") or {}).get("code", ""), done.stdout + done.stderr


# ---- while it runs: files removed, programs broken ----------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "deed", "code"),
    [
        ("the policy is gone", "rm <run>/pinned/policy.toml", "blocked.tampering"),
        ("the policy is garbage", "printf '\\377[[[' > <run>/pinned/policy.toml", "blocked.tampering"),
        ("the sockets are gone", "rm -f <state>/acts/*/sock <state>/drivers/*.bell", "blocked.tampering"),
        (
            "the keeper is killed",
            "kill -9 $(cut -d. -f1 $(ls -t <state>/acts/*/claim | head -1))",
            "wait.infrastructure",
        ),
        (
            "no act can be begun",
            "mv <state>/acts <state>/acts.old; touch <state>/acts",
            "wait.infrastructure",
        ),
        ("Flyball's objects are gone", "rm -rf <run>/git/objects", "wait.infrastructure"),
        ("Flyball's index is garbage", "echo garbage > <run>/git/index", "blocked.tampering"),
        ("git does not work", "printf '#!/bin/sh\\nexit 1\\n' > <bin>/git", "wait.infrastructure"),
        ("git answers nonsense", "printf '#!/bin/sh\\necho nonsense\\n' > <bin>/git", "wait.infrastructure"),
    ],
    ids=lambda value: value if " " in value and len(value) < 30 else "",
)
def test_a_part_that_breaks_during_a_turn_stops_the_run(yard: Yard, part: str, deed: str, code: str) -> None:
    tools = yard.folder / "bin"
    tools.mkdir()
    real = next(p for f in yard.env["PATH"].split(os.pathsep) if os.access(p := f"{f}/git", os.X_OK))
    (tools / "git").write_text(f'#!/bin/sh\nexec {real} "$@"\n')
    (tools / "git").chmod(0o755)
    yard.env = {**yard.env, "PATH": f"{tools}{os.pathsep}{yard.env['PATH']}"}
    run = f"{yard.state}/runs/$FLYBALL_RUN"
    deed = deed.replace("<run>", run).replace("<state>", str(yard.state)).replace("<bin>", str(tools))
    exit_code, seen, said = broken_by(yard, deed)
    (tools / "git").write_text(f'#!/bin/sh\nexec {real} "$@"\n')
    assert seen == code, said
    assert exit_code in (3, 4) and unguarded(yard) == []


# ---- before it runs ----------------------------------------------------------------------------------------


def test_a_policy_that_cannot_be_read_starts_nothing(yard: Yard) -> None:
    policy = yard.repo / ".flyball/policy.toml"
    bad_line = "[policy.default.lines.x]\nverdict='ask'\nreason='x'\nfiles=['a']\nlines=['(']\n"
    for text in ("[[[", "[policy.default]\nno_such = 1\n", bad_line, None):
        if text is None:
            policy.unlink()
            policy.mkdir()
        else:
            policy.write_text(text)
        exit_code, _, said = broken_by(yard, "true")
        assert exit_code == 2 and "olicy" in said and "Traceback" not in said
    assert not list(yard.state.glob("runs/*/checkout")) and unguarded(yard) == []


@pytest.mark.skipif(probe("landlock").kind != "landlock", reason=probe("landlock").why)
def test_where_no_kind_of_sandbox_works_required_refuses(yard: Yard) -> None:
    """No bubblewrap on the path, and as many layers of Landlock already as a process can have."""
    tools = yard.folder / "tools"
    tools.mkdir()
    for name in ("git", "python3", "sh", "grep"):
        found = next(p for f in yard.env["PATH"].split(os.pathsep) if os.access(p := f"{f}/{name}", os.X_OK))
        (tools / name).symlink_to(found)
    agent = yard.script(coder=[{"write": FORBIDDEN}], critic=ACCEPTS)
    argv = command(*yard.words(agent, "--set", "guard.sandbox=required", proof=QUICK))
    for _ in range(16):
        argv = reach.command(argv, ["/"], ["/"])
    done = subprocess.run(
        argv, cwd=yard.repo, env={**yard.env, "PATH": str(tools)}, capture_output=True, text=True
    )
    assert done.returncode == 2 and "guard.sandbox" in done.stderr and "Landlock" in done.stderr, done.stderr
    assert not list(yard.state.glob("runs/*")) and unguarded(yard) == []
    assert landlock.abi() > 0


# ---- the disk and the clock --------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [2_000, 120_000])
def test_a_full_disk_lets_nothing_past(yard: Yard, most: int) -> None:
    """No file may grow beyond this: the journal, git's objects and the act's own files fail to be written."""
    agent = yard.script(coder=[{"write": FORBIDDEN}], critic=ACCEPTS)
    done = subprocess.run(
        command(*yard.words(agent, "--set", "guard.sandbox=none", proof=QUICK)),
        cwd=yard.repo,
        env=yard.env,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
    )
    assert done.returncode != 0 and "Traceback" not in done.stderr, (done.returncode, done.stderr)
    assert unguarded(yard) == []


class Mad:
    """A clock that jumps: far ahead, back to the beginning, and far ahead again."""

    def __init__(self, *times: int) -> None:
        self.times, self.asked = times, 0

    def now(self) -> int:
        self.asked += 1
        return self.times[self.asked % len(self.times)]


@pytest.mark.parametrize("times", [(1 << 61, 0, 5), (-5, 1 << 61)], ids=["jumping", "below zero"])
def test_a_wrong_clock_lets_nothing_past(yard: Yard, times: tuple[int, ...]) -> None:
    app = App(yard.env)
    app.clock = Mad(*times)  # type: ignore[assignment]
    agent = yard.script(coder=[{"write": FORBIDDEN}], critic=ACCEPTS)
    sets = ("guard.sandbox=none", f"proof.commands={json.dumps([QUICK])}")
    request = RunRequest(
        task="Mend it", repo=yard.repo, machine="build", agents=(agent,), sets=sets, trusted=True
    )
    event = launch(app, request)[0]
    driver = Driver(app.state_dir)
    supervisor = app.supervisor(driver)
    supervisor.begin(event)
    supervisor.drive(lambda: supervisor.driven[event.run].run.status != "running")
    run: Run = supervisor.driven[event.run].run
    supervisor.close()
    driver.close()
    app.close()
    assert run.stop is not None and (run.status, run.stop.code) != ("ended", "completed")
    assert run.stop.code in ("blocked.tampering", "limit.time", "timeout.phase") and unguarded(yard) == []


# ---- judges that raise ---------------------------------------------------------------------------------------


LONG = "a = " + "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


class Bomb(str):
    """A text that cannot be looked into."""

    def lower(self) -> str:
        raise RuntimeError("a rule broke")

    def __len__(self) -> int:
        raise RuntimeError("a reader broke")

    def splitlines(self, keepends: bool = False) -> list[str]:
        raise RuntimeError("a reader broke")


class Gone(dict[str, tuple[str | None, str | None]]):
    def get(self, *_: object) -> tuple[str | None, str | None]:  # type: ignore[override]
        raise OSError("the text is gone")


def test_a_judge_of_changes_that_raises_refuses() -> None:
    change = Change(path="a.py", op="add", lines_added=1, added=("x = 1",))
    for changes, texts in (
        ([change], Gone({"a.py": (None, None)})),
        ([change], {"a.py": (None, Bomb("x = 1"))}),
        ([Change(path="a.py", op="add", added=(Bomb(LONG),))], {}),
        ([None], {}),
    ):
        ruling = judge_changes(changes, shipped_policies().get(), workspace="/w", texts=texts)  # type: ignore[arg-type]
        assert (ruling.verdict, ruling.rule, ruling.waivable) == ("deny", "guard-error", False)


def test_a_judge_of_commands_that_raises_never_allows() -> None:
    for line in ("(" * 20_000, "$(" * 5_000 + ")" * 5_000, "a" * 10_000_000, "\0", "\udcff", Bomb("ls")):
        assert judge_command(line, default_policy("/w", "/home/dev")).verdict != "allow"
