"""`make firsthour`: real projects as people have them, a bug put in, then `flyball init && flyball run`.

Each project is fetched with the ordinary client of its registry, given the shape that its row names (an editable
install, generated files, an environment elsewhere, …), broken in one line and handed to an agent that knows the fix.
The table says whether the run ended certified, and if not, what `init` said.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from flyball.testing.model import ScriptedModel
from flyball.testing.vendors import VENDORS

TOP = Path(__file__).resolve().parents[1]
FLYBALL = TOP / ".venv" / "bin" / "flyball"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
WORK = Path(
    os.environ.get("FIRSTHOUR_DIR", CACHE / "flyball-firsthour")
)  # pytest reads the settings of folders above
GIT = ("-c", "user.name=First Hour", "-c", "user.email=first@hour.invalid", "-c", "commit.gpgsign=false")


class Place(NamedTuple):
    """A project on disk: its repository, the folder to work in, and the environment of the shell."""

    repo: Path
    folder: Path
    env: dict[str, str]


class Project(NamedTuple):
    name: str
    shape: str
    source: str  # pypi:NAME==VERSION or npm:NAME@VERSION
    bug: tuple[str, str, str]  # the file, what stands in it, and what is put there instead
    ready: Callable[[Place], Place]
    sub: str = ""  # the folder of the repository that the project is put into
    ignore: tuple[str, ...] = ()


def sh(
    *argv: str | Path, cwd: Path, env: dict[str, str], may_fail: bool = False
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(word) for word in argv], cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode and not may_fail:
        raise SystemExit(
            f"{' '.join(map(str, argv))} failed in {cwd}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return done


# ---- shapes ---------------------------------------------------------------------------------------------


def venv(place: Place, where: Path, *packages: str) -> Path:
    sh(sys.executable, "-m", "venv", where, cwd=place.folder, env=place.env)
    pip = (where / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check")
    sh(*pip, *packages, cwd=place.folder, env=place.env)
    return where


def editable(name: str = ".venv", *packages: str) -> Callable[[Place], Place]:
    def ready(place: Place) -> Place:
        venv(place, place.folder / name, "-e", ".", "pytest", *packages)
        return place

    return ready


def ignoring_itself(*packages: str) -> Callable[[Place], Place]:
    """As `uv venv`, virtualenv and newer Pythons make it: the repository does not ignore it, the folder does."""

    def ready(place: Place) -> Place:
        (venv(place, place.folder / "venv", "-e", ".", "pytest", *packages) / ".gitignore").write_text("*\n")
        return place

    return ready


def outside(*packages: str) -> Callable[[Place], Place]:
    """An environment elsewhere, active in the shell."""

    def ready(place: Place) -> Place:
        where = venv(place, place.repo.parent / f"{place.repo.name}-env", "-e", ".", "pytest", *packages)
        path = f"{where / 'bin'}{os.pathsep}{place.env['PATH']}"
        return place._replace(env={**place.env, "VIRTUAL_ENV": str(where), "PATH": path})

    return ready


def compiled(place: Place) -> Place:
    python = venv(place, place.folder / ".venv", "pytest", "setuptools", "-e", ".") / "bin" / "python"
    sh(python, "setup.py", "-q", "build_ext", "--inplace", cwd=place.folder, env=place.env)
    return place


def bare_editable(place: Place) -> Place:
    """Without pytest."""
    venv(place, place.folder / ".venv", "-e", ".")
    return place


def plain(place: Place) -> Place:
    return place


def node(*packages: str) -> Callable[[Place], Place]:
    def ready(place: Place) -> Place:
        sh(
            "npm",
            "install",
            "--no-save",
            "--no-audit",
            "--no-fund",
            *packages,
            cwd=place.folder,
            env=place.env,
        )
        return place

    return ready


def networked(place: Place) -> Place:
    """One test fetches a page from this machine's own address, which a proof cannot reach."""
    ready = editable(".venv", "freezegun", "pytest-cov")(place)
    address = serve()
    test = "import urllib.request\n\n\ndef test_page():\n    assert urllib.request.urlopen({!r}, timeout=5).status == 200\n"
    (place.folder / "tests" / "test_network.py").write_text(test.format(address))
    sh("git", "add", "-A", cwd=place.repo, env=place.env)
    sh("git", *GIT, "commit", "-qm", "A test that uses the network", cwd=place.repo, env=place.env)
    return ready


