"""What `flyball init` detects in a repository, and the commented flyball.toml that it writes from it.

Everything detected is a guess for the user to check, so the file says why each line is there.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import textwrap
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from msgspec import Struct

from flyball.config.schema import KEYS, LIMITS, defaults, written
from flyball.config.values import ROLES
from flyball.machines import shipped
from flyball.reading.terminal import as_object, table

AGENTS = {"claude": "claude", "codex": "codex", "gemini": "acp:gemini --acp", "opencode": "acp:opencode acp"}
ENVIRONMENTS = (".venv", "venv", "env", ".env", "virtualenv", "node_modules")
LOOKING = (
    *(
        "eslint",
        "aud",
        "standard",
        "xo",
        "jshint",
        "tslint",
        "prettier",
        "semistandard",
        "biome",
        "oxlint",
        "evalmd",
    ),
    *(
        "codecov",
        "coveralls",
        "nsp",
        "snyk",
        "eclint",
        "markdownlint",
        "jscs",
        "ls-lint",
        "publint",
        "attw",
        "knip",
    ),
)
TYPE_CHECKERS = (
    "tsc",
    "tsd",
    "vue-tsc",
    "dtslint",
    "tstyche",
)  # behind the tests; before them it may be a build
LOOK_AT = 50  # test files that are read for a hint
READ_AT_MOST = 200_000
PYTEST_SETTINGS = ("pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini")
PROGRAMS = (
    "tests/__main__.py",
    "runtests.py",
    "run_tests.py",
    "tests/runtests.py",
    "tests/run_tests.py",
    "test/run.py",
)


class ProofCommand(Struct, frozen=True):
    """A test command, from the top of the repository, and why it is likely to be one."""

    command: str
    why: str


class Detection(Struct, frozen=True):
    tests: tuple[ProofCommand, ...] = ()  # the likeliest first
    share: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()  # programs on the PATH
    needed: tuple[
        str, ...
    ] = ()  # those of `share` that are no environment: files that git ignores and tests need
    folder: str = ""  # of the repository, that the tests are in
    ignore: tuple[str, ...] = ()  # patterns of what the tests write
    require: str = "all"

    @property
    def agent(self) -> str:
        """The first that is installed, else the one that is built in where it can help; "" if there is none."""
        if self.agents:
            return AGENTS[self.agents[0]]
        return "mechanic" if any("python" in test.command for test in self.tests) else ""


def detect(root: Path, *, folder: str = "", path: str = "", tracked: Collection[str] = ()) -> Detection:
    """What is there, in the whole repository or in one folder of it.

    `path` is the PATH to look for programs on; `tracked` are environments that git tracks, so that they are not shared.
    """
    share = tuple(name for name in environments(root, folder) if name not in tracked)
    place = root / folder
    tests = tuple(_from_top(test, folder) for look in LOOKS if (test := look(place, path)))
    if place != root and not tests:  # a folder without tests of its own belongs to the whole
        tests = tuple(test for look in LOOKS if (test := look(root, path)))
    agents = tuple(name for name in AGENTS if shutil.which(name, path=path))
    return Detection(tests, share, agents, folder=folder)


def _from_top(test: ProofCommand, folder: str) -> ProofCommand:
    return ProofCommand(f"cd {shlex.quote(folder)} && {test.command}", test.why) if folder else test


def environments(root: Path, folder: str = "") -> list[str]:
    """Installed dependencies in this folder, in those above it and in the packages of a workspace."""
    above = [root / folder, *(root / folder).parents]
    places = [place for place in above if place.is_relative_to(root)]
    packages = [] if folder else [*root.glob("*/node_modules"), *root.glob("*/*/node_modules")]
    paths = [place / name for place in reversed(places) for name in ENVIRONMENTS] + sorted(packages)
    real = (str(path.relative_to(root)) for path in paths if _is_environment(path))
    return [name for name in dict.fromkeys(real) if name.count("node_modules") < 2]


def _is_environment(path: Path) -> bool:
    usual = path.name in (".venv", "venv", "node_modules")
    return path.is_dir() and (usual or (path / "pyvenv.cfg").is_file())


# ---- test commands --------------------------------------------------------------------------------------


def _python_tests(root: Path, path: str) -> ProofCommand | None:
    why, files = _pytest_sign(root), list(_test_files(root))
    if why:
        return ProofCommand(f"{_python(root, path)} -m pytest{_quiet(root)}{_odd_names(root, files)}", why)
    if (root / "manage.py").is_file():
        return ProofCommand(f"{_python(root, path)} manage.py test", "there is manage.py")
    return None if not files else _unittests(root, path) or _pytest(root, path)


def _quiet(root: Path) -> str:
    """Short output, unless pytest's settings ask for that already: twice quiet, it prints no counts."""
    settings = (_text(root / name) for name in PYTEST_SETTINGS)
    quiet = any("addopts" in text and re.search(r"(?<![\w-])(?:-q+|--quiet)\b", text) for text in settings)
    return "" if quiet else " -q"


