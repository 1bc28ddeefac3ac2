"""What the workspace tests share: a real repository, its fingerprint, and a plain git run the way a user runs it."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from flyball.workspace import Repo, Workspace, inspect_repo

FILES = {
    "README.md": "# Sum\n",
    "src/sum.py": "def add(a, b):\n    return a - b\n",
    "src/deep/one.txt": "one\n",
    ".gitignore": "*.log\n/cache/\n",
    "src/.gitignore": "secret.txt\n/gen/*\n!/gen/keep.txt\n",
    "run.sh": "#!/bin/sh\n",
}


def git(where: Path, *args: str, ok: bool = True) -> str:
    done = subprocess.run(["git", *args], cwd=where, capture_output=True)
    assert not ok or done.returncode == 0, done.stderr.decode()
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def write(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)


def make_repo(root: Path, *init: str, files: dict[str, str] | None = None) -> Path:
    root.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main", *init)
    git(root, "config", "user.name", "Ada")
    git(root, "config", "user.email", "ada@example.org")
    write(root, FILES if files is None else files)
    (root / "run.sh").exists() and (root / "run.sh").chmod(0o755)
    git(root, "add", "-A", "-f")
    git(root, "commit", "-q", "-m", "first")
    return root


def fingerprint(root: Path) -> dict[str, str]:
    """Every file of the repository by its content and times, but for objects and Flyball's own branches."""
    return {
        str(path.relative_to(root)): _seen(path)
        for path in sorted(root.rglob("*"))
        if not str(path.relative_to(root)).startswith((".git/objects", ".git/refs/heads/flyball"))
        and str(path.relative_to(root)) != ".git/refs/heads"
    }


def _seen(path: Path) -> str:
    info = path.lstat()
    content = b"" if not path.is_file() or path.is_symlink() else path.read_bytes()
    where = path.readlink() if path.is_symlink() else ""
    return f"{info.st_mode:o} {info.st_mtime_ns if path.is_file() else 0} {where} {hashlib.sha256(content).hexdigest()}"


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' git knows no configuration but the repository's."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "home").mkdir()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "user repo")


@pytest.fixture
def repo(root: Path) -> Repo:
    return inspect_repo(root)


@pytest.fixture
def space(tmp_path: Path, repo: Repo) -> Workspace:
    return Workspace.create(tmp_path / "state/runs/r1", repo, "r1")


def paths(space: Workspace, tree: str) -> list[str]:
    listed = subprocess.run(
        ["git", "--git-dir", space.git_dir, "ls-tree", "-r", "-z", "--name-only", tree],
        capture_output=True,
        check=True,
    ).stdout
    return sorted(name.decode("utf-8", "surrogateescape") for name in listed.split(b"\0") if name)
