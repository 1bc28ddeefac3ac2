"""Git directories written by hand: what stands in them is known to the byte, and nothing else is there.

Flyball is the only writer of its own references, so it writes them as files, whole or not at all; a killed
process leaves no lock behind.
"""

import contextlib
import os
import shutil
import threading
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from flyball import state_dir
from flyball.errors import WorkspaceError
from flyball.workspace.git import EMAIL, NAME, Git


class Plan(Struct, frozen=True):
    """What a new git directory holds. `refs` are full names to object ids."""

    object_format: str
    alternates: Sequence[Path]
    head: str = "refs/heads/main"
    refs: Mapping[str, str] = {}
    shallow: bytes = b""
    attributes: bytes = b""
    bare: bool = True


def make_git_dir(path: Path, plan: Plan) -> None:
    """A git directory after the plan, complete enough for every git command."""
    for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info", "hooks"):
        (path / folder).mkdir(parents=True, exist_ok=True)
    (path / "objects/info/alternates").write_bytes(b"".join(_alternate(store) for store in plan.alternates))
    (path / "config").write_text(config_text(plan.object_format, bare=plan.bare))
    (path / "packed-refs").write_text("".join(f"{oid} {name}\n" for name, oid in sorted(plan.refs.items())))
    (path / "info/attributes").write_bytes(plan.attributes)
    if plan.shallow:
        (path / "shallow").write_bytes(plan.shallow)
    target = plan.head if len(plan.head) in (40, 64) else f"ref: {plan.head}"
    (path / "HEAD").write_text(f"{target}\n")


def config_text(object_format: str, *, bare: bool) -> str:
    """The whole configuration of a git directory made here."""
    version = 0 if object_format == "sha1" else 1
    lines = ["[core]", f"\trepositoryformatversion = {version}", "\tfilemode = true"]
    lines += [f"\tbare = {str(bare).lower()}", "\tlogallrefupdates = true", "[gc]", "\tauto = 0"]
    lines += ["[user]", f"\tname = {NAME}", f"\temail = {EMAIL}"]
    if version:
        lines += ["[extensions]", f"\tobjectFormat = {object_format}"]
    return "\n".join(lines) + "\n"


def _alternate(store: Path) -> bytes:
    name = os.fsencode(store)
    quoted = name.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    return b'"' + quoted + b'"\n' if name.startswith((b'"', b"#")) or b"\\" in name else name + b"\n"


def read_ref(git_dir: Path, name: str) -> str:
    """The object id a reference of ours holds; empty if there is none."""
    try:
        return (git_dir / name).read_text().strip()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""


def numbers_in(folder: Path) -> list[int]:
    """The references in a folder of ours that are called by a number, in order."""
    found = folder.iterdir() if folder.is_dir() else iter(())
    return sorted(int(path.name) for path in found if path.name.isdecimal())


def write_ref(git_dir: Path, name: str, oid: str) -> None:
    (git_dir / name).parent.mkdir(parents=True, exist_ok=True)
    write_whole(git_dir / name, f"{oid}\n".encode())


def write_whole(path: Path, content: bytes) -> None:
    """The file holds the old content or the new, never a part, also after a power cut."""
    try:
        state_dir.write_whole(path, content, mode=0o644)
    except OSError as err:
        raise WorkspaceError(f"{path} cannot be written: {err.strerror}.") from err


def pack_into(git: Git, target: Path, wanted: Sequence[str], known: Sequence[str]) -> None:
    """The objects of `wanted` that are not in `known`, as a pack in another git directory of ours."""
    revisions = "".join(f"{oid}\n" for oid in wanted) + "".join(f"^{oid}\n" for oid in known)
    base = str(target / "objects/pack/pack")
    git("pack-objects", "-q", "--revs", "--non-empty", base, stdin=revisions.encode())


@contextlib.contextmanager
def draft_of(index: Path) -> Generator[Path]:
    """A copy of an index to work on; it takes the original's place only if all went well.

    The copy keeps its time stamp: git tells by it which files changed too soon after the index to be trusted.
    """
    draft = index.with_name(f"{index.name}.{os.getpid()}.{threading.get_ident()}.draft")
    if index.exists():
        shutil.copy2(index, draft)
    try:
        yield draft
        if draft.exists():
            draft.replace(index)
    finally:
        draft.unlink(missing_ok=True)
        draft.with_name(draft.name + ".lock").unlink(missing_ok=True)
