"""Where programs live that people install in their home: version managers, shims, links, wrappers.

The sandbox hides the user's home and temporary folders. Of what is hidden, these functions name the folders that the
programs on PATH and an agent's own program need, and no more: never the home itself, nor a folder of many things.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

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
    known = {name: str(place) for name, place in places.items() if place.is_dir()}
    return known | _go_modules(environment, home)


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
    named = [word for word in dict.fromkeys(in_home) if Path(word).is_file() and os.access(word, os.X_OK)]
    return [*([interpreter] if interpreter else []), *named[:50]]


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
