"""Writes down which tests ran, one file of sealed JSON lines for each process: see runners/observe.py.

Like sitecustomize.py it runs in the project's own Python, so it uses the standard library only.
"""

import atexit
import hmac
import json
import os
import sys
import time


class Recorder:
    """One file a process; opened when the first test runner starts."""

    def __init__(self, room, root):
        self.room, self.root = room, root
        self.folder, self.times = room.get("report", ""), room.get("times", 1)
        self.file = None
        self.key, self.seal = b"", b""
        self.pid = 0
        self.runner = ""
        self.depth = 0
        self.opened = set()  # files that the test at work has read
        self.passes = {}  # tests that passed and run again; None for one that failed
        self.helpers = self.alone = None  # run tests without their runner

    def begin(self, runner):
        """False: another runner is at work in this process and reports these tests itself."""
        self.depth += 1
        if self.depth > 1 or self.is_nested():
            return False
        self.runner = runner
        self.write(kind="begin", runner=runner, root=self.root, argv=sys.argv[:20])
        return True

    def end(self, **facts):
        self.depth -= 1
        if self.depth == 0 and self.runner:
            for row in [row for row in self.passes.values() if row]:
                self.write(**row)
            self.passes = {}
            self.write(kind="end", runner=self.runner, **facts)
            self.runner = ""

    def open(self):
        """Before the code under test is loaded, so that it cannot take this process's key."""
        if self.depth == 0 and not (self.file and self.pid == os.getpid()) and not self.is_nested():
            self.write(kind="open")
            atexit.register(self.write, kind="close")

    def is_nested(self):
        return _is_nested(self.folder)

    def write(self, **row):
        try:
            if self.file is None or self.pid != os.getpid():
                self.pid, self.seal = os.getpid(), b""
                number, self.key = _take_key(self.folder, self.room.get("sealed"))
                name = "python-%d-%d.jsonl" % (self.pid, number)
                self.file = os.open(
                    os.path.join(self.folder, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
                )
            line = json.dumps(row).encode("utf-8", "replace")
            if self.key:
                self.seal = hmac.new(self.key, self.seal + line, "sha256").hexdigest().encode()
                line += b"\t" + self.seal
            os.write(self.file, line + b"\n")
        except OSError:
            pass

    def run_alone(self, name, file, request):
        """A test that passed also runs where its runner is not loaded; `request` says how."""
        names = self.room.get("tests") or [name]
        if not any(("::" + one).endswith("::" + name) for one in names):
            return False
        try:
            return bool(self.helpers and self.helpers.run(name, file, request(self.alone)))
        except Exception:
            return False

    def test(self, name, outcome, file="", took=0.0, detail="", skips=0):
        row = {"kind": "test", "id": name, "outcome": outcome, "file": file, "took": round(took, 4)}
        row["detail"], row["skips"] = str(detail)[:500], skips
        row["opened"], self.opened = sorted(self.opened)[:20], set()
        if self.times == 1:
            self.write(**row)
        elif outcome == "passed":
            self.passes.setdefault(name, row)  # until it has passed each time
        elif self.passes.get(name, row):
            self.passes[name] = None
            self.write(**row)


def _take_key(folder, sealed):
    """Its number and the key of this process, which nobody else can read from now on: see runners/observe.py."""
    place = os.path.join(os.path.dirname(folder), "key")
    if not sealed:
        return len(os.listdir(folder)), b""
    mine = "%s.%d" % (place, os.getpid())
    for _ in range(500):
        try:
            os.rename(place, mine)
            break
        except OSError:
            time.sleep(0.01)  # another process takes its own
    with open(mine) as file:
        number, text = file.read().split()
    key = bytes.fromhex(text)
    with open(mine, "w") as file:
        file.write("%d %s" % (int(number) + 1, hmac.new(key, b"next", "sha256").hexdigest()))
    os.rename(mine, place)
    return int(number), key


def _is_nested(folder):
    """Whether a test started this process: what a runner does here is a part of that test, and it may be killed."""
    try:
        names = {name.split("-")[1].partition(".")[0]: name for name in os.listdir(folder) if "-" in name}
        pid = os.getppid()
        for _ in range(100):
            if str(pid) in names:
                return _is_running(os.path.join(folder, names[str(pid)]))
            with open("/proc/%d/stat" % pid) as file:
                pid = int(file.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return False


def _is_running(report):
    """A runner that began and has not ended."""
    with open(report) as file:
        rows = file.read().replace(" ", "")
    return report.endswith(".begun") or rows.count('{"kind":"begin"') > rows.count('{"kind":"end"')
