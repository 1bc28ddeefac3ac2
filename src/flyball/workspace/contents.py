"""Many files of trees, read with one call of git."""

from collections.abc import Iterator, Sequence

from flyball.workspace.git import Git, raw


def contents(git: Git, wanted: Sequence[tuple[str, str]]) -> list[bytes | None]:
    """The content of each (tree, path), in order; None for what is no file of that tree."""
    asked = [f"{tree}:{path}" for tree, path in wanted]
    plain = [name for name in dict.fromkeys(asked) if not _breaks_lines(name)]
    found = dict(zip(plain, blobs(git, plain), strict=True))
    return [_alone(git, name) if _breaks_lines(name) else found[name] for name in asked]


def blobs(git: Git, wanted: Sequence[str]) -> list[bytes | None]:
    """The content of each blob, by an id or a name without line breaks; None for what is none."""
    if not wanted:
        return []
    listing = git("cat-file", "--batch", stdin=b"".join(raw(name) + b"\n" for name in wanted))
    return list(_parts(listing, len(wanted)))


def _parts(listing: bytes, count: int) -> Iterator[bytes | None]:
    at = 0
    for _ in range(count):
        end = listing.index(b"\n", at)
        head, at = listing[at:end], end + 1
        if head.endswith(b" missing"):
            yield None
            continue
        _, kind, size = head.split(b" ")
        content, at = listing[at : at + int(size)], at + int(size) + 1
        yield content if kind == b"blob" else None


def _breaks_lines(name: str) -> bool:
    return "\n" in name or "\r" in name


def _alone(git: Git, name: str) -> bytes | None:
    answer = git.ask("cat-file", "blob", name, ok=(0, 128))
    return None if answer.code else answer.out
