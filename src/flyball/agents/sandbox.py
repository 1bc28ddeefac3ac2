"""What a process can see and touch. Nothing is assumed: the sandbox is tried once before it is believed.

Laws:
- Writable are the checkout, the private home, /tmp (private) and what the view names; nothing else.
- The checkout stands at the repository's own path, over it: editable installs, absolute paths and caches
  mean this tree, and nothing of the user's repository is to be seen there.
- All capabilities are dropped, also for root: with them a process could unmount what hides things.
- Whether it began is told apart from how the act ended: a sandbox that fails is nobody's failed turn.

The user's home and temporary folders are hidden. `needed` names the folders in them that the programs on PATH and an
agent's own program need (version managers, shims, links, wrappers), and no more: never the home itself.

Two kinds: bubblewrap, and where that is missing Landlock, which mounts nothing (the checkout stays where
it is, /tmp is closed) and confines files only.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from flyball.agents.process import PROXY_FD, STATUS_FD, Exit
from flyball.errors import AgentError

Kind = Literal["bwrap", "landlock", "none"]
Network = Literal["all", "model", "loopback", "none"]
Bind = tuple[str, str]  # the real path, and where it is to be seen

ENTRY = Path(__file__).resolve().with_name("entry.py")
PACKAGE = str(Path(__file__).resolve().parents[2])
LEAKS = Path(__file__).with_name("leaks.py")
PROBE_S = 10
LEAKS_S = 60
PROXY_PORT = 3128  # on a loopback of the sandbox's own
SOCKETS_MOST, SOCKET_AGE_S = 200, 60

RUN_KEPT = ("systemd/resolve", "resolvconf", "NetworkManager/resolv.conf", "current-system")  # names, and Nix
SCRATCH = ("/tmp", "/var/tmp")
# The kernel's own switches: to root's own user they are open also without any capability.
KERNEL = tuple(
    f"/proc/{name}" for name in ("sys", "sysrq-trigger", "irq", "bus", "acpi", "fs", "mtrr", "scsi")
)


class Sandbox(msgspec.Struct, frozen=True):
    """The kind that was found at the start; it goes into the run's record and the certificate."""

    kind: Kind
    why: str
    program: str = ""
    limits: str = ""  # what it cannot do, as a sentence

    @property
    def mounts(self) -> bool:
        """The checkout is seen at the repository's path, and /tmp is private."""
        return self.kind == "bwrap"


ENTRIES_MOST = 400  # of one folder that are mounted one by one: what it costs grows with their square
CACHES = (".cache", ".vite", ".vite-temp", ".vitest", ".parcel-cache", ".tmp")


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One process's world. A bind's place must exist, or lie in /tmp, a hidden folder or a writable one."""

    checkout: str
    at: str  # the repository's own path: the checkout is seen there
    home: str  # private and writable; seen where it is
    user_home: str | None = None  # the user's: only its toolchains are to be seen
    ro_binds: tuple[Bind, ...] = ()
    rw_binds: tuple[Bind, ...] = ()
    hidden: tuple[str, ...] = ()
    shares: tuple[Bind, ...] = ()  # read-only folders inside the checkout, such as .venv
    network: Network = "all"
    bridges: tuple[str, ...] = ()  # with network model: servers on this machine that it may reach, HOST:PORT
    read_only: bool = False  # the checkout too: judging and planning roles may not write
    strict: bool = False  # only the system's programs, the toolchains and what is lent can be read
    env: dict[str, str] = {}  # set on the command line: no secrets here


def probe(mode: str = "auto") -> Sandbox:
    """The best kind of the wanted ones that works here; each is really tried once."""
    kinds = {"auto": ("bwrap", "landlock"), "required": ("bwrap", "landlock"), "none": ()}.get(mode, (mode,))
    candidates: list[Sandbox] = []
    for kind in kinds:
        candidates.append(_probe_bwrap() if kind == "bwrap" else _probe_landlock())
        if candidates[-1].kind != "none":
            return candidates[-1]
    return Sandbox("none", "; ".join(sandbox.why for sandbox in candidates) or "guard.sandbox is none")


@cache
def _probe_landlock() -> Sandbox:
    """A kernel's Landlock does not come and go."""
    from flyball.agents import reach

    why = reach.probe()
    if why:
        return Sandbox("none", why)
    return Sandbox("landlock", "Landlock works", str(ENTRY), reach.limits())


