"""`make mutants`: what the searches and the tests are worth, measured by making the code wrong.

First the deliberate breaks of rules and shell, each with the search that must find it. Then small wrongs in the code
that decides (`mutate.py`), a sample by seed: each mutant is loaded in a forked process in the place of its module, and
the fast tests of that module are run. A mutant that every test passes has survived; it is listed.

    python tools/mutants.py [--count 200] [--seed 0] [--only core/decide | --only core] [--no-breaks] [--workers 2]
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.abc
import importlib.util
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SRC, TESTS = ROOT / "src", ROOT / "tests"
PATIENCE_S = 240
sys.path[:0] = [str(SRC), str(ROOT / "tools"), str(TESTS)]

import pytest  # noqa: E402
from mutate import Site, mutant, sites  # noqa: E402

PROVED = "unit/test_prove.py::test_every_law_holds_of_the_machines_that_ship"
FAMILIES = (
    *("build", "loop", "rulings", "messages", "limits", "task", "review", "user_machines", "machine"),
    *("views", "status", "standing", "alerts", "judgement", "deadlines", "tiers", "assess", "below_a_lane"),
)
CORE = (
    *(f"unit/test_{name}.py" for name in FAMILIES),
    "property/test_core.py",
    "histories",
    f"{PROVED}[review]",
)
GUARDS = (
    "names",
    "changes",
    "policy",
    "deciding",
    "policy_faults",
    "weakening",
    "lookups",
    "source",
    "refactors",
)
CHANGES = tuple(f"unit/test_guard_{name}.py" for name in GUARDS)
COMMANDS = (
    *(f"unit/test_guard_{name}.py" for name in ("readings", "commands", "contained", "looking", "deciding")),
    "unit/test_hook_judge.py",
    "property/test_guard_fuzz.py",
)
MACHINES = ("unit/test_machine.py", *CORE)
OTHERS: dict[str, tuple[str, ...]] = {  # module -> the tests that are run on it, in this order
    "views/loop_status": ("unit/test_status.py", "unit/test_views.py", "unit/test_loop.py"),
    "reading/calls": ("unit/test_calls.py", "unit/test_live.py", "unit/test_loop.py"),
    "reading/test_output": ("unit/test_failing.py", "unit/test_test_reports.py", "unit/test_environment.py"),
    "domain/settings": ("unit/test_durations.py", *CORE),
    "domain/faults": MACHINES,
    "domain/machine": MACHINES,
    "domain/results": ("unit/test_views.py", *CORE),
    **{f"guard/{name}": CHANGES for name in ("changes", "change")},
    "guard/policy": (*CHANGES, "unit/test_tiers.py"),
    "guard/weakening": ("unit/test_guard_weaker.py", *CHANGES),
    **{f"guard/commands/{name}": COMMANDS for name in ("walk", "judge", "context", "expand", "endless")},
}


def _plan() -> dict[str, tuple[str, ...]]:
    """Every module of core, state and domain as the folders hold them, and those of OTHERS."""
    files = (
        path for room in ("core", "domain", "state") for path in (SRC / "flyball" / room).glob("[!_]*.py")
    )
    core = sorted(f"{path.parent.name}/{path.stem}" for path in files)
    plan = {**dict.fromkeys(core, CORE), **OTHERS}
    files = {SRC / "flyball" / f"{name}.py" for name in plan} | {
        TESTS / test.partition("::")[0] for tests in plan.values() for test in tests
    }
    if gone := sorted(str(file.relative_to(ROOT)) for file in files if not file.exists()):
        sys.exit(f"tools/mutants.py names files that are not there: {', '.join(gone)}")
    return plan


PLAN = _plan()


class Fate(NamedTuple):
    site: Site
    killed: bool
    by: str
    took_s: float


# ---- deliberate breaks -------------------------------------------------------------------------------------------------


class Results:
    """What became of each test."""

    def __init__(self) -> None:
        self.ends: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.ends[report.nodeid.rpartition("/")[2]] = report.outcome


def breaks() -> bool:
    """The table of the deliberate breaks with their catchers; all of them must be caught."""
    rows = [*_prove_rows(), *_family_rows(), *_simulate_rows()]
    results = Results()
    files = (
        "unit/test_prove_mutations.py",
        "unit/test_prove_family.py",
        "simulation/test_simulate_mutations.py",
    )
    with Silence():
        pytest.main([*_options(), "--whole", *(str(TESTS / file) for file in files)], plugins=[results])
    width = max(len(what) for what, *_ in rows)
    for what, catcher, test in rows:
        print(
            f"  {what:<{width}}  {'caught' if results.ends.get(test) == 'passed' else 'MISSED':<7} {catcher}"
        )
    caught = sum(results.ends.get(test) == "passed" for *_, test in rows)
    print(f"{caught} of {len(rows)} deliberate breaks caught\n")
    return caught == len(rows)


def _prove_rows() -> Iterator[tuple[str, str, str]]:
    file = "test_prove_mutations.py"
    for name, (machine, premise, law, _) in _module(TESTS / "unit" / file).BREAKS.items():
        yield (
            name,
            f"prove {machine}, {law}: {premise}",
            f"{file}::test_a_broken_rule_is_found_and_named[{name}]",
        )
    for name, says in (
        ("a_table_that_places_unproven_in_success", "SYS-3 or SYS-8"),
        ("a_table_without_a_bound", "BOUND"),
    ):
        yield name.replace("_", " "), f"prove build, {says}", f"{file}::test_{name}_is_found"


def _family_rows() -> Iterator[tuple[str, str, str]]:
    file = "test_prove_family.py"
    for name, (*_, laws) in _module(TESTS / "unit" / file).BREAKS.items():
        test = f"{file}::test_what_breaks_between_the_two_is_found_and_named[{name}]"
        yield name, f"prove build with a real loop, {' or '.join(laws)}", test


def _simulate_rows() -> Iterator[tuple[str, str, str]]:
    file = "test_simulate_mutations.py"
    path = TESTS / "simulation" / file
    for name, _, law, seed in _module(path).BREAKS if path.exists() else ():
        yield name, f"simulate, {law}: seed {seed}", f"{file}::test_a_break_is_found_by_its_law[{name}]"


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


# ---- one mutant ----------------------------------------------------------------------------------------------------------


class Planted(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module from a changed tree."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        self.name, self.path, self.tree = name, path, tree

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != self.name:
            return None
        place = [str(self.path.parent)] if self.path.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            fullname, self.path, loader=self, submodule_search_locations=place
        )

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.tree, str(self.path), "exec"), module.__dict__)


def _tried(site: Site, told: int) -> None:
    """In a process of its own: load the mutant, run its tests, say which file found it."""
    path = SRC / "flyball" / f"{site.module}.py"
    name = f"flyball.{site.module.replace('/', '.')}"
    sys.meta_path.insert(0, Planted(name, path, mutant(path, site.number)))
    importlib.import_module(name)  # now: the test runner loads modules called test_*.py itself
    for files in _batches(tests_of(site.module)):
        results = Results()
        if pytest.main([*_options(), "-x", *(str(TESTS / file) for file in files)], plugins=[results]) != 0:
            failed = next((name for name, end in results.ends.items() if end != "passed"), "import")
            os.write(told, failed.partition("::")[0].encode())
            os._exit(1)
    os._exit(0)


def _batches(files: list[str]) -> list[list[str]]:
    """The quick tables together in one run of the test runner; each of the others by itself, after them."""
    quick = [file for file in files if file.startswith("unit/") and "::" not in file]
    return [batch for batch in (quick, *([file] for file in files if file not in quick)) if batch]


def tests_of(module: str) -> list[str]:
    return list(PLAN[module])


def _options() -> list[str]:
    quiet = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=", "--rootdir", str(ROOT)]
    return [*quiet, "-c", str(ROOT / "pyproject.toml"), "--timeout", "100", "--no-header", "--tb", "no"]


class Silence:
    """What tests print is not for the report."""

    def __enter__(self) -> None:
        sys.stdout.flush()
        self.kept, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()
        os.dup2(self.kept, 1)
        os.close(self.kept)


# ---- many ----------------------------------------------------------------------------------------------------------------


class Pool:
    """So many forked processes at a time; this one has imported the test runner and nothing of Flyball."""

    def __init__(self, workers: int) -> None:
        self.workers, self.living = workers, dict[int, tuple[Site, float, int]]()

    def run(self, chosen: Sequence[Site]) -> Iterator[Fate]:
        waiting = list(reversed(chosen))
        while waiting or self.living:
            while waiting and len(self.living) < self.workers:
                self._start(waiting.pop())
            yield from self._ended()

    def _start(self, site: Site) -> None:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            try:
                _tried(site, write)
            finally:
                os._exit(3)  # it could not even be loaded
        os.close(write)
        self.living[pid] = (site, time.monotonic(), read)

    def _ended(self) -> Iterator[Fate]:
        time.sleep(0.01)
        for pid, (site, began, read) in list(self.living.items()):
            took_s = time.monotonic() - began
            if took_s > PATIENCE_S:
                os.kill(pid, signal.SIGKILL)
            done, status = os.waitpid(pid, os.WNOHANG)
            if not done:
                continue
            del self.living[pid]
            by = os.read(read, 1000).decode() or ("time" if os.WIFSIGNALED(status) else "import")
            os.close(read)
            killed = status != 0
            yield Fate(site, killed, by if killed else "", took_s)


def sample(count: int, seed: int, only: Sequence[str]) -> tuple[list[Site], Counter[str]]:
    """So many sites of all there are, and how many there are in each module."""
    every = [
        site
        for module in PLAN
        if not only or module.startswith(tuple(only))
        for site in sites(SRC / "flyball" / f"{module}.py", module)
    ]
    chosen = every if count >= len(every) else random.Random(seed).sample(every, count)
    return chosen, Counter(site.module for site in every)  # in no order: what is cut short is a sample, too


def red(chosen: Sequence[Site]) -> list[str]:
    """The test files that fail though nothing is wrong; they could say nothing of a mutant."""
    files = dict.fromkeys(file for site in chosen for file in tests_of(site.module))
    failing: list[str] = []
    for batch in _batches(list(files)):
        pid = os.fork()
        if pid == 0:
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            os._exit(int(pytest.main([*_options(), *(str(TESTS / file) for file in batch)])))
        if os.waitpid(pid, 0)[1] != 0:
            failing += batch
    return failing


def survey(count: int, seed: int, only: Sequence[str], workers: int) -> bool:
    chosen, all_of = sample(count, seed, only)
    print(f"{len(chosen)} of {all_of.total()} mutants of {len(all_of)} modules, seed {seed}", flush=True)
    if failing := red(chosen):
        print(f"These tests fail on the code as it is; mend them first: {', '.join(failing)}")
        return False
    fates: list[Fate] = []
    for fate in Pool(workers).run(chosen):
        fates.append(fate)
        if not fate.killed:  # at once: a survey that is cut short has still found it
            print(f"  survived  {fate.site.module}.py:{fate.site.line}", file=sys.stderr, flush=True)
        if len(fates) % 20 == 0:
            print(
                f"{len(fates)} of {len(chosen)} tried, {sum(f.killed for f in fates)} killed", file=sys.stderr
            )
    return _report(fates, all_of)


def _report(fates: list[Fate], all_of: Counter[str]) -> bool:
    tried, killed = (Counter(f.site.module for f in fates if f.killed or every) for every in (True, False))
    print(f"\n  {'module':<24}{'mutants':>8}{'tried':>7}{'killed':>8}")
    for module in PLAN:
        if tried[module]:
            share = f"{100 * killed[module] // tried[module]} %"
            print(f"  {module:<24}{all_of[module]:>8}{tried[module]:>7}{killed[module]:>8}{share:>7}")
    print(
        f"  by {', '.join(f'{by} {n}' for by, n in Counter(f.by for f in fates if f.killed).most_common())}"
    )
    for fate in sorted(f for f in fates if not f.killed):
        print(f"  survived  {fate.site.module}.py:{fate.site.line}  {fate.site.was}  →  {fate.site.now}")
    share = 100 * killed.total() / max(1, len(fates))
    print(f"{killed.total()} of {len(fates)} killed: {share:.1f} %")
    return share >= 85


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--no-breaks", action="store_true")
    given = parser.parse_args()  # the mutants come first: nothing of Flyball may be imported before them
    good = not given.count or survey(given.count, given.seed, given.only, given.workers)
    good = (given.no_breaks or breaks()) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
