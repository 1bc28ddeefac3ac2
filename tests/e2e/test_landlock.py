"""The second choice of sandbox, tried from inside; and whichever it is, nothing is done without the one a run began with."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.helpers import ACCEPTS, FIXED, Yard

from flyball.agents import entry, landlock, process, reach, sandbox
from flyball.agents.sandbox import View, enclose, probe
from flyball.domain.machine import READ_ONLY_ROLES, WORKERS
from flyball.machines import SHIPPED, shipped

FOUND, BWRAP = probe("landlock"), probe("bwrap")
needs_landlock = pytest.mark.skipif(FOUND.kind != "landlock", reason=FOUND.why)
needs_bwrap = pytest.mark.skipif(BWRAP.kind != "bwrap", reason=BWRAP.why)
needs_scopes = pytest.mark.skipif(
    landlock.abi() < landlock.SCOPE_ABI, reason=f"Landlock {landlock.abi()} has no rule for signals"
)
QUICK = "grep -q a.+.b calc.py"
DONE = {"write": {"calc.py": FIXED}, "finish": {"indicators": ["task complete", "all done"]}}


@pytest.fixture
def world(tmp_path: Path) -> Path:
    for folder in ("checkout", "repo/.venv", "home/tmp", "state/acts", "user/.ssh", "user/code"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("repo/mine", "repo/.venv/tool", "state/journal", "user/.ssh/id", "user/code/lib"):
        (tmp_path / file).write_text("theirs")
    (tmp_path / "checkout/tree.txt").write_text("the tree")
    return tmp_path


def inside(world: Path, line: str, **more: object) -> subprocess.CompletedProcess[str]:
    places = {"checkout": world / "checkout", "at": world / "repo", "home": world / "home"}
    view = View(
        **{key: str(path) for key, path in places.items()},
        **{
            "user_home": str(world / "user"),
            "hidden": (str(world / "state"),),
            "shares": ((str(world / "repo/.venv"),) * 2,),
            **more,
        },  # type: ignore[arg-type]
    )
    argv = enclose(FOUND, ["/bin/sh", "-c", line], view)
    rules = json.loads(argv[4]) | {"tell": 0}  # nobody listens here
    argv[4] = json.dumps(rules)
    return subprocess.run(argv, cwd=world / "checkout", capture_output=True, text=True)


@needs_landlock
def test_the_checkout_and_the_private_home_can_be_written(world: Path) -> None:
    done = inside(
        world, f"cat tree.txt; echo new > made; mkdir d; mv made d/; echo x > {world}/home/x; rm d/made"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "the tree", "")
    assert (world / "home/x").exists()


@needs_landlock
def test_nothing_else_can_be_changed(world: Path) -> None:
    paths = [world / name for name in ("state/journal", "repo/mine", "user/.ssh/id", "../x", "user/code/lib")]
    deeds = ("echo x >> {}", "truncate -s 0 {}", "rm {}", "ln {} here", "mv {} here")
    lines = [f"({deed.format(path)}) && echo '{deed.format(path)}'" for path in paths for deed in deeds]
    assert inside(world, "; ".join(lines)).stdout == ""
    assert [path.read_text() for path in paths if path.name != "x"] == ["theirs"] * 4
    assert not (world / "../x").exists() and not (world / "checkout/here").exists()


@needs_landlock
def test_what_is_hidden_cannot_be_read_nor_listed(world: Path) -> None:
    for number, path in enumerate(world / name for name in ("state/journal", "repo/mine", "user/.ssh/id")):
        (world / f"checkout/link{number}").symlink_to(path)
        words = (f"cat {path}", f"cat /proc/1/root{path}", f"ls {path.parent}", f"cat link{number}")
        assert inside(world, "; ".join(f"({line}) && echo reached" for line in words)).stdout == ""


@needs_landlock
def test_shared_folders_are_seen_and_not_written(world: Path) -> None:
    (world / "checkout/.venv").symlink_to(world / "repo/.venv")
    assert inside(world, "cat .venv/tool").stdout == "theirs"
    assert inside(world, "echo x > .venv/tool").returncode != 0


@needs_landlock
def test_the_users_home_is_closed_but_for_plain_folders(world: Path) -> None:
    (world / "user/code/state").symlink_to(world / "state")
    outside = Path(os.environ.get("HOME", "/root"))
    (world / "u").mkdir()
    home = str(world / "user")
    view = View(checkout=str(world / "checkout"), at=str(world / "repo"), home=str(world / "home"))
    read = reach.readable(view, (home,), [f"{home}/code"])
    assert f"{home}/code" in read and not any(path.startswith(f"{home}/.ssh") for path in read)
    assert "/" not in read and str(outside) != "/"


@needs_landlock
def test_a_folder_that_is_lent_does_not_lend_the_state_in_it(world: Path) -> None:
    lent = ((str(world), str(world)),)
    assert inside(world, f"cat {world}/user/code/lib", ro_binds=lent, user_home=None).stdout == "theirs"
    assert inside(world, f"cat {world}/state/journal", ro_binds=lent, user_home=None).returncode != 0


@needs_landlock
def test_a_read_only_checkout_is_read(world: Path) -> None:
    assert inside(world, "cat tree.txt", read_only=True).stdout == "the tree"
    assert inside(world, "echo x > tree.txt", read_only=True).returncode != 0
    assert inside(world, f"echo x > {world}/home/x", read_only=True).returncode == 0


@needs_landlock
def test_no_capability_and_no_new_privilege_is_left(world: Path) -> None:
    said = inside(world, "grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status").stdout.split()
    assert [set(word) <= {"0"} for word in said[1:4:2]] == [True, True] and said[5] == "1"
    assert inside(world, f"mount -t tmpfs none {world}/home").returncode != 0


@needs_landlock
@needs_scopes
def test_other_processes_are_not_signalled(world: Path) -> None:
    assert inside(world, f"kill -0 {os.getpid()}").returncode != 0


@needs_landlock
@pytest.mark.skipif(landlock.abi() < landlock.TCP_ABI, reason="this Landlock has no rule for TCP")
def test_without_network_there_is_no_tcp_and_what_it_cannot_do_is_said(world: Path) -> None:
    code = "import socket; socket.create_connection(('127.0.0.1', PORT), 5)"
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = code.replace("PORT", str(server.getsockname()[1]))
        python = f'{os.path.realpath(sys.executable)} -W ignore -c "{code}"'
        assert inside(world, python, network="all").returncode == 0
        assert inside(world, python, network="none").returncode != 0
    assert "UDP and DNS are not kept to loopback" in FOUND.limits


@needs_landlock
def test_it_is_all_or_nothing(world: Path) -> None:
    argv = reach.command(
        ["/bin/sh", "-c", "echo ran"], ["/usr"], [str(world / "home")], tell=77
    )  # no such descriptor
    done = subprocess.run(argv, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (entry.REFUSED, "")


# ---- through the command line ------------------------------------------------------------------------------


def log(yard: Yard, run: str) -> str:
    return yard.flyball("log", run, "--json").stdout


def certified(yard: Yard) -> str:
    """The sandbox, by the one certificate there is."""
    (file,) = yard.state.glob("runs/*/certificate.json")
    return json.loads(base64.b64decode(json.loads(file.read_bytes())["payload"]))["predicate"]["sandbox"]


@needs_landlock
def test_a_run_under_landlock_says_so_in_its_record_and_certificate(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    tries = f"cat {yard.repo}/calc.py {yard.state}/journal.db; echo x > {yard.repo}/made; echo x > {yard.folder}/made"
    agent = yard.script(coder=[{"write": {"calc.py": FIXED}, "run": tries}], critic=ACCEPTS)
    ran = yard.play(agent, "--set", "guard.sandbox=landlock", proof=QUICK)
    assert (ran.exit, ran.code) == (0, "completed"), ran.err
    assert not (yard.repo / "made").exists() and not (yard.folder / "made").exists()
    assert "UDP and DNS are not kept to loopback" in log(yard, ran.run)
    assert certified(yard) == "landlock"


def without_bwrap(yard: Yard) -> dict[str, str]:
    """A PATH on which everything is to be found but bubblewrap."""
    tools = yard.folder / "tools"
    tools.mkdir(exist_ok=True)
    for folder in reversed(yard.env["PATH"].split(os.pathsep)):
        for program in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if program.name != "bwrap":
                (tools / program.name).unlink(missing_ok=True)
                (tools / program.name).symlink_to(program)
    return {"PATH": str(tools)}


@pytest.mark.sampled(0)
@needs_landlock
def test_without_bubblewrap_it_is_landlock_and_demanded_bubblewrap_is_refused(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    agent, env = yard.script(coder=[{"write": {"calc.py": FIXED}}], critic=ACCEPTS), without_bwrap(yard)
    words = yard.words(agent, "--set", "guard.sandbox=required", proof=QUICK)
    assert yard.flyball(*words, env=env).returncode == 0
    assert certified(yard) == "landlock"
    refused = yard.flyball(*yard.words(agent, "--set", "guard.sandbox=bwrap", proof=QUICK), env=env)
    assert refused.returncode == 2 and "bubblewrap" in refused.stderr and "guard.sandbox" in refused.stderr
    assert len(yard.flyball("ls", "--json").stdout.splitlines()) <= 3 and "Traceback" not in refused.stderr


def private_bwrap(yard: Yard) -> Path:
    """A bubblewrap of one's own, which can go away."""
    folder = yard.folder / "bin"
    folder.mkdir()
    shutil.copy(BWRAP.program, folder / "bwrap")
    yard.env = {**yard.env, "PATH": f"{folder}{os.pathsep}{yard.env['PATH']}"}
    return folder / "bwrap"