def _probe_bwrap() -> Sandbox:
    """Run bubblewrap once, with everything that wrap() asks of it."""
    program = shutil.which("bwrap")
    if program is None:
        return Sandbox("none", "bubblewrap (bwrap) is not installed")
    try:
        return _tried(program)
    except (OSError, subprocess.TimeoutExpired, AgentError) as fault:
        return Sandbox("none", f"bubblewrap does not work here: {fault}")


@cache
def _tried(program: str) -> Sandbox:
    """Once is enough where it works; where it does not, it is tried again the next time."""
    argv = [program, *_namespaces("loopback"), *_root(), "true"]
    process = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_S)
    if process.returncode != 0:
        lines = process.stderr.decode(errors="replace").strip().splitlines() or [f"exit {process.returncode}"]
        raise AgentError(lines[-1])
    return Sandbox("bwrap", "bubblewrap works", program)


def enclose(sandbox: Sandbox, argv: Sequence[str], view: View) -> list[str]:
    """The command that runs `argv` inside the view and tells on STATUS_FD that it has begun."""
    if sandbox.kind == "bwrap":
        return _in_bwrap(sandbox, argv, view)
    from flyball.agents import reach

    closed = (*SCRATCH, "/run", *_homes(view.user_home))
    keep = [*_kept_in_run(), *(path for home in _homes(view.user_home) for path in _kept(Path(home)))]
    read, write = reach.readable(view, closed, keep), reach.writable(view)
    ports = [int(address.rpartition(":")[2]) for address in view.bridges]
    connect = {"none": [], "model": ports}.get(view.network)
    proxy = _proxy(view, port=0) if view.network == "model" else None
    return reach.command(argv, read, write, connect=connect, proxy=proxy, tell=STATUS_FD)


def _in_bwrap(sandbox: Sandbox, argv: Sequence[str], view: View) -> list[str]:
    """Where there is something to do inside first, `entry` does it and tells; else bubblewrap itself does."""
    if view.network not in ("all", "model"):
        program, *rest = wrap(argv, view, sandbox.program)
        return [program, "--json-status-fd", str(STATUS_FD), *rest]
    watch = view.network == "model" and _watches(sandbox.program)
    proxy = {**_proxy(view, PROXY_PORT), "watch": watch} if view.network == "model" else None
    inner = entry(argv, scope=True, proxy=proxy, user=_user() if watch else None, tell=STATUS_FD)
    return wrap(inner, view, sandbox.program, watch=watch)


def entry(argv: Sequence[str], **rules: Any) -> list[str]:
    """The command that does what the rules say (entry.py) and then becomes `argv`."""
    return [sys.executable, "-I", "-S", str(ENTRY), json.dumps(rules), *argv]


def _proxy(view: View, port: int) -> dict[str, object]:
    return {"fd": PROXY_FD, "port": port, "bridges": list(view.bridges) if port else []}


def _user() -> list[int] | None:
    """To be this user again; root needs no change."""
    return [os.geteuid(), os.getegid()] if os.geteuid() else None


