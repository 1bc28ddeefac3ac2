"""What a workspace remembers of its beginning. Written last when one is made: no record, no workspace."""

from pathlib import Path

import msgspec

from flyball.errors import WorkspaceError
from flyball.workspace.store import write_whole

FILE = "workspace.json"


class Record(msgspec.Struct, frozen=True):
    """Fixed at creation. `head` is the user's commit; the base is that, or their uncommitted changes on it."""

    run: str
    repo_root: str
    git_dir: str
    common_dir: str
    object_format: str
    head: str
    branch: str
    base_commit: str
    base_tree: str
    author: tuple[str, str]
    always: tuple[bytes, ...] = ()


def read_record(folder: Path) -> Record | None:
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=Record)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as err:
        raise WorkspaceError(f"{folder / FILE} cannot be read ({err}); the run's checkout is lost.") from err


def write_record(folder: Path, record: Record) -> None:
    write_whole(folder / FILE, msgspec.json.encode(record))
