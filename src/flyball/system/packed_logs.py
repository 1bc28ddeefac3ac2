"""The logs of ended runs in one compressed archive for each run, and reading a log wherever it is.

A log longer than `LOG_MOST` keeps its beginning and its end. The archive is complete before the folders that
it replaces are removed; after a crash between the two, packing again adds what is missing.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

from flyball.errors import UserError
from flyball.journal.records import Records
from flyball.state_dir import RunDir, files_below, remove, write_whole

LOG_MOST = 1 << 20


def pack(folder: RunDir, acts: list[Path]) -> None:
    """Put the files of these act folders into the run's archive, then remove the folders."""
    logs = {str(file.relative_to(act.parent)): file for act in acts for file in files_below(act)}
    if folder.driver_log.is_file():
        logs["driver.log"] = folder.driver_log
    members = dict(_members(folder.logs))
    if logs.keys() - members.keys():
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(folder.logs, _archive(members, logs))
    for path in (*acts, folder.driver_log):
        remove(path)


def _archive(members: dict[str, bytes], logs: dict[str, Path]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz", compresslevel=6) as archive:
        for name in sorted(members.keys() | logs.keys()):
            content = members[name] if name in members else _capped(logs[name])
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return data.getvalue()


def _capped(file: Path) -> bytes:
    """The file's content; of a long one, the first and the last half megabyte."""
    handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        size, half = os.fstat(handle).st_size, LOG_MOST // 2
        if size <= LOG_MOST:
            return stream.read(LOG_MOST)
        head = stream.read(half)
        stream.seek(size - half)
        return head + f"\n[{size - 2 * half} bytes removed by flyball prune]\n".encode() + stream.read(half)


def _members(file: Path) -> Iterator[tuple[str, bytes]]:
    if not file.is_file():
        return
    try:
        with tarfile.open(file, "r:gz") as archive:
            for member in archive:
                content = archive.extractfile(member)
                yield member.name, content.read(2 * LOG_MOST) if content else b""
    except (tarfile.TarError, OSError, EOFError) as problem:
        raise UserError(f"{file} cannot be read ({problem}). Move it away to continue without it.") from None


def act_files(records: Records, key: str) -> dict[str, bytes]:
    """The files of an act by name, from its folder or from the archive of its run."""
    folder = records.dirs.act(key)
    if folder.is_dir():
        return {str(file.relative_to(folder)): file.read_bytes() for file in files_below(folder)}
    for run_id in _line(records, key.rpartition("-")[0]):
        inside = [(name.partition("/"), data) for name, data in _members(records.dirs.run(run_id).logs)]
        files = {path: data for (act, _, path), data in inside if act == key}
        if files:
            return files
    return {}


def _line(records: Records, run_id: str) -> Iterator[str]:
    """The run and those above it."""
    while run_id:
        yield run_id
        row = records.journal.row(run_id)
        run_id = row.parent if row else ""
