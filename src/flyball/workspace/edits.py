"""Trees made of other trees: the same files, but for a few that have another content or are gone."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from flyball.workspace.git import Git, raw, text
from flyball.workspace.store import draft_of


def paths(git: Git, tree: str) -> list[str]:
    """Every plain file of a tree."""
    return [path for path, mode in modes(git, tree).items() if mode in (b"100644", b"100755")]


def modes(git: Git, tree: str) -> dict[str, bytes]:
    rows = git("ls-tree", "-r", "-z", "--full-tree", tree).split(b"\0")
    return {
        text(path): head.split(b" ")[0] for head, _, path in (row.partition(b"\t") for row in rows) if path
    }


def edited(git: Git, tree: str, edits: Mapping[str, bytes | None], like: str) -> str:
    """The tree with these files replaced, added or (None) removed; a new file has the mode it has in the tree `like`."""
    known = {**modes(git, like), **modes(git, tree)}
    blobs = _blobs(git, [data for data in edits.values() if data is not None])
    rows: list[bytes] = []
    for path, data in edits.items():
        mode = known.get(path, b"100644")
        mode = mode if mode in (b"100644", b"100755") else b"100644"
        rows.append(
            b"0 " + b"0" * 40 + b"\t" + raw(path)
            if data is None
            else b"%s %s\t%s" % (mode, next(blobs), raw(path))
        )
    with draft_of(git.git_dir / "index.edited") as index:
        over = git.over(index=index)
        over("read-tree", "--empty")
        over("read-tree", tree)
        over(
            "update-index",
            "-z",
            "--add",
            "--replace",
            "--index-info",
            stdin=b"".join(row + b"\0" for row in rows),
        )
        return over.line("write-tree")


def _blobs(git: Git, contents: list[bytes]) -> Iterator[bytes]:
    """The ids of the contents, written with one call."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, str(number)) for number in range(len(contents))]
        for file, content in zip(files, contents, strict=True):
            file.write_bytes(content)
        listing = "".join(f"{file}\n" for file in files).encode()
        ids = git("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=listing) if files else b""
    return iter(ids.split())
