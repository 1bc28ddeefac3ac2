"""Whether reports are as the probes wrote them. Pure.

Code under test runs as the same user as its runner, so it can write into the folder of reports. Each line of a probe
therefore ends with a seal, an HMAC over the line and the seal before it. A process takes its key from a file before
it loads the code under test, and leaves the next key there, from which the ones before it cannot be computed.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping

_NAME = re.compile(r"[a-z]+-\d+-(\d+)\.jsonl")


def key_text(number: int, key: bytes) -> str:
    """What the file with the next key holds."""
    return f"{number} {key.hex()}"


def opened(files: Mapping[str, bytes], left: str, first: bytes) -> dict[str, bytes] | None:
    """The files without their seals; None where one was changed, added or removed. `left` is the key that is left,
    `first` the one that the first process took."""
    sealed = {name: data for name, data in files.items() if name.endswith(".jsonl")}
    rows = dict(files)
    by_number = {int(match[1]): name for name in sealed if (match := _NAME.fullmatch(name))}
    if len(by_number) < len(sealed):
        return None
    key = first
    for number in range(len(by_number)):
        lines = _unsealed(sealed[by_number[number]], key) if number in by_number else None
        if lines is None:
            return None
        rows[by_number[number]] = lines
        key = hmac.digest(key, b"next", "sha256")
    return rows if left == key_text(len(by_number), key) else None


def _unsealed(data: bytes, key: bytes) -> bytes | None:
    before, rows = b"", list[bytes]()
    for line in data.splitlines():
        row, _, seal = line.rpartition(b"\t")
        before = hmac.digest(key, before + row, "sha256").hex().encode()
        if not hmac.compare_digest(seal, before):
            return None
        rows.append(row)
    return b"\n".join(rows)