@needs_bwrap
def test_a_sandbox_that_goes_away_mid_run_is_nobodys_failed_turn(tmp_path: Path) -> None:
    """Once it is broken, once it is gone: found good when it is probed, and not when it is needed."""
    yard = Yard(tmp_path)
    bwrap = private_bwrap(yard)
    words = ("--breakpoint", "closed", "--set", "guard.sandbox=required")
    assert yard.play(yard.script(worker=[{"say": "Hm."}, DONE]), *words, machine="loop", proof=None).exit == 3
    kept = bwrap.read_bytes()
    probed = '#!/bin/sh\ncase "$*" in *" true") exit 0;; esac\necho no namespaces for you >&2\nexit 1\n'
    for why, broken in (
        ("no namespaces for you", probed),
        ("No such file", probed.replace("exit 0", f"rm -f {bwrap}; exit 0")),
    ):
        bwrap.write_text(broken)
        bwrap.chmod(0o755)
        ran = yard.resume()
        assert (ran.exit, ran.code, ran.turns) == (3, "wait.infrastructure", 1), (ran.out, ran.err)
        assert why in json.dumps(ran.stop_reason) and "sandbox" in json.dumps(ran.stop_reason)
        assert '"turn.failed"' not in log(yard, ran.run)
        assert yard.flyball("answer", "@last", "go-on").returncode == 0
    bwrap.write_bytes(kept)
    bwrap.chmod(0o755)
    ran = yard.resume()
    assert (ran.exit, ran.code, ran.turns) == (3, "wait.breakpoint", 2), ran.err