@cache
def _watches(program: str) -> bool:
    """Whether attempts to reach other hosts can be seen here, from having tried it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        proxy: dict[str, object] = {"fd": theirs.fileno(), "port": PROXY_PORT, "bridges": [], "watch": True}
        inner = entry(["true"], proxy=proxy, user=_user())
        argv = [
            program,
            *_namespaces("model", watch=True),
            "--ro-bind",
            "/",
            "/",
            "--proc",
            "/proc",
            "--",
            *inner,
        ]
        try:
            process = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PROBE_S,
                pass_fds=(theirs.fileno(),),
            )
            ours.setblocking(False)
            return process.returncode == 0 and bool(json.loads(ours.recv(4096))["watch"])
        except (OSError, subprocess.TimeoutExpired, ValueError):
            return False


def never_began(exit_status: Exit, stderr: bytes) -> str:
    """Why the sandbox could not start anything, in its own words; "" if it did start, or was not used."""
    if exit_status.status is None or any(word in exit_status.status for word in ("exit-code", "started")):
        return ""
    if exit_status.reason == "cannot_start":
        return exit_status.error
    if exit_status.reason != "exit" or exit_status.code == 0:
        return ""
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else f"exit code {exit_status.code}"


def vanished(why: str) -> bool:
    """Whether the only problem was that something to be covered had just disappeared: then it is tried again."""
    return "Can't create file at" in why or "Can't find source path" in why


def wrap(argv: Sequence[str], view: View, program: str = "bwrap", *, watch: bool = False) -> list[str]:
    """The command that runs `argv` inside the view. Order matters: later mounts cover earlier ones."""
    at = os.path.realpath(view.at)
    hidden = _hidden(view, at)
    folders = [path for path in hidden if Path(path).is_dir()]
    return [
        *(program, *_namespaces(view.network, watch), *_root(view.strict), *_user_home(view.user_home)),
        *_flat(("--ro-bind", "/dev/null", path) for path in ([] if view.strict else sockets(view))),
        *_flat(("--tmpfs", path) for path in folders),
        *_flat(("--ro-bind", "/dev/null", path) for path in hidden if path not in folders),
        *_own(view, at, inside=False),
        *("--ro-bind" if view.read_only else "--bind", view.checkout, at, "--bind", view.home, view.home),
        *_own(view, at, inside=True),
        *_flat(("--ro-bind", *bind) for bind in view.ro_binds),
        *_flat(("--bind", *bind) for bind in view.rw_binds),
        *_flat(words for bind in view.shares for words in _shared(*bind)),
        *_flat(
            ("--remount-ro", path)
            for path in (*folders, *_homes(view.user_home), "/run", *(["/"] if view.strict else []))
        ),
        *_flat(("--setenv", *item) for item in {"HOME": view.home, "TMPDIR": "/tmp", **view.env}.items()),
        *("--chdir", at, "--", *argv),
    ]


def _shared(source: str, place: str) -> Iterator[tuple[str, ...]]:
    """Read-only. Tools of JavaScript keep caches in node_modules: there each package is read-only, and a new entry
    lies in memory and goes with the process."""
    entries = sorted(os.scandir(source), key=lambda entry: entry.name) if _holds_packages(source) else []
    if not 0 < len(entries) <= ENTRIES_MOST:
        yield ("--ro-bind", source, place)
        return
    yield ("--tmpfs", place)
    for entry in entries:
        if entry.is_symlink():
            yield ("--symlink", str(Path(entry.path).readlink()), f"{place}/{entry.name}")
        elif entry.name not in CACHES:
            yield ("--ro-bind", entry.path, f"{place}/{entry.name}")


def _holds_packages(path: str) -> bool:
    return Path(path).name == "node_modules" and Path(path).is_dir()


def _flat(groups: Iterator[tuple[str, ...]]) -> list[str]:
    return [word for group in groups for word in group]


def _namespaces(network: Network, watch: bool = False) -> list[str]:
    """No --new-session: the keeper has made one. An own network namespace has its loopback, and no more.

    With `watch`, `entry` is root of that network until it has opened the ways out of it."""
    powers = ("NET_ADMIN", "NET_RAW", "SETPCAP") if watch else ()
    return [
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *(() if network == "all" else ("--unshare-net",)),
        *("--die-with-parent", "--cap-drop", "ALL"),
        *_flat(("--cap-add", f"CAP_{name}") for name in powers),
        *(("--uid", "0", "--gid", "0") if watch else ()),
    ]


def _root(strict: bool = False) -> list[str]:
    """Everything, read-only (with `strict` only the system); but no device, process or temporary file of others."""
    keep = _kept_in_run()
    scratch = [path for path in SCRATCH if Path(path).is_dir() and not Path(path).is_symlink()]
    return [
        *(_system() if strict else ("--ro-bind", "/", "/")),
        *("--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run"),
        *_flat(("--ro-bind", path, path) for path in KERNEL if Path(path).exists()),
        *_flat(("--ro-bind", path, path) for path in keep),
        *_flat(("--perms", "1777", "--tmpfs", path) for path in scratch),
    ]


def _system() -> list[str]:
    """The system's own folders in an otherwise empty root."""
    links = [(place, str(Path(place).readlink())) for place in SYSTEM if Path(place).is_symlink()]
    folders = [place for place in SYSTEM if Path(place).is_dir() and not Path(place).is_symlink()]
    return [
        *("--tmpfs", "/"),
        *_flat(("--ro-bind", place, place) for place in folders),
        *_flat(("--symlink", target, place) for place, target in links),
    ]


