"""`init`, `config`, `trust`, `completion`: what is written is said, where a value is from is shown, a yes is bound to bytes."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.helpers import commit_all, git
from tests.e2e.results_helpers import environment, facts, flyball, make_repo


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path / "home")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "repo", {"Makefile": "test:\n\tpython3 check.py\n", "check.py": "pass\n"})


# ---- init


def test_init_writes_what_it_found_and_trusts_it(env: dict[str, str], repo: Path) -> None:
    done = flyball(env, "init", cwd=repo)
    assert (done.returncode, done.stderr) == (0, "")
    table = tomllib.loads((repo / ".flyball/flyball.toml").read_text())
    assert table["proof"]["commands"] == ["make test"]
    assert "make test" in done.stdout
    assert "flyball run" in done.stdout
    assert (repo / ".flyball/out/.gitignore").read_text() == "*\n"
    commit_all(repo, "flyball")
    assert facts(flyball(env, "trust", "--list", "--json", cwd=repo))[0]["trusted"] is True
    (repo / ".flyball/out/STATUS.md").write_text("x")
    assert git(repo, "status", "--short") == ""


def test_init_never_overwrites_unless_told(env: dict[str, str], repo: Path) -> None:
    assert flyball(env, "init", cwd=repo).returncode == 0
    file = repo / ".flyball/flyball.toml"
    file.write_text("[run]\nmachine = 'loop'\n")
    again = flyball(env, "init", cwd=repo)
    assert (again.returncode, again.stdout, again.stderr.count("\n")) == (2, "", 1)
    assert file.read_text() == "[run]\nmachine = 'loop'\n"
    assert flyball(env, "init", "--force", cwd=repo).returncode == 0
    assert "make test" in file.read_text()


def test_init_without_a_test_command_says_unproven(env: dict[str, str], tmp_path: Path) -> None:
    bare = make_repo(tmp_path / "bare", {"notes.txt": "x\n"})
    done = flyball(env, "init", cwd=bare)
    assert done.returncode == 0
    assert "unproven" in done.stdout


@pytest.mark.parametrize("words", [("init", "-q"), ("init", "-q", "--bare")])
def test_init_refuses_what_no_run_can_start_from(
    env: dict[str, str], tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", *words)
    before = sorted(path.name for path in (tmp_path / "empty").iterdir())
    done = flyball(env, "init", cwd=tmp_path / "empty")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert sorted(path.name for path in (tmp_path / "empty").iterdir()) == before


def test_init_outside_a_repository_is_one_sentence(env: dict[str, str], tmp_path: Path) -> None:
    done = flyball(env, "init", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "is not in a git repository" in done.stderr
    assert not (tmp_path / ".flyball").exists()


# ---- config


def test_config_says_where_each_value_is_from(env: dict[str, str], repo: Path) -> None:
    (repo / ".flyball").mkdir()
    (repo / ".flyball/flyball.toml").write_text("[run]\nmachine = 'loop'\n[budget]\nusd = 3.5\n")
    user = Path(env["HOME"]) / ".config/flyball/config.toml"
    user.parent.mkdir(parents=True)
    user.write_text("[run]\ndone_word = 'READY'\n")
    env["FLYBALL_BUDGET_TOKENS"] = "1000"
    rows = facts(flyball(env, "config", "--json", "--set", "limits.turns=7", cwd=repo))
    found = {row["key"]: (row["value"], row["origin"]) for row in rows}
    assert found["run.done_word"] == ("READY", f"user {user}")
    assert found["run.machine"] == ("loop", "repository .flyball/flyball.toml")
    assert found["budget.usd"] == ("3.5", "repository .flyball/flyball.toml")
    assert found["budget.tokens"] == (1000, "environment FLYBALL_BUDGET_TOKENS")
    assert found["limits.loop.turns"] == (7, "--set")
    assert found["proof.timeout"] == ("10m", "default")
    text = flyball(env, "config", cwd=repo).stdout.splitlines()
    assert text[0].split() == ["key", "value", "from"]
    assert len(text) == len(rows)  # a heading instead of the --set


def test_config_of_one_key_also_knows_what_nobody_set(env: dict[str, str], repo: Path) -> None:
    def first_line(*words: str) -> str:
        return flyball(env, "config", *words, cwd=repo).stdout.splitlines()[0]

    assert first_line("budget.wall") == "4h  (default)"
    assert first_line("limits.fix") == "3  (machine build)"
    assert first_line("limits.within.plan") == "30m  (machine build)"
    assert first_line("agents.coder") == "none  (not set)"
    assert (
        first_line("agents.coder", "--set", "agents.default=command:x")
        == "command:x  (agents.default, --set)"
    )
    budget = {row["key"] for row in facts(flyball(env, "config", "budget", "--json", cwd=repo))}
    assert {"budget.tokens", "budget.usd", "budget.wall", "budget.day_usd"} <= budget
    assert all(key.startswith("budget.") for key in budget)


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("", "budget.usb", "did you mean 'budget.usd'?"),
        ("[run\n", "", "is not valid TOML"),
        ("[run]\nx = 1\n", "", "no setting 'run.x'"),
    ],
)
def test_bad_configuration_is_one_sentence(
    env: dict[str, str], repo: Path, text: str, key: str, said: str
) -> None:
    (repo / ".flyball").mkdir()
    (repo / ".flyball/flyball.toml").write_text(text)
    done = flyball(env, "config", *([key] if key else []), cwd=repo)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr


@pytest.mark.parametrize(
    "words", [("run", "x", "--machine", "loop"), ("config", "--set", "run.machine=loop")]
)
def test_a_limit_that_the_machine_does_not_have_is_refused_by_name(
    env: dict[str, str], repo: Path, words: tuple[str, ...]
) -> None:
    done = flyball(env, *words, "--set", "limits.fix=2", cwd=repo)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "the machine 'loop' has no limit 'fix'" in done.stderr
    assert "turns, calls" in done.stderr and "no_progress" in done.stderr
    assert facts(flyball(env, "ls", "--json", cwd=repo)) == []


# ---- trust


def test_a_yes_is_bound_to_the_bytes_and_can_be_taken_back(env: dict[str, str], repo: Path) -> None:
    file = repo / ".flyball/flyball.toml"
    file.parent.mkdir()
    file.write_text('[proof]\ncommands = ["make test"]\n')
    commit_all(repo, "proof")

    def trusted() -> list[bool]:
        return [row["trusted"] for row in facts(flyball(env, "trust", "--list", "--json", cwd=repo))]

    assert trusted() == [False]
    said = flyball(env, "trust", cwd=repo).stdout
    assert "now trusted" in said
    assert "make test" in said
    assert trusted() == [True]
    file.write_text(file.read_text() + "# another byte\n")
    assert trusted() == [False]
    assert flyball(env, "trust", cwd=repo).returncode == 0
    assert "2 files" in flyball(env, "trust", "--forget", cwd=repo).stdout
    assert trusted() == [False]


def test_a_file_that_only_tightens_asks_for_nothing(env: dict[str, str], repo: Path) -> None:
    (repo / ".flyball").mkdir()
    (repo / ".flyball/flyball.toml").write_text("[budget]\nusd = 1.0\n")
    commit_all(repo, "budget")
    assert facts(flyball(env, "trust", "--list", "--json", cwd=repo)) == []
    assert facts(flyball(env, "trust", "--json", cwd=repo)) == []


# ---- completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(env: dict[str, str], tmp_path: Path, shell: str) -> None:
    done = flyball(env, "completion", shell, cwd=tmp_path)
    assert done.returncode == 0
    assert "_FLYBALL_COMPLETE" in done.stdout
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=done.stdout, text=True).returncode == 0


def test_completion_completes_commands(env: dict[str, str], tmp_path: Path) -> None:
    asked = env | {"_FLYBALL_COMPLETE": "bash_complete", "COMP_WORDS": "flyball mach", "COMP_CWORD": "1"}
    assert flyball(asked, cwd=tmp_path).stdout.strip() == "plain,machines"


def test_an_unknown_shell_or_command_is_one_sentence(env: dict[str, str], tmp_path: Path) -> None:
    for words in (["completion", "tcsh"], ["nonsense"], ["config", "--nonsense"]):
        done = flyball(env, *words, cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run x --agent mechanic --machine buid", "There is no machine 'buid'. Did you mean 'build'?"),
        ("run x --agent mechanic --pass-env NOT_THERE", "NOT_THERE is not set"),
        ("run x --agent script:gone.yaml", "gone.yaml: No such file or directory. Check the path."),
        ("run @gone.md --agent mechanic", "Cannot read the task file gone.md: No such file or directory."),
        ("run x --agent command:git_{promt}", "{promt}. Did you mean {prompt}?"),
        ("machines check gone.toml", "Cannot read gone.toml: No such file or directory."),
        ("config nosuch.key", "flyball: There is no setting 'nosuch.key'"),
        ("task show T9", "No task 'T9' is waiting."),
        ("trigger nosuch", "flyball: 'nosuch' is not one of 'task', 'ci',"),
        ("trigger", "Missing argument. Choose from: task, ci,"),
        ("simulate --seeds x", "'x' is not a whole number"),
        ("agents nosuch", "There is no command 'nosuch'. `flyball agents` has: busy, limit, ls,"),
        ("help nosuch", "There is no command 'nosuch'."),
        ("run x --agnet claude", "Did you mean '--agent'? See"),
        ("show @lst", "There is no run '@lst'. Did you mean @last?"),
        ("land", "RUN is missing: the id of a run, or @last"),
    ],
)
def test_a_mistake_is_answered_in_one_plain_sentence(
    env: dict[str, str], repo: Path, words: str, said: str
) -> None:
    done = flyball(
        env, *(word.replace("_", " ") if "{" in word else word for word in words.split()), cwd=repo
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert said in done.stderr and "Errno" not in done.stderr


def test_init_finds_the_ignored_files_that_the_tests_need(env: dict[str, str], tmp_path: Path) -> None:
    files = {
        "test_a.py": "import unittest\nfrom made import VERSION\n\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        assert VERSION\n",
        ".gitignore": "made.py\nsecret.key\n",
    }
    repo = make_repo(tmp_path / "generated", files)
    (repo / "made.py").write_text("VERSION = '1'\n")
    (repo / "secret.key").write_text("x\n")
    found = facts(flyball(env, "init", "--json", cwd=repo))
    assert (found["agree"], found["share"], found["advice"]) == (True, ["made.py"], [])
    ran = flyball(
        env, "run", "x", "--agent", "command:true", "--machine", "loop", "--set", "limits.turns=1", cwd=repo
    )
    assert "baseline proof passed" in flyball(env, "log", "@last", cwd=repo).stdout, ran.stdout


@pytest.mark.parametrize(
    ("ignored", "shared", "says"), [("data.csv", ["data.csv"], ""), ("data.log", [], "1 test that passes")]
)
def test_init_notices_tests_that_are_only_skipped(
    env: dict[str, str], tmp_path: Path, ignored: str, shared: list[str], says: str
) -> None:
    test = "import os, unittest\n\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        pass\n\n"
    test += f"    @unittest.skipUnless(os.path.exists({ignored!r}), 'not there')\n    def test_b(self):\n        pass\n"
    repo = make_repo(tmp_path / "skipping", {"test_a.py": test, ".gitignore": f"{ignored}\n"})
    (repo / ignored).write_text("1\n")
    found = facts(flyball(env, "init", "--json", cwd=repo))
    assert (found["agree"], found["share"]) == (bool(shared), shared)
    assert "".join(found["advice"]).startswith(says) and bool(found["advice"]) == bool(says)


@pytest.mark.sampled(0)
def test_init_shares_nothing_for_a_test_that_fails_by_chance(env: dict[str, str], tmp_path: Path) -> None:
    """It fails within five seconds after its first run, so in the first clean checkout and not in the second."""
    test = "import pathlib, time, unittest\n\nFIRST = pathlib.Path('.venv/first')\n\n\nclass T(unittest.TestCase):\n    def test_a(self):\n"
    test += "        if not FIRST.exists():\n            FIRST.write_text(str(time.time()))\n"
    test += "        elif time.time() < float(FIRST.read_text()) + 5:\n            time.sleep(5)\n            self.fail()\n"
    repo = make_repo(tmp_path / "chance", {"test_a.py": test, ".gitignore": "notes.csv\n.venv/\n"})
    (repo / "notes.csv").write_text("1\n")
    (repo / ".venv").mkdir()
    found = facts(flyball(env, "init", "--json", cwd=repo))
    assert (found["agree"], found["share"], found["advice"]) == (True, [".venv"], [])


def test_init_shares_a_compiled_file_whose_build_fails_and_says_both(
    env: dict[str, str], tmp_path: Path
) -> None:
    test = "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        open('native.so').close()\n"
    files = {
        "test_a.py": test,
        "setup.py": "raise SystemExit('error: no compiler')\n",
        ".gitignore": "*.so\n",
    }
    repo = make_repo(tmp_path / "compiled", files)
    (repo / "native.so").write_text("")
    found = facts(flyball(env, "init", "--json", cwd=repo))
    assert (found["agree"], found["share"], "setup.py" in found["tests"][0]) == (True, ["native.so"], False)
    assert found["advice"][0].endswith("fails there: error: no compiler.")
    assert found["advice"][1].startswith("The proof uses native.so as built in your folder")


def test_init_says_that_the_tests_change_a_tracked_file(env: dict[str, str], tmp_path: Path) -> None:
    test = "import os, unittest\n\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        open('coverage.dat', 'w').write(str(os.getpid()))\n"
    repo = make_repo(tmp_path / "tracked", {"test_a.py": test, "coverage.dat": "0"})
    found = facts(flyball(env, "init", "--json", cwd=repo))
    assert found["advice"][-1].startswith("The tests change files that git tracks (coverage.dat)")


def test_init_says_what_to_do_where_the_tests_cannot_run(env: dict[str, str], tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "bare", {"test_a.py": "import unittest\nimport nosuchpackage\n"})
    done = flyball(env, "init", cwd=repo)
    assert "nosuchpackage`, then run `flyball init --force`" in done.stdout


def test_init_does_not_let_a_makefile_install_what_is_missing(env: dict[str, str], tmp_path: Path) -> None:
    files = {"test_a.py": "import pytest, nosuchpackage\n", "Makefile": "test:\n\ttouch installed\n"}
    repo = make_repo(tmp_path / "makes", files)
    found = facts(flyball(env, "init", "--json", cwd=repo))
    assert found["tests"][-1] == "make test" and not (repo / "installed").exists()
    assert found["advice"][0].startswith("The tests do not run in this folder")


@pytest.mark.sampled(0)
def test_init_leaves_out_tests_that_cannot_pass_and_ignores_what_tests_write(
    env: dict[str, str], tmp_path: Path
) -> None:
    """A test that needs the network, one that writes a file with a random name, and a bug: the run still ends proved."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        files = {
            "calc.py": "def add(a, b):\n    return a - b\n",
            "test_calc.py": "import os, socket\nfrom calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n\n\n"
            f"def test_online():\n    socket.create_connection(('127.0.0.1', {port}), 5).close()\n\n\n"
            "def test_report():\n    open(f'report.{os.getpid()}.txt', 'w').close()\n",
            ".gitignore": "__pycache__/\n",
        }
        repo = make_repo(tmp_path / "online", files)
        found = facts(flyball(env, "init", "--json", cwd=repo))
    assert found["tests"][0].endswith("--deselect test_calc.py::test_online")
    assert "without network" in found["advice"][0]
    assert 'ignore = ["report.*.txt"]' in Path(found["file"]).read_text()
    agent = tmp_path / "agent.json"
    turn = {"write": {"calc.py": "def add(a, b):\n    return a + b\n"}}
    agent.write_text(json.dumps({"roles": {"coder": [turn], "critic": [{"outcome": "accepted"}]}}))
    ran = facts(flyball(env, "run", "x", "--agent", f"script:{agent}", "--json", cwd=repo))
    assert (ran["stop_reason"]["code"], bool(ran["certificate"])) == ("completed", True)


