"""What the tests lack, and what provides it: ignored files that a clean checkout does not have, packages to install."""

from __future__ import annotations

import configparser
import re
import shlex
import tomllib
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, cast

MOST = 20  # paths that are shared on a guess
CACHES = (
    *("__pycache__", "*.pyc", "*.log", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox"),
    *(".nox", ".coverage*", "htmlcov", "coverage", ".nyc_output", ".DS_Store", ".idea", ".vscode", ".eggs"),
    *(".flyball", ".git", ".cache", ".parcel-cache", ".next", "*.swp", "*~", ".direnv", "wheelhouse", "tmp"),
)
SECRETS = (
    ".env",
    ".env.*",
    "*.pem",
    "*.key",
    "*secret*",
    "*credential*",
    ".netrc",
    ".npmrc",
    ".pypirc",
    "id_*",
)
COMPILED = (".so", ".pyd", ".dylib", ".node")


def shareable(ignored: Iterable[str]) -> list[str]:
    """Without caches, which nothing needs, and secrets, which nobody may see unless the user says so."""
    paths = (path.strip("/") for path in ignored)
    return [path for path in paths if path and not _is(path, (*CACHES, *SECRETS))]


def _is(path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(part.lower(), pattern.lower()) for part in path.split("/") for pattern in patterns)


def needed(ignored: Iterable[str], missing: Sequence[str]) -> list[str]:
    """The ignored paths that hold what was missing: a module, the metadata of a package, or a file."""
    return [path for path in shareable(ignored) if any(_holds(path, name) for name in missing)]


def _holds(path: str, name: str) -> bool:
    """`src/a/_version.py` and `src/a/` hold `a._version`; `a.egg-info` holds the package `a`; `dist` holds `dist/x.js`."""
    suffix = name if "/" in name else name.replace(".", "/")
    base = path.rpartition("/")[2]
    if base.endswith((".egg-info", ".dist-info")) and "/" not in name:
        return _normal(base.rpartition(".")[0].partition("-")[0]) == _normal(name)
    stem = f"/{path[: len(path) - len(base)]}{base.split('.')[0]}"
    return (
        stem.endswith(f"/{suffix}")
        or f"/{path}/" in f"/{suffix}/"
        or f"/{suffix}".endswith(f"/{path}")
        or _above(stem, suffix)
    )


def _normal(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package.lower())


def _above(stem: str, name: str) -> bool:
    """A folder that holds the module, wherever the folder is."""
    parts = name.split("/")
    return any(stem.endswith("/" + "/".join(parts[:end])) for end in range(1, len(parts)))


def patterns(lines: Iterable[str], folders: Collection[str]) -> tuple[str, ...]:
    """Patterns of new files for [workspace] ignore; `folders` are those that hold tracked files.

    A new folder stands for its files; numbers and random letters, which differ each time, become wildcards.
    """
    tops = (_new_top(path, folders) for path in lines)
    open_ends = (re.sub(r"\d+|(?:(?<=[._-])|(?<=tmp))\w{8}(?=\.|$)", "*", top) for top in tops)
    return tuple(dict.fromkeys(open_ends))


def _new_top(path: str, folders: Collection[str]) -> str:
    """The highest folder on the way that holds no tracked file, else the file itself."""
    parts = path.split("/")
    above = ("/".join(parts[:count]) for count in range(1, len(parts)))
    return next((top for top in above if top not in folders), path)


# ---- what to install ------------------------------------------------------------------------------------

TEST_EXTRAS = ("test", "tests", "testing", "dev", "develop", "all")
DEEP_MOST = 5  # groups that include groups
HATCH_ENVS = ("hatch-test", "default")
TEST_REQUIREMENTS = (
    *("requirements-test*.txt", "requirements-dev*.txt", "requirements_test*.txt", "requirements_dev*.txt"),
    *("test-requirements.txt", "test_requirements.txt", "dev-requirements.txt", "dev_requirements.txt"),
    *("requirements/test*.txt", "requirements/dev*.txt", "tests/requirements*.txt", "test/requirements*.txt"),
    "requirements.txt",
)
PACKAGES = {  # whose modules have other names
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "google.protobuf": "protobuf",
    "jwt": "pyjwt",
    "OpenSSL": "pyopenssl",
    "PIL": "pillow",
    "pkg_resources": "setuptools<80",
    "railroad": "railroad-diagrams",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}

PLUGINS = {  # of pytest, by the options and marks that they add
    "--cov": "pytest-cov",
    "--no-cov": "pytest-cov",
    "-n": "pytest-xdist",
    "--dist": "pytest-xdist",
    "--timeout": "pytest-timeout",
    "--asyncio-mode": "pytest-asyncio",
    "asyncio_mode": "pytest-asyncio",
    "asyncio_default_fixture_loop_scope": "pytest-asyncio",
    "DJANGO_SETTINGS_MODULE": "pytest-django",
    "--benchmark": "pytest-benchmark",
    "--mypy": "pytest-mypy",
    "--flake8": "pytest-flake8",
    "--black": "pytest-black",
    "--ruff": "pytest-ruff",
    "--ds": "pytest-django",
    "--reruns": "pytest-rerunfailures",
    "--randomly": "pytest-randomly",
    "--html": "pytest-html",
    "--instafail": "pytest-instafail",
    "pytest.mark.no_cover": "pytest-cov",
    "pytest.mark.asyncio": "pytest-asyncio",
    "pytest.mark.benchmark": "pytest-benchmark",
    "pytest.mark.django_db": "pytest-django",
    "pytest.mark.flaky": "pytest-rerunfailures",
    "pytest.mark.freeze_time": "pytest-freezer",
    "pytest.mark.timeout": "pytest-timeout",
}


OLDER_PYTEST = "pytest<9"  # the last that gives hooks the arguments of old


def plugins(reasons: Iterable[str]) -> list[str]:
    """The plugins whose options or marks pytest did not know, as far as they can be told by their names; an older pytest where
    it calls the project's hooks with fewer arguments than they take."""
    reasons = list(reasons)
    if any("hookspec" in reason for reason in reasons):
        return [OLDER_PYTEST]
    words = [word for reason in reasons for word in reason.split()]
    names = [plugin for word in words for option, plugin in PLUGINS.items() if _is_option(word, option)]
    return list(dict.fromkeys(names))


def _is_option(word: str, option: str) -> bool:
    end = word.removeprefix(option)
    return word.startswith(option) and (not end or end[0] in "=-" or (option == "-n" and end.isdigit()))


def install_words(folder: Path, modules: Iterable[str], runner: str = "pytest") -> str:
    """What to give `pip install`, so that a Python project's tests can run: the project with its extras for tests, its
    list of requirements, and the modules that were missing."""
    tops = [name.partition(".")[0] for name in modules if "/" not in name]
    packages = [PACKAGES.get(name, name) for name in tops]
    options = _extras(folder)
    extras = [name for name in TEST_EXTRAS if name in options][:1]
    extras += [name for name in options if name not in extras and _needs(options[name], packages)][:1]
    is_package = any((folder / name).is_file() for name in ("pyproject.toml", "setup.py", "setup.cfg"))
    project = ["-e", f".[{','.join(extras)}]" if extras else "."] if is_package else []
    lists = [file for pattern in TEST_REQUIREMENTS for file in sorted(folder.glob(pattern))][:1]
    required = ["-r", str(lists[0].relative_to(folder))] if lists else []
    own = {path.name.removesuffix(".py") for up in ("", "src/") for path in folder.glob(f"{up}*")}
    packages = [package for name, package in zip(tops, packages, strict=True) if name not in own]
    listed = [] if required or set(extras) & set(TEST_EXTRAS) else _group(folder) or _tox(folder)
    names = {_name(requirement) for requirement in listed}
    more = [package for package in (*([runner] if runner else []), *packages) if _name(package) not in names]
    return shlex.join(dict.fromkeys((*project, *required, *listed, *more)))


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement.strip(), maxsplit=1)[0].lower().replace("_", "-")


