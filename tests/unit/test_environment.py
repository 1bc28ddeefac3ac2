"""What a test run's output says about its environment, and which ignored files cure it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flyball.acts.proof import what_is_missing
from flyball.config.cures import install_words, needed, patterns, plugins, shareable
from flyball.config.elsewhere import foreign_install
from flyball.reading.test_output import Lack, cannot_load, lack, missing_names
from flyball.runtime.start import kept_elsewhere, pinned_environment, remember

COLLECTING = "_ ERROR collecting tests/test_a.py _\nE   {}\n1 error in 0.1s\n"
LACKS: dict[str, tuple[str, int, Lack | None]] = {
    "passes": ("3 passed in 0.1s", 0, None),
    "fails": ("FAILED tests/test_a.py::test_a - ModuleNotFoundError: No module named 'x'\n1 failed in 0.1s", 1, None),
    "no runner": ("/usr/bin/python3: No module named pytest\n", 1, Lack("runner", ("pytest",))),
    "no command": ("/bin/sh: 1: tox: not found\n", 127, Lack("command", ("/bin/sh: 1: tox: not found",))),
    "a module": (COLLECTING.format("ModuleNotFoundError: No module named 'numpy.linalg'"), 2, Lack("module", ("numpy.linalg",))),
    "a name": (COLLECTING.format("ImportError: cannot import name '_version' from 'pkg' (/w/pkg/__init__.py)"), 2, Lack("module", ("pkg._version",))),
    "a syntax error": (COLLECTING.format("SyntaxError: invalid syntax"), 2, None),
    "metadata": (COLLECTING.format("importlib.metadata.PackageNotFoundError: No package metadata was found for my-pkg"), 2, Lack("metadata", ("my-pkg",))),
    "unittest": ("ERROR: test_a\nImportError: Failed to import test module: test_a\nModuleNotFoundError: No module named 'attr'\n\nRan 1 test in 0.0s\n\nFAILED (errors=1)", 1, Lack("module", ("attr",))),
    "node": ("Error: Cannot find module 'tape'\nRequire stack:\n- /w/test.js", 1, Lack("module", ("tape",))),
    "cargo": ("error: no matching package named `criterion` found\nlocation searched: crates.io index\n", 101, Lack("dependency", ("criterion",))),
    "cargo, offline": ("    Updating crates.io index\nerror: failed to get `serde` as a dependency of package `a v0.1.0 (/w)`\n\nCaused by:\n", 101, Lack("dependency", ("serde",))),
    "go": ("m.go:3:8: no required module provides package github.com/a/b; to add it:\n\tgo get github.com/a/b\nFAIL\tx [setup failed]\n", 1, Lack("dependency", ("github.com/a/b",))),
    "no plugin": ("ERROR: usage: python -m pytest [options] [file_or_dir]\npython -m pytest: error: unrecognized arguments: --cov=pkg\n  inifile: /w/setup.cfg\n", 4, Lack("start", ("unrecognized arguments: --cov=pkg (a plugin of the test runner is not installed)",))),
    "no such folder": ("ERROR: file or directory not found: spec\n\nno tests were run", 4, Lack("start", ("file or directory not found: spec",))),
    "a runner too new": ("Traceback (most recent call last):\n  File \"x\"\npluggy._manager.PluginValidationError: Plugin 'conftest.py' for hook 'pytest_ignore_collect'\nhookimpl definition: f(path)\n", 1, Lack("start", ("Plugin 'conftest.py' for hook 'pytest_ignore_collect'",))),
    "a hook with an argument of old": ("pluggy._manager.PluginValidationError: Plugin 'c.py' for hook 'pytest_ignore_collect'\nhookimpl definition: f(path)\nArgument(s) {'path'} are declared in the hookimpl but can not be found in the hookspec\n", 1, Lack("start", ("Argument(s) {'path'} are declared in the hookimpl but can not be found in the hookspec",))),
    "a plugin that warns": ("INTERNALERROR> Traceback (most recent call last):\nINTERNALERROR> pytest.PytestDeprecationWarning: The option is unset.\nINTERNALERROR> Set it.\n", 3, Lack("start", ("pytest.PytestDeprecationWarning: The option is unset.",))),
    "an option of a plugin in the settings": ("INTERNALERROR> Traceback (most recent call last):\nINTERNALERROR> pytest.PytestConfigWarning: Unknown config option: asyncio_mode\n\nno tests ran in 0.34s\n", 3, Lack("start", ("pytest.PytestConfigWarning: Unknown config option: asyncio_mode",))),
    "a plugin that the settings load": ("ERROR: Error importing plugin \"pytest_cov\": No module named 'pytest_cov'\n", 4, Lack("module", ("pytest_cov",))),
    "no tests": ("no tests ran in 0.01s", 5, Lack("tests", ())),
    "no tests of unittest": ("\nRan 0 tests in 0.000s\n\nOK", 0, Lack("tests", ())),
}  # fmt: skip


@pytest.mark.parametrize("name", LACKS)
def test_what_kept_the_tests_from_running(name: str) -> None:
    output, code, expected = LACKS[name]
    assert lack(output, code) == expected
    assert cannot_load(output) == (name in ("a module", "a name", "a syntax error", "metadata", "unittest"))


def test_names_of_what_is_missing_are_found_wherever_they_are() -> None:
    log = "E FileNotFoundError: [Errno 2] No such file or directory: '/w/data/a.json'\nE   ModuleNotFoundError: No module named 'a.b'\n"
    assert missing_names(log) == ("a.b", "/w/data/a.json")


IGNORED = ["src/pkg/_version.py", "src/pkg/_fast.cpython-311-x86_64-linux-gnu.so", "gen/", "my_pkg.egg-info/", "dist/",
           ".env", "a/__pycache__/", "id_rsa", ".pytest_cache/"]  # fmt: skip


@pytest.mark.parametrize(
    ("missing", "paths"),
    [
        (["pkg._version"], ["src/pkg/_version.py"]),
        (["pkg._fast"], ["src/pkg/_fast.cpython-311-x86_64-linux-gnu.so"]),
        (["gen.api"], ["gen"]),
        (["my-pkg"], ["my_pkg.egg-info"]),
        (["my.pkg"], ["my_pkg.egg-info"]),
        (["my"], []),
        (["my_pkg.version"], []),
        (["../dist/index.js"], ["dist"]),
        (["numpy"], []),
        ([".env"], []),
    ],
)
def test_ignored_files_that_hold_what_is_missing(missing: list[str], paths: list[str]) -> None:
    assert needed(IGNORED, missing) == paths


def test_caches_and_secrets_are_never_shared() -> None:
    assert shareable(IGNORED) == [path.strip("/") for path in IGNORED[:5]]


FOREIGN = {
    "declared": ({"requirements.txt": "my-lib>=1\n"}, {}, "my_lib", True),
    "declared by another name": ({"requirements-dev.txt": "attrs\n"}, {}, "attr", True),
    "not declared: to be written": ({"requirements.txt": "other\n"}, {}, "calc", False),
    "in the user's folder only": ({}, {"made.py": ""}, "made", True),
    "there, but not importable": ({"src/calc/__init__.py": ""}, {}, "calc", True),
    "a new module of the project": ({"calc/__init__.py": ""}, {"calc/__init__.py": ""}, "calc.new", False),
    "a generated module of the project": ({"calc/__init__.py": ""}, {"calc/_version.py": ""}, "calc._version", True),
    "a file of the project": ({"package.json": "{}"}, {}, "./lib/x.js", False),
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_a_missing_module_is_no_failing_test_unless_the_agent_is_to_write_it(
    tmp_path: Path, name: str
) -> None:
    tracked, untracked, module, foreign = FOREIGN[name]
    repo, files = tmp_path / "repo", tmp_path / "files"
    for folder, contents in ((files, tracked), (repo, untracked)):
        folder.mkdir()
        for path, words in contents.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(words)
    log = COLLECTING.format(f"ModuleNotFoundError: No module named '{module}'")
    log = log if "/" not in module else f"Error: Cannot find module '{module}'"
    assert bool(what_is_missing(repo, files, log, 1)) == foreign


def test_a_run_keeps_the_virtual_environment_that_init_saw(tmp_path: Path) -> None:
    venv, root, state = tmp_path / "venv", tmp_path / "repo", tmp_path / "state"
    (venv / "bin").mkdir(parents=True)
    plain = {"PATH": "/usr/bin", "SECRET": "x"}
    assert pinned_environment(state, root, plain) == {"PATH": "/usr/bin"}
    remember(state, root, {**plain, "VIRTUAL_ENV": str(venv)})
    assert pinned_environment(state, root, plain) == {
        "PATH": f"{venv}/bin:/usr/bin",
        "VIRTUAL_ENV": str(venv),
    }
    assert pinned_environment(state, root, {**plain, "VIRTUAL_ENV": "/other"})["VIRTUAL_ENV"] == "/other"
    assert pinned_environment(state, tmp_path, plain) == {"PATH": "/usr/bin"}
    (root / ".venv").mkdir(parents=True)
    (root / ".venv" / "pyvenv.cfg").touch()
    shared = pinned_environment(state, root, {**plain, "VIRTUAL_ENV": "/other"}, ["node_modules", ".venv"])
    assert shared == {"PATH": f"{root}/.venv/bin:/usr/bin", "VIRTUAL_ENV": f"{root}/.venv"}
    remember(state, root, plain)
    assert pinned_environment(state, root, plain) == {"PATH": "/usr/bin"}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (["coverage.xml", "src/a/made.txt"], ("coverage.xml", "src/a/made.txt")),
        (["htmlcov/index.html", "htmlcov/deep/a.css", "src/out/x.js"], ("htmlcov", "src/out")),
        ([".cov.host.pid5103.XsfilKVx", ".cov.host.pid77.abcdefgh"], (".cov.host.pid*.*",)),
        (["tmpab12_xyz/a", "report-12.json"], ("tmp*", "report-*.json")),
    ],
)
def test_what_the_tests_write_becomes_patterns(written: list[str], expected: tuple[str, ...]) -> None:
    assert patterns(written, {".", "src", "src/a"}) == expected


INSTALLS = {
    "a folder of scripts": ({}, ["numpy.linalg"], "pytest numpy"),
    "an extra for tests": ({"pyproject.toml": "[project.optional-dependencies]\ntest = ['x']\ndocs = []\n"}, [], "-e '.[test]' pytest"),
    "an extra in setup.cfg": ({"setup.cfg": "[options.extras_require]\ndev = x\n", "setup.py": ""}, ["yaml"], "-e '.[dev]' pytest pyyaml"),
    "a list": ({"setup.py": "", "requirements-dev.txt": "x", "requirements.txt": "y"}, [], "-e . -r requirements-dev.txt pytest"),
    "its own module": ({"pyproject.toml": "", "src/calc/__init__.py": ""}, ["calc.core", "hypothesis"], "-e . pytest hypothesis"),
    "an extra that has what is missing": ({"pyproject.toml": "[project]\noptional-dependencies = {test = ['x'], draw = ['railroad-diagrams >= 3', 'jinja2']}\n"}, ["railroad"], "-e '.[test,draw]' pytest railroad-diagrams"),
    "a group": ({"pyproject.toml": "[dependency-groups]\ntests = ['pytest>=6', {include-group = 'more'}]\nmore = ['time-machine']\n"}, ["time_machine", "yaml"], "-e . 'pytest>=6' time-machine pyyaml"),
    "a group that includes itself": ({"pyproject.toml": "[dependency-groups]\ndev = [{include-group = 'dev'}]\n"}, [], "-e . pytest"),
    "a group of poetry": ({"pyproject.toml": "[tool.poetry.group.dev.dependencies]\npytest-mock = '^3'\n"}, [], "-e . pytest-mock pytest"),
    "a group of uv": ({"pyproject.toml": "[tool.uv]\ndev-dependencies = ['sh']\n"}, [], "-e . sh pytest"),
    "an environment of hatch": ({"pyproject.toml": "[tool.hatch.envs.hatch-test]\nextra-dependencies = ['trustme']\n"}, [], "-e . trustme pytest"),
    "dependencies of tox": ({"setup.py": "", "tox.ini": "[testenv]\ndeps =\n    pytest>=7\n    py27: mock\n    {env:X}\n    -r needs.txt\n    cov >= 2 # for reports\n"}, [], "-e . 'pytest>=7' -r needs.txt 'cov >= 2'"),
    "files that cannot be read": ({"pyproject.toml": "[", "setup.cfg": "x"}, [], "-e . pytest"),
}  # fmt: skip


@pytest.mark.parametrize("name", INSTALLS)
def test_what_to_install(tmp_path: Path, name: str) -> None:
    files, missing, words = INSTALLS[name]
    for file, text in files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    assert install_words(tmp_path, missing) == words


def test_plugins_are_known_by_their_options_and_marks() -> None:
    assert plugins(["unrecognized arguments: --cov=a --cov-report=term -n4 --color (a plugin)"]) == [
        "pytest-cov",
        "pytest-xdist",
    ]
    assert plugins(["pytest.PytestConfigWarning: Unknown config option: asyncio_mode"]) == ["pytest-asyncio"]
    assert plugins(["pytest.PytestUnknownMarkWarning: Unknown pytest.mark.no_cover - is this a typo?"]) == [
        "pytest-cov"
    ]


def test_hooks_that_a_newer_pytest_does_not_call_want_an_older_one() -> None:
    assert plugins(
        ["Argument(s) {'path'} are declared in the hookimpl but can not be found in the hookspec"]
    ) == ["pytest<9"]


def test_the_environment_that_a_tool_keeps_elsewhere(tmp_path: Path) -> None:
    poetry, venv, project = tmp_path / "bin" / "poetry", tmp_path / "envs" / "calc-py3.11", tmp_path / "calc"
    for folder in (poetry.parent, venv, project):
        folder.mkdir(parents=True)
    (venv / "pyvenv.cfg").touch()
    poetry.write_text(f"#!/bin/sh\n[ \"$*\" = 'env info -p' ] && echo {venv}\n")
    poetry.chmod(0o755)
    env = {"PATH": f"{poetry.parent}:/usr/bin:/bin"}
    assert kept_elsewhere(project, env) == ""
    (project / "pyproject.toml").write_text("[tool.poetry]\n")
    assert kept_elsewhere(project, env) == str(venv)
    assert kept_elsewhere(project, {"PATH": "/nowhere"}) == ""


# ---- a project that is installed from another folder ------------------------------------------------------------


def installed(site: Path, folder: Path, editable: bool = True, name: str = "my_pkg") -> None:
    record = {"url": folder.as_uri(), "dir_info": {"editable": editable}}
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "direct_url.json").write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("files", "command", "other", "editable", "refused"),
    [
        ({"src/my_pkg/__init__.py": ""}, "pytest", "original", True, True),
        ({"src/my_pkg.py": ""}, "python -m pytest -q", "original", True, True),
        ({"python/src/my_pkg/__init__.py": ""}, "cd python && pytest", "original", True, True),
        ({"src/my_pkg/__init__.py": ""}, "pytest", "copy", True, False),
        ({"src/my_pkg/__init__.py": ""}, "pytest", "copy/sub", True, False),
        ({"src/my_pkg/__init__.py": ""}, "pytest", "original", False, False),
        ({"src/other/__init__.py": ""}, "pytest", "original", True, False),
        ({"my_pkg/__init__.py": ""}, "python -m pytest", "original", True, False),
        ({"src/my_pkg/__init__.py": ""}, "PYTHONPATH=src pytest", "original", True, False),
        ({"src/my_pkg/__init__.py": ""}, "uv run pytest", "original", True, False),
        ({"src/my_pkg/__init__.py": "", "pytest.ini": "[pytest]\npythonpath = src\n"}, "pytest", "original", True, False),
    ],
)  # fmt: skip
def test_a_project_that_is_installed_from_another_folder_is_not_what_is_tested(
    tmp_path: Path, files: dict[str, str], command: str, other: str, editable: bool, refused: bool
) -> None:
    copy, original = tmp_path / "copy", tmp_path / other
    for name, text in files.items():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text(text)
    installed(copy / ".venv/lib/python3.12/site-packages", original, editable)
    sentence = foreign_install(copy, str(copy / ".venv"), [command])
    assert bool(sentence) == refused and (not refused or str(original) in sentence)
    assert foreign_install(copy, "", [command]) == ""
