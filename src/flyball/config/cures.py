"""What a clean checkout lacks that the user's folder has: which ignored files the tests need there."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatch

MOST = 20  # paths that are shared on a guess
CACHES = (
    *("__pycache__", "*.pyc", "*.log", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox"),
    *(".nox", ".coverage*", "htmlcov", "coverage", ".nyc_output", ".DS_Store", ".idea", ".vscode", ".eggs"),
    *(".flyball", ".git", ".cache", ".parcel-cache", ".next", "*.swp", "*~", ".direnv", "wheelhouse", "tmp"),
)
SECRETS = (
    ".env",
    ".env.*",
    "*.pem",
    "*.key",
    "*secret*",
    "*credential*",
    ".netrc",
    ".npmrc",
    ".pypirc",
    "id_*",
)
COMPILED = (".so", ".pyd", ".dylib", ".node")


def shareable(ignored: Iterable[str]) -> list[str]:
    """Without caches, which nothing needs, and secrets, which nothing may see without being told."""
    paths = (path.strip("/") for path in ignored)
    return [path for path in paths if path and not _is(path, (*CACHES, *SECRETS))]


def _is(path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(part.lower(), pattern.lower()) for part in path.split("/") for pattern in patterns)


def needed(ignored: Iterable[str], missing: Sequence[str]) -> list[str]:
    """The ignored paths that hold what was missing: a module, the metadata of a package, or a file."""
    return [path for path in shareable(ignored) if any(_holds(path, name) for name in missing)]


def _holds(path: str, name: str) -> bool:
    """`src/a/_version.py` and `src/a/` hold `a._version`; `a.egg-info` holds the package `a`; `dist` holds `dist/x.js`."""
    wanted = name if "/" in name else name.replace(".", "/")
    base = path.rpartition("/")[2]
    if base.endswith((".egg-info", ".dist-info")):
        return (
            re.split(r"[-.]", base.lower().replace("_", "-"))[0]
            == re.split(r"[-./]", name.lower().replace("_", "-"))[0]
        )
    stem = f"/{path[: len(path) - len(base)]}{base.split('.')[0]}"
    return (
        stem.endswith(f"/{wanted}")
        or f"/{path}/" in f"/{wanted}/"
        or f"/{wanted}".endswith(f"/{path}")
        or _above(stem, wanted)
    )


def _above(stem: str, wanted: str) -> bool:
    """A folder that holds the module, wherever the folder is."""
    parts = wanted.split("/")
    return any(stem.endswith("/" + "/".join(parts[:end])) for end in range(1, len(parts)))


def patterns(written: Iterable[str], folders: Collection[str]) -> tuple[str, ...]:
    """Patterns of new files for [workspace] ignore; `folders` are those that hold tracked files.

    A new folder stands for its files; numbers and random letters, which differ each time, are left open.
    """
    tops = (_new_top(path, folders) for path in written)
    open_ends = (re.sub(r"\d+|(?:(?<=[._-])|(?<=tmp))\w{8}(?=\.|$)", "*", top) for top in tops)
    return tuple(dict.fromkeys(open_ends))


def _new_top(path: str, folders: Collection[str]) -> str:
    """The highest folder on the way that holds no tracked file, else the file itself."""
    parts = path.split("/")
    above = ("/".join(parts[:count]) for count in range(1, len(parts)))
    return next((top for top in above if top not in folders), path)
