"""`flyball serve`: a web page of all runs, on this machine only."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from flyball.cli import examples, open_app, repository_of, say
from flyball.errors import UserError
from flyball.state_dir import private_folder
from flyball.web.server import WebPage

PORT = 8788
LOCK = "serve.lock"  # in the state directory, which holds the address


@click.command(epilog=examples("flyball serve", "flyball serve --port 9000"))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    metavar="N",
    help="The port on 127.0.0.1; 0 takes any free one.",
)
def serve(port: int) -> None:
    """Show runs and answer questions in a browser.

    It prints a link that signs in one browser, and a new one after each use. The page is served to this machine
    only.
    """
    with open_app() as app, _only_one(app.state_dir) as lock:
        wait = _wait_for_signal()
        try:
            page = WebPage(app.env, port, str(repository_of(Path.cwd()) or ""), _show_link)
        except OSError as problem:
            raise UserError(_unusable(port, problem)) from None
        os.pwrite(lock, page.address.encode(), 0)
        page.start()
        say("Ctrl+C stops it.")
        wait()
        page.close()
    say("Stopped.")


def _wait_for_signal() -> Callable[[], object]:
    """Counts from now on. A pipe, since a handler may not take a lock that it interrupted."""
    source, end = os.pipe()

    def stop(number: int, frame: FrameType | None) -> None:
        os.write(end, b"!")

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    return lambda: os.read(source, 1)


def _show_link(link: str) -> None:
    say(f"Open {link}")


def _unusable(port: int, problem: OSError) -> str:
    if problem.errno == errno.EADDRINUSE:
        return f"Port {port} is in use by another program. Choose another one with `flyball serve --port N`."
    return (
        f"Port {port} cannot be used: {problem.strerror}. Choose another one with `flyball serve --port N`."
    )


@contextmanager
def _only_one(state_dir: Path) -> Generator[int]:
    """The lock of the one page of a state directory."""
    private_folder(state_dir)
    lock = os.open(state_dir / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        address = os.pread(lock, 100, 0).decode("ascii", "replace")
        raise UserError(
            f"`flyball serve` is already running as http://{address}. Stop it with Ctrl+C, or use the link it printed."
        ) from None
    else:
        os.ftruncate(lock, 0)
        yield lock
    finally:
        os.close(lock)
