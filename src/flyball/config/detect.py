"""What `flyball init` finds in a repository, and the commented flyball.toml that it writes from it.

A finding is a guess that a person reads before it counts: the file says why each line is there.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from flyball.config.agent import SPOKEN

AGENTS = ("claude", "codex", "gemini", "opencode")
SHAREABLE = (".venv", "venv", "node_modules")
LOOK_AT = 50  # test files that are read for a hint
READ_AT_MOST = 200_000


class Found(Struct, frozen=True):
    """A test command and the reason for believing in it."""

    command: str
    why: str


class Detected(Struct, frozen=True):
    tests: tuple[Found, ...] = ()  # the likeliest first
    share: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()  # programs on the PATH

    @property
    def agent(self) -> str:
        """The agent to begin with; without any installed, the one that is built in, where it can help."""
        if self.agents:
            return SPOKEN.get(self.agents[0], self.agents[0])
        return "mechanic" if any("python" in found.command for found in self.tests) else "claude"


def detect(root: Path, *, path: str = "", ignored: Collection[str] | None = None) -> Detected:
    """What is there; `path` is the PATH to look for programs on, `ignored` those of SHAREABLE that git ignores."""
    share = tuple(name for name in SHAREABLE if (root / name).is_dir() and _ignored(root, name, ignored))
    tests = tuple(found for look in LOOKS if (found := look(root, path)))
    return Detected(tests, share, tuple(name for name in AGENTS if shutil.which(name, path=path)))


def _ignored(root: Path, name: str, ignored: Collection[str] | None) -> bool:
    """Without git's own answer, only what is plain: a line in .gitignore, or the folder ignoring itself."""
    if ignored is not None:
        return name in ignored
    lines = {line.strip().strip("/") for line in _text(root / ".gitignore").splitlines()}
    return name in lines or "*" in _text(root / name / ".gitignore").split()


# ---- test commands --------------------------------------------------------------------------------------


def _python_tests(root: Path, path: str) -> Found | None:
    why = _pytest_sign(root)
    if why:
        return Found(f"{_python(root, path)} -m pytest -q", why)
    files = list(_test_files(root))
    if not files:
        return None
    if any("unittest" in _text(file) for file in files):
        return Found(f"{_python(root, path)} -m unittest {_discovery(root, files)}", "its tests use unittest")
    return Found(f"{_python(root, path)} -m pytest -q", f"there is {files[0].relative_to(root)}")


def _pytest_sign(root: Path) -> str:
    for name in ("pytest.ini", "conftest.py", "tests/conftest.py"):
        if (root / name).is_file():
            return f"there is {name}"
    for name in ("pyproject.toml", "setup.cfg", "tox.ini", "requirements.txt", "requirements-dev.txt"):
        if re.search(r"\bpytest\b", _text(root / name)):
            return f"{name} names pytest"
    hints = (
        file
        for file in _test_files(root)
        if re.search(r"^(import|from) pytest\b|^def test_", _text(file), re.M)
    )
    return next((f"{file.relative_to(root)} is written for pytest" for file in hints), "")


def _test_files(root: Path) -> Iterator[Path]:
    """Some test files: in the root and in the usual folders, no deeper than three levels."""
    found: list[Path] = []
    for pattern in ("test_*.py", "*/test_*.py", "tests/*/test_*.py"):
        plain = (f for f in root.glob(pattern) if not _hidden(f.relative_to(root)))
        found += sorted(plain)
    yield from list(dict.fromkeys(found))[:LOOK_AT]


def _hidden(file: Path) -> bool:
    return any(part.startswith(".") or part in SHAREABLE for part in file.parts)


def _discovery(root: Path, files: list[Path]) -> str:
    """How unittest finds them: by itself in the root and in packages, else in the folder named."""
    folder = files[0].parent
    plain = folder == root or (folder / "__init__.py").is_file()
    return "discover -q" if plain else f"discover -q -s {folder.relative_to(root)}"


def _python(root: Path, path: str) -> str:
    for name in (".venv", "venv"):
        if (root / name / "bin" / "python").exists():
            return f"{name}/bin/python"
    return (
        "python3"
        if shutil.which("python3", path=path) and not shutil.which("python", path=path)
        else "python"
    )


def _node_tests(root: Path, path: str) -> Found | None:
    try:
        package: object = json.loads(_text(root / "package.json") or "{}")
    except (ValueError, RecursionError):
        return None
    scripts: object = cast("dict[str, Any]", package).get("scripts") if isinstance(package, dict) else None
    script: object = cast("dict[str, Any]", scripts).get("test") if isinstance(scripts, dict) else None
    if not isinstance(script, str) or "no test specified" in script:
        return None
    return Found(f"{_node_runner(root)} test", "package.json has a test script")