@pytest.mark.sampled(0)
def test_init_proves_uncommitted_changes_and_says_that_a_run_does_not_see_them(
    env: dict[str, str], tmp_path: Path
) -> None:
    test = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
    repo = make_repo(tmp_path / "dirty", {"calc.py": "add = None\n", "test_calc.py": test})
    (repo / "calc.py").write_text("from made import add\n")
    (repo / "made.py").write_text("def add(a, b):\n    return a + b\n")
    found = facts(flyball(env, "init", "--json", cwd=repo))
    assert found["agree"] and found["trials"]["clean"]["failing"] == []
    assert "deselect" not in found["tests"][0]
    assert found["advice"][0].startswith("You have uncommitted changes.")


@pytest.mark.sampled(0)
def test_init_lets_two_test_files_have_one_name(env: dict[str, str], tmp_path: Path) -> None:
    files = {
        "add.py": "def add(a, b):\n    return a + b\n",
        "one/test_same.py": "from add import add\n\n\ndef test_one():\n    assert add(1, 2) == 3\n",
        "two/test_same.py": "from add import add\n\n\ndef test_two():\n    assert add(1, 2) == 4\n",
    }
    found = facts(flyball(env, "init", "--json", cwd=make_repo(tmp_path / "same", files)))
    assert found["tests"][0].endswith("--import-mode=importlib")
    assert found["trials"]["clean"]["failing"] == ["two/test_same.py::test_two"]


