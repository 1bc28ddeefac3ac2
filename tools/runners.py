"""`make runners`: are the tests of real projects read by id, and as many as their runner says?

Each project is fetched with the ordinary client of its registry (pip, npm, apt). Its tests run once as they are, to read the runner's
own summary, and once with Flyball's probes; the counts of both must be the same. Once more they run in a plain room, where
the source cannot see that it is tested: honest tests pass there too.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple

from firsthour import WORK, fetch, sh

from flyball.proofs.breaks import can_break
from flyball.proofs.exchange import Repeats, Room, repeats
from flyball.proofs.sides import Sides
from flyball.runners.observe import Observer, collect
from flyball.state_dir import files_below

ROOM = WORK / "runners"
LIMIT_S = 600
ORDINARY = Room()
KEY = b"k" * 32  # of the seals on reports
Counts = tuple[int, int, int]  # passed, failed, skipped


class Project(NamedTuple):
    source: str  # pypi:NAME==VERSION, npm:NAME@VERSION or deb:NAME
    command: str
    packages: tuple[str, ...] = ()  # that its tests need
    passed: str = r"(\d+) passed"  # how the runner counts
    failed: str = r"(\d+) failed"
    skipped: str = r"(\d+) (?:skipped|xfailed)"
    files: tuple[tuple[str, str], ...] = ()  # that it does not bring


UNITTEST = {"passed": r"Ran (\d+) tests?", "failed": r"(?:failures|errors)=(\d+)", "skipped": r"(?:skipped|expected failures)=(\d+)"}  # fmt: skip
NODE = {"passed": r"# pass (\d+)", "failed": r"# fail (\d+)", "skipped": r"# (?:skipped|todo) (\d+)"}
MOCHA = {"passed": r"(\d+) passing", "failed": r"(\d+) failing", "skipped": r"(\d+) pending"}
TESTS = {
    "passed": r"Tests:? .*?(\d+) passed",
    "failed": r"Tests:? .*?(\d+) failed",
    "skipped": r"Tests:? .*?(\d+) skipped",
}
VITEST = ("vitest.config.mjs", "export default { test: { globals: true, include: ['test.js'] } };\n")
GO = {"passed": r"--- PASS", "failed": r"--- FAIL", "skipped": r"--- SKIP"}
CARGO = {"passed": r"ok\. (\d+) passed", "failed": r"(\d+) failed;", "skipped": r"(\d+) ignored"}
PROJECTS = (
    Project("pypi:humanize==4.11.0", "python -m pytest -q tests", ("freezegun", "pytest-cov")),
    Project("pypi:pluggy==1.5.0", "python -m pytest -q testing"),
    Project("pypi:itsdangerous==2.2.0", "python -m pytest -q", ("freezegun",)),
    Project("pypi:pyrsistent==0.20.0", "python -m pytest -q tests", ("hypothesis",)),
    Project("pypi:more-itertools==10.5.0", "python -m unittest", **UNITTEST),
    Project("pypi:idna==3.7", "python -m unittest discover -s tests -t .", **UNITTEST),
    Project("npm:flat@5.0.2", "node_modules/.bin/mocha -u tdd test/test.js", ("mocha@8",), **MOCHA),
    Project("npm:object-path@0.11.4", "node_modules/.bin/mocha test.js", ("mocha@2", "chai@3"), **MOCHA),
    Project("npm:object-path@0.11.3", "node_modules/.bin/jest test.js", ("jest@29", "chai@3"), **TESTS),
    Project(
        "npm:object-path@0.11.2",
        "node_modules/.bin/vitest run",
        ("vitest@2", "chai@3"),
        files=(VITEST,),
        **TESTS,
    ),
    Project("npm:@fastify/error@4.2.0", "node --test test", **NODE),
    Project("npm:fast-content-type-parse@3.0.0", "node --test test", **NODE),
    Project("deb:golang-github-pkg-errors-dev", "go test ./...", **GO),
    Project("deb:golang-github-google-uuid-dev", "go test ./...", **GO),
    Project("deb:librust-fnv-dev", "cargo test --offline", **CARGO),
)


# ---- a project on disk ----


def project_folder(project: Project, env: dict[str, str]) -> Path:
    kind, _, name = project.source.partition(":")
    folder = ROOM / re.sub(r"\W+", "-", name)
    if folder.exists():
        return folder
    ROOM.mkdir(parents=True, exist_ok=True)
    (_debian if kind == "deb" else _unpack)(project, folder, env)
    if kind == "pypi":
        sh(sys.executable, "-m", "venv", folder / ".venv", cwd=folder, env=env)
        sh(".venv/bin/python", "-m", "pip", "install", "-q", "-e", ".", "pytest", *project.packages, cwd=folder, env=env)  # fmt: skip
    for path, text in project.files:
        (folder / path).write_text(text)
    if kind == "npm" and project.packages:
        sh("npm", "install", "--no-save", "--no-audit", "--no-fund", *project.packages, cwd=folder, env=env)
    return folder


def _unpack(project: Project, folder: Path, env: dict[str, str]) -> None:
    with tarfile.open(fetch(project.source)) as archive:
        archive.extractall(folder.with_suffix(".new"), filter="data")
    shutil.move(next(folder.with_suffix(".new").iterdir()), folder)


def _debian(project: Project, folder: Path, env: dict[str, str]) -> None:
    """Debian packages Go and Rust libraries as source, with their tests."""
    unpacked = folder.with_suffix(".new")
    unpacked.mkdir(exist_ok=True)
    sh("apt-get", "download", "-q", project.source.partition(":")[2], cwd=unpacked, env=env)
    sh("dpkg", "-x", next(unpacked.glob("*.deb")), ".", cwd=unpacked, env=env)
    code = next(
        iter([*unpacked.glob("usr/share/gocode/src/*/*/*"), *unpacked.glob("usr/share/cargo/registry/*")])
    )
    shutil.copytree(code, folder)
    if "gocode" in code.parts and not (folder / "go.mod").exists():
        sh("go", "mod", "init", "/".join(code.parts[-3:]), cwd=folder, env=env)


# ---- counting ----


def own_counts(project: Project, output: str) -> Counts:
    """What the runner itself prints."""
    totals = [_total(pattern, output) for pattern in (project.passed, project.failed, project.skipped)]
    if project.passed == UNITTEST["passed"]:  # it counts all that ran
        totals[0] -= totals[1] + totals[2]
    return totals[0], totals[1], totals[2]


def _total(pattern: str, output: str) -> int:
    return sum(int(match[1]) if match.re.groups else 1 for match in re.finditer(pattern, output))


def plain_room(project: Project, folder: Path) -> Room:
    sides = Sides([project.command])
    paths = [str(path.relative_to(folder)) for path in files_below(folder)]
    source = [path for path in paths if can_break(path) and not sides.is_test(path)]
    return repeats(source, (), Repeats(1), node=(folder / "package.json").exists())[0]


def read_counts(
    project: Project, folder: Path, env: dict[str, str], room: Room = ORDINARY
) -> tuple[Counts, str]:
    """What the probes report."""
    home = folder.with_suffix(".home")
    env = Observer(room, str(folder), folder.with_suffix(".tools"), KEY).prepare(home, env)
    output = _output(project.command, folder, env)
    report = collect(home, folder, str(folder), output, KEY)
    if report is None:
        return (0, 0, 0), "no report"
    return (
        report.count("passed"),
        report.count("failed"),
        report.count("skipped"),
    ), f"{', '.join(report.runners)}"


def _output(command: str, folder: Path, env: dict[str, str]) -> str:
    done = subprocess.run(["/bin/sh", "-c", command], cwd=folder, env=env, capture_output=True, text=True, errors="replace", timeout=LIMIT_S)  # fmt: skip
    return done.stdout + done.stderr


def check(project: Project, env: dict[str, str]) -> bool:
    name = project.source.partition(":")[2]
    try:
        folder = project_folder(project, env)
    except SystemExit as problem:
        print(f"| {name} | could not be fetched: {str(problem).splitlines()[0]} | | | | |", flush=True)
        return False
    env = {**env, "PATH": f"{folder / '.venv' / 'bin'}{os.pathsep}{env['PATH']}", "CI": "1", "NO_COLOR": "1"}
    verbose = {**env, "GOFLAGS": "-v"} if project.passed == GO["passed"] else env
    own = own_counts(project, _output(project.command, folder, verbose))
    read, runner = read_counts(project, folder, env)
    plain, _ = read_counts(project, folder, env, plain_room(project, folder))
    same = own == read == plain and sum(own) > 0
    print(
        f"| {name} | {runner} | {_shown(own)} | {_shown(read)} | {_shown(plain)} | {'same' if same else 'DIFFERENT'} |",
        flush=True,
    )
    return same


def _shown(counts: Counts) -> str:
    return " / ".join(map(str, counts))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="?", default="", help="a regular expression on the project's name")
    only = parser.parse_args().only
    env = {**os.environ, "SETUPTOOLS_SCM_PRETEND_VERSION": "1.0"}
    env.pop("VIRTUAL_ENV", None)
    print(
        "| project | runner | its own count (passed / failed / skipped) | read by id | in a plain room | |\n|---|---|---|---|---|---|"
    )
    results = [check(project, env) for project in PROJECTS if re.search(only, project.source)]
    print(f"{sum(results)} of {len(results)} agree")
    return int(not all(results))


if __name__ == "__main__":
    sys.exit(main())
