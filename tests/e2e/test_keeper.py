"""A keeper's promises, each tried on real processes."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from flyball.agents import process
from flyball.agents.process import Exit, Line, Spec, Stop
from flyball.errors import AgentError

DEAF_SLEEP = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(99)"


def shell(command: str, **more: object) -> Spec:
    return Spec(argv=("sh", "-c", command), cwd="/", env={"PATH": os.environ["PATH"]}, **more)  # type: ignore[arg-type]


def python(code: str, **more: object) -> Spec:
    return Spec(argv=(sys.executable, "-c", code), cwd="/", env={}, **more)  # type: ignore[arg-type]


def kept(where: Path, spec: Spec, **more: object) -> Exit:
    process.begin(where, spec)
    return process.attend(where, **more)  # type: ignore[arg-type]


def wait_until(true: object, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not true():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def pids_in(where: Path, count: int) -> list[int]:
    wait_until(lambda: len(process.read_out(where).split()) >= count)
    return [int(word) for word in process.read_out(where).split()[:count]]


def keeper_of(where: Path) -> int:
    return int((where / "claim").read_text().split(".")[0])


# ---- what is written down


def test_code_output_and_errors_are_written_down(tmp_path: Path) -> None:
    end = kept(tmp_path / "act", shell("echo out; echo err >&2; exit 3"))
    assert (end.reason, end.code, end.signal, end.error) == ("exit", 3, None, "")
    assert (process.read_out(tmp_path / "act"), process.read_err(tmp_path / "act")) == (b"out\n", b"err\n")
    assert (end.out_bytes, end.err_bytes, end.dropped, end.swept) == (4, 4, 0, 0)
    assert abs(end.started_at_us - time.time_ns() // 1000) < 60_000_000


def test_a_signal_is_told_from_a_code(tmp_path: Path) -> None:
    end = kept(tmp_path / "act", shell("kill -9 $$"))
    assert (end.reason, end.code, end.signal) == ("exit", None, 9)


def test_what_cannot_start_says_why(tmp_path: Path) -> None:
    missing = kept(tmp_path / "a", Spec(argv=("no-such-program",), cwd="/", env={"PATH": "/bin"}))
    assert (missing.reason, missing.code) == ("cannot_start", None)
    assert missing.error == "'no-such-program' cannot be used: No such file or directory"
    nowhere = kept(tmp_path / "b", Spec(argv=("true",), cwd="/no/such", env={"PATH": "/bin"}))
    assert nowhere.error == "'/no/such' cannot be used: No such file or directory"
    unread = kept(tmp_path / "c", shell("true", stdin_file="/no/file"))
    assert unread.error == "'/no/file' cannot be used: No such file or directory"


def test_output_that_is_no_text_is_kept_as_it_is(tmp_path: Path) -> None:
    heard: list[bytes] = []
    kept(tmp_path / "act", shell(r"printf '\377\376\000x'"), on_output=heard.append)
    assert b"".join(heard) == process.read_out(tmp_path / "act") == b"\xff\xfe\x00x"


def test_arguments_that_are_no_text_arrive_as_they_are(tmp_path: Path) -> None:
    odd = os.fsdecode(b"caf\xe9")
    kept(tmp_path / "act", Spec(argv=("printf", "%s%s", odd, "é"), cwd="/", env={"PATH": "/bin:/usr/bin"}))
    assert process.read_out(tmp_path / "act") == b"caf\xe9" + "é".encode()


def test_a_flood_is_cut_and_counted_and_not_waited_for(tmp_path: Path) -> None:
    end = kept(tmp_path / "act", shell("head -c 3000000 /dev/zero; echo end >&2", out_limit=1000))
    assert (end.reason, end.code, end.out_bytes, end.dropped) == ("exit", 0, 1000, 2_999_000)
    assert process.read_err(tmp_path / "act") == b"end\n"


def test_all_output_reaches_who_attends(tmp_path: Path) -> None:
    heard: list[bytes] = []
    kept(tmp_path / "act", shell("seq 200000"), on_output=heard.append)
    assert b"".join(heard) == b"".join(b"%d\n" % n for n in range(1, 200001))


def test_a_tail_is_bounded(tmp_path: Path) -> None:
    kept(tmp_path / "act", shell("seq 1000"))
    assert process.read_out(tmp_path / "act", most=9) == b"999\n1000\n"
    assert process.read_out(tmp_path / "none") == b""


# ---- where it runs


def test_the_environment_is_the_given_one_and_a_mark(tmp_path: Path) -> None:
    kept(tmp_path / "act", Spec(argv=("/usr/bin/env",), cwd="/", env={"A": "1"}))
    names = sorted(line.split(b"=")[0] for line in process.read_out(tmp_path / "act").splitlines())
    assert names == [b"A", b"INVOCATION_ID"]


def test_the_process_leads_its_own_session_and_hears_its_signals(tmp_path: Path) -> None:
    code = (
        "import os,signal; print(os.getsid(0) == os.getpid(), "
        "*[signal.getsignal(s) == signal.SIG_DFL for s in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM)], "
        "signal.pthread_sigmask(signal.SIG_BLOCK, []), sorted(os.listdir('/proc/self/fd'))[:3], "
        "len(os.listdir('/proc/self/fd')), oct(os.umask(0)))"
    )
    before = os.umask(0o022)
    try:
        kept(tmp_path / "act", python(code))
    finally:
        os.umask(before)
    assert process.read_out(tmp_path / "act") == b"True True True True set() ['0', '1', '2'] 4 0o22\n"


def test_stdin_is_empty_or_the_named_file(tmp_path: Path) -> None:
    (tmp_path / "prompt").write_text("do it")
    kept(tmp_path / "a", shell("cat", stdin_file=str(tmp_path / "prompt")))
    kept(tmp_path / "b", shell("cat; echo end"))
    assert (process.read_out(tmp_path / "a"), process.read_out(tmp_path / "b")) == (b"do it", b"end\n")


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_stdin_leads_to_no_file_that_could_be_written(tmp_path: Path) -> None:
    (tmp_path / "prompt").write_text("the task")
    for n, redirect in enumerate((">", ">>", "1<>")):
        tries = f"cat; echo more {redirect} /proc/self/fd/0; cat /proc/self/fd/0"
        ended = kept(tmp_path / f"act{n}", shell(tries, stdin_file=str(tmp_path / "prompt")))
        assert process.read_out(tmp_path / f"act{n}").startswith(b"the task"), ended
        assert b"more" not in process.read_out(tmp_path / f"act{n}")
    assert (tmp_path / "prompt").read_text() == "the task"


FIND_KEY = "import ctypes; print(ctypes.CDLL(None).syscall(250, 10, -3, b'user', b'flyball-test', 0) > 0)"
WITH_A_KEY = """
import ctypes, subprocess, sys
from pathlib import Path
from flyball.agents import process
libc = ctypes.CDLL(None)
libc.syscall(250, 1, None)
libc.syscall(248, b"user", b"flyball-test", b"secret", 6, -3)
print(subprocess.run([sys.executable, "-c", sys.argv[1]], capture_output=True, text=True).stdout.strip())
where = Path(sys.argv[2])
process.begin(where, process.Spec(argv=(sys.executable, "-c", sys.argv[1]), cwd="/", env={}))
process.attend(where)
print(process.read_out(where).decode().strip())
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the system call numbers are those of x86_64")
def test_the_persons_session_keyring_is_not_inherited(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", WITH_A_KEY, FIND_KEY, str(tmp_path / "act")]
    found = subprocess.run(argv, capture_output=True, text=True).stdout.split()
    if found[:1] != ["True"]:
        pytest.skip("this kernel or container has no session keyrings")
    assert found == ["True", "False"]


def test_a_held_stdin_is_written_by_the_driver(tmp_path: Path) -> None:
    where, long = tmp_path / "act", "x" * 300_000
    process.begin(where, shell("cat", stdin_held=True))
    with Line(where) as line:
        line.say("one\n")
        wait_until(lambda: process.read_out(where) == b"one\n")
        line.say(long)
        line.say(None)
        end = process.attend(where)
    assert (end.reason, end.code, process.read_out(where)) == ("exit", 0, b"one\n" + long.encode())


def test_a_long_path_is_no_hindrance(tmp_path: Path) -> None:
    where = tmp_path / ("d" * 120) / ("e" * 120)
    stop = Stop()
    threading.Timer(0.2, stop.set).start()
    assert kept(where, shell("sleep 99"), stop=stop).reason == "stopped"
    stop.close()


# ---- begun once


def test_of_eight_keepers_at_once_exactly_one_runs(tmp_path: Path) -> None:
    where = tmp_path / "act"
    spec = shell(f"echo ran >> {tmp_path}/ran; sleep 0.2")
    threads = [threading.Thread(target=process.begin, args=(where, spec)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert process.attend(where).reason == "exit"
    assert (tmp_path / "ran").read_text() == "ran\n"
    wait_until(lambda: not alive(keeper_of(where)))
    assert sorted(path.name for path in where.iterdir()) == ["claim", "err", "exit.json", "out"]


def test_what_has_ended_does_not_begin_again(tmp_path: Path) -> None:
    spec = shell(f"echo ran >> {tmp_path}/ran")
    first = kept(tmp_path / "act", spec)
    assert kept(tmp_path / "act", spec) == first
    assert (tmp_path / "ran").read_text() == "ran\n"


def test_look_tells_the_four_apart(tmp_path: Path) -> None:
    where = tmp_path / "act"
    assert process.look(where) == "unclaimed"
    process.begin(where, shell("sleep 99"))
    assert process.look(where) == "alive"
    process.end(where, now=True)
    process.attend(where)
    assert process.look(where) == "ended"
    wait_until(lambda: not alive(keeper_of(where)))  # it writes down the end, then lets go of its claim
    (where / "exit.json").unlink()
    assert process.look(where) == "lost"


def test_what_was_never_begun_cannot_be_attended(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match="never started"):
        process.attend(tmp_path / "act")


def test_a_place_that_cannot_be_written_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AgentError, match="cannot be written: Not a directory"):
        process.begin(tmp_path / "file" / "act", shell("true"))


# ---- clocks


def test_the_wall_clock_ends_it(tmp_path: Path) -> None:
    end = kept(tmp_path / "act", shell("while :; do echo .; sleep 0.05; done", wall_s=0.4, idle_s=9))
    assert (end.reason, end.signal) == ("wall", signal.SIGTERM)


def test_the_idle_clock_ends_the_silent_and_not_the_busy(tmp_path: Path) -> None:
    busy = kept(
        tmp_path / "a", shell("for i in 1 2 3 4 5 6 7 8 9 10 11; do echo . >&2; sleep 0.1; done", idle_s=1)
    )
    silent = kept(tmp_path / "b", shell("echo .; sleep 99", idle_s=0.3))
    assert (busy.reason, silent.reason) == ("exit", "idle")


def test_held_clocks_stand_still(tmp_path: Path) -> None:
    where = tmp_path / "act"
    process.begin(where, shell("sleep 0.7; echo late; sleep 99", wall_s=0.4, idle_s=0.4))
    with Line(where) as line:
        line.hold(True)
        wait_until(lambda: process.read_out(where) == b"late\n")
        line.hold(False)
        assert process.attend(where).reason in ("wall", "idle")


def test_without_a_driver_it_is_orphaned(tmp_path: Path) -> None:
    where = tmp_path / "act"
    process.begin(where, shell("echo $$; sleep 99", orphan_s=0.3))
    (pid,) = pids_in(where, 1)
    wait_until(lambda: process.look(where) == "ended")
    assert process.read_exit(where).reason == "orphaned"
    assert not alive(pid)


def test_with_a_driver_it_is_not_orphaned(tmp_path: Path) -> None:
    assert kept(tmp_path / "act", shell("sleep 0.8", orphan_s=0.5)).reason == "exit"


# ---- the whole tree


def test_what_ignores_term_in_its_own_session_is_killed(tmp_path: Path) -> None:
    where, stop = tmp_path / "act", Stop()
    process.begin(
        where,
        shell(f'setsid {sys.executable} -c "{DEAF_SLEEP.replace("up", "%d")}" & echo $!; wait', grace_s=0.2),
    )
    wait_until(lambda: b"%d" in process.read_out(where))
    pid = int(process.read_out(where).replace(b"%d", b"").split()[0])
    stop.set()
    end = process.attend(where, stop=stop)
    assert (end.reason, end.swept >= 1, alive(pid)) == ("stopped", True, False)
    stop.close()


def test_a_daemon_left_behind_is_swept_when_the_process_has_gone(tmp_path: Path) -> None:
    code = (
        "import os,time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        print(os.getpid(), flush=True); time.sleep(99)\n"
        "    os._exit(0)\n"
        "os.wait(); time.sleep(0.1)\n"
    )
    end = kept(tmp_path / "act", python(code))
    (pid,) = pids_in(tmp_path / "act", 1)
    assert (end.reason, end.code, end.swept, alive(pid)) == ("exit", 0, 1, False)


def test_a_stopped_process_ends_too(tmp_path: Path) -> None:
    end = kept(tmp_path / "act", shell("(kill -STOP $(exec sh -c 'echo $PPID')) & sleep 0.3; exit 0"))
    assert (end.reason, end.code, end.swept) == ("exit", 0, 1)


def test_what_keeps_forking_is_ended(tmp_path: Path) -> None:
    code = (
        "import os,signal,time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "end = time.monotonic() + 20\n"
        "while time.monotonic() < end:\n"
        "    if os.fork(): time.sleep(0.003); os._exit(0)\n"
        "    os.setsid()\n"
    )
    end = kept(tmp_path / "act", python(code, wall_s=0.3, grace_s=0.1))
    assert end.reason in ("wall", "exit")
    assert process.clear(tmp_path / "act") == 0


def test_more_processes_than_it_may_have_are_ended_at_once(tmp_path: Path) -> None:
    bomb = "import os, time; print(os.getpid(), flush=True); [os.fork() for _ in range(7)]; time.sleep(99)"
    end = kept(tmp_path, python(bomb, processes=64))
    assert (end.reason, end.error) == ("swarm", "it had more than 64 processes at once")
    assert not alive(int(process.read_out(tmp_path).split()[0]))


def test_as_many_processes_as_it_may_have_are_let_be(tmp_path: Path) -> None:
    few = "import os, time; [os.fork() for _ in range(4)]; time.sleep(2.5)"
    assert kept(tmp_path, python(few, processes=64)).reason == "exit"


@pytest.mark.skipif(os.geteuid() == 0, reason="the kernel never holds root to a number of processes")
def test_the_kernel_holds_it_to_its_number_where_it_can(tmp_path: Path) -> None:
    asks = "import resource; print(resource.getrlimit(resource.RLIMIT_NPROC)[0] < 1 << 20)"
    kept(tmp_path, python(asks, processes=64))
    assert process.read_out(tmp_path) == "True\n"


def test_grace_lets_it_finish_and_now_does_not(tmp_path: Path) -> None:
    tidy = "trap 'echo tidy; exit 7' TERM; echo up; while :; do sleep 0.02; done"
    soft, hard = tmp_path / "soft", tmp_path / "hard"
    for where in (soft, hard):
        process.begin(where, shell(tidy))
        wait_until(lambda where=where: process.read_out(where) == b"up\n")
    process.end(soft)
    process.end(hard, now=True)
    ends = process.attend(soft), process.attend(hard)
    assert [(end.reason, end.code, end.signal) for end in ends] == [
        ("stopped", 7, None),
        ("stopped", None, 9),
    ]
    assert (process.read_out(soft), process.read_out(hard)) == (b"up\ntidy\n", b"up\n")


def test_now_may_follow_a_softer_word(tmp_path: Path) -> None:
    where, stop = tmp_path / "act", Stop()
    process.begin(where, python(DEAF_SLEEP))
    wait_until(lambda: process.read_out(where) == b"up\n")
    stop.set()
    threading.Timer(0.2, stop.set, kwargs={"now": True}).start()
    end = process.attend(where, stop=stop)
    assert (end.reason, end.signal, end.took_us < 5_000_000) == ("stopped", 9, True)
    stop.close()


# ---- deaths


def test_a_killed_keeper_is_lost_and_takes_the_tree_with_it(tmp_path: Path) -> None:
    where = tmp_path / "act"
    process.begin(where, shell("setsid sleep 98 & echo $$ $!; wait"))
    pids = pids_in(where, 2)
    ends: list[Exit] = []
    attending = threading.Thread(target=lambda: ends.append(process.attend(where)))
    attending.start()
    os.kill(keeper_of(where), signal.SIGKILL)
    attending.join(10)
    assert [end.reason for end in ends] == ["lost"]
    assert process.look(where) == "lost"
    wait_until(lambda: not any(map(alive, pids)))


def test_the_keeper_survives_its_driver_and_another_attends(tmp_path: Path) -> None:
    where = tmp_path / "act"
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(where)], start_new_session=True)
    pids_in(where, 1)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    heard: list[bytes] = []
    end = process.attend(where, on_output=heard.append)
    assert (end.reason, end.code) == ("exit", 5)
    assert b"".join(heard).endswith(b"after\n")


