"""How many single-edit bugs mechanic repairs: bugs made by bench/mutator.py in the programs of bench/programs.

    python -m bench.mechanic [--quick] [--each 5] [--seconds 60] [--program NAME]

A bug counts if at least one test fails with it. It is repaired if all tests pass afterwards, by a run of the tests that
mechanic has no part in. Whether the repair is the original is asked of its syntax tree, else of what it does with
inputs that the tests do not have (probe.py of each program). What is not repaired must be said, and left as it was.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from msgspec import Struct

from bench.figure import Figure
from bench.mutator import mutant
from flyball.agents.adapter import AgentResult, TurnRequest, adapter
from flyball.agents.process import Exit

PROGRAMS = Path(__file__).with_name("programs")
GOAL = 60.0
SEEDS_MOST = 400
TESTS_S = 30
REPAIRED_S = 300  # a slow machine makes no repair wrong


class Bug(Struct, frozen=True):
    program: str
    seed: int
    kind: str
    text: str


class Outcome(Struct, frozen=True):
    bug: Bug
    verdict: str  # original, same behaviour, plausible; given up; WRONG
    took: float = 0.0
    tried: int = 0
    said: str = ""

    @property
    def repaired(self) -> bool:
        return self.verdict in ("original", "same behaviour", "plausible")


def figures(
    folder: Path,
    quick: bool,
    each: int = 0,
    seconds: float = 60.0,
    only: str = "",
    show: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Figure]:
    names = sorted(path.name for path in PROGRAMS.iterdir() if path.is_dir() and only in path.name)
    each = each or (1 if quick else 5)
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        bugs = [bug for some in pool.map(lambda name: _bugs(folder, name, each), names) for bug in some]
        outcomes = list[Outcome]()
        for outcome in pool.map(lambda bug: _outcome(folder, bug, seconds), bugs):
            outcomes.append(outcome)
            show(outcome)
    return [_figure(outcomes, len(names), seconds)]


def _figure(outcomes: list[Outcome], programs: int, seconds: float) -> Figure:
    count, verdicts = len(outcomes), Counter(outcome.verdict for outcome in outcomes)
    repaired = [outcome for outcome in outcomes if outcome.repaired]
    wrong = [f"{o.bug.program}/{o.bug.seed}" for o in outcomes if o.verdict == "WRONG"]
    given_up = verdicts["given up"]
    honest = f"{given_up} given up, said so and changed nothing" + (
        f"; WRONG: {', '.join(wrong)}" if wrong else ""
    )
    return Figure(
        name=f"mechanic: {count} single-edit bugs in {programs} programs, repaired",
        value=0.0 if wrong else 100 * len(repaired) / max(1, count),
        unit="%",
        goal=GOAL,
        more_is_better=True,
        parts={
            name: 100 * verdicts[name] / max(1, count) for name in ("original", "same behaviour", "plausible")
        },
        note=f"{len(repaired)} of {count}; {honest}; median {_median(repaired):.1f} s of {seconds:g} s each.",
    )


def _median(outcomes: list[Outcome]) -> float:
    times = sorted(outcome.took for outcome in outcomes)
    return times[len(times) // 2] if times else 0.0


# ---- bugs


def _bugs(folder: Path, name: str, count: int) -> list[Bug]:
    """The first mutants, by seed, that some test notices."""
    original = (PROGRAMS / name / f"{name}.py").read_text("utf-8")
    plain = ast.unparse(ast.parse(original)) + "\n"
    bugs: list[Bug] = []
    for seed in range(SEEDS_MOST):
        text, kind = mutant(original, seed)
        if len(bugs) < count and text != plain and text not in {bug.text for bug in bugs} and _compiles(text):
            bug = Bug(name, seed, kind, text)
            where = _project(folder / "bugs", bug)
            if not _passes(where, name):
                bugs.append(bug)
            shutil.rmtree(where)
    return bugs


def _compiles(text: str) -> bool:
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def _project(folder: Path, bug: Bug) -> Path:
    where = folder / f"{bug.program}-{bug.seed}"
    where.mkdir(parents=True)
    (where / f"{bug.program}.py").write_text(bug.text, "utf-8")
    shutil.copy(PROGRAMS / bug.program / f"test_{bug.program}.py", where)
    return where


def _command(name: str) -> list[str]:
    tests = (PROGRAMS / name / f"test_{name}.py").read_text("utf-8")
    runner = (
        ["unittest", "-q"]
        if "import unittest" in tests
        else ["pytest", "-q", "-p", "no:cacheprovider", "-n0"]
    )
    return [sys.executable, "-m", *runner]


def _passes(where: Path, name: str, limit_s: float = TESTS_S) -> bool:
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(_command(name), cwd=where, env=env, capture_output=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


# ---- repairs


def _outcome(folder: Path, bug: Bug, seconds: float) -> Outcome:
    where = _project(folder / "repairs", bug)
    before = {path.name: path.read_text("utf-8") for path in where.iterdir()}
    result, took = _turn(where, bug, seconds)
    after = {path.name: path.read_text("utf-8") for path in where.iterdir() if path.is_file()}
    tried = int((re.findall(r"I tried (\d+) edit", result.message) or [0])[0])
    return Outcome(bug, _verdict(where, bug, result, before, after), took, tried, result.message)


def _turn(where: Path, bug: Bug, seconds: float) -> tuple[AgentResult, float]:
    agent = adapter("mechanic")
    with tempfile.TemporaryDirectory() as home:
        request = TurnRequest(
            prompt="",
            prompt_file=Path(home),
            role="coder",
            proof=(" ".join(_command(bug.program)),),
            wall_s=seconds / 0.8,
        )
        env = {"PATH": os.environ["PATH"], "HOME": home}
        done = subprocess.run(agent.launch(request).argv, cwd=where, env=env, capture_output=True, text=True)
    took = float((re.findall(r"places? in ([\d.]+) s", done.stdout) or [seconds])[0])
    return agent.read(done.stdout, done.stderr, Exit(reason="exit", code=done.returncode)), took


def _verdict(
    where: Path, bug: Bug, result: AgentResult, before: dict[str, str], after: dict[str, str]
) -> str:
    file, tests = f"{bug.program}.py", f"test_{bug.program}.py"
    if result.verdict != "ok" or after.get(tests) != before[tests] or set(after) != set(before):
        return "WRONG"
    if result.claim.ask:
        return "given up" if after == before and "I changed nothing" in result.message else "WRONG"
    if not _passes(where, bug.program, REPAIRED_S):
        return "WRONG"
    original = (PROGRAMS / bug.program / file).read_text("utf-8")
    if ast.dump(ast.parse(after[file])) == ast.dump(ast.parse(original)):
        return "original"
    return "same behaviour" if _same_behaviour(where, bug.program) else "plausible"


def _same_behaviour(where: Path, name: str) -> bool:
    """In a process of its own: what a repair does with new inputs may be anything."""
    argv = [sys.executable, "-P", __file__, "--probe", name]
    places = (str(PROGRAMS / name / f"{name}.py"), str(where / f"{name}.py"))
    try:
        first, second = (
            subprocess.run([*argv, place], capture_output=True, timeout=TESTS_S) for place in places
        )
    except subprocess.TimeoutExpired:
        return False
    return first.stdout == second.stdout and first.returncode == second.returncode == 0


def _probe(name: str, file: str) -> None:
    probe, module = _module(PROGRAMS / name / "probe.py"), _module(Path(file))
    for function, *given in probe.calls(module, random.Random(7)):
        try:
            print(repr(function(*given)))
        except Exception as problem:
            print(type(problem).__name__)


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _show(outcome: Outcome) -> None:
    bug = outcome.bug
    where = f"{bug.program}/{bug.seed}"
    print(
        f"{where:<16}{bug.kind:<20}{outcome.verdict:<16}{outcome.tried:>6} edits {outcome.took:6.1f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--each", type=int, default=0, help="bugs in each program")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each bug")
    parser.add_argument("--program", default="", help="only programs with this in their name")
    parser.add_argument("--probe", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.probe:
        _probe(*given.probe)
        return
    from bench import report

    with tempfile.TemporaryDirectory() as folder:
        for figure in figures(Path(folder), given.quick, given.each, given.seconds, given.program, _show):
            print(report.line(figure))


if __name__ == "__main__":
    main()