def _group(folder: Path) -> list[str]:
    """The requirements of the first group for tests: of pyproject.toml itself, or of pdm, uv, poetry or hatch."""
    table = _pyproject(folder)
    tool: dict[str, Any] = table.get("tool", {})
    poetry: dict[str, Any] = tool.get("poetry", {})
    groups: dict[str, list[Any]] = {"dev": list(poetry.get("dev-dependencies", {}))}
    groups |= {name: list(group.get("dependencies", {})) for name, group in poetry.get("group", {}).items()}
    groups |= {name: _hatch(env) for name, env in tool.get("hatch", {}).get("envs", {}).items()}
    groups |= {"dev": dev} if (dev := tool.get("uv", {}).get("dev-dependencies")) else {}
    groups |= table.get("dependency-groups") or tool.get("pdm", {}).get("dev-dependencies", {})
    first = next((name for name in (*TEST_EXTRAS, *HATCH_ENVS) if groups.get(name)), "")
    return [one for one in _flat(groups, first, DEEP_MOST) if ";" not in one]  # not those for other Pythons


def _hatch(env: dict[str, Any]) -> list[str]:
    return [*env.get("dependencies", ()), *env.get("extra-dependencies", ())]


def _tox(folder: Path) -> list[str]:
    """The dependencies of tox's tests, without those for some environments only."""
    lines = _ini(folder / "tox.ini", "testenv").get("deps", "").splitlines()
    plain = (
        line.partition(" #")[0].strip() for line in lines if not re.search(r"^\s*[\w{},!-]+:|[{;]", line)
    )
    words = (line.split(maxsplit=1) if line.startswith("-") else [line] for line in plain if line)
    return [word for of_line in words for word in of_line]


def _flat(groups: dict[str, list[Any]], name: str, depth: int) -> list[str]:
    listed: list[str] = []
    for one in groups.get(name, ()) if depth else ():
        inner = cast("dict[str, str]", one).get("include-group", "") if isinstance(one, dict) else ""
        listed += [one] if isinstance(one, str) else _flat(groups, inner, depth - 1)
    return listed


def _needs(requirements: str, packages: list[str]) -> bool:
    words = re.findall(r"^\s*([\w.-]+)", requirements, re.M)
    return bool({word.lower() for word in words} & {package.lower() for package in packages})


def _pyproject(folder: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))
    return {}


def _extras(folder: Path) -> dict[str, str]:
    """By name, with a requirement on each line."""
    extras: dict[str, str] = {}
    listed = _pyproject(folder).get("project", {}).get("optional-dependencies", {})
    extras |= {name: "\n".join(map(str, lines)) for name, lines in listed.items()}
    return extras | _ini(folder / "setup.cfg", "options.extras_require")


def _ini(file: Path, section: str) -> dict[str, str]:
    with suppress(OSError, UnicodeDecodeError, configparser.Error):
        config = configparser.ConfigParser(interpolation=None)
        config.read_string(file.read_text("utf-8"))
        return dict(config.items(section)) if config.has_section(section) else {}
    return {}