def serve() -> str:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words: Any) -> None:
            return

    host = socket.gethostbyname(socket.gethostname())
    server = HTTPServer((host, 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://{host}:{server.server_port}/"


LISTS = ("src/humanize/lists.py", "len(items) == 1", "len(items) == 2")
PROJECTS = (
    Project("humanize", "src layout, editable install, generated _version.py", "pypi:humanize==4.11.0",
            LISTS, editable(".venv", "freezegun", "pytest-cov"), ignore=("src/humanize/_version.py",)),
    Project("pluggy", "a venv that ignores itself, generated _version.py", "pypi:pluggy==1.5.0",
            ("src/pluggy/_manager.py", "        return plugin_name", "        return None"), ignoring_itself(),
            ignore=("src/pluggy/_version.py",)),
    Project("markupsafe", "compiled extension", "pypi:markupsafe==3.0.2",
            ("src/markupsafe/__init__.py", "return self.__class__(super().__mul__(value))", "return self.__class__(self)"),
            compiled, ignore=("*.so", "build/")),
    Project("itsdangerous", "an environment outside the repository", "pypi:itsdangerous==2.2.0",
            ("src/itsdangerous/encoding.py", '.rstrip(b"=")', ""), outside("freezegun")),
    Project("more-itertools", "no environment, unittest", "pypi:more-itertools==10.5.0",
            ("more_itertools/recipes.py", "return list(islice(iterable, n))", "return list(islice(iterable, n + 1))"), plain),
    Project("pyrsistent", "*_test.py, tests next to a C module", "pypi:pyrsistent==0.20.0",
            ("pyrsistent/_plist.py", "return sum(1 for _ in self)", "return sum(2 for _ in self)"),
            editable(".venv", "hypothesis")),
    Project("monorepo", "subfolder of a monorepo", "pypi:itsdangerous==2.2.0",
            ("src/itsdangerous/encoding.py", '.rstrip(b"=")', ""), editable(".venv", "freezegun"), sub="packages/its"),
    Project("shell-quote", "JavaScript with node_modules", "npm:shell-quote@1.6.1",
            ("index.js", "}).join(' ');", "}).join('');"), node()),
    Project("humanize-net", "a test that needs the network", "pypi:humanize==4.11.0",
            LISTS, networked, ignore=("src/humanize/_version.py",)),
    Project("wcwidth", "subfolder of a monorepo, tests that write a report", "pypi:wcwidth==0.2.13",
            ("wcwidth/wcwidth.py", "        return 0", "        return None"), editable(".venv", "pytest-cov"),
            sub="libs/wcwidth"),
    Project("tomlkit", "a bug that keeps test files from loading", "pypi:tomlkit==0.13.2",
            ("tomlkit/_utils.py", "return datetime(", "return dict("), editable(".venv", "pyyaml")),
    Project("simplejson", "C extension, tests inside the package", "pypi:simplejson==3.19.3",
            ("simplejson/encoder.py", "return _speedups.encode_basestring_ascii, _speedups.make_encoder", "return None"),
            compiled, ignore=("*.so", "build/")),
    Project("fire", "*_test.py, an environment outside", "pypi:fire==0.7.0",
            ("fire/parser.py", "return parser", "return None"), outside("hypothesis", "levenshtein")),
    Project("platformdirs", "hatch-vcs, generated version.py", "pypi:platformdirs==4.3.6",
            ("src/platformdirs/unix.py", "return self._append_app_name_and_version(path)", "return None"),
            ignoring_itself("pytest-mock", "appdirs"), ignore=("src/platformdirs/version.py",)),
    Project("minimist", "lint before and audit after npm test", "npm:minimist@1.2.8",
            ("index.js", "return key in o;", "return null;"), node()),
    Project("semver", "tap", "npm:semver@5.1.0", ("semver.js", "return version;", "return null;"), node()),
    Project("click", "src layout, warnings are errors", "pypi:click==8.1.7",
            ("src/click/formatting.py", "return tuple(y for x, y in sorted(widths.items()))", "return tuple(widths)"), editable(".venv", "pytest<8.4")),
    Project("cachetools", "unittest classes, an environment outside", "pypi:cachetools==5.5.0",
            ("src/cachetools/keys.py", "return _HashedTuple(add(self, other))", "return _HashedTuple(add(other, self))"), outside()),
    Project("tabulate", "setuptools_scm, generated version.py", "pypi:tabulate==0.9.0",
            ("tabulate/__init__.py", 'return ":" + ("-" * (w - 2)) + ":"', 'return ":" + ("-" * (w - 1)) + ":"'),
            editable(".venv", "numpy", "wcwidth"), ignore=("tabulate/version.py",)),
    Project("mistune", "src layout, tests with fixture files", "pypi:mistune==3.0.2",
            ("src/mistune/util.py", "return escape(unescape(s))", "return escape(s)"), ignoring_itself()),
    Project("deep-equal", "lint before and audit after tape with nyc", "npm:deep-equal@2.2.3",
            ("index.js", "return void 0;", "return null;"), node()),
    Project("pyflakes", "tests in a folder called test, no pytest", "pypi:pyflakes==3.2.0",
            ("pyflakes/messages.py", "if orig_loc is None:", "if orig_loc is not None:"), editable()),
    Project("schedule", "tests with variables called like builtins", "pypi:schedule==1.2.2",
            ("schedule/__init__.py", "if not (0 <= hour <= 23):", "if (0 <= hour <= 23):"), editable(".venv", "pytz")),
    Project("dotenv", "tests that call programs of the environment", "pypi:python-dotenv==1.0.1",
            ("src/dotenv/parser.py", "return parse_unquoted_value(reader)", "return None"), editable(".venv", "sh", "click")),
    Project("lark", "a test program of its own (python -m tests)", "pypi:lark==1.2.2",
            ("lark/tree.py", "return not (self == other)", "return None"), bare_editable),
    Project("inflection", "one module, an environment outside", "pypi:inflection==0.5.1",
            ("inflection/__init__.py", "if not word or word.lower() in UNCOUNTABLES:", "if word or word.lower() in UNCOUNTABLES:"),
            outside()),
    Project("reusify", "Node's own runner", "npm:reusify@1.0.4",
            ("reusify.js", "return current", "return null"), node()),
    Project("toolz", "tests in the package that define equality, an import hook", "pypi:toolz==1.0.0",
            ("toolz/dicttoolz.py", "return rv", "return None"), outside()),
    Project("webcolors", "pdm and nox, unittest, a venv that ignores itself", "pypi:webcolors==24.11.1",
            ("src/webcolors/_conversion.py", "return hex_to_rgb(name_to_hex(name, spec=spec))", "return name_to_hex(name, spec=spec)"),
            ignoring_itself()),
    Project("pathspec", "subtests, some of them skipped", "pypi:pathspec==1.1.1",
            ("pathspec/util.py", "if __sep and __sep != posixpath.sep", "if __sep or __sep != posixpath.sep"), editable()),
    Project("tinydb", "poetry's kind of environment, coverage in pytest's options", "pypi:tinydb==4.9.0",
            ("tinydb/queries.py", "query._path = self._path + (fn,)", "query._path = self._path"), outside("pytest-cov", "pyyaml")),
    Project("cleo", "poetry's kind of environment, -q in pytest's settings", "pypi:cleo==2.1.0",
            ("src/cleo/color.py", "return int(diff * 100 / v)", "return int(diff * 10 / v)"), outside("pytest<8", "pytest-mock")),
    Project("isodate", "setuptools_scm, tox, an environment outside", "pypi:isodate==0.7.2",
            ("src/isodate/isodates.py", "return strftime(tdate, format, yeardigits)", "return strftime(tdate, format, 4)"),
            outside(), ignore=("src/isodate/version.py",)),
)  # fmt: skip


# ---- making a project -----------------------------------------------------------------------------------


def fetch(source: str) -> Path:
    """The archive, from the cache or the registry."""
    kind, _, name = source.partition(":")
    cache = WORK / "archives" / name.replace("/", "-")
    cache.mkdir(parents=True, exist_ok=True)
    if not any(cache.iterdir()):
        pip = (
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--no-binary",
            name.partition("=")[0],
            "-d",
            ".",
            name,
        )
        sh(*(pip if kind == "pypi" else ("npm", "pack", name)), cwd=cache, env=dict(os.environ))
    return next(cache.iterdir())


def make(project: Project, env: dict[str, str]) -> tuple[Place, str]:
    """The project in its shape with the bug committed, and the right text of the file."""
    repo = WORK / "projects" / project.name
    shutil.rmtree(repo.parent / f"{repo.name}-env", ignore_errors=True)
    shutil.rmtree(repo, ignore_errors=True)
    folder = repo / project.sub
    unpacked = WORK / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    with tarfile.open(fetch(project.source)) as archive:
        archive.extractall(unpacked, filter="data")
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(next(unpacked.iterdir()), folder)
    ignored = ("__pycache__/", "*.egg-info/", ".venv/", "node_modules/", ".pytest_cache/", *project.ignore)
    (repo / ".gitignore").write_text("\n".join(ignored) + "\n")
    sh("git", "init", "-q", ".", cwd=repo, env=env)
    place = project.ready(_committed(Place(repo, folder, env), "Base"))
    name, good, bad = project.bug
    file = folder / name
    right = file.read_text()
    if good not in right:
        raise SystemExit(f"{project.name}: '{good}' is not in {name}")
    file.write_text(right.replace(good, bad, 1))
    return _committed(place, "A small change"), right


def _committed(place: Place, subject: str) -> Place:
    sh("git", "add", "-A", cwd=place.repo, env=place.env)
    sh("git", *GIT, "commit", "--no-verify", "-qm", subject, cwd=place.repo, env=place.env)
    return place


# ---- the first hour -------------------------------------------------------------------------------------


Ended = subprocess.CompletedProcess[str]


def with_script(place: Place, file: str, right: str, machine: str) -> Ended:
    """An agent that knows the fix."""
    script = WORK / f"{place.repo.name}.json"
    repair = {"write": {file: right}, "say": "Put it right."}
    done = {"finish": {"indicators": ["task complete", "implementation finished"]}}
    roles = {
        "build": {"coder": [repair], "critic": [{"outcome": "accepted"}]},
        "loop": {"worker": [repair | done]},
        "review": {"author": [repair], "reviewer": [{"say": "It is right.\n\nPASS"}]},
    }
    script.write_text(json.dumps({"roles": roles[machine]}))
    return flyball_run(place, place.env, "--agent", f"script:{script}", "--machine", machine)


def with_claude_code(place: Place, file: str, right: str, agent: str) -> Ended:
    """The real Claude Code, as `init` found it, with a model on this machine that knows the fix."""
    if agent != "claude":
        raise SystemExit(f"init chose the agent '{agent}' and not the Claude Code that is on the PATH")
    look = {"tool": "@read", "input": {"path": str(place.repo / file)}}
    write = {"tool": "@write", "input": {"path": str(place.repo / file), "content": right}}
    replies = ("1. Repair it.", [look], [write], "Put it right.", "Right.\n\nOUTCOME: accepted")
    with ScriptedModel() as model:
        model.load({"steps": [{"reply": reply} for reply in replies]})
        return flyball_run(place, {**place.env, **VENDORS["claude"].env(model.url)})


def flyball_run(place: Place, env: dict[str, str], *more: str) -> Ended:
    words = (FLYBALL, "run", "Make the tests pass", *more, "--json", "--no-wait")
    return sh(*words, cwd=place.folder, env=env, may_fail=True)


def run(project: Project, env: dict[str, str], claude: bool, machine: str) -> dict[str, Any]:
    place, right = make(project, env)
    began = time.monotonic()
    started = sh(FLYBALL, "init", "--json", cwd=place.folder, env=place.env, may_fail=True)
    if started.returncode:
        return {"result": "init failed", "says": started.stderr.strip()[-200:], "s": time.monotonic() - began}
    facts = json.loads(started.stdout)
    file = str((place.folder / project.bug[0]).relative_to(place.repo))
    if claude:
        done = with_claude_code(place, file, right, facts["agent"])
    else:
        done = with_script(place, file, right, machine)
    summary = json.loads(done.stdout or "{}")
    return {
        "result": (summary.get("stop_reason") or {}).get("code", done.stderr.strip()[-200:]),
        "certificate": bool(summary.get("certificate")),
        "says": " ".join(facts["advice"]),
        "proof": (facts["tests"] or ["none"])[0],
        "share": ", ".join(facts["share"]),
        "s": time.monotonic() - began,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these projects")
    parser.add_argument("--claude", action="store_true", help="with the Claude Code of `make agents`")
    parser.add_argument("--machine", choices=("build", "loop", "review"), default="build")
    given = parser.parse_args()
    wanted, claude = given.names, given.claude
    env = {**os.environ, "XDG_STATE_HOME": str(WORK / "state"), "SETUPTOOLS_SCM_PRETEND_VERSION": "1.0"}
    env.pop("VIRTUAL_ENV", None)
    if claude:
        env["PATH"] = f"{TOP / '.agents' / 'node_modules' / '.bin'}{os.pathsep}{env['PATH']}"
    chosen = [project for project in PROJECTS if not wanted or project.name in wanted]
    certified = sum(_show(project, run(project, env, claude, given.machine)) for project in chosen)
    print(f"{certified} of {len(chosen)} ended certified")
    return int(certified < len(chosen))


def _show(project: Project, row: dict[str, Any]) -> bool:
    certified = bool(row.get("certificate")) and row["result"] == "completed"
    print(
        f"{project.name:<15} {'certified' if certified else row['result']:<22} {row['s']:5.1f} s  {project.shape}"
    )
    for key in ("proof", "share", "says"):
        if row.get(key):
            print(f"{'':<15} {key}: {row[key]}")
    sys.stdout.flush()
    return certified


if __name__ == "__main__":
    sys.exit(main())