def _odd_names(root: Path, files: list[Path]) -> str:
    """Test files that pytest does not find by itself are named to it, unless its settings do."""
    usual = any(file.name.startswith("test_") or file.name.endswith("_test.py") for file in files)
    configured = any("python_files" in _text(root / name) for name in PYTEST_SETTINGS)
    return (
        ""
        if usual or configured
        else "".join(f" {shlex.quote(str(file.relative_to(root)))}" for file in files)
    )


def _unittests(root: Path, path: str) -> ProofCommand | None:
    files = [file for file in _test_files(root) if re.search(r"\bunittest\b", _text(file))]
    if not files:
        return None
    return ProofCommand(
        f"{_python(root, path)} -m unittest {_discovery(root, files)}", "its tests use unittest"
    )


def _pytest(root: Path, path: str) -> ProofCommand | None:
    files = list(_test_files(root))
    if not files:
        return None
    return ProofCommand(
        f"{_python(root, path)} -m pytest{_quiet(root)}", f"there is {files[0].relative_to(root)}"
    )


def _pytest_sign(root: Path) -> str:
    for name in ("pytest.ini", "conftest.py", "tests/conftest.py"):
        if (root / name).is_file():
            return f"there is {name}"
    for name in (*PYTEST_SETTINGS, "requirements.txt", "requirements-dev.txt"):
        if re.search(r"\bpytest\b", _text(root / name)):
            return f"{name} names pytest"
    hints = (
        file
        for file in _test_files(root)
        if re.search(r"^(import|from) pytest\b|^def test_", _text(file), re.M)
    )
    return next((f"{file.relative_to(root)} is written for pytest" for file in hints), "")


def _test_files(root: Path) -> Iterator[Path]:
    """Some test files: in the root and in the usual folders, no deeper than four levels."""
    files: list[Path] = []
    for folder in ("", "*/", "tests/*/", "test/*/", "*/tests/", "*/test/", "*/*/tests/", "*/*/test/"):
        for name in ("test_*.py", "*_test.py", "test.py", "tests.py"):
            plain = (f for f in root.glob(folder + name) if not _hidden(f.relative_to(root)))
            files += sorted(plain)
    yield from list(dict.fromkeys(files))[:LOOK_AT]


def _hidden(file: Path) -> bool:
    return any(part.startswith(".") or part in (*ENVIRONMENTS, "site-packages") for part in file.parts)


def _discovery(root: Path, files: list[Path]) -> str:
    """How unittest finds them: by itself in the root and in packages, else in the folder and by the name told."""
    file, folder = files[0], files[0].parent
    plain = folder == root or (folder / "__init__.py").is_file()
    where = "discover -q" if plain else f"discover -q -s {folder.relative_to(root)}"
    return where if file.name.startswith("test") else f"{where} -p '*_test.py'"


def _python(root: Path, path: str) -> str:
    """The interpreter of the environment that is in the folder or in one above it, else the one on the PATH."""
    for place in (root, *root.parents):
        for name in ENVIRONMENTS:
            if (place / name / "bin" / "python").exists():
                return str(Path(os.path.relpath(place, root), name, "bin", "python"))
        if (place / ".git").exists():
            break
    return (
        "python3"
        if shutil.which("python3", path=path) and not shutil.which("python", path=path)
        else "python"
    )


def _node_tests(root: Path, path: str) -> ProofCommand | None:
    scripts = node_scripts(root)
    script = scripts.get("test", "")
    if not script or "no test specified" in script:
        return None
    runner = _node_runner(root, path)
    around = [scripts[name] for name in ("pretest", "posttest") if name in scripts]
    if around and all(_only_looks(line, scripts) for line in around) and runner == "npm":
        return ProofCommand(
            "npm test --ignore-scripts", "package.json has a test script; around it, only lint and audit run"
        )
    return ProofCommand(f"{runner} test", "package.json has a test script")


def node_scripts(root: Path) -> dict[str, str]:
    """The scripts of package.json."""
    package = as_object(_text(root / "package.json")) or {}
    return {name: line for name, line in table(package.get("scripts")).items() if isinstance(line, str)}


def script_parts(root: Path) -> list[tuple[str, bool]]:
    """The commands of the test script, each with whether it only checks the source; none where more runs around them."""
    scripts = node_scripts(root)
    parts = [part.strip() for part in scripts.get("test", "").split("&&")]
    around = [scripts[name] for name in ("pretest", "posttest") if name in scripts]
    if not all(parts) or not all(_only_looks(line, scripts) for line in around):
        return []
    last = (*LOOKING, *TYPE_CHECKERS) if len(parts) > 1 else LOOKING
    checks = [*(_only_looks(part, scripts) for part in parts[:-1]), _only_looks(parts[-1], scripts, last)]
    return list(zip(parts, checks, strict=True))