def sockets(view: View, age_s: float = SOCKET_AGE_S) -> list[str]:
    """Sockets of others that could be seen: a read-only file system does not keep anyone from connecting.

    Only those that are there for good (X11, ssh-agent, databases): one that goes away meanwhile cannot be covered."""
    try:
        names = {
            line.split()[-1] for line in Path("/proc/net/unix").read_text("utf-8", "replace").splitlines()[1:]
        }
    except OSError:
        return []
    at = os.path.realpath(view.at)
    covered = (*SCRATCH, "/run", "/var/run", *_homes(view.user_home), *_hidden(view, at), at, view.home)
    paths = sorted(
        name for name in names if name.startswith("/") and not _within(os.path.realpath(name), covered)
    )
    return [path for path in paths if _is_socket(path, age_s)][:SOCKETS_MOST]


def _is_socket(path: str, age_s: float) -> bool:
    try:
        about = Path(path).lstat()
        lasting = time.time() - about.st_ctime > age_s
        return stat.S_ISSOCK(about.st_mode) and lasting and os.path.realpath(path) == path
    except OSError:
        return False


def _kept_in_run() -> list[str]:
    return [f"/run/{name}" for name in RUN_KEPT if Path("/run", name).exists()]


def _homes(user_home: str | None) -> list[str]:
    """The user's home, if it is one that can be hidden."""
    home = os.path.realpath(user_home or "/")
    return [home] if home != "/" and Path(home).is_dir() and not _within(home, (*SCRATCH, "/run")) else []


def _user_home(user_home: str | None) -> list[str]:
    """An empty folder with the toolchains in it: secrets are what nobody thought of listing."""
    homes = _homes(user_home)
    keep = [path for home in homes for path in _kept(Path(home))]
    return [*_flat(("--tmpfs", home) for home in homes), *_flat(("--ro-bind", path, path) for path in keep)]


def _kept(home: Path) -> list[str]:
    return [str(home / name) for name in TOOLCHAINS if (home / name).is_dir()]


def _hidden(view: View, at: str) -> list[str]:
    """The places that exist and have to be hidden; not what the checkout or a private folder covers anyway."""
    bound = {at, view.home, *(where for _, where in (*view.ro_binds, *view.rw_binds))}
    paths = sorted({os.path.realpath(path) for path in view.hidden if Path(path).exists()})
    return [path for path in paths if path not in bound and not _within(path, (at, *SCRATCH, "/run"))]


def own() -> list[str]:
    """Flyball's own Python and package: an act may be played by them."""
    return sorted({PACKAGE, *(os.path.realpath(prefix) for prefix in (sys.prefix, sys.base_prefix))})


def _own(view: View, at: str, inside: bool) -> list[str]:
    """The same where it would be hidden; the package only where it lies by itself."""
    prefixes = [place for place in own() if place != PACKAGE]
    alone = own() if not _within(PACKAGE, (*prefixes, at)) else prefixes
    covered = ("/",) if view.strict else (*SCRATCH, "/run", *_homes(view.user_home), *_hidden(view, at), at)
    paths = [path for path in alone if path != at and _within(path, covered)]
    return _flat(("--ro-bind", path, path) for path in paths if _within(path, (at,)) is inside)


def _within(path: str, folders: Sequence[str]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)


def editable_leaks(
    python: Sequence[str], repository: str | Path, *, env: dict[str, str] | None = None
) -> list[str]:
    """What this Python would import from the user's repository, as sentences' ends; empty is good.

    For proofs without a sandbox: such an environment tests the user's files, not the tree to be proved.
    An environment without Python leaks nothing of this kind."""
    argv = [*python, "-", str(repository)]
    try:
        process = subprocess.run(
            argv, input=LEAKS.read_bytes(), cwd="/", env=env, capture_output=True, timeout=LEAKS_S
        )
    except FileNotFoundError:
        return []
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise AgentError(f"'{python[0]}' cannot be asked what it would import: {fault}.") from fault
    if process.returncode != 0:
        lines = process.stderr.decode(errors="replace").strip().splitlines() or [f"exit {process.returncode}"]
        raise AgentError(f"'{python[0]}' cannot be asked what it would import: {lines[-1]}.")
    return process.stdout.decode(sys.getfilesystemencoding(), "surrogateescape").splitlines()


# ---- the programs that people install in their home ----------------------------------------------------------


