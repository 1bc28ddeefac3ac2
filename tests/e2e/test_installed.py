"""Programs as people install them run in the sandbox, and nothing else of the home is to be seen there."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.helpers import folder_outside_tmp

from flyball.agents.sandbox import TOOLCHAINS, View, manager_roots, needed, probe, wrap

FOUND = probe("bwrap")
pytestmark = pytest.mark.skipif(FOUND.kind != "bwrap", reason=FOUND.why)
HELLO = "#!/bin/sh\necho hello from claude\n"
SECRETS = (
    ".ssh/id",
    ".aws/credentials",
    ".netrc",
    "work/other/notes.txt",
    "Documents/tax.txt",
    ".config/gh/hosts",
)


@pytest.fixture
def home(request: pytest.FixtureRequest) -> Iterator[Path]:
    folder = folder_outside_tmp(request)
    home = folder / "user"
    for name in SECRETS:
        write(home / name, "secret")
    for name in ("checkout", "repo", "private"):
        (folder / name).mkdir()
    yield home
    shutil.rmtree(folder)


def write(path: Path, text: str, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def program(path: Path, text: str = HELLO) -> Path:
    return write(path, text, 0o755)


def link(path: Path, target: str | Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return path


# ---- each way of installing; the folder to be put on PATH


def native_installer(home: Path) -> Path:
    program(home / ".local/share/claude/versions/2.1.0")
    return link(home / ".local/bin/claude", home / ".local/share/claude/versions/2.1.0").parent


def migrated_local(home: Path) -> Path:
    program(home / ".claude/local/node_modules/.bin/claude")
    wrapper = f'#!/bin/bash\nexec "{home}/.claude/local/node_modules/.bin/claude" "$@"\n'
    return program(home / ".claude/local/claude", wrapper).parent


def nvm(home: Path) -> Path:
    top = home / ".nvm/versions/node/v22.1.0"
    program(top / "bin/node", '#!/bin/sh\nexec /bin/sh "$@"\n')
    write(top / "lib/node_modules/@anthropic-ai/claude-code/dep.txt", "hello from claude")
    cli = top / "lib/node_modules/@anthropic-ai/claude-code/cli.js"
    program(cli, f"#!/usr/bin/env node\ncat {cli.parent}/dep.txt\n")
    return link(top / "bin/claude", "../lib/node_modules/@anthropic-ai/claude-code/cli.js").parent


def npm_prefix(home: Path) -> Path:
    cli = program(home / "npm/lib/node_modules/claude/cli.sh")
    return link(home / "npm/bin/claude", cli).parent


def odd_npm_prefix(home: Path) -> Path:
    cli = program(
        home / ".packages/lib/node_modules/claude/cli.sh",
        '#!/bin/sh\n. "$(dirname "$(readlink -f "$0")")/lib.sh"\n',
    )
    write(cli.parent / "lib.sh", "echo hello from claude\n")
    return link(home / ".packages/bin/claude", cli).parent


def volta(home: Path) -> Path:
    program(home / ".volta/tools/image/claude", HELLO)
    program(
        home / ".volta/bin/volta-shim", '#!/bin/sh\nexec "${VOLTA_HOME:-$HOME/.volta}/tools/image/claude"\n'
    )
    return link(home / ".volta/bin/claude", "volta-shim").parent


def bun(home: Path) -> Path:
    program(home / ".bun/install/global/node_modules/claude/cli.sh")
    return link(home / ".bun/bin/claude", "../install/global/node_modules/claude/cli.sh").parent


def asdf_shim(home: Path) -> Path:
    program(home / ".asdf/installs/claude/1.0/bin/claude")
    shim = '#!/bin/sh\nexec "${ASDF_DATA_DIR:-$HOME/.asdf}/installs/claude/1.0/bin/claude"\n'
    return program(home / ".asdf/shims/claude", shim).parent


def homebrew(home: Path) -> Path:
    program(home / ".linuxbrew/Cellar/claude/1.0/bin/claude")
    return link(home / ".linuxbrew/bin/claude", "../Cellar/claude/1.0/bin/claude").parent


def pipx(home: Path) -> Path:
    venv = home / ".local/share/pipx/venvs/claude"
    write(venv / "pyvenv.cfg", "home = /usr/bin\n")
    link(venv / "bin/python", "/bin/sh")
    program(venv / "bin/claude", f"#!{venv}/bin/python\necho hello from claude\n")
    return link(home / ".local/bin/claude", venv / "bin/claude").parent


def uv_tool(home: Path) -> Path:
    python = home / ".local/share/uv/python/cpython-3.13"
    link(python / "bin/python3.13", "/bin/sh")
    venv = home / ".local/share/uv/tools/claude"
    write(venv / "pyvenv.cfg", f"home = {python}/bin\n")
    link(venv / "bin/python", python / "bin/python3.13")
    program(venv / "bin/claude", f"#!{venv}/bin/python\necho hello from claude\n")
    return link(home / ".local/bin/claude", venv / "bin/claude").parent


def moved_uv_tool(home: Path) -> Path:
    venv = home / "tools/uv/claude"
    write(venv / "pyvenv.cfg", f"home = {home}/pythons/3.13/bin\n")
    link(home / "pythons/3.13/bin/python3", "/bin/sh")
    link(venv / "bin/python", home / "pythons/3.13/bin/python3")
    program(venv / "bin/claude", f"#!{venv}/bin/python\necho hello from claude\n")
    return link(home / "bin/claude", venv / "bin/claude").parent


def conda(home: Path) -> Path:
    write(home / "miniconda3/envs/dev/lib/hello", "hello from claude")
    return program(
        home / "miniconda3/envs/dev/bin/claude", f"#!/bin/sh\ncat {home}/miniconda3/envs/dev/lib/hello\n"
    ).parent


def plain_bin(home: Path) -> Path:
    return program(home / "bin/claude").parent


SHAPES = (
    *(native_installer, migrated_local, nvm, npm_prefix, odd_npm_prefix, volta, bun, asdf_shim, homebrew),
    *(pipx, uv_tool, moved_uv_tool, conda, plain_bin),
)


def inside(home: Path, command: str, entry: Path) -> subprocess.CompletedProcess[str]:
    folder = home.parent
    environment = {"HOME": str(home), "PATH": f"{entry}:/usr/bin:/bin"}
    shown = needed(environment, ["claude"], (str(folder / "repo"),))
    view = View(
        checkout=str(folder / "checkout"),
        at=str(folder / "repo"),
        home=str(folder / "private"),
        user_home=str(home),
        ro_binds=tuple((path, path) for path in shown),
    )
    env = {**manager_roots(environment), "PATH": environment["PATH"]}
    return subprocess.run(wrap(["/bin/sh", "-c", command], view), env=env, capture_output=True, text=True)


@pytest.mark.parametrize("install", SHAPES, ids=lambda shape: shape.__name__)
def test_a_program_runs_and_nothing_else_of_the_home_is_seen(
    home: Path, install: Callable[[Path], Path]
) -> None:
    entry = install(home)
    ran = inside(home, "claude", entry)
    assert (ran.returncode, ran.stdout.strip()) == (0, "hello from claude"), ran.stderr
    looked = inside(home, "; ".join(f"cat {home}/{name}" for name in SECRETS), entry)
    assert "secret" not in looked.stdout
    assert inside(home, f"touch {entry}/x", entry).returncode != 0


def test_a_link_into_a_folder_of_secrets_shows_none_of_it(home: Path) -> None:
    program(home / ".ssh/run-it")
    entry = link(home / "bin/claude", home / ".ssh/run-it").parent
    assert "secret" not in inside(home, f"claude; cat {home}/.ssh/id", entry).stdout


def test_neither_the_home_nor_a_hidden_place_is_ever_named(home: Path) -> None:
    program(home / "claude")
    program(home / ".local/claude")
    environment = {"HOME": str(home), "PATH": f"{home}:{home}/.local:{home}/state/bin:/usr/bin"}
    program(home / "state/bin/tool")
    shown = needed(environment, [], (str(home / "state/journal"), str(home / "repo")))
    assert not [path for path in shown if Path(os.fspath(home), "state/journal").is_relative_to(path)]
    assert str(home) not in shown and str(home / ".local") not in shown


def test_go_reads_the_modules_of_the_user_as_it_reads_a_proxy(tmp_path: Path) -> None:
    assert "GOPROXY" not in manager_roots({"HOME": str(tmp_path)})
    modules = tmp_path / "go/pkg/mod/cache/download"
    modules.mkdir(parents=True)
    roots = manager_roots({"HOME": str(tmp_path), "GOPROXY": "off"})
    assert roots["GOPROXY"] == f"file://{modules},off"
    assert "go/pkg/mod/cache/download" in TOOLCHAINS