def _only_looks(line: str, scripts: dict[str, str], names: Collection[str] = LOOKING, depth: int = 3) -> bool:
    """It lints, or asks a server about dependencies: nothing that tests need, and no proof reaches a server."""
    parts = [part.split() for part in re.split(r"&&|;", line) if part.strip()]
    for words in parts:
        words = words[1:] if words[0] == "npx" and len(words) > 1 else words
        inner = scripts.get(words[2], "") if words[:2] == ["npm", "run"] and len(words) > 2 else ""
        nested = bool(inner) and depth > 0 and _only_looks(inner, scripts, names, depth - 1)
        if not nested and words[0] not in names and words[:2] != ["npm", "audit"]:
            return False
    return bool(parts)


def _node_runner(root: Path, path: str) -> str:
    """The one whose lock file is there, if it is installed; npm runs the same script."""
    locks = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn"}
    runners = (runner for lock, runner in locks.items() if (root / lock).is_file())
    return next((runner for runner in runners if shutil.which(runner, path=path)), "npm")


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


def _other_python_tests(root: Path, path: str) -> ProofCommand | None:
    """The runner that is always there, where the other one may be missing."""
    first, other = _python_tests(root, path), _unittests(root, path)
    return other if first and other and first.command != other.command else None


def _test_program(root: Path, path: str) -> ProofCommand | None:
    """A program of the project's own that runs its tests."""
    file = next((name for name in PROGRAMS if (root / name).is_file()), "")
    words = "-m tests" if file == "tests/__main__.py" else file
    return ProofCommand(f"{_python(root, path)} {words}", f"there is {file}") if file else None


LOOKS: tuple[Callable[[Path, str], ProofCommand | None], ...] = (
    _python_tests,
    _test_program,
    _other_python_tests,
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
# Flyball settings for this repository. Defaults are commented out; remove the
# "# " to change one. These are the usual ones; `flyball config` prints all
# settings, their values and where each value is from.
"""
USUAL = (  # to change; the others are written only where something was detected
    *(
        "proof.commands",
        "proof.timeout",
        "proof.require",
        "workspace.setup",
        "workspace.share",
        "workspace.ignore",
    ),
    *("run.machine", "run.commit", "budget.usd", "budget.tokens", "budget.wall"),
    *("guard.sandbox", "guard.network.agent", "guard.hosts", "notify.urls"),
)
LINE_WIDTH = 80
AGENTS_HELP = """\
[agents]
# "claude", "codex", "acp:gemini --acp", "acp:opencode acp", or any program:
# "command:PROGRAM {prompt}". "mechanic" is built in and repairs small Python
# bugs without a model. Installed here: INSTALLED.
DEFAULT
# Another agent for one role. Roles:
# ROLES
# reviewer = "command:my-other-agent {prompt}"
"""
LIMITS_HELP = "[limits]  # of the machine that a run uses; [limits.loop] sets those of loop"


def render_config(detected: Detection) -> str:
    """A flyball.toml with what was detected and, commented out, the usual settings with their defaults."""
    sections = dict.fromkeys(key.split(".")[0] for key in USUAL)
    return "\n".join((HEAD, _agents(detected), *(_section(name, detected) for name in sections), _limits()))


def _agents(detected: Detection) -> str:
    default = (
        f"default = {_quoted(detected.agent)}"
        if detected.agent
        else '# default = "command:my-agent {prompt}"'
    )
    text = AGENTS_HELP.replace("INSTALLED", ", ".join(detected.agents) or "none").replace("DEFAULT", default)
    return text.replace("ROLES", " ".join(ROLES[:-1]))


def _section(section: str, detected: Detection) -> str:
    """The settings of one table, each with its default and what it does."""
    values, lines = defaults(), [f"[{section}]"]
    for key in USUAL:
        name, row = key.removeprefix(f"{section}."), KEYS[key]
        if name != key:
            lines += _detected(key, detected) or [
                _line(f"# {name} = {written(row.kind, values[key])}", row.doc)
            ]
    return "\n".join(lines) + "\n"


def _detected(key: str, detected: Detection) -> list[str]:
    if key == "proof.commands" and detected.tests:
        first, *others = detected.tests
        more = [f"# also found: {_quoted(other.command)} ({other.why})" for other in others]
        return [f"# {KEYS[key].doc}", f"commands = [{_quoted(first.command)}]   # {first.why}", *more]
    if key == "proof.require" and detected.require != "all":
        return [_line(f"require = {_quoted(detected.require)}", "some tests cannot pass in a clean checkout")]
    if key == "workspace.ignore" and detected.ignore:
        return [_line(f"ignore = [{', '.join(map(_quoted, detected.ignore))}]", "written by the tests")]
    if key == "workspace.share" and detected.share:
        lines = [_line(f"share = [{', '.join(map(_quoted, detected.share))}]", KEYS[key].doc)]
        needed = ", ".join(detected.needed)
        return [f"# Not in git, but needed by the tests: {needed}", *lines] if needed else lines
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
    """The setting with what it does behind it; above it where the line would be too long."""
    line = f"{text:<34} # {doc}"
    if len(line) <= LINE_WIDTH:
        return line
    return "\n".join((*(f"# {part}" for part in textwrap.wrap(doc, LINE_WIDTH - 2)), text))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