VEILED = ("/tmp", "/var/tmp", "/run")
SYSTEM = (  # where a system's own programs are: what a strict view shows besides what a program on PATH needs
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/sys"),
    *("/nix", "/gnu", "/snap", "/home/linuxbrew"),
)
BROAD = (
    "",
    ".local",
    ".local/share",
    ".local/lib",
    ".local/state",
    ".config",
    ".cache",
    "Library",
)  # of a home
SECRET = (
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".docker",
    ".config/gcloud",
    ".config/gh",
    ".password-store",
)
PROGRAM_FOLDERS = ("bin", "sbin", "shims", "libexec")
LINKS_MOST = 5_000
SCRIPT_MOST = 1 << 16
DEPTH_MOST = 6

# Of the user's home, read-only. Whatever else is needed is on PATH, or is named in [agents.NAME] reads.
TOOLCHAINS = (
    *(".asdf", ".bun", ".conda", ".deno", ".dotnet", ".fnm", ".ghcup", ".goenv", ".jenv", ".juliaup"),
    *(".linuxbrew", ".mise", ".nodenv", ".npm-global", ".npm-packages", ".nvm", ".opam", ".pixi", ".poetry"),
    *(".pyenv", ".rbenv", ".rustup", ".rvm", ".rye", ".sdkman", ".venv", ".venvs", ".virtualenvs", ".volta"),
    *(
        "go/pkg/mod/cache/download",
        ".cargo/bin",
        ".cargo/registry",
        ".gem/ruby",
        ".gradle/wrapper",
        ".julia/juliaup",
    ),
    *(".m2/repository", ".m2/wrapper", ".local/bin", ".local/lib", ".local/pipx", ".local/share/claude"),
    *(".local/share/fnm", ".local/share/hatch", ".local/share/mise", ".local/share/pdm"),
    *(".local/share/pipx", ".local/share/pnpm", ".local/share/uv", ".local/share/virtualenvs"),
    *(".cache/ms-playwright", ".cache/pre-commit", ".cache/pypoetry", ".cache/uv"),
    *(".yarn/berry", ".yarn/releases", ".config/yarn/global"),
)
# Version managers look in HOME, which is private inside: they are told where they are.
ROOTS = {
    "ASDF_DATA_DIR": ".asdf",
    "GOENV_ROOT": ".goenv",
    "JENV_ROOT": ".jenv",
    "MISE_DATA_DIR": ".local/share/mise",
    "NODENV_ROOT": ".nodenv",
    "NVM_DIR": ".nvm",
    "PYENV_ROOT": ".pyenv",
    "RBENV_ROOT": ".rbenv",
    "RUSTUP_HOME": ".rustup",
    "SDKMAN_DIR": ".sdkman",
    "VOLTA_HOME": ".volta",
}
VERSIONS = (  # of each manager, and what says where packages come from: lent as copies
    *(".tool-versions", ".config/mise/config.toml", ".node-version", ".python-version"),
    *(".cargo/config.toml", ".cargo/config"),
)


