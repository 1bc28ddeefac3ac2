"""Flyball's own time for one turn in repositories of 50 and 5,000 files, beside a shell loop that commits: see what changed, judge it, keep it, publish it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from bench.figure import Beside, Figure
from bench.resume import write_history
from bench.timing import median, seconds
from bench.yard import ENDLESS, now_us
from flyball.acts.run_files import RunFiles
from flyball.acts.turn import judge
from flyball.agents.sandbox import Sandbox
from flyball.domain import events as e
from flyball.machines import shipped
from flyball.state.fold import begin
from flyball.state.run import Run
from flyball.workspace import Workspace, inspect_repo

T = TypeVar("T")
GOAL = 80.0
FEW, FILES, EVENTS = 50, 5_000, 1_000
BODY = "".join(f"def f{n}(line):\n    return line + {n}\n" for n in range(30))


def figures(folder: Path, quick: bool) -> list[Figure]:
    many, turns = (1_000, 4) if quick else (FILES, 9)
    return [_upkeep(folder / str(files), files, turns) for files in (FEW, many)]


def _upkeep(folder: Path, files: int, turns: int) -> Figure:
    repo, state = folder / "repo", folder / "state"
    _make(repo, files)
    work = Workspace.create(state / "runs/r1", inspect_repo(repo), "r1")
    plain = folder / "plain"
    _git(folder, "clone", "-q", str(repo), str(plain))
    run_files = RunFiles(state, Sandbox(kind="none", why="not measured"), dict(os.environ))
    run = _run(repo, work)
    write_history(state, EVENTS)  # it is read anew after each turn
    time.sleep(
        1.1
    )  # git reads files again that are as old as its index, to the second; an agent takes longer than that
    taken: list[dict[str, float]] = []
    peer: list[float] = []
    for turn in range(1, turns + 1):
        taken.append(_turn(run_files, run, work, turn))
        peer.append(_committed(plain, turn))
    whole = [sum(parts.values()) for parts in taken[1:]]
    parts = {name: median([one[name] for one in taken[1:]]) for name in taken[0]}
    return Figure(
        name=f"a turn's upkeep in a repository of {files:,} files",
        value=median(whole),
        unit="ms",
        goal=GOAL,
        beside=(Beside("a shell loop with git add -A, git commit", median(peer[1:])),),
        parts=parts,
    )


def _run(repo: Path, work: Workspace) -> Run:
    began = e.RunBegan(
        at=now_us(),
        run="r1",
        machine="loop",
        table=shipped("loop").table,
        settings=ENDLESS,
        task="Go on",
        rules=e.RULES,
        repo=str(repo),
    )
    run = begin(began)
    checkout = msgspec.structs.replace(run.checkout, base_tree=work.base_tree)
    return msgspec.structs.replace(run, tree=work.base_tree, checkout=checkout)


def _turn(run_files: RunFiles, run: Run, work: Workspace, turn: int) -> dict[str, float]:
    """The same calls that an agent's turn makes when the agent is done, each with its time."""
    old = work.turns()[turn - 1].tree if turn > 1 else work.base_tree
    _edit(work.checkout, turn)
    act = e.Act(key=f"r1-{turn}", do="agent:worker", state="closed", tree=old, turn=turn)
    ms: dict[str, float] = {}
    watch = _Watch(ms)
    opened = watch("open", lambda: Workspace.open(work.dir))
    tree = watch("tree", opened.tree)
    changed = watch("changes", lambda: opened.changes(old, tree))
    special = watch("special files", opened.special_files)
    facts = [*changed, *special]
    ruling = watch("judge", lambda: judge(run_files, run, act, opened, tree, facts))
    assert ruling.verdict == "allow", ruling
    commit = watch("checkpoint", lambda: opened.checkpoint(tree, turn, f"Turn {turn}"))
    watch("publish", lambda: opened.publish(commit))
    return ms


class _Watch:
    def __init__(self, ms: dict[str, float]) -> None:
        self.ms = ms

    def __call__(self, name: str, deed: Callable[[], T]) -> T:
        began = time.perf_counter()
        got = deed()
        self.ms[name] = (time.perf_counter() - began) * 1e3
        return got


def _edit(root: Path, turn: int) -> None:
    """What a turn leaves: two files changed, one new."""
    for number in (turn, turn + 20):
        path = root / _name(number)
        path.write_text(path.read_text() + f"\n\ndef turn_{turn}(line):\n    return line * {turn}\n")
    (root / f"src/new_{turn}.py").write_text(BODY)


def _name(number: int) -> str:
    return f"src/part{number % 100:02}/mod{number:05}.py"


def _make(repo: Path, files: int) -> None:
    for number in range(files):
        path = repo / _name(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {number}\n{BODY}")
    _git(repo, "init", "-q", "-b", "main")
    _git(repo, "add", "-A")
    _git(repo, "commit", "-qm", "As it was")
    _git(repo, "gc", "-q")


def _committed(plain: Path, turn: int) -> float:
    _edit(plain, turn)

    def commit() -> None:
        _git(plain, "add", "-A")
        _git(plain, "commit", "-qm", f"Turn {turn}")

    return seconds(commit) * 1e3


def _git(where: Path, *words: str) -> None:
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@localhost", "-c", "gc.auto=0")
    subprocess.run(("git", *who, *words), cwd=where, check=True, capture_output=True)
