"""What a process inside can and cannot do, tried from inside."""

import os
import shutil
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.helpers import folder_outside_tmp

from flyball.agents import landlock, process, sandbox, script
from flyball.agents.sandbox import View, editable_leaks, probe, wrap
from flyball.errors import AgentError

FOUND = probe("bwrap")
needs_bwrap = pytest.mark.skipif(FOUND.kind != "bwrap", reason=FOUND.why)


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[Path]:
    world = folder_outside_tmp(request)
    for folder in (
        "checkout",
        "repo/.git",
        "repo/.venv/bin",
        "home",
        "state/acts",
        "user/.ssh",
        "user/.pyenv",
    ):
        (world / folder).mkdir(parents=True)
    for file in (
        "repo/mine.txt",
        "repo/.venv/tool",
        "state/journal",
        "user/.ssh/id",
        "user/.netrc",
        "user/.pyenv/python",
    ):
        (world / file).write_text("theirs")
    (world / "checkout" / "tree.txt").write_text("the tree")
    yield world
    shutil.rmtree(world)


def view(world: Path, **more: object) -> View:
    shares = ((str(world / "repo/.venv"), str(world / "repo/.venv")),)
    hidden = (str(world / "state"), str(world / "repo"), str(world / "user/.netrc"))
    places = {"checkout": str(world / "checkout"), "at": str(world / "repo"), "home": str(world / "home")}
    return View(**{**places, "shares": shares, "hidden": hidden, "user_home": str(world / "user"), **more})  # type: ignore[arg-type]


def inside(world: Path, command: str, **more: object) -> subprocess.CompletedProcess[str]:
    argv = wrap(["/bin/sh", "-c", command], view(world, **more))
    return subprocess.run(argv, capture_output=True, text=True)


def test_a_probe_says_what_and_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert FOUND.kind in ("bwrap", "none") and FOUND.why
    monkeypatch.setenv("PATH", str(tmp_path))
    assert probe("bwrap") == sandbox.Sandbox("none", "bubblewrap (bwrap) is not installed")
    assert probe("none") == sandbox.Sandbox("none", "guard.sandbox is none")
    assert probe("auto") == probe("required")
    assert probe("auto").kind == probe("landlock").kind
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho no namespaces for you >&2\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    assert probe("bwrap") == sandbox.Sandbox("none", "bubblewrap does not work here: no namespaces for you")


@needs_bwrap
def test_the_checkout_stands_at_the_repositorys_path(world: Path) -> None:
    seen = inside(world, "pwd; ls -A; cat tree.txt; echo new > made.txt")
    assert (seen.returncode, seen.stdout) == (0, f"{world}/repo\n.venv\ntree.txt\nthe tree")
    assert (world / "checkout" / "made.txt").read_text() == "new\n"
    assert not (world / "repo" / "made.txt").exists()


@needs_bwrap
def test_shares_are_seen_and_not_written(world: Path) -> None:
    assert inside(world, "cat .venv/tool").stdout == "theirs"
    assert inside(world, "echo x > .venv/tool").returncode != 0
    assert (world / "repo/.venv/tool").read_text() == "theirs"


@needs_bwrap
@pytest.mark.parametrize("path", ["state/journal", "checkout/tree.txt", "user/.ssh/id", "user/.netrc"])
def test_what_is_hidden_cannot_be_read(world: Path, path: str) -> None:
    hidden = (str(world / "state"), str(world / "checkout"))
    assert inside(world, f"cat {world}/{path}", hidden=hidden).returncode != 0
    assert inside(world, f"cat /proc/1/root{world}/{path}", hidden=hidden).returncode != 0


@needs_bwrap
def test_a_hidden_file_cannot_be_read(world: Path) -> None:
    assert "theirs" not in inside(world, f"cat {world}/user/.netrc", user_home=None).stdout


@needs_bwrap
def test_toolchains_in_the_users_home_stay_to_be_read(world: Path) -> None:
    assert (
        inside(world, f"cat {world}/user/.pyenv/python; ls -A {world}/user", hidden=()).stdout
        == "theirs.pyenv\n"
    )


@needs_bwrap
@pytest.mark.parametrize("path", ["repo/../x", "state/x", "user/x", "user/.pyenv/x", "../x"])
def test_nothing_else_can_be_written(world: Path, path: str) -> None:
    assert "Read-only file system" in inside(world, f"LC_ALL=C; echo x > {world}/{path}").stderr
    assert not (world / path).exists()


