"""Read from a test run's output whether the tests could run at all, or what their environment lacks."""

import re

from msgspec import Struct

from flyball.reading.lazy import Lazy
from flyball.reading.terminal import last_lines

_LONGEST, _WIDEST = 400_000, 2_000
NOT_STARTED = (126, 127)  # what a shell ends with where a command is not there or cannot be run
NO_TESTS = 5  # of pytest and unittest
SAID = 200  # characters of a program's own words in a sentence
PLUGIN = " (a plugin of the test runner is not installed)"


class Lack(Struct, frozen=True):
    """What was missing: `kind` is runner, start, command, module, metadata or tests; `names` are those it asked for."""

    kind: str
    names: tuple[str, ...]

    @property
    def says(self) -> str:
        listed = ", ".join(self.names[:5])
        return {
            "runner": f"the test runner '{listed}' is not installed in that Python",
            "start": f"the test runner does not start: {listed}",
            "command": f"the command cannot start: {listed}",
            "module": f"these modules cannot be imported: {listed}",
            "metadata": f"these packages are not installed: {listed}",
            "tests": "no tests were found",
        }[self.kind]


_RUNNER = Lazy(r"^\S*python[\d.]*: No module named (\S+?)(?:\.__main__)?[;.]?$", re.M)
_NO_START = (  # pytest's own words for what it cannot even begin with
    Lazy(r"^.{0,200}: error: (unrecognized arguments: .+)$", re.M),
    Lazy(r"^ERROR: (file or directory not found: .+)$", re.M),
    Lazy(r"^pluggy[\w.]*\.PluginValidationError: (.+)$", re.M),
    Lazy(r"^INTERNALERROR> (\w[\w.]*(?:Error|Exception|Warning): .+)$", re.M),
)
_MODULES = (
    Lazy(r"^(?:E\s+)?ModuleNotFoundError: No module named '([\w.]+)'", re.M),
    Lazy(r"^(?:E\s+)?ImportError: cannot import name '\w+' from '([\w.]+)' \(unknown location\)", re.M),
    Lazy(
        r"^(?:E\s+)?ImportError: cannot import name '(\w+)' from (?:partially initialized module )?'([\w.]+)'",
        re.M,
    ),
    Lazy(r"\bCannot find (?:module|package) '([^'\n]+)'"),
)
_METADATA = (
    Lazy(r"PackageNotFoundError: No package metadata was found for ([\w.-]+)"),
    Lazy(r"DistributionNotFound: The '([\w.-]+)"),
)
_FILES = Lazy(r"FileNotFoundError: \[Errno 2\] No such file or directory: (?:Posix)?(?:Path\()?'([^'\n]+)'")
_UNLOADED = (
    r"errors? during collection|^ImportError while (?:loading conftest|importing test module)|^ERROR collecting "
    r"|_ ERROR collecting |Failed to import test module|Test suite failed to run"
)
_UNCOLLECTED = Lazy(
    _UNLOADED + r"|Cannot find (?:module|package) '|^Traceback \(most recent call last\):", re.M
)
_LOAD_ERROR = Lazy(_UNLOADED, re.M)
_EMPTY = Lazy(r"^(?:=+ )?(?:no tests ran in |collected 0 items\s*$)|^Ran 0 tests in ", re.M)
_NETWORK = Lazy(
    r"Temporary failure in name resolution|Name or service not known|Network is unreachable|Could not resolve host"
    r"|getaddrinfo (?:EAI_AGAIN|ENOTFOUND)|nodename nor servname|Failed to establish a new connection"
    r"|NameResolutionError|dial tcp: lookup"
)


def lack(output: str, code: int) -> Lack | None:
    """What kept the tests from running; None where they ran, well or not."""
    text = last_lines(output, _LONGEST, _WIDEST)
    if _EMPTY.search(text) or (code == NO_TESTS and not re.search(r"\d (?:passed|failed|error)", text)):
        return Lack("tests", ())
    if code == 0:
        return None
    if runner := _RUNNER.findall(text):
        return Lack("runner", tuple(dict.fromkeys(runner)))
    if code in NOT_STARTED:
        return Lack("command", (_last_line(text)[:SAID] or f"exit code {code}",))
    if reason := next((words for pattern in _NO_START for words in pattern.findall(text)), ""):
        return Lack("start", (f"{reason[:SAID]}{PLUGIN if reason.startswith('unrecognized') else ''}",))
    if not _UNCOLLECTED.search(text):
        return None
    if modules := _modules(text):
        return Lack("module", modules)
    metadata = tuple(dict.fromkeys(name for pattern in _METADATA for name in pattern.findall(text)))
    return Lack("metadata", metadata) if metadata else None


def cannot_load(output: str) -> bool:
    """Some test files could not be imported."""
    return _LOAD_ERROR.search(last_lines(output, _LONGEST, _WIDEST)) is not None


def _modules(text: str) -> tuple[str, ...]:
    """`cannot import name 'b' from 'a'` asks for a.b."""
    groups = (match.groups() for pattern in _MODULES for match in pattern.finditer(text))
    names = (words[0] if len(words) == 1 else f"{words[1]}.{words[0]}" for words in groups)
    return tuple(dict.fromkeys(names))


def missing_names(output: str) -> tuple[str, ...]:
    """Every module, package and file that the output says is missing, wherever in the run."""
    text = last_lines(output, _LONGEST, _WIDEST)
    packages = (name for pattern in _METADATA for name in pattern.findall(text))
    return tuple(dict.fromkeys((*_modules(text), *packages, *_FILES.findall(text))))


def wants_network(output: str) -> bool:
    return _NETWORK.search(last_lines(output, _LONGEST, _WIDEST)) is not None


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
