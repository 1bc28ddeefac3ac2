"""One evening of `flyball up` on a repository of a few hundred files, with real processes: `make evening`.

Twelve tasks by mechanic and scripted agents, three approvals, an urgent message of CI in the middle of a task, one kill -9
and restart, one take-over by hand. At the end everything must be done, merged and certified. Prints the ledger.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from tests.e2e.helpers import Yard  # noqa: E402
from tests.e2e.test_up import outcomes, rows, stop  # noqa: E402

MODULES, TESTED = 240, 60
SECRET = "an evening's webhook secret"  # noqa: S105
PROOF = 'proof.commands=["python3 -m unittest discover -q -s tests -t ."]'
BROKEN = 50  # the module that somebody breaks on main
DONE = "Task complete. All done.\n\nEXIT_SIGNAL: true"
WORKER = r"""
import pathlib, re, subprocess, sys, time
task = sys.argv[1]
found = re.search(r"\b(Double|Slowly double|Require|Repair) (\S+)", task)
what, name = found.groups()
if what == "Repair":
    words = [sys.executable, "-P", "-m", "flyball.agents.mechanic", "--role", "worker", "--seconds", "100"]
    subprocess.run([*words, "--proof", "python3 -m unittest discover -q -s tests -t ."], stdout=subprocess.DEVNULL)
elif what == "Require":
    file = pathlib.Path("requirements.txt")
    file.write_text(file.read_text() + name + "\n")
else:
    time.sleep(8 if what == "Slowly double" else 0)
    file = pathlib.Path(name)
    if "def double" not in file.read_text():
        file.write_text(file.read_text() + "\n\ndef double(x):\n    return 2 * x\n")
