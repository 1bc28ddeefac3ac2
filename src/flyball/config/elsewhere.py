"""Whether an environment imports this project from another folder: a copied `.venv` still names the original one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlparse

OWN_PATHS = re.compile(r"\bPYTHONPATH=|(?:^|[\s/])(?:tox|nox|hatch|uv\s+run)\b")
SETTINGS = ("pyproject.toml", "pytest.ini", "tox.ini", "setup.cfg")


def foreign_install(root: Path, venv: str, commands: Sequence[str]) -> str:
    """What to say if the tests of this repository would import its code from another folder; "" if they do not (SYS-8)."""
    folder = _imported_from(root, venv, commands) if venv else ""
    if not folder:
        return ""
    return (
        f"The tests here would not test this code: in {venv}, this project is installed from {folder}. "
        f"Install it from this folder, for example with `{Path(venv, 'bin', 'pip')} install -e {root}`."
    )


def _imported_from(root: Path, venv: str, commands: Sequence[str]) -> str:
    """The other folder.

    It is looked for where the code is in `src`: a package at the top is imported from where the tests are run. Commands
    and settings of pytest that say where to import from are trusted.
    """
    if any(OWN_PATHS.search(command) for command in commands) or _sets_paths(root):
        return ""
    for name, project in _editables(Path(venv)):
        own = [root / "src" / name, *root.glob(f"*/src/{name}"), *root.glob(f"*/*/src/{name}")]
        outside = not project.resolve().is_relative_to(root.resolve())
        if outside and any(path.is_dir() or path.with_suffix(".py").is_file() for path in own):
            return str(project)
    return ""


def _sets_paths(root: Path) -> bool:
    for name in SETTINGS:
        with suppress(OSError):
            if re.search(r"^\s*pythonpath\s*=", (root / name).read_text("utf-8", "replace"), re.M):
                return True
    return False


def _editables(venv: Path) -> Iterator[tuple[str, Path]]:
    """The packages that are installed from a folder, as they are imported, and that folder."""
    for file in sorted(venv.glob("lib/python*/site-packages/*.dist-info/direct_url.json")):
        with suppress(OSError, ValueError):
            url_record = json.loads(file.read_text("utf-8"))
            record = cast("dict[str, Any]", url_record) if isinstance(url_record, dict) else {}
            url, editable = urlparse(str(record.get("url", ""))), record.get("dir_info") == {"editable": True}
            if editable and url.scheme == "file":
                for name in _imported_as(file.parent):
                    yield name, Path(unquote(url.path))


def _imported_as(info: Path) -> list[str]:
    names = [re.sub(r"[-.]+", "_", info.name.partition("-")[0])]
    with suppress(OSError):
        names += (info / "top_level.txt").read_text("utf-8").split()
    return list(dict.fromkeys(name for name in names if name.isidentifier()))