@pytest.mark.sampled(1)
@pytest.mark.skipif(not shutil.which("npm"), reason="npm is not installed")
@pytest.mark.parametrize(("folder", "types"), [("", "tsd"), ("packages/a", "npm run types")])
def test_init_leaves_out_checks_that_fail_by_themselves(
    env: dict[str, str], tmp_path: Path, folder: str, types: str
) -> None:
    scripts = {
        "test": f"eslint . && node a.js && node b.js && tsc && {types}",
        "pretest": "eslint .",
        "types": "tstyche",
    }
    package = {"scripts": scripts}
    files = {"package.json": json.dumps(package), "a.js": "", "b.js": "process.exit(1)\n"}
    repo = make_repo(tmp_path / "linted", {str(Path(folder, name)): text for name, text in files.items()})
    found = facts(flyball(env, "init", "--json", cwd=repo / folder))
    enter = f"cd {folder} && " if folder else ""
    assert found["tests"][0] == f"{enter}npm exec -c 'node a.js && node b.js && tsc'"
    assert found["agree"] and found["trials"]["clean"]["exit"] == 1
    assert found["advice"][0].startswith(f"`eslint .`, `{types}` of the test script fails by itself")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_init_that_is_ended_leaves_no_trial(env: dict[str, str], tmp_path: Path, number: int) -> None:
    """The tests are quick in the folder and slow in the clean checkout, where HOME is another."""
    slow = f"import os, time\ntime.sleep(0 if os.environ.get('HOME') == {env['HOME']!r} else 60)\n"
    repo = make_repo(tmp_path / "slow", {"check.py": slow, "Makefile": "test:\n\tpython3 check.py\n"})
    state = Path(env["FLYBALL_STATE_DIR"])
    with subprocess.Popen([sys.executable, "-m", "flyball", "init"], cwd=repo, env=env) as started:
        wait_for(lambda: any(state.glob("trial-*/acts/*/0/out")))
        started.send_signal(number)
    if number == signal.SIGKILL:
        (repo / "check.py").write_text("pass\n")
        commit_all(repo, "quick")
        assert flyball(env, "init", "--force", cwd=repo).returncode == 0
    assert not list(state.glob("trial-*"))
    assert (repo / ".flyball/flyball.toml").exists() == (number == signal.SIGKILL)


def wait_for(met: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not met():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_init_in_a_subfolder_configures_that_subfolder(env: dict[str, str], tmp_path: Path) -> None:
    test = "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        pass\n"
    repo = make_repo(
        tmp_path / "mono", {"packages/a/test_a.py": test, "packages/b/Makefile": "test:\n\tfalse\n"}
    )
    found = facts(flyball(env, "init", "--json", cwd=repo / "packages" / "a"))
    assert found["tests"][0].startswith("cd packages/a && ")
    assert (found["agree"], found["file"]) == (True, str(repo / ".flyball/flyball.toml"))
