"""The keeper runs an act's process and records how it ended.

Laws:
- Nothing of the act outlives its keeper's last word. As subreaper it inherits every orphan; it ends when
  it has no child left, and `exit.json` appears after that, whole or not at all.
- Clocks are monotonic (a sleeping computer does not age an act) and stand still while a driver holds them.
- An act without a driver ends: nobody pays for an agent that nobody watches.
- An act with more processes than it may have ends at once: the kernel holds them to it where it can (it never does
  for root), and the keeper looks every few seconds.

On `sock` a driver says, a JSON line each: {"end": "stopped", "now": false}, {"hold": true}, and where stdin
is held {"in": "text"} or {"in": null}. It hears {"out": bytes so far} and, after exit.json, {"done": true}.
"""

# ruff: noqa: PTH104, PTH108, PTH123
from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import sys
import time

TYPE_CHECKING = False  # typing, like pathlib, takes long to import
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, NoReturn

    from flyball.agents.login import Login
    from flyball.agents.streams import CHUNK, OUT_MOST, Copy, HeldInput, sealed
    from flyball.agents.tree import descendants
else:
    from streams import CHUNK, OUT_MOST, Copy, HeldInput, sealed
    from tree import descendants

LINE_MOST = 16 << 20  # a driver's line longer than this is not a line
REPORT_EVERY_S = 0.1
MARK = "INVOCATION_ID"  # in the environment of every process of an act; says nothing of Flyball or the run
GRACE_MOST_S = 5.0
KILL_STEP_S = 0.005
GIVE_UP_S = 10.0  # what SIGKILL has not ended by then hangs in the kernel
STOP_ROUNDS = 50
CROWD_EVERY_S = 2.0
DIE_WITH_PARENT, SUBREAPER = 1, 36  # of prctl(2)
DEAF = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
REASONS = ("stopped", "wall", "idle", "orphaned")
STATUS_FD = 200  # where the process tells what became of it, if the spec says so
STATUS_MOST = 4096
PROXY_FD = 201  # through which a sandbox hands out the sockets that lead to the proxy
REFUSALS = "refused.jsonl"  # a line for each host that the proxy refused
DEPTH_MOST = 1000  # of a process's ancestors
KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "armv7l": 311, "ppc64le": 271, "s390x": 280}


def prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def join_new_keyring() -> None:
    """Leave the person's session keyring (tickets, disk keys), which every child process would inherit."""
    number = KEYCTL.get(os.uname().machine) if sys.platform == "linux" else None
    if number:
        ctypes.CDLL(None).syscall(number, 1, None)  # KEYCTL_JOIN_SESSION_KEYRING, without a name