@needs_bwrap
def test_home_and_tmp_are_private_and_writable(world: Path) -> None:
    name = f"flyball-{os.getpid()}"
    assert (
        inside(world, f"echo x > ~/{name} && echo x > /tmp/{name} && echo $HOME").stdout == f"{world}/home\n"
    )
    assert (world / "home" / name).exists() and not Path("/tmp", name).exists()


@needs_bwrap
def test_no_capability_is_left_to_undo_it(world: Path) -> None:
    assert inside(world, "grep CapEff /proc/self/status").stdout.split()[1].strip("0") == ""
    state = world / "state"
    for how in ("umount", "unshare -Urm umount", "unshare -rm umount"):
        assert inside(world, f"{how} {state}; cat {state}/journal").returncode != 0


@needs_bwrap
def test_the_kernels_switches_cannot_be_set_also_by_root(world: Path) -> None:
    same = 'f=/proc/sys/kernel/core_pattern; v=$(cat $f) && echo "$v" > $f'
    assert "Read-only file system" in inside(world, f"LC_ALL=C; {same}").stderr
    assert inside(world, "test ! -w /proc/sysrq-trigger && test ! -w /proc/mtrr").returncode == 0


@needs_bwrap
def test_other_processes_are_not_seen_nor_signalled(world: Path) -> None:
    assert inside(world, f"kill -0 {os.getpid()}").returncode != 0


@needs_bwrap
def test_the_network_is_its_own_loopback_unless_told(world: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        own = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname())"
        python = f"{os.path.realpath(sys.executable)} -W ignore -c"
        assert inside(world, f'{python} "{code}"', network="all").returncode == 0
        assert inside(world, f'{python} "{code}"', network="loopback").returncode != 0
        assert inside(world, f'{python} "{own}"', network="loopback").returncode == 0


@needs_bwrap
def test_flyballs_own_python_and_package_are_to_be_had(world: Path) -> None:
    (world / "checkout/turn.json").write_text('{"say": "hi"}')
    command = " ".join(script.command("turn.json"))
    assert inside(world, command, user_home=str(Path.home())).stdout == '{"type": "message", "text": "hi"}\n'


@needs_bwrap
def test_objects_can_be_lent_where_the_clone_expects_them(world: Path) -> None:
    lent = ((str(world / "repo/.git"), "/tmp/.flyball/objects"),)
    (world / "repo/.git/pack").write_text("objects")
    assert (
        inside(
            world, "cat /tmp/.flyball/objects/pack; echo x > /tmp/.flyball/objects/y", ro_binds=lent
        ).stdout
        == "objects"
    )
    assert not (world / "repo/.git/y").exists()


@needs_bwrap
def test_under_a_keeper_term_comes_with_grace_and_all_inside_end(world: Path) -> None:
    code = "trap 'echo tidy; exit 7' TERM; setsid sleep 97 & echo up; while :; do sleep 0.02; done"
    argv = wrap(["/bin/sh", "-c", code], view(world))
    act = world / "state/acts/one"
    process.begin(act, process.Spec(argv=tuple(argv), cwd="/", env={"PATH": os.environ["PATH"]}))
    while process.read_out(act) != b"up\n":
        assert process.look(act) == "alive", process.read_err(act)
    process.end(act)
    end = process.attend(act)
    assert (end.reason, end.code, process.read_out(act)) == ("stopped", 7, b"up\ntidy\n")
    assert process.clear(act) == 0


@needs_bwrap
def test_with_a_killed_keeper_nothing_inside_lives_on(world: Path) -> None:
    act = world / "state/acts/two"
    argv = wrap(["/bin/sh", "-c", "env -i setsid sleep 96 & echo up; wait"], view(world))
    process.begin(act, process.Spec(argv=tuple(argv), cwd="/", env={"PATH": os.environ["PATH"]}))
    while process.read_out(act) != b"up\n":
        assert process.look(act) == "alive", process.read_err(act)
    os.kill(int((act / "claim").read_text().split(".")[0]), 9)
    assert process.attend(act).reason == "lost"
    deadline = 500
    while deadline and _running(b"sleep\x0096\x00"):
        deadline -= 1
    assert not _running(b"sleep\x0096\x00")


def _running(command: bytes) -> bool:
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if entry.read_bytes() == command:
                return True
        except OSError:
            continue
    return False


# ---- environments that point into the user's repository


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    repository = tmp_path_factory.mktemp("repository")
    (repository / "src").mkdir()
    venv.create(repository / ".venv", with_pip=False, symlinks=True)
    (packages,) = (repository / ".venv/lib").glob("python*/site-packages")
    return repository, packages


def found_with(environment: tuple[Path, Path], name: str, text: str) -> list[str]:
    repository, packages = environment
    file = packages / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    try:
        return editable_leaks([str(repository / ".venv/bin/python")], repository)
    finally:
        file.unlink()


