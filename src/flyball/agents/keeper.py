"""The keeper's program: claim an act, then keep its process. Run as `python -I -S keeper.py DIR`.

DIR/spec.json says what to start. The standard library only: this program imports nothing of Flyball but
`keeping`, its other half, which stands beside it.

Laws:
- The claim comes first. `claim` appears in DIR already locked, and stays locked for as long as its keeper
  lives. Who finds it taken goes away: no act begins twice.
- The keeper belongs to nobody: own session, own files, deaf to the terminal. The driver may die.
"""

# ruff: noqa: PTH100, PTH104, PTH108, PTH120, PTH123
import fcntl
import json
import os
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flyball.agents.keeping import DEAF, SUBREAPER, Keeper, prctl, sync_directory
else:  # the package itself takes long to import, and -I leaves this folder out
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from keeping import DEAF, SUBREAPER, Keeper, prctl, sync_directory


def main(directory: str) -> int:
    """Fork the keeper, and stay only until it has claimed the act (or found it claimed)."""
    read_end, tell = os.pipe()
    if os.fork() == 0:
        os.close(read_end)
        os._exit(keep(directory, tell))
    os.close(tell)
    words = os.read(read_end, 4096)
    if words != b"ok":
        os.write(2, words or b"the keeper died")
    return 0 if words == b"ok" else 1


def keep(directory: str, tell: int) -> int:
    """Check everything before the claim; after it, problems are reported in exit.json only."""
    try:
        mask = settle(directory)
        with open("spec.json", encoding="utf-8") as file:
            spec = json.load(file)
        door = listen()
        mark = claim()
    except (OSError, ValueError) as fault:
        os.write(tell, str(fault).encode(errors="replace"))
        return 1
    if mark:
        os.unlink("spec.json")  # its environment may hold a key
        os.rename(f"sock.{os.getpid()}", "sock")
    os.write(tell, b"ok")
    os.close(tell)
    if mark:
        Keeper(spec, door, mark, mask).run()
    else:
        os.unlink(f"sock.{os.getpid()}")
    return 0


def settle(directory: str) -> int:
    """Detach from the parent's session, terminal, files and signal mask. Returns the umask that it had."""
    os.setsid()
    os.chdir(directory)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    if nothing > 2:
        os.close(nothing)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in DEAF:
        signal.signal(number, signal.SIG_IGN)
    prctl(SUBREAPER, 1)
    return os.umask(0o077)


def listen() -> socket.socket:
    """The name is relative: a socket's path may have 107 bytes, DIR's may have more."""
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    door.bind(f"sock.{os.getpid()}")
    door.listen(16)
    door.setblocking(False)
    return door


def claim() -> str:
    """Claim the act: `claim` is already locked when it is linked into place, so nobody sees it unlocked.

    Returns the mark that every process of this act carries, or "" if another keeper has the act.
    """
    draft, mark = f"claim.{os.getpid()}", f"{os.getpid()}.{time.time_ns() // 1000}"
    fd = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(fd, f"{mark}\n".encode())
        os.fsync(fd)
        os.link(draft, "claim")
        sync_directory()
    except FileExistsError:
        return ""
    finally:
        os.unlink(draft)
    return mark  # fd stays open, and the lock with it, until this process ends


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
