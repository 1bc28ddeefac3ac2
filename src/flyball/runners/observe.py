"""Ask the test runners of one command for a report, without changing the command.

An `Observer` puts the probes into a folder that the command may read and an empty report folder into one that it may
write, and says which variables make the runners load them; `collect` reads what they left.

Code under test runs as the same user as its runner, so it can write into the folder of reports. Each line of a probe
therefore ends with a seal, an HMAC over the line and the seal before it. A process takes its key from a file before
it loads the code under test, and leaves the next key there, from which the ones before it cannot be computed.
"""

from __future__ import annotations

import hmac
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from flyball.proofs.exchange import Room
from flyball.reading.test_output import read_lines
from flyball.reading.test_report import TestReport, read_reports
from flyball.state_dir import files_below, remove

_NAME = re.compile(r"[a-z]+-\d+-(\d+)\.jsonl")


def key_text(number: int, key: bytes) -> str:
    """What the file with the next key holds."""
    return f"{number} {key.hex()}"


def opened(files: Mapping[str, bytes], rest: str, first: bytes) -> dict[str, bytes] | None:
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
    return rows if rest == key_text(len(by_number), key) else None


def _unsealed(data: bytes, key: bytes) -> bytes | None:
    before, rows = b"", list[bytes]()
    for line in data.splitlines():
        row, _, seal = line.rpartition(b"\t")
        before = hmac.digest(key, before + row, "sha256").hex().encode()
        if not hmac.compare_digest(seal, before):
            return None
        rows.append(row)
    return b"\n".join(rows)


PROBES = Path(__file__).with_name("probes")
KEY = "key"  # the next one, beside the folder of reports
REPORT_MOST = 64 << 20  # bytes of all reports of one command
FILES_MOST = 5_000
_JUNIT = ("target/surefire-reports", "target/failsafe-reports", "build/test-results", "TestResults")


class Observer(Struct, frozen=True):
    """The probes of one command in one room. `root` is the checkout as the command sees it, `tools` a folder that it
    cannot write, `key` the first one that seals reports."""

    room: Room
    root: str
    tools: Path | None = None
    key: bytes = b""

    def line(self, command: str) -> str:
        """The command, after some process numbers were used up."""
        return "(:)\n" * self.room.numbers + command

    def prepare(self, folder: Path, env: Mapping[str, str]) -> dict[str, str]:
        """The whole environment. Everything is a fresh copy: what an earlier proof left there is gone."""
        tools, report = self.tools or folder / "tools", folder / "report"
        remove(folder)
        remove(tools)
        shutil.copytree(PROBES, tools / "probes", ignore=shutil.ignore_patterns("__pycache__"))
        php = tools / "probes" / "php"
        (php / "report.ini").write_text(f'auto_prepend_file = "{php / "prepend.php"}"\n', "utf-8")
        report.mkdir(mode=0o700, parents=True)
        room = {"root": self.root, "report": str(report), "sealed": bool(self.key)}
        (tools / "room.json").write_bytes(msgspec.json.encode(room | msgspec.structs.asdict(self.room)))
        if self.key:
            (folder / KEY).write_text(key_text(0, self.key), "ascii")
        env = {name: value for name, value in env.items() if self.room.ci or name != "CI"}
        variables = environment(tools / "probes", report, env)
        return env | {
            name: variables[name] for name in variables if not self.room.quiet or name in self._views()
        }

    def _views(self) -> set[str]:
        """The variables that show the source a plain program, in a room that is quiet."""
        endings = {path.rpartition(".")[2] for path in self.room.source}
        python, node = {"py"} & endings, {"js", "mjs", "cjs", "ts"} & endings
        return {*(["PYTHONPATH"] if python else []), *(["NODE_OPTIONS"] if node else [])}


def environment(probes: Path, report: Path, env: Mapping[str, str]) -> dict[str, str]:
    """The variables with which the runners find the probes; the user's own values are kept after them."""
    return {
        "PYTHONPATH": _joined(os.pathsep, str(probes), env.get("PYTHONPATH", "")),
        "NODE_OPTIONS": _joined(" ", f"--require={probes / 'preload.cjs'}", env.get("NODE_OPTIONS", "")),
        "PYTEST_ADDOPTS": _joined(
            " ", env.get("PYTEST_ADDOPTS", ""), f"--junitxml={report / 'pytest.xml'} -o junit_family=xunit1"
        ),
        "GOFLAGS": _joined(" ", env.get("GOFLAGS", ""), "-v"),
        "SPEC_OPTS": _joined(
            " ", env.get("SPEC_OPTS", ""), f"--format progress --format json --out {report / 'rspec.json'}"
        ),
        "PHP_INI_SCAN_DIR": _joined(":", env.get("PHP_INI_SCAN_DIR", ""), "", str(probes / "php")),
        "VSTestLogger": "trx",
        "VSTestResultsDirectory": str(report),
    }


def executed(folder: Path) -> bool:
    """Whether the command executed code of the project, in Python or Node."""
    return (folder / "report" / "ran").exists()


def _joined(by: str, *parts: str) -> str:
    return by.join(part for part in parts if part or by == ":")


def collect(folder: Path, checkout: Path, root: str, output: str, key: bytes = b"") -> TestReport | None:
    """What the runners of one command reported; None where none did. `root` is the checkout as the command saw it."""
    files = dict(_reports(folder / "report"))
    if key:
        intact = opened(files, _left(folder / KEY), key)
        if intact is None:
            return TestReport(complete=False, altered=True)
        files = intact
    if any(name.startswith("python-") for name in files):
        files.pop("pytest.xml", None)  # the probe says the same, and more
    files.update(_left_in(checkout))
    return (read_reports(files, root) if files else None) or read_lines(output)


def _reports(report: Path) -> Iterator[tuple[str, bytes]]:
    remaining = REPORT_MOST
    for path in sorted(files_below(report))[:FILES_MOST]:
        if path.name != "ran":
            data = path.read_bytes()[: remaining + 1]
            remaining -= len(data)
            yield path.name, data if remaining >= 0 else b""


def _left(place: Path) -> str:
    try:
        return place.read_bytes()[:1000].decode("ascii", "replace")
    except OSError:
        return ""


def _left_in(checkout: Path) -> Iterator[tuple[str, bytes]]:
    """Maven, Gradle and dotnet write JUnit XML into the checkout, always."""
    reports = [path for path in files_below(checkout) if path.suffix == ".xml" and _is_junit(path, checkout)]
    for path in reports[:FILES_MOST]:
        if path.stat().st_size <= REPORT_MOST:
            yield str(path.relative_to(checkout)), path.read_bytes()


def _is_junit(path: Path, checkout: Path) -> bool:
    folder = f"/{path.parent.relative_to(checkout)}/"
    return any(f"/{place}/" in folder for place in _JUNIT)