@needs_bwrap
def test_a_run_that_began_in_a_sandbox_is_never_resumed_without(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    mark = yard.folder / "home" / "ran"
    agent = yard.script(worker=[{"say": "Hm."}, {"run": f"touch {mark}", **DONE}])
    sets = ("--set", "guard.sandbox=auto", "--breakpoint", "closed")
    assert yard.play(agent, *sets, machine="loop", proof=None).exit == 3
    yard.flyball("answer", "@last", "go-on")
    yard.env = {**yard.env, **without_bwrap(yard)}
    ran = yard.resume()
    assert (ran.exit, ran.code, ran.turns) == (3, "wait.infrastructure", 1)
    assert "bubblewrap (bwrap) is not installed" in json.dumps(ran.stop_reason) and not mark.exists()


# ---- who may write -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHIPPED)
def test_every_role_of_every_machine_either_writes_or_only_reads(name: str) -> None:
    roles = {state.of for state in shipped(name).states.values() if state.act == "agent"}
    assert all((role in READ_ONLY_ROLES) != (role in WORKERS) for role in roles)


TRY = {
    "run": "(echo x > calc.py || echo x > new) 2>/dev/null; (test -e new || grep -qx x calc.py) || touch ~/refused"
}
JUDGES = {
    "planner": [TRY],
    "critic": [{**TRY, "say": "OUTCOME: accepted"}],
    "validator": [{**TRY, "say": "OUTCOME: rejected"}] * 3 + [{**TRY, "say": "OUTCOME: approved"}],
    "reviewer": [{**TRY, "say": "PASS"}],
    "cto": [{**TRY, "outcome": "retry", "data": {"kind": "retry", "state": "planning", "guidance": "again"}}],
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("machine", "kind", "roles"),
    [
        pytest.param("build", "landlock", ("planner", "critic"), marks=needs_landlock),
        pytest.param(
            "task", "bwrap", ("planner", "critic", "validator", "reviewer", "cto"), marks=needs_bwrap
        ),
    ],
)
def test_who_plans_or_judges_has_the_checkout_read_only(
    tmp_path: Path, machine: str, kind: str, roles: tuple[str, ...]
) -> None:
    yard = Yard(tmp_path)
    agent = yard.script(coder=[DONE], worker=[DONE], author=[{"write": {"calc.py": FIXED}}], **JUDGES)
    ran = yard.play(agent, "--set", f"guard.sandbox={kind}", machine=machine, proof=QUICK)
    assert (ran.exit, ran.code) == (0, "completed"), (ran.out, ran.err)
    homes = yard.state / "runs" / ran.run / "homes"
    assert {role: (homes / f"agent-{role}/refused").exists() for role in roles} == dict.fromkeys(roles, True)
    assert '"undone"' not in log(yard, ran.run)


# ---- GUARD-5: what it does to its own git is said ------------------------------------------------------------


def test_what_an_agent_does_to_its_own_git_is_reported_and_has_no_effect(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    deeds = (
        "git config core.fsmonitor ./evil; git config core.hooksPath hooks; "
        "printf '#!/bin/sh\\ntouch /tmp/x\\n' > .git/hooks/post-commit; chmod +x .git/hooks/post-commit"
    )
    ran = yard.play(yard.script(worker=[{**DONE, "run": deeds}]), machine="loop", proof=None)
    assert ran.code == "completed_unproven"
    said = log(yard, ran.run)
    assert "changed its git configuration" in said and "git hook 'post-commit'" in said
    assert "git configuration" in yard.flyball("log", ran.run).stdout


@pytest.mark.parametrize(
    "kind",
    [pytest.param("bwrap", marks=needs_bwrap), pytest.param("landlock", marks=needs_landlock)],
)
def test_in_the_sandbox_an_agent_can_use_its_git(tmp_path: Path, kind: str) -> None:
    yard = Yard(tmp_path)
    deeds = "git add -A && git commit -qm mine && git stash list && git log -2 --format=%s > ~/log"
    agent = yard.script(worker=[{**DONE, "run": deeds}])
    ran = yard.play(agent, "--set", f"guard.sandbox={kind}", machine="loop", proof=None)
    assert ran.code == "completed_unproven"
    assert (yard.state / "runs" / ran.run / "homes/agent-worker/log").read_text() == "mine\nAs it was\n"


def test_the_kept_cannot_give_orders_to_their_keeper(tmp_path: Path) -> None:
    """Its socket is hidden by a sandbox that mounts; by none and by Landlock it is not."""
    act = tmp_path / "act"
    code = (
        "import socket, time\n"
        "s = socket.socket(socket.AF_UNIX)\n"
        f"s.connect({str(act / 'sock')!r})\n"
        "try:\n"
        '    s.sendall(b\'{"hold": true}\\n{"end": "stopped", "now": true}\\n\')\n'
        "    print(s.recv(10) or 'hung up', flush=True)\n"
        "except ConnectionError:\n"
        "    print('hung up', flush=True)\n"
    )
    spec = process.Spec(argv=(sys.executable, "-c", code), cwd="/", env={})
    process.begin(act, spec)
    ended = process.attend(act)
    assert (ended.reason, ended.code) == ("exit", 0) and process.read_out(act) == b"hung up\n"


def test_what_the_sandbox_says_decides_whether_it_began() -> None:
    def ended(**more: object) -> process.Exit:
        return process.Exit(**{"reason": "exit", "code": 1, "status": "", **more})  # type: ignore[arg-type]

    assert sandbox.never_began(ended(), b"bwrap: no\n") == "bwrap: no"
    assert sandbox.never_began(ended(status='{ "exit-code": 1 }'), b"bwrap: no\n") == ""
    assert sandbox.never_began(ended(status=None), b"bwrap: no\n") == ""
    assert sandbox.never_began(ended(code=0), b"") == ""
    assert not sandbox.vanished("bwrap: no") and sandbox.vanished(
        "bwrap: Can't create file at /run/a.sock: gone"
    )
    assert sandbox.never_began(ended(reason="wall", code=None, signal=9), b"") == ""
    assert sandbox.never_began(ended(reason="cannot_start", error="gone"), b"") == "gone"
