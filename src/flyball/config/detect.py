"""What `flyball init` detects in a repository, and the commented flyball.toml that it writes from it.

Everything detected is a guess for the user to check, so the file says why each line is there.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from flyball.config.agent import ROLES
from flyball.config.schema import KEYS, LIMITS, defaults, written
from flyball.machines import shipped

AGENTS = ("claude", "codex", "gemini", "opencode")
SHAREABLE = (".venv", "venv", "node_modules")
LOOK_AT = 50  # test files that are read for a hint
READ_AT_MOST = 200_000


class ProofCommand(Struct, frozen=True):
    """A test command and why it is likely to be one."""

    command: str
    why: str


class Detected(Struct, frozen=True):
    tests: tuple[ProofCommand, ...] = ()  # the likeliest first
    share: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()  # programs on the PATH

    @property
    def agent(self) -> str:
        """An agent that can be used here without further setup; "" if there is none."""
        return "mechanic" if any("python" in test.command for test in self.tests) else ""


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


def _python_tests(root: Path, path: str) -> ProofCommand | None:
    why = _pytest_sign(root)
    if why:
        return ProofCommand(f"{_python(root, path)} -m pytest -q", why)
    files = list(_test_files(root))
    if not files:
        return None
    if any("unittest" in _text(file) for file in files):
        return ProofCommand(
            f"{_python(root, path)} -m unittest {_discovery(root, files)}", "its tests use unittest"
        )
    return ProofCommand(f"{_python(root, path)} -m pytest -q", f"there is {files[0].relative_to(root)}")


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


def _node_tests(root: Path, path: str) -> ProofCommand | None:
    try:
        package: object = json.loads(_text(root / "package.json") or "{}")
    except (ValueError, RecursionError):
        return None
    scripts: object = cast("dict[str, Any]", package).get("scripts") if isinstance(package, dict) else None
    script: object = cast("dict[str, Any]", scripts).get("test") if isinstance(scripts, dict) else None
    if not isinstance(script, str) or "no test specified" in script:
        return None
    return ProofCommand(f"{_node_runner(root)} test", "package.json has a test script")


def _node_runner(root: Path) -> str:
    locks = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn"}
    return next((runner for lock, runner in locks.items() if (root / lock).is_file()), "npm")


def _by_file(name: str, command: str) -> Callable[[Path, str], ProofCommand | None]:
    def look(root: Path, path: str) -> ProofCommand | None:
        return ProofCommand(command, f"there is {name}") if (root / name).is_file() else None

    return look


def _make_tests(root: Path, path: str) -> ProofCommand | None:
    for name in ("GNUmakefile", "makefile", "Makefile"):
        for target in ("test", "check"):
            if re.search(rf"^{target}\s*:(?!=)", _text(root / name), re.M):
                return ProofCommand(f"make {target}", f"{name} has a target '{target}'")
    return None


LOOKS: tuple[Callable[[Path, str], ProofCommand | None], ...] = (
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

HEAD = """\
# Flyball settings for this repository. A line that starts with # shows a default; remove the # to change it.
# `flyball config` prints every setting, its value and where the value comes from.
"""
AGENTS_HELP = """\
[agents]
# "command:PROGRAM {prompt}" runs any command line, "script:FILE" plays a file, "mechanic" is built in and repairs
# small Python bugs without a model. Installed here: INSTALLED; docs/agents.md in Flyball's repository has recipes.
DEFAULT
# reviewer = "command:my-other-agent {prompt}"   # a role: ROLES
"""
LIMITS_HELP = "[limits]  # of the machine that a run starts with; write [limits.loop] for those of loop"


def render_config(detected: Detected) -> str:
    """A flyball.toml with what was detected and, commented out, every other setting with its default."""
    sections = dict.fromkeys(key.split(".")[0] for key in KEYS)
    return "\n".join((HEAD, _agents(detected), *(_section(name, detected) for name in sections), _limits()))


def _agents(detected: Detected) -> str:
    default = (
        f"default = {_quoted(detected.agent)}"
        if detected.agent
        else '# default = "command:my-agent {prompt}"'
    )
    text = AGENTS_HELP.replace("INSTALLED", ", ".join(detected.agents) or "none").replace("DEFAULT", default)
    return text.replace("ROLES", " ".join(ROLES[:-1]))


def _section(section: str, detected: Detected) -> str:
    """The settings of one table, each with its default and what it does."""
    values, lines = defaults(), [f"[{section}]"]
    for key, row in KEYS.items():
        name = key.removeprefix(f"{section}.")
        if name != key:
            lines += _detected(key, detected) or [
                _line(f"# {name} = {written(row.kind, values[key])}", row.doc)
            ]
    return "\n".join(lines) + "\n"


def _detected(key: str, detected: Detected) -> list[str]:
    if key == "proof.commands" and detected.tests:
        first, *others = detected.tests
        more = [f"# also found: {_quoted(other.command)} ({other.why})" for other in others]
        return [f"# {KEYS[key].doc}", f"commands = [{_quoted(first.command)}]   # {first.why}", *more]
    if key == "workspace.share" and detected.share:
        return [_line(f"share = [{', '.join(map(_quoted, detected.share))}]", KEYS[key].doc)]
    return []


def _limits() -> str:
    build = shipped("build")
    values = {**build.most, "phase_timeout": '"30m"', "idle_timeout": '"10m"'}
    return (
        "\n".join(
            [LIMITS_HELP, *(_line(f"# {name} = {value}", LIMITS[name].doc) for name, value in values.items())]
        )
        + "\n"
    )


def _line(text: str, doc: str) -> str:
    return f"{text:<34} # {doc}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