def _node_runner(root: Path) -> str:
    locks = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn"}
    return next((runner for lock, runner in locks.items() if (root / lock).is_file()), "npm")


def _by_file(name: str, command: str) -> Callable[[Path, str], Found | None]:
    def look(root: Path, path: str) -> Found | None:
        return Found(command, f"there is {name}") if (root / name).is_file() else None

    return look


def _make_tests(root: Path, path: str) -> Found | None:
    for name in ("GNUmakefile", "makefile", "Makefile"):
        for target in ("test", "check"):
            if re.search(rf"^{target}\s*:(?!=)", _text(root / name), re.M):
                return Found(f"make {target}", f"{name} has a target '{target}'")
    return None


LOOKS: tuple[Callable[[Path, str], Found | None], ...] = (
    _python_tests,
    _node_tests,
    _by_file("Cargo.toml", "cargo test"),
    _by_file("go.mod", "go test ./..."),
    _by_file("mix.exs", "mix test"),
    _by_file("gradlew", "./gradlew test"),
    _by_file("pom.xml", "mvn -q test"),
    _make_tests,
)


def _text(file: Path) -> str:
    """The beginning of a text file; nothing if it cannot be read."""
    try:
        if not file.is_file():
            return ""
        with file.open(encoding="utf-8", errors="replace") as stream:
            return stream.read(READ_AT_MOST)
    except OSError:
        return ""


# ---- the file -------------------------------------------------------------------------------------------


def render_config(detected: Detected) -> str:
    """A flyball.toml that says what was found and, commented out, everything else that may be said."""
    return TEMPLATE.format(
        agent=_quoted(detected.agent),
        installed=", ".join(detected.agents) or "none",
        proof=_proof(detected),
        share=_list(detected.share),
    )


def _proof(detected: Detected) -> str:
    if not detected.tests:
        return '# No test command was found. Without one a finished run says "unproven".\n# commands = ["make test"]'
    first, *others = detected.tests
    more = "".join(f"\n# also found: {_quoted(o.command)}   ({o.why})" for o in others)
    return f"commands = {_list((first.command,))}   # {first.why}{more}"


def _list(items: tuple[str, ...]) -> str:
    return "[" + ", ".join(map(_quoted, items)) + "]"


def _quoted(text: str) -> str:
    return json.dumps(text)


TEMPLATE = """\
# How Flyball works in this repository. Everything has a default; a line that begins with # shows it.
# `flyball config` prints every value and where it is from.

[agents]
# claude, codex, acp:COMMAND, command:COMMAND, script:FILE or mechanic. Installed here: {installed}.
# Roles: planner coder critic worker author reviewer validator developer quality git cto.
default = {agent}
# reviewer = "codex"

[proof]
# The commands that prove a tree: every one must exit 0 before a run may end well.
{proof}
# timeout = "10m"

[workspace]
# setup = []                     # commands, run once in each new checkout
share = {share}                  # folders lent to the checkouts, read-only

[run]
# machine = "build"              # build, loop, review, task, or one of .flyball/machines/
# write = "turn"                 # or "loop": each write and fix of build is a loop run
# breakpoints = []               # states to pause after, e.g. ["write", "verify"]
# require_test_pass = true
# review = "unless-done"         # or "always"
# consensus = false
# done_word = "DONE"
# indicators = []                # phrases that count as completion indicators too, e.g. ["release notes written"]
# commit = "branch"              # or "merge", "pr"

# [limits]                       # of the machine that a run is started with; [limits.loop] of that machine
# iterations = 10
# fix = 3
# phase_timeout = "30m"
# idle_timeout = "10m"

[budget]
# usd = 5.0                      # "none" for no limit; so for tokens and wall
# day_usd = "none"               # of all runs together in 24 hours; also day_tokens, week_usd, week_tokens
# plan_percent = "none"          # of your plan's window, where the agent reports it; then it waits for the next
# tokens = 2_000_000
# wall = "4h"

[rate_limit]
# retry_every = "60s"
# fallback = []                  # agents to go on with meanwhile

[guard]
# policy = "default"             # a set of rules in .flyball/policy.toml
# sandbox = "auto"               # auto, bwrap, landlock, none, required
# network = {{ agent = "all", proof = "loopback" }}

[up]
# parallel = 1

[governance]
# files = []                     # read before planning

[notify]
# urls = []                      # Apprise addresses; better kept in your own configuration than in a repository
"""