print("{done}")
"""
PLAIN = [f"Double lib/m{n:03}.py" for n in range(5)]
SLOW, BY_HAND = "Slowly double lib/m100.py", "Slowly double lib/m101.py"
RISKY = [f"Require package-{n} among the dependencies" for n in range(3)]
REPAIR = f"Repair lib/m{BROKEN:03}.py, its test fails on main"


class Evening:
    def __init__(self, folder: Path) -> None:
        self.yard = Yard(folder)
        self.yard.make(repository())
        self.yard.env["FLYBALL_WEBHOOK_SECRET"] = SECRET
        (self.yard.repo / ".flyball" / "out").mkdir(parents=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        others = self.yard.script(
            planner=[{"say": "I do it in one step."}],
            validator=[{"say": "OUTCOME: approved"}],
            critic=[{"say": "OUTCOME: accepted"}],
            reviewer=[{"say": "PASS"}],
        )
        sets = (PROOF, "proof.bite=never", "run.commit=merge", f"up.webhook=127.0.0.1:{self.port}")
        self.words = (
            "up",
            "--agent",
            others,
            "--agent",
            f"worker=command:{sys.executable} tools/worker.py {{prompt}}",
        )
        self.words += tuple(word for one in sets for word in ("--set", one))
        self.up = self.yard.start(*self.words)
        self.approved = 0

    def call(self, *words: str) -> str:
        done = self.yard.flyball(*words)
        if done.returncode:
            raise SystemExit(f"flyball {' '.join(words)}: {done.stderr or done.stdout}")
        return done.stdout

    def add(self, text: str, *more: str) -> str:
        return str(json.loads(self.call("task", "add", text, *more, "--json"))["task"])

    def until(self, what: str, seen: Callable[[], Any], seconds: float = 240) -> None:
        print(f"  {time.monotonic() - BEGAN:5.0f} s  waiting until {what}", flush=True)
        end = time.monotonic() + seconds
        while not seen():
            self.approve()
            if time.monotonic() > end or self.up.poll() is not None:
                print(self.call("ls"), self.call("inbox"), self.up.poll(), sep="\n")
                raise SystemExit(f"It did not come to that: {what}")
            time.sleep(0.2)

    def approve(self) -> None:
        for row in rows(self.yard, machine="cto"):
            if row.question and row.code == "wait.approval":
                self.approved += self.yard.flyball("approve", row.question).returncode == 0

    def done(self, count: int) -> bool:
        return list(outcomes(self.yard).values()).count("done") >= count

    def at_work(self, text: str) -> str:
        """The task run whose worker is busy with this, if it is."""
        for loop in rows(self.yard, machine="loop", status="running"):
            if text in loop.task and loop.state == "closed":
                return loop.root
        return ""

    def say_that_ci_fails(self) -> None:
        body = json.dumps({"kind": "ci", "text": REPAIR, "at": int(time.time())}).encode()
        sign = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        heads = {"X-Hub-Signature-256": f"sha256={sign}"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/trigger", data=body, headers=heads)
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert answer.status == 202


def repository() -> dict[str, str]:
    files = {f"lib/m{n:03}.py": f"def plus(x):\n    return x + {n}\n" for n in range(MODULES)}
    test = "import unittest\n\nfrom lib.m{n:03} import plus\n\n\nclass Test(unittest.TestCase):\n    def test_plus(self):\n"
    test += "        self.assertEqual(plus(1), {n} + 1)\n"
    files |= {f"tests/test_m{n:03}.py": test.format(n=n) for n in range(TESTED)}
    return files | {
        "lib/__init__.py": "",
        "tests/__init__.py": "",
        "requirements.txt": "",
        "tools/worker.py": WORKER.replace("{done}", DONE.replace("\n", "\\n")),
        ".gitignore": "*.pyc\n",
    }


def play(evening: Evening) -> None:
    yard = evening.yard
    evening.call("hold")
    evening.add(SLOW, "--priority", "70")
    plain = [evening.add(text) for text in PLAIN]
    evening.add("Double lib/m102.py", "--after", plain[0])
    last = plain[1]
    for text in RISKY:  # all of them change one file
        last = evening.add(text, "--after", last)
    evening.add(BY_HAND, "--priority", "10")
    evening.call("release")
    evening.until("the slow task is at work", lambda: evening.at_work(SLOW))
    broken = yard.repo / f"lib/m{BROKEN:03}.py"
    broken.write_text(broken.read_text().replace("x + ", "x - "))
    yard.git("commit", "-qam", "Tidy up")
    evening.say_that_ci_fails()
    evening.until(
        "the repair is done", lambda: yard.git("show", f"main:{broken.relative_to(yard.repo)}").count("x + ")
    )
    evening.until("five tasks are done", lambda: evening.done(5))
    evening.up.kill()
    evening.up.communicate()
    print(f"  {time.monotonic() - BEGAN:5.0f} s  killed, and started again", flush=True)
    evening.up = yard.start(*evening.words)
    evening.until("the last task is at work", lambda: evening.at_work(BY_HAND))
    run = evening.at_work(BY_HAND)
    evening.call("take-over", run)
    taken = lambda: any(row.code == "wait.take_over" for row in rows(yard, root=run))  # noqa: E731
    evening.until("it is taken over", taken)
    (yard.state / "runs" / run / "checkout" / "NOTES.md").write_text("Written by hand.\n")
    evening.call("hand-back", run)
    evening.until("all twelve tasks are done", lambda: evening.done(12))
    print(stop(evening.up).splitlines()[-1])


def faults(evening: Evening) -> list[str]:
    """What is not as it should be at the end."""
    yard = evening.yard
    tasks = rows(yard, machine="task")
    log = "".join(yard.flyball("log", row.run).stdout for row in rows(yard, machine="cto"))
    main = {name: yard.git("show", f"main:{name}") for name in ("requirements.txt", "NOTES.md")}
    doubled = [
        n
        for n in (0, 1, 2, 3, 4, 100, 101, 102)
        if "def double" not in yard.git("show", f"main:lib/m{n:03}.py")
    ]
    yard.git("checkout", "-q", "main")
    yard.git("reset", "-q", "--hard")
    proof = subprocess.run(
        [sys.executable, "-m", "unittest", "discover", "-q", "-s", "tests", "-t", "."],
        cwd=yard.repo,
        capture_output=True,
    )
    wrong = {
        f"outcomes: {outcomes(yard)}": set(outcomes(yard).values()) != {"done"},
        f"{len(tasks)} task runs": len(tasks) != 12,
        "a task run did not succeed": any(row.end != "success" for row in tasks),
        "a certificate is not good": any(yard.flyball("verify", row.run).returncode == 2 for row in tasks),
        f"{evening.approved} approvals": evening.approved != 3,
        "CI did not interrupt once": log.count("(interrupt): ci:") != 1,
        f"not doubled: {doubled}": bool(doubled),
        f"dependencies: {main['requirements.txt']}": len(main["requirements.txt"].split()) != 3,
        "what was written by hand is lost": main["NOTES.md"] != "Written by hand.",
        f"main is red: {proof.stderr[-300:]!r}": proof.returncode != 0,
        f"check: {yard.flyball('check').stdout}": yard.flyball("check").returncode != 0,
        "a question is open": bool(rows(yard, open_question=True)),
    }
    return [says for says, so in wrong.items() if so]


BEGAN = time.monotonic()


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="flyball-evening-") as folder:
        evening = Evening(Path(folder))
        try:
            play(evening)
            wrong = faults(evening)
            for name in ("STATUS_LEDGER.md", "LAST_KNOWN_STATE.md"):
                print(f"\n{(evening.yard.repo / '.flyball' / 'out' / name).read_text()}")
            print(evening.call("brief"))
        finally:
            evening.yard.clear()
    print("\n".join(f"WRONG: {one}" for one in wrong) or "Twelve tasks done, merged and certified.")
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
