"""Run by a proof's own Python (3.9 or newer, standard library only), with a repository's path.

Prints, one a line, what this Python would import from there rather than from the tree that is proved.
What the environment itself holds (a .venv inside the repository) is not counted: it is what asks.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlparse

PREFIXES = [Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)]


def main(repository: str) -> None:
    root = Path(repository).resolve()
    lines = {*from_records(root), *from_paths(root), *from_files(root)}
    sys.stdout.write("".join(line + "\n" for line in sorted(lines)))


def leaks(path: Path, root: Path) -> bool:
    path = path.resolve()
    own = [prefix for prefix in PREFIXES if prefix != root]
    return path.is_relative_to(root) and not any(path.is_relative_to(prefix) for prefix in own)


def from_records(root: Path) -> Iterator[str]:
    """Distributions that record themselves as installed from a folder."""
    for distribution in metadata.distributions():
        text = distribution.read_text("direct_url.json")
        url = urlparse(json.loads(text).get("url", "") if text else "")
        path = unquote(url.path)
        if url.scheme == "file" and leaks(Path(path), root):
            yield f"{distribution.metadata['Name']} is installed from {path}"


def from_paths(root: Path) -> Iterator[str]:
    for path in sys.path:
        if path and leaks(Path(path), root):
            yield f"sys.path names {path}"


def from_files(root: Path) -> Iterator[str]:
    """Path files, egg links and the finders that editable installs leave."""
    for folder in filter(Path.is_dir, map(Path, filter(None, sys.path))):
        for file in sorted(folder.iterdir()):
            for path in pointed_to(file):
                if leaks(folder / path, root):
                    yield f"{file.name} points to {path}"


def pointed_to(file: Path) -> list[str]:
    if file.suffix in (".pth", ".egg-link"):
        lines = [line.strip() for line in read(file).splitlines()]
        return [line for line in lines if line and not line.startswith(("#", "import ", "import\t"))]
    if file.suffix == ".py" and "editable" in file.name:
        return re.findall(r"""['"](/[^'"\n]+)['"]""", read(file))
    return []


def read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


if __name__ == "__main__":
    main(sys.argv[1])