def manager_roots(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that tell version managers and their shims where they are installed."""
    home = Path(environment.get("HOME", "/nowhere"))
    places = {name: Path(environment.get(name) or home / folder) for name, folder in ROOTS.items()}
    by_name = {name: str(place) for name, place in places.items() if place.is_dir()}
    return by_name | _go_modules(environment, home)


def _go_modules(environment: Mapping[str, str], home: Path) -> dict[str, str]:
    """Go's own cache is private inside; it is filled from the user's, which Go reads as it reads a proxy."""
    modules = home / "go" / "pkg" / "mod" / "cache" / "download"
    proxies = environment.get("GOPROXY") or "https://proxy.golang.org,direct"
    return {"GOPROXY": f"file://{modules},{proxies}"} if modules.is_dir() else {}


def needed(
    environment: Mapping[str, str], programs: Iterable[str], hidden: Sequence[str], *, strict: bool = False
) -> list[str]:
    """Folders and files, veiled in the sandbox, that the programs on PATH and these programs need.

    In a strict view everything is veiled but the system's own folders. None of them holds, or lies in, one of the `hidden` places."""
    home = os.path.realpath(environment.get("HOME") or "/nowhere")
    path = environment.get("PATH", "")
    places = [place for entry in path.split(os.pathsep) for place in _of_entry(entry, home, strict)]
    for program in programs:
        file = shutil.which(program, path=path)
        places += _of_program(file, home, path) if file else []
    roots = (manager_roots(environment).get(name, "") for name in ROOTS)
    places += [root for root in roots if root and not _is_broad(root, home)]
    apart = [os.path.realpath(place) for place in (*hidden, *(f"{home}/{name}" for name in SECRET))]
    return [
        place
        for place in dict.fromkeys(places)
        if _veiled(place, home, strict) and not any(_below(place, (h,)) or _below(h, (place,)) for h in apart)
    ]


def _veiled(place: str, home: str, strict: bool) -> bool:
    return not _below(place, SYSTEM) if strict else _below(place, (*VEILED, home))


def _of_entry(entry: str, home: str, strict: bool) -> Iterator[str]:
    """What a folder on PATH needs: itself, the installation that it belongs to, and where its links lead."""
    folder, real = Path(entry), os.path.realpath(entry)
    if not folder.is_absolute() or not folder.is_dir() or not _veiled(real, home, strict):
        return
    if not _is_broad(real, home):
        yield real
    yield from _installation(f"{real}/any", home)
    with os.scandir(entry) as entries:
        links = [link.path for _, link in zip(range(LINKS_MOST), entries, strict=False) if link.is_symlink()]
    for link in links:
        if os.path.exists(link):  # noqa: PTH110
            yield from _installation(os.path.realpath(link), home)


def _of_program(file: str, home: str, path: str, depth: int = 0) -> Iterator[str]:
    """What one program needs, whether it is a link, a script with its interpreter, or a wrapper of another."""
    real = os.path.realpath(file)
    yield from (*_installation(os.path.abspath(file), home), *_installation(real, home))  # noqa: PTH100
    for other in _named_in(real, home, path) if depth < DEPTH_MOST else ():
        if os.path.realpath(other) != real:
            yield from _of_program(other, home, path, depth + 1)


def _named_in(script: str, home: str, path: str) -> list[str]:
    """The programs that a script names: its interpreter, and those in the home by their full path."""
    try:
        with Path(script).open("rb") as file:
            text = file.read(SCRIPT_MOST).decode("utf-8", "replace")
    except OSError:
        return []
    if not text.startswith("#!"):
        return []
    words = text.partition("\n")[0][2:].split()
    if words and words[0].endswith("/env"):
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    interpreter = shutil.which(words[0], path=path) if words else None
    in_home = re.findall(re.escape(home) + r"/[^\s\"'`$;|&<>()]+", text) if len(text) < SCRIPT_MOST else []
    programs = [word for word in dict.fromkeys(in_home) if Path(word).is_file() and os.access(word, os.X_OK)]
    return [*([interpreter] if interpreter else []), *programs[:50]]


def _installation(file: str, home: str) -> Iterator[str]:
    """The folder that a program needs around it: its packages, its environment, or what it was unpacked to."""
    path = Path(file)
    if "node_modules" in path.parts:
        yield str(Path(*path.parts[: path.parts.index("node_modules") + 1]))
        return
    environment = next((p for p in list(path.parents)[:3] if (p / "pyvenv.cfg").is_file()), None)
    if environment:
        yield from (str(environment), *_bases(environment, home))
        return
    folder = path.parent
    around = folder.parent if folder.name in PROGRAM_FOLDERS else folder
    if not _is_broad(str(around), home):
        yield str(around)
    elif not _is_broad(str(folder), home):
        yield str(folder)
    elif path.is_file():
        yield str(path)


def _bases(environment: Path, home: str) -> Iterator[str]:
    """Where the Python of a virtual environment is installed."""
    lines = (environment / "pyvenv.cfg").read_text("utf-8", "replace").splitlines()
    for key, _, value in (line.partition("=") for line in lines):
        if key.strip() == "home" and Path(value.strip()).is_dir():
            yield from _installation(os.path.realpath(Path(value.strip(), "python")), home)
            yield from _installation(str(Path(value.strip(), "python")), home)


def _is_broad(folder: str, home: str) -> bool:
    """A folder of many things, of which the program is only one."""
    broad = ("/", *VEILED, *(os.path.normpath(f"{home}/{name}") for name in BROAD))
    return folder in broad or any(_below(place, (folder,)) for place in broad)


def _below(path: str, folders: Sequence[str]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)