DRIVER = """
import sys
from pathlib import Path
from flyball.agents import process
where = Path(sys.argv[1])
spec = process.Spec(argv=("/bin/sh", "-c", "echo $$; sleep 0.6; echo after; exit 5"), cwd="/", env={"PATH": "/bin:/usr/bin"})
process.begin(where, spec)
process.attend(where)
"""


def test_a_keeper_is_deaf_to_the_terminal(tmp_path: Path) -> None:
    where = tmp_path / "act"
    process.begin(where, shell("sleep 0.4; exit 4"))
    keeper = keeper_of(where)
    assert os.getsid(keeper) == keeper != os.getsid(0)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        os.kill(keeper, number)
    assert process.attend(where).code == 4


def test_a_keeper_told_to_end_ends_its_tree_as_an_interruption(tmp_path: Path) -> None:
    where = tmp_path / "act"
    process.begin(where, shell("echo $$; sleep 99"))
    (pid,) = pids_in(where, 1)
    os.kill(keeper_of(where), signal.SIGTERM)
    assert process.attend(where).reason == "orphaned"
    assert not alive(pid)


def test_nonsense_on_the_socket_changes_nothing(tmp_path: Path) -> None:
    where = tmp_path / "act"
    process.begin(where, shell("sleep 0.4; exit 6"))
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(where / "sock"))
        line.sendall(b'not json\n[1]\n"end"\n3\n{"other": 1}\n{"in": "x"}\n' + b"\xff" * 100 + b"\n")
    assert process.attend(where).code == 6