def test_an_environment_of_its_own_leaks_nothing(environment: tuple[Path, Path]) -> None:
    assert found_with(environment, "other.pth", "/somewhere/else\n# comment\nimport sys\n") == []


def test_every_way_into_the_repository_is_found(environment: tuple[Path, Path]) -> None:
    source = f"{environment[0]}/src"
    record = f'{{"url": "file://{environment[0]}", "dir_info": {{"editable": true}}}}'
    (environment[1] / "demo-1.dist-info").mkdir()
    (environment[1] / "demo-1.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: demo\nVersion: 1\n"
    )
    assert found_with(environment, "demo-1.dist-info/direct_url.json", record) == [
        f"demo is installed from {environment[0]}"
    ]
    assert found_with(environment, "demo.egg-link", f"{source}\n../\n") == [
        f"demo.egg-link points to {source}"
    ]
    assert found_with(
        environment, "__editable___demo_finder.py", f"MAPPING = {{'demo': '{source}/demo'}}\n"
    ) == [f"__editable___demo_finder.py points to {source}/demo"]
    found = found_with(environment, "demo.pth", f"{source}\n")
    assert found == [f"demo.pth points to {source}", f"sys.path names {source}"]


def test_no_python_leaks_nothing_and_a_broken_one_is_said(tmp_path: Path) -> None:
    assert editable_leaks([str(tmp_path / "no-python")], tmp_path) == []
    with pytest.raises(AgentError, match="cannot be asked what it would import: exit 1"):
        editable_leaks(["false"], tmp_path)


# ---- sockets of others, and the strict view


def enclosed(world: Path, command: str, **more: object) -> subprocess.CompletedProcess[str]:
    """As an act is started: through `entry`, where there is something to do first."""
    argv = sandbox.enclose(FOUND, ["/bin/sh", "-c", command], view(world, **more))
    argv = [part.replace(f'"tell": {process.STATUS_FD}', '"tell": 0') for part in argv]
    return subprocess.run(argv, capture_output=True, text=True)


@needs_bwrap
def test_abstract_sockets_of_others_cannot_be_reached(world: Path) -> None:
    if landlock.abi() < landlock.SCOPE_ABI:
        pytest.skip("this kernel's Landlock has no scopes")
    name = f"flyball-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"\0{name}")
        door.listen()
        call = f"python3 -c \"import socket; socket.socket(1).connect('\\0{name}')\""
        assert subprocess.run(call, shell=True).returncode == 0
        tried = enclosed(world, call, network="all")
    assert "PermissionError" in tried.stderr
    own = "import socket; a = socket.socket(1); a.bind('\\0mine'); a.listen(); socket.socket(1).connect('\\0mine')"
    assert enclosed(world, f'python3 -c "{own}"', network="all").returncode == 0


@needs_bwrap
@pytest.mark.parametrize("network", ["all", "loopback"])
def test_a_lasting_socket_of_another_program_is_covered(world: Path, network: str) -> None:
    (world / "elsewhere").mkdir()
    path = world / "elsewhere/agent.sock"
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen()
        call = f"python3 -c \"import socket; socket.socket(1).connect('{path}')\""
        assert subprocess.run(call, shell=True).returncode == 0
        assert str(path) in sandbox.sockets(view(world), age_s=0)
        assert str(path) not in sandbox.sockets(view(world)), "it may go away before it is covered"
        argv = wrap(["/bin/sh", "-c", call], view(world, network=network))
        at = argv.index("--chdir")
        argv[at:at] = ["--ro-bind", "/dev/null", str(path)]
        assert subprocess.run(argv, capture_output=True).returncode != 0


@needs_bwrap
def test_a_strict_view_shows_the_checkout_the_system_and_toolchains(world: Path) -> None:
    (world / "other").mkdir()
    (world / "other/notes.txt").write_text("private")
    assert inside(world, f"cat {world}/other/notes.txt").stdout == "private"
    strict = inside(world, f"cat tree.txt; cat {world}/other/notes.txt; ls /", strict=True)
    assert "private" not in strict.stdout and strict.stdout.startswith("the tree")
    assert not {"srv", "mnt", "media", "boot"} & set(strict.stdout.split())
    assert inside(world, f"cat {world}/user/.pyenv/python", strict=True, hidden=()).stdout == "theirs"
    assert inside(world, "touch /made", strict=True).returncode != 0
    assert (
        inside(
            world, "touch made && touch ~/made && touch /tmp/made && git --version", strict=True
        ).returncode
        == 0
    )
    assert inside(world, f"{sys.executable} -c 'import flyball'", strict=True).returncode == 0