def sync_directory() -> None:
    fd = os.open(".", os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


class Keeper:
    """One process, from its start until no child of it is left."""

    def __init__(self, spec: dict[str, Any], door: socket.socket, mark: str, mask: int) -> None:
        self.spec, self.door, self.mark, self.mask = spec, door, mark, mask
        self.out, self.err = (Copy(name, spec.get("out_limit") or OUT_MOST) for name in ("out", "err"))
        self.held = HeldInput() if spec.get("stdin_held") else None
        lent = spec.get("login")  # the module is for agents with a login: most acts start faster without it
        self.login: Login | None = __import__("login").Login(lent) if lent else None
        self.ways = socket.socketpair() if spec.get("proxy") else None
        self.clients: dict[int, tuple[socket.socket, bytearray]] = {}
        self.began_us, self.began = time.time_ns() // 1000, time.monotonic()
        self.at, self.wall, self.idle, self.alone, self.hold = self.began, 0.0, 0.0, 0.0, False
        self.pid, self.status, self.error = 0, None, ""
        self.status_pipe, self.tells = os.pipe() if spec.get("status") else (-1, -1)
        self.reason, self.kill_at, self.termed = "", 0.0, False
        self.swept: set[int] = set()
        self.stopped: set[int] = set()
        self.rounds, self.reported, self.reported_at = 0, 0, 0.0
        self.crowd_at = self.began + CROWD_EVERY_S if spec.get("processes") else float("inf")

    def run(self) -> None:
        self.watch_signals()
        try:
            self.start()
            while self.children() and not self.hopeless():
                self.wait(self.patience())
                self.tick()
                self.judge()
                self.press()
                self.report()
                if self.login and self.login.due():
                    self.share_login(self.login)
        except Exception as fault:  # a fault of ours must not leave the tree behind
            self.fail(fault)
        self.leave()

    def share_login(self, login: Login) -> None:
        """A full disk or a removed folder must not end the agent: what fails now is tried again later."""
        try:
            login.share()
        except OSError as fault:
            self.error = f"the login could not be brought back: {fault}"

    def watch_signals(self) -> None:
        self.wake, write = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, self.on_signal)
        signal.signal(signal.SIGTERM, self.on_signal)

    def on_signal(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGTERM:  # the computer shuts down
            self.end("orphaned")

    # ---- the process

    def start(self) -> None:
        """Fork and exec; the pipe `said` closes on exec, or brings the reason why there was none."""
        read_end, say = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self.become(say)
        os.close(say)
        lent = [self.held.theirs] if self.held else []
        for fd in (self.out.theirs, self.err.theirs, *lent, *([self.tells] if self.tells >= 0 else [])):
            os.close(fd)
        if self.ways:
            self.ways[1].close()
            self.serve_proxy(self.ways[0])
        self.error = os.read(read_end, 4096).decode(errors="replace")
        os.close(read_end)
        self.reason = "cannot_start" if self.error else ""

    def become(self, say: int) -> NoReturn:
        name = self.spec.get("stdin_file") or ""
        try:
            self.leave_home()
            stdin = self.held.theirs if self.held else sealed(name) if name else os.open(os.devnull, 0)
            for fd, ours in enumerate((stdin, self.out.theirs, self.err.theirs)):
                os.dup2(ours, fd)
            if self.tells >= 0:
                os.dup2(self.tells, STATUS_FD)
            if self.ways:
                os.dup2(self.ways[1].fileno(), PROXY_FD)
            name = self.spec["cwd"]
            os.chdir(name)
            name = self.spec["argv"][0]
            os.execvpe(name, self.spec["argv"], {**self.spec["env"], MARK: self.mark})
        except BaseException as fault:
            why = getattr(fault, "strerror", None) or str(fault)
            os.write(say, f"'{name}' cannot be used: {why}".encode(errors="replace"))
        os._exit(127)

    def serve_proxy(self, way_in: socket.socket) -> None:
        """Runs in a thread of the keeper. If it fails, the agent reaches no host."""
        import threading

        if TYPE_CHECKING:
            from flyball.agents.proxy import Proxy
        else:
            from proxy import Proxy
        refusals = os.open(REFUSALS, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

        def note(refusal: dict[str, Any]) -> None:
            os.write(refusals, json.dumps(refusal).encode() + b"\n")

        threading.Thread(target=Proxy(self.spec["proxy"], note).run, args=(way_in,), daemon=True).start()

    def leave_home(self) -> None:
        """Own session; dies with its keeper; signals as every program expects them."""
        keeper = os.getppid()
        os.setsid()
        prctl(DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(127)
        join_new_keyring()
        for number in (*DEAF, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.umask(self.mask)
        if self.spec.get("processes"):
            hold_to(self.spec["processes"])

    def children(self) -> bool:
        """Reap ended children. False if none is left; as the keeper is a subreaper, there is no descendant left
        then.
        """
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                self.buried(pid, status)
        except ChildProcessError:
            return False

    def buried(self, pid: int, status: int) -> None:
        if pid == self.pid:
            self.status = os.waitstatus_to_exitcode(status)
            self.end("exit")

    # ---- input

    def wait(self, patience_s: float) -> None:
        poll = select.poll()
        for fd in (self.door.fileno(), self.wake, self.out.pipe, self.err.pipe, *self.clients):
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        if self.held and self.held.open and self.held.waiting:
            poll.register(self.held.pipe, select.POLLOUT)
        for fd, _ in poll.poll(max(0.0, patience_s) * 1000 + 1):
            self.handle(fd)

    def handle(self, fd: int) -> None:
        if fd == self.door.fileno():
            self.admit()
        elif fd == self.wake:
            os.read(self.wake, CHUNK)
        elif fd in self.clients:
            self.listen_to(fd)
        elif self.held and fd == self.held.pipe:
            self.held.pump()
        else:
            self.take(self.out if fd == self.out.pipe else self.err)

    def take(self, stream: Copy) -> None:
        if stream.pump() > 0:
            self.idle = 0.0

    def admit(self) -> None:
        try:
            client, _ = self.door.accept()
        except OSError:
            return  # the caller has hung up
        if is_below(peer(client), os.getpid()):
            client.close()  # the act's own processes may not give orders
            return
        client.setblocking(False)
        self.clients[client.fileno()] = (client, bytearray())

    def listen_to(self, fd: int) -> None:
        client, buffer = self.clients[fd]
        try:
            data = client.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        buffer += data
        *lines, rest = bytes(buffer).split(b"\n") if b"\n" in data else (bytes(buffer),)
        for line in lines:
            self.obey(line)
        buffer[:] = rest
        if not data or len(buffer) > LINE_MOST:
            self.dismiss(fd)

    def dismiss(self, fd: int) -> None:
        self.clients.pop(fd)[0].close()
        if not self.clients:
            self.hold = False  # the next driver asks again; else a clock could be stopped for ever

    def obey(self, line: bytes) -> None:
        try:
            order: dict[str, Any] = dict(json.loads(line))
        except (ValueError, TypeError):
            return
        if "end" in order:
            self.end(order["end"] if order["end"] in REASONS else "stopped", now=bool(order.get("now")))
        if "hold" in order:
            self.hold = bool(order["hold"])
        if "in" in order and self.held:
            self.held.give(None if order["in"] is None else str(order["in"]))

    # ---- clocks

    def tick(self) -> None:
        passed, self.at = time.monotonic() - self.at, time.monotonic()
        if not self.hold:
            self.wall += passed
            self.idle += passed
        self.alone = 0.0 if self.clients else self.alone + passed

    def clocks(self) -> tuple[tuple[str, float | None, float], ...]:
        """Reason, limit and time used of each clock that is running."""
        wall, idle = self.spec.get("wall_s"), self.spec.get("idle_s")
        running = () if self.hold else (("wall", wall, self.wall), ("idle", idle, self.idle))
        return (*running, *(() if self.clients else (("orphaned", self.spec["orphan_s"], self.alone),)))

    def judge(self) -> None:
        for reason, limit, used in self.clocks():
            if limit is not None and used >= limit:
                self.end(reason)
        if time.monotonic() >= self.crowd_at and not self.reason:
            self.count_heads(self.spec["processes"])

    def count_heads(self, most: int) -> None:
        """Whether the whole system has few tasks, which is quick to read: then the act has few too."""
        self.crowd_at = time.monotonic() + CROWD_EVERY_S
        if tasks() > most and len(descendants(os.getpid())) > most:
            self.error = f"it had more than {most} processes at once"
            self.end("swarm", now=True)

    def patience(self) -> float:
        waits = [limit - used for _, limit, used in self.clocks() if limit is not None]
        if self.reported != self.out.kept:
            waits.append(self.reported_at + REPORT_EVERY_S - time.monotonic())
        if self.login:
            waits.append(self.login.next - time.monotonic())
        if not self.reason:
            return min(*waits, self.crowd_at - time.monotonic(), 60.0)
        if not self.termed:
            return 0.0
        return max(KILL_STEP_S, self.kill_at - time.monotonic())

    # ---- ending

    def end(self, reason: str, now: bool = False) -> None:
        """Only the first call gives the reason; a later one can only shorten the wait."""
        grace = 0.0 if now else min(GRACE_MOST_S, self.spec.get("grace_s", GRACE_MOST_S))
        self.kill_at = min(self.kill_at or float("inf"), time.monotonic() + grace)
        self.reason = self.reason or reason

    def press(self) -> None:
        """SIGTERM once to every descendant; SIGKILL when the grace period is over, until none is left."""
        if self.reason and time.monotonic() >= self.kill_at:
            self.termed = True
            self.kill()
        elif self.reason and not self.termed:
            self.termed = True
            for pid, name in descendants(os.getpid()).items():
                if name != b"bwrap":  # its end would be KILL for all inside, without grace
                    self.send(pid, signal.SIGTERM)
                    self.send(pid, signal.SIGCONT)

    def kill(self) -> None:
        """Stop all processes first and kill them when no new one appears: a stopped process cannot fork."""
        processes = descendants(os.getpid())
        for pid in processes if self.reason == "swarm" else ():
            if processes[pid] == b"bwrap":  # with it the kernel ends all that is inside, however many
                self.send(pid, signal.SIGKILL)
        pids = set(processes)
        fresh, self.stopped, self.rounds = pids - self.stopped, self.stopped | pids, self.rounds + 1
        for pid in fresh:
            self.send(pid, signal.SIGSTOP)
        for pid in pids if not fresh or self.rounds > STOP_ROUNDS else ():
            self.send(pid, signal.SIGKILL)

    def send(self, pid: int, number: int) -> None:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        if pid != self.pid:
            self.swept.add(pid)

    def hopeless(self) -> bool:
        return bool(self.reason) and time.monotonic() > self.kill_at + GIVE_UP_S

    def fail(self, fault: Exception) -> None:
        self.reason, self.error = "lost", f"the keeper failed: {fault!r}"
        deadline = time.monotonic() + GIVE_UP_S
        while self.children() and time.monotonic() < deadline:
            self.kill()
            time.sleep(KILL_STEP_S)

    # ---- output

    def report(self) -> None:
        if self.reported != self.out.kept and time.monotonic() >= self.reported_at + REPORT_EVERY_S:
            self.reported, self.reported_at = self.out.kept, time.monotonic()
            self.tell({"out": self.reported})

    def tell(self, message: dict[str, Any]) -> None:
        for client, _ in self.clients.values():
            try:
                client.send(json.dumps(message).encode() + b"\n")
            except OSError:
                continue  # it has ended or is slow; it reads the files instead

    def leave(self) -> None:
        self.out.finish()
        self.err.finish()
        if self.login:
            self.share_login(self.login)
        self.write_down()
        self.tell({"done": True})
        os.unlink("sock")

    def write_down(self) -> None:
        with open("exit.tmp", "w", encoding="utf-8") as file:
            json.dump(self.facts(), file)
            file.flush()
            os.fsync(file.fileno())
        os.rename("exit.tmp", "exit.json")
        sync_directory()

    def facts(self) -> dict[str, Any]:
        started = self.status is not None and self.reason != "cannot_start"
        status = self.status if started and self.status is not None else 0
        return {
            "reason": self.reason,
            "code": status if started and status >= 0 else None,
            "signal": -status if started and status < 0 else None,
            "error": self.error or self.out.error or self.err.error,
            "started_at_us": self.began_us,
            "took_us": int((time.monotonic() - self.began) * 1_000_000),
            "out_bytes": self.out.kept,
            "err_bytes": self.err.kept,
            "dropped": self.out.dropped + self.err.dropped,
            "swept": len(self.swept),
            "status": self.sandbox_status(),
        }

    def sandbox_status(self) -> str | None:
        """What the sandbox reported about its start. All processes that could write it have ended."""
        if self.status_pipe < 0:
            return None
        os.set_blocking(self.status_pipe, False)
        try:
            return os.read(self.status_pipe, STATUS_MOST).decode(errors="replace")
        except BlockingIOError:
            return ""


def tasks() -> int:
    """The number of tasks in the whole system, with threads; a very large number where it is not known."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            return int(file.read().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 1 << 30


def hold_to(processes: int) -> None:
    """The kernel counts a user's tasks, not an act's: those that are there already come on top."""
    import resource

    there = tasks()
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    if there < 1 << 30 and (hard == resource.RLIM_INFINITY or there + processes < hard):
        resource.setrlimit(resource.RLIMIT_NPROC, (there + processes, there + processes))


def peer(client: socket.socket) -> int:
    """The process id of the caller; 0 if the system does not say."""
    if sys.platform != "linux":
        return 0
    return int.from_bytes(client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)


def is_below(pid: int, root: int) -> bool:
    """Whether a process descends from `root`; False also for one that has ended meanwhile."""
    for _ in range(DEPTH_MOST):
        if pid in (0, 1):
            return False
        if pid == root:
            return True
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:
            return True
    return True