def test_an_unreadable_exit_is_an_error_in_a_sentence(tmp_path: Path) -> None:
    kept(tmp_path / "act", shell("true"))
    (tmp_path / "act" / "exit.json").write_text(json.dumps({"reason": "who knows"}))
    with pytest.raises(AgentError, match="is not what a keeper wrote"):
        process.read_exit(tmp_path / "act")


def test_a_spec_that_cannot_be_read_begins_nothing(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text("{")
    argv = [sys.executable, "-I", "-S", str(process.KEEPER), str(tmp_path)]
    refused = subprocess.run(argv, capture_output=True)
    assert (refused.returncode, process.look(tmp_path)) == (1, "unclaimed")
    assert refused.stderr


def test_a_key_in_the_environment_is_not_left_lying_about(tmp_path: Path) -> None:
    process.begin(tmp_path / "act", Spec(argv=("true",), cwd="/", env={"PATH": "/bin", "API_KEY": "hush"}))
    process.begin(tmp_path / "act", Spec(argv=("true",), cwd="/", env={"PATH": "/bin", "API_KEY": "hush"}))
    assert not any(b"hush" in path.read_bytes() for path in (tmp_path / "act").iterdir() if path.is_file())


def test_both_ways_to_list_processes_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(process.KEEPER.parent))
    import tree  # type: ignore[import-not-found]

    with subprocess.Popen(["sh", "-c", "sleep 95 & wait"]) as parent:
        wait_until(lambda: len(tree.descendants(parent.pid)) == 1)
        (child,) = tree.descendants(parent.pid)
        listed = {pid: above for pid, above, _ in tree.from_ps()}
        assert (listed[child], listed[parent.pid]) == (parent.pid, os.getpid())
        os.kill(child, signal.SIGKILL)
