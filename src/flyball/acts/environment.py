"""Whether the first proof could run at all: a module that is not installed is no failing test."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

from flyball.config.cures import PACKAGES
from flyball.reading.test_output import Lack, lack

MANIFESTS = (
    *("pyproject.toml", "setup.py", "setup.cfg", "Pipfile", "tox.ini", "package.json", "environment.yml"),
    *("requirements*.txt", "requirements/*.txt", "*-requirements.txt"),
)
MOST_MANIFESTS = 20
READ_AT_MOST = 200_000


def what_is_missing(repo: Path, files: Path, log: str, code: int) -> str:
    """A sentence about what the environment of the tests lacks; "" where they ran, or where the project's own code is
    what is missing: that is the agent's to write.

    `repo` is the user's folder, `files` the checkout in which the tests ran.
    """
    missing = lack(log, code)
    if missing is None or missing.kind == "tests":
        return ""
    if missing.kind == "module" and not all(_is_foreign(repo, files, name) for name in missing.names):
        return ""
    return f"The tests cannot run in a clean checkout: {missing.says}."


def is_own_code(folder: Path, missing: Lack) -> bool:
    """Some of the names are missing in the project's own, importable packages: a bug, not an installation."""
    tops = (name.split(".") for name in missing.names if "/" not in name and not name.startswith("."))
    named = (parts for parts in tops if len(parts) > 1)
    return missing.kind == "module" and any(
        _holds(folder, parts[0]) and not _holds(folder, "/".join(parts)) for parts in named
    )


def _is_foreign(repo: Path, files: Path, name: str) -> bool:
    """It is not for the agent to write: declared as a dependency, or there in the user's folder and not in git."""
    if "/" in name or name.startswith("."):
        return False
    top, *rest = name.split(".")
    if _holds(files, top):
        return not rest or _holds(repo, "/".join((top, *rest)))
    return _is_declared(files, top) or _holds(repo, top)


def _holds(folder: Path, module: str) -> bool:
    """A module or package of this name is in the folder or in one of the usual places below it."""
    patterns = (f"{up}{module}{end}" for up in ("", "*/", "*/*/") for end in ("", ".py", ".*.so", ".so"))
    return any(True for pattern in patterns for _ in islice(folder.glob(pattern), 1))


def _is_declared(files: Path, module: str) -> bool:
    names = "|".join(re.escape(name).replace("_", "[-_]") for name in (module, PACKAGES.get(module, module)))
    word = re.compile(rf"(?<![\w-])(?:{names})(?![\w-])", re.I)
    manifests = (path for pattern in MANIFESTS for path in islice(files.glob(pattern), MOST_MANIFESTS))
    return any(word.search(_text(path)) for path in manifests)


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            return stream.read(READ_AT_MOST)
    except OSError:
        return ""
