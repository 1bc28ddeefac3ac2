"""The room that allowed commands run in: a small project of their own, nothing else to write to, no network, traced."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.trace import CALLS, MARKER, Deed, Log

WORKSPACE, HOME = "/w/repo", "/home/dev"
LIMIT_S = 4.0
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/etc", "/opt")
_SECRET = "PLANTED"
_FILES = {
    "README.md": "# Small\n\nTODO: more\n",
    "a.txt": "a one\nb two\nc foo three\n",
    "b.txt": "b two\nfoo\nz\n",
    "data.csv": "name,n\na,1\nb,2\n",
    "data.json": '{"version": 1, "items": [{"name": "x"}]}\n',
    "data/in.csv": "a\n",
    "src/app.py": "# TODO\nprint('hi')\n",
    "src/util.py": "X = 1\n",
    "src/index.js": "console.log(1)\n",
    "src/main.c": "int main(void) { return 0; }\n",
    "tests/test_a.py": "import unittest\n\n\nclass A(unittest.TestCase):\n    def test_a(self):\n        self.assertTrue(True)\n",
    "docs/x.md": "x\n",
    "package.json": '{"name": "x", "scripts": {"test": "node src/index.js", "lint": "node --check src/index.js"}}\n',
    "Makefile": "all test check:\n\t@echo made\nbuild:\n\t@mkdir -p build\n",
    "fix.patch": "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a one\n+a 1\n",
    "tools.sh": "#!/bin/sh\nid\n",
    "git": "#!/bin/sh\nid\n",
    "--output=x": "",
    "-rf": "",
    "build/old.txt": "old\n",
    "build/empty/.keep": "",
    ".env": f"KEY={_SECRET}\n",
    ".flyball/policy.toml": "",
    ".claude/settings.json": "{}\n",
}


def can_run() -> str:
    """'' if commands can be run and traced here, else one sentence that says why not."""
    for tool in ("bwrap", "strace", "git", "bash"):
        if not shutil.which(tool):
            return f"'{tool}' is not installed, so no command is run for real."
    tried = subprocess.run(
        [
            "bwrap",
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--unshare-all",
            "strace",
            "-qqo",
            "/dev/null",
            "true",
        ],
        capture_output=True,
        check=False,
    )
    return (
        ""
        if tried.returncode == 0
        else "This machine lets nobody trace or unshare, so no command is run for real."
    )


def build(folder: Path) -> Path:
    """The project every batch starts from."""
    project = folder / "project"
    for name, text in _FILES.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    for name in ("tools.sh", "git"):
        (project / name).chmod(0o755)
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "one")):
        who = ("-c", "user.name=A", "-c", "user.email=a@b.example")
        subprocess.run(["git", *who, *words], cwd=project, check=True, capture_output=True)
    (project / "src/app.py").write_text("# TODO\nprint('ho')\n", "utf-8")
    return project


def run(commands: Sequence[str], project: Path, folder: Path) -> list[Deed]:
    """Every command in a bash of its own, one after the other, in one sandbox, under one strace."""
    room, home, log = folder / "repo", folder / "home", folder / "trace"
    for path in (room, home):
        shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(project, room, symlinks=True)
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/id_rsa").write_text(_SECRET)
    (home / ".gitconfig").write_text("[user]\n\tname = A\n\temail = a@b.example\n")
    batch = folder / "batch.json"
    batch.write_text(json.dumps(list(commands)))
    log.mkdir(exist_ok=True)
    strace = ["strace", "-f", "-qq", "-y", "-s", "6000", "-e", f"trace={CALLS}", "-e", "signal=none"]
    inside = [sys.executable, "-I", "/fuzz/runner.py", "/fuzz/batch.json", MARKER, str(LIMIT_S)]
    command = [*_sandbox(room, home, batch, log), *strace, "--seccomp-bpf", "-o", "/fuzz/log/trace", *inside]
    subprocess.run(command, check=False, capture_output=True, timeout=len(commands) * (LIMIT_S + 2) + 60)
    return list(Log().deeds((log / "trace").read_text("latin-1").split("\n")))


def _sandbox(room: Path, home: Path, batch: Path, log: Path) -> list[str]:
    words = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]
    for path in _SYSTEM:
        if Path(path).is_symlink():
            words += ["--symlink", str(Path(path).readlink()), path]
        elif Path(path).exists():
            words += ["--ro-bind", path, path]
    words += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--dir", "/var/tmp"]
    for path in {sys.base_prefix, sys.prefix}:  # after /tmp, which may be where they are
        if not path.startswith("/usr"):
            words += ["--ro-bind", path, path]
    words += ["--bind", str(room), WORKSPACE, "--bind", str(home), HOME, "--chdir", WORKSPACE]
    words += ["--ro-bind", str(batch), "/fuzz/batch.json", "--bind", str(log), "/fuzz/log"]
    words += ["--ro-bind", str(Path(__file__).with_name("runner.py")), "/fuzz/runner.py"]
    return words
