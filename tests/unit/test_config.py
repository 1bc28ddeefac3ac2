"""What is configured is what is used: strictly typed, exactly converted, each value with its origin."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import msgspec
import pytest

from flyball.agents.adapter import adapter
from flyball.config.detect import USUAL, Detection, ProofCommand, detect, render_config
from flyball.config.load import LoadedConfig, load
from flyball.config.schema import KEYS, LIMITS, limits_of
from flyball.config.values import AgentSpec, Money, dollars, parse_agent, parse_role
from flyball.domain.events import RunBegan, decode
from flyball.domain.settings import DOLLAR, HOUR, MINUTE, SECOND, Budget, Lent, Settings
from flyball.errors import ConfigError
from flyball.machines import shipped
from flyball.state.fold import fold
from flyball.state_dir import environment, paths


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "repo" / ".flyball").mkdir(parents=True)
    return tmp_path


def user(home: Path, text: str) -> None:
    file = home / "home/.config/flyball/config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def repo(home: Path, text: str) -> None:
    (home / "repo/.flyball/flyball.toml").write_text(text)


def loaded(home: Path, *sets: str, env: dict[str, str] | None = None, **flags: object) -> LoadedConfig:
    env = {"HOME": str(home / "home"), **(env or {})}
    return load(home / "repo", env, sets, cwd=home, **flags)  # type: ignore[arg-type]


def refused(home: Path, *sets: str, env: dict[str, str] | None = None, **flags: object) -> str:
    with pytest.raises(ConfigError) as told:
        loaded(home, *sets, env=env, **flags).settings()
    message = str(told.value)
    assert "\n" not in message
    return message


# ---- where things are -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "state", "config"),
    [
        ({}, "/h/.local/state/flyball", "/h/.config/flyball/config.toml"),
        ({"XDG_STATE_HOME": "/s", "XDG_CONFIG_HOME": "/c"}, "/s/flyball", "/c/flyball/config.toml"),
        (
            {"XDG_STATE_HOME": "s", "XDG_CONFIG_HOME": ""},
            "/h/.local/state/flyball",
            "/h/.config/flyball/config.toml",
        ),
        ({"FLYBALL_STATE_DIR": "/x", "XDG_STATE_HOME": "/s"}, "/x", "/h/.config/flyball/config.toml"),
        ({"FLYBALL_STATE_DIR": ""}, "/h/.local/state/flyball", "/h/.config/flyball/config.toml"),
    ],
)
def test_paths_follow_the_environment(env: dict[str, str], state: str, config: str) -> None:
    found = paths({"HOME": "/h", **env})
    assert (str(found.state_dir), str(found.config_file)) == (state, config)


def test_a_relative_state_folder_is_refused_rather_than_ignored() -> None:
    with pytest.raises(ConfigError, match="FLYBALL_STATE_DIR is 'here', but must be an absolute path"):
        paths({"HOME": "/h", "FLYBALL_STATE_DIR": "here"})


def test_the_environment_is_a_copy() -> None:
    copy = environment()
    copy["FLYBALL_BUDGET_USD"] = "1"
    assert "FLYBALL_BUDGET_USD" not in os.environ


# ---- layers ---------------------------------------------------------------------------------------------


def test_with_nothing_said_the_settings_are_the_defaults(home: Path) -> None:
    assert loaded(home).settings() == Settings()
    assert loaded(home).machine == "build"


def test_without_a_repository_the_user_layer_still_holds(home: Path) -> None:
    user(home, "[budget]\nusd = 1\n")
    assert load(None, {"HOME": str(home / "home")}).settings().budget.uusd == DOLLAR


def test_each_layer_overrides_the_one_below_and_is_named_as_the_origin(home: Path) -> None:
    env = {"FLYBALL_BUDGET_USD": "4"}
    seen = [(loaded(home).settings().budget.uusd, loaded(home).origin("budget.usd"))]
    user(home, "[budget]\nusd = 2.0\n")
    seen.append((loaded(home).settings().budget.uusd, loaded(home).origin("budget.usd")))
    repo(home, "[budget]\nusd = 3\n")
    seen.append((loaded(home).settings().budget.uusd, loaded(home).origin("budget.usd")))
    seen.append((loaded(home, env=env).settings().budget.uusd, loaded(home, env=env).origin("budget.usd")))
    last = loaded(home, "budget.usd=5.5", env=env)
    seen.append((last.settings().budget.uusd, last.origin("budget.usd")))
    assert seen == [
        (5 * DOLLAR, "default"),
        (2 * DOLLAR, f"user {home}/home/.config/flyball/config.toml"),
        (3 * DOLLAR, "repository .flyball/flyball.toml"),
        (4 * DOLLAR, "environment FLYBALL_BUDGET_USD"),
        (5_500_000, "--set"),
    ]


WHOLE = """
[agents]
default  = "claude"
reviewer = "codex"
[proof]
commands = ["python -m pytest -q"]
timeout  = "5m"
[workspace]
setup = ["make deps"]
share = [".venv", "web/node_modules/"]
[run]
machine = "review"
write = "loop"
breakpoints = ["write", "verify"]
require_test_pass = false
review = "always"
consensus = true
done_word = "READY"
commit = "merge"
[limits]
iterations = 4
[limits.loop]
no_progress = 6
idle_timeout = "1h30m"
cooldown = "none"
[limits.task.within]
in_progress = "2h"
[budget]
usd = 0.000001
tokens = 1_000
wall = "none"
[rate_limit]
retry_every = "90s"
fallback = ["codex", "acp:gemini --acp"]
[guard]
policy  = "strict"
sandbox = "required"
network = { agent = "loopback", proof = "none" }
hosts = ["docs.python.org", "*.Example.com:8443", "[::1]:80"]
view = "strict"
pass_env = ["NPM_TOKEN"]
[agents.aider]
env = ["MY_KEY"]
reads = ["~/.aider.conf.yml"]
writes = ["/srv/cache"]
"""


def test_the_whole_file_becomes_settings(home: Path) -> None:
    repo(home, WHOLE)
    assert loaded(home).settings() == Settings(
        agents={"default": "claude", "reviewer": "codex"},
        proof=("python -m pytest -q",),
        proof_timeout_us=5 * MINUTE,
        setup=("make deps",),
        share=(".venv", "web/node_modules"),
        write="loop",
        breakpoints=("write", "verify"),
        require_test_pass=False,
        review="always",
        consensus=True,
        done_word="READY",
        commit="merge",
        limits={"review": {"iterations": 4}, "loop": {"no_progress": 6}},
        timeouts_us={
            "loop": {"idle_timeout": 90 * MINUTE, "cooldown": 0},
            "task": {"within.in_progress": 2 * HOUR},
        },
        budget=Budget(uusd=1, tokens=1000, wall_us=None),
        retry_every_us=90 * SECOND,
        fallback=("codex", "acp:gemini --acp"),
        policy="strict",
        sandbox="required",
        network_agent="loopback",
        network_proof="none",
        hosts=("docs.python.org", "*.example.com:8443", "[::1]:80"),
        view="strict",
        pass_env=("NPM_TOKEN",),
        lent={"aider": Lent(env=("MY_KEY",), reads=("~/.aider.conf.yml",), writes=("/srv/cache",))},
    )


def test_every_field_of_settings_has_a_key() -> None:
    fields = {entry.field.split(".")[0] for entry in KEYS.values() if entry.field}
    made = {"agents", "lent", "limits", "timeouts_us", "policy_hash"}
    assert fields | made == set(Settings.__struct_fields__)


@pytest.mark.parametrize(
    ("machine", "only_here"),
    [
        ("build", {"iterations", "fix", "no_progress", "same_error"}),
        ("loop", {"no_progress", "same_error", "cooldown", "probe"}),
        ("review", {"iterations", "no_progress", "same_error"}),
        ("task", {"failures", "cto"}),
        ("cto", {"no_progress", "same_error", "failures"}),
    ],
)
def test_a_machine_has_the_limits_that_do_something_in_it(machine: str, only_here: set[str]) -> None:
    everywhere = {"turns", "calls", "call_errors", "same_action", "retries", "phase_timeout", "idle_timeout"}
    known = {name for name in limits_of(shipped(machine)) if "." not in name}
    assert known == everywhere | only_here
    assert known <= set(LIMITS)


@pytest.mark.parametrize(
    ("machine", "limit"),
    [
        ("loop", "fix=2"),
        ("loop", "iterations=2"),
        ("build", "cooldown=1m"),
        ("build", "writ=1"),
        ("task", "within.x=1m"),
    ],
)
def test_a_limit_that_the_machine_does_not_have_is_refused_with_those_it_has(
    home: Path, machine: str, limit: str
) -> None:
    for given in (f"limits.{limit}", f"limits.{machine}.{limit}"):
        message = refused(home, given, machine=machine)
        name = limit.partition("=")[0]
        assert f"--set: the machine '{machine}' has no limit '{name}'" in message
        assert all(known in message for known in limits_of(shipped(machine)) if "." not in known)


def test_any_state_in_a_machines_own_most_can_be_limited(home: Path) -> None:
    own_machine(home, "docs")
    assert loaded(home, "limits.draft=2", machine="docs").settings().limits == {"docs": {"draft": 2}}
    assert "has no limit 'check'" in refused(home, "limits.check=2", machine="docs")


def own_machine(home: Path, name: str) -> None:
    table = """
name  = "%s"
start = "draft"
[states]
draft = { do = "agent:author", on = { worked = "check" } }
check = { do = "agent:reviewer", on = { passed = "over", rejected = "draft", unproven = "draft" } }
over  = { end = "success" }
[anywhere]
on = { blocked = "@blocked", exhausted = "@fail", timeout = "@fail", error = "@fail", cancel = "@cancel" }
[most]
draft = 3
turns = 9
"""
    folder = home / "repo/.flyball/machines"
    folder.mkdir()
    (folder / f"{name}.toml").write_text(table % name)


def test_a_bare_limit_means_the_machine_of_the_run(home: Path) -> None:
    repo(home, "[limits]\niterations = 4\nphase_timeout = '5m'\n")
    assert loaded(home).settings().limits == {"build": {"iterations": 4}}
    assert loaded(home).settings(shipped("review")).limits == {"review": {"iterations": 4}}
    repo(home, "[limits]\nphase_timeout = '5m'\n")
    assert loaded(home, machine="loop").settings().timeouts_us == {"loop": {"phase_timeout": 5 * MINUTE}}


def test_in_one_file_a_machines_own_limit_beats_the_bare_one(home: Path) -> None:
    repo(home, "[limits.build]\nfix = 1\n[limits]\nfix = 2\n")
    user(home, "[limits.build]\nfix = 9\n")
    assert loaded(home).settings().limits == {"build": {"fix": 1}}


def test_a_bare_limit_of_a_stronger_layer_beats_a_machines_own(home: Path) -> None:
    repo(home, "[limits.build]\niterations = 7\n")
    found = loaded(home, "limits.iterations=3")
    assert found.settings().limits == {"build": {"iterations": 3}}
    assert found.origin("limits.iterations") == found.origin("limits.build.iterations") == "--set"


def test_among_flags_the_last_wins(home: Path) -> None:
    assert loaded(home, "limits.fix=1", "limits.fix=0").settings().limits == {"build": {"fix": 0}}


def test_a_repositorys_own_machine_has_limits_too(home: Path) -> None:
    own_machine(home, "night-shift")
    env = {"FLYBALL_LIMITS_NIGHT_SHIFT_TURNS": "7"}
    assert loaded(home, env=env).settings().limits == {"night-shift": {"turns": 7}}


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("FLYBALL_BUDGET_USD", "none", "budget", Budget(uusd=None)),
        ("FLYBALL_AGENTS_DEFAULT", "mechanic", "agents", {"default": "mechanic"}),
        ("FLYBALL_LIMITS_LOOP_NO_PROGRESS", "8", "limits", {"loop": {"no_progress": 8}}),
        ("FLYBALL_LIMITS_NO_PROGRESS", "8", "limits", {"build": {"no_progress": 8}}),
        ("FLYBALL_GUARD_NETWORK_AGENT", "none", "network_agent", "none"),
        ("FLYBALL_RATE_LIMIT_RETRY_EVERY", "5s", "retry_every_us", 5 * SECOND),
        ("FLYBALL_PROOF_COMMANDS", "pytest -q, or not", "proof", ("pytest -q, or not",)),
        ("FLYBALL_PROOF_COMMANDS", '["a", "b"]', "proof", ("a", "b")),
        ("FLYBALL_RUN_BREAKPOINTS", "write, verify", "breakpoints", ("write", "verify")),
        ("FLYBALL_RUN_CONSENSUS", "true", "consensus", True),
        ("FLYBALL_BUDGET_TOKENS", "", "budget", Budget()),
    ],
)
def test_the_environment_sets_any_key(
    home: Path, name: str, value: str, field: str, expected: object
) -> None:
    assert getattr(loaded(home, env={name: value}).settings(), field) == expected


def test_the_machine_comes_from_the_environment_or_its_flag(home: Path) -> None:
    env = {"FLYBALL_RUN_MACHINE": "loop"}
    assert loaded(home, env=env).machine == "loop"
    flagged = loaded(home, env=env, machine="task")
    assert (flagged.machine, flagged.origin("run.machine")) == ("task", "--machine")


def test_a_variable_in_our_sections_that_is_no_setting_is_refused(home: Path) -> None:
    told = refused(home, env={"FLYBALL_BUDGET_USDD": "3"})
    assert told == (
        "The environment variable FLYBALL_BUDGET_USDD is not a setting (did you mean 'FLYBALL_BUDGET_USD'?); "
        "correct or unset it."
    )
    assert refused(home, env={"FLYBALL_BUDGET_MONEY": "3"}).startswith(
        "The environment variable FLYBALL_BUDGET_"
    )
    assert "FLYBALL_RUN_MACHINE'?" in refused(home, env={"FLYBALL_RUN_MACHIN": "loop"})


def test_variables_of_other_kinds_are_left_alone(home: Path) -> None:
    others = {"FLYBALL_STATE_DIR": "/x", "FLYBALL_RUN_ID": "r1", "FLYBALL_SOCKET": "/s", "BUDGET_USD": "x"}
    assert loaded(home, env=others).settings() == loaded(home).settings()


def test_breakpoints_of_flags_add_to_the_configured(home: Path) -> None:
    repo(home, "[run]\nbreakpoints = ['write']\n")
    found = loaded(home, breakpoints=["verify", "write"])
    assert found.settings().breakpoints == ("write", "verify")
    assert found.origin("run.breakpoints") == "--breakpoint"


def test_one_agent_plays_every_role_but_those_named_beside_it(home: Path) -> None:
    repo(home, "[agents]\nreviewer = 'codex'\ncoder = 'codex'\n")
    found = loaded(home, agents=["coder=claude", "mechanic"])
    assert found.settings().agents == {"default": "mechanic", "coder": "claude"}
    assert loaded(home, agents=["coder=claude"]).settings().agents == {
        "reviewer": "codex",
        "coder": "claude",
    }


def test_the_rows_show_each_value_as_it_is_written_and_where_it_is_from(home: Path) -> None:
    repo(
        home,
        "[budget]\nwall = '90m'\n[limits.loop]\ncooldown = 'none'\n",
    )
    rows = {row.key: (row.value, row.origin) for row in loaded(home, "limits.fix=2").rows()}
    here = "repository .flyball/flyball.toml"
    assert rows["budget.wall"] == ("1h30m", here)
    assert rows["budget.usd"] == ("5.0", "default")
    assert rows["limits.loop.cooldown"] == ("none", here)
    assert rows["limits.build.fix"] == (2, "--set")
    assert rows["run.consensus"] == (False, "default")
    assert rows["workspace.share"] == ([], "default")


# ---- refusals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[budget]\nusd = -1", "budget.usd is -1, but must be dollars from 0"),
        ("[budget]\nusd = 0.0000001", "budget.usd is 1E-7, but must be dollars"),
        ("[budget]\nusd = inf", "budget.usd is Infinity"),
        ("[budget]\nusd = nan", "budget.usd is NaN"),
        ("[budget]\nusd = 1e-400000000", "budget.usd is 1E-400000000"),
        ("[budget]\nusd = '5'", "budget.usd is '5', but must be dollars"),
        ("[budget]\nusd = true", "budget.usd is true"),
        ("[budget]\ntokens = 1.5", "budget.tokens is 1.5, but must be a whole number from 0"),
        ("[budget]\nwall = 4", "budget.wall is 4, but must be a duration"),
        ("[budget]\nwall = '4 h'", "budget.wall is '4 h', but must be a duration"),
        ("[budget]\nwall = '400d'", "budget.wall is '400d'"),
        ("[budget]\nwall = ''", "budget.wall is ''"),
        ("[proof]\ntimeout = 'none'", "proof.timeout is 'none', but must be a duration from 1s to 366d"),
        ("[proof]\ntimeout = '0s'", "proof.timeout is '0s'"),
        ("[proof]\ncommands = 'pytest'", "proof.commands is 'pytest', but must be a list of commands"),
        ("[proof]\ncommands = [' ']", "none of them blank"),
        ("[proof]\ncommands = [1]", "must be a list of commands"),
        ("[workspace]\nshare = ['../x']", "must be a list of paths inside the repository"),
        ("[workspace]\nshare = ['.git/hooks']", "inside the repository"),
        ("[run]\ncommit = 'no'", "run.commit is 'no', but must be one of branch, merge, pr"),
        ("[workspace]\nshare = ['/etc']", "must be a list of paths inside the repository"),
        ("[workspace]\nshare = ['a', 'a/']", "none of them twice"),
        ("[run]\nreview = 'off'", "run.review is 'off', but must be one of unless-done, always"),
        ("[run]\nconsensus = 'true'", "run.consensus is 'true', but must be true or false"),
        ("[run]\ndone_word = 'done'", "must be one upper-case word other than PASS and FAIL"),
        ("[run]\ndone_word = 'PASS'", "must be one upper-case word other than PASS and FAIL"),
        ("[run]\nmachine = 'a b'", "run.machine is 'a b', but must be the name of a machine"),
        ("[limits]\niterations = 0", "limits.iterations is 0, but must be a whole number from 1 to 1000000"),
        ("[limits]\nfix = -1", "limits.fix is -1, but must be a whole number from 0"),
        ("[limits]\nfix = true", "limits.fix is true"),
        ("[limits]\nfix = '3'", "limits.fix is '3'"),
        ("[limits.task]\ncto = 3", "limits.task.cto is 3, but must be a whole number from 0 to 2"),
        ("[limits]\nidle_timeout = 'none'", "limits.idle_timeout is 'none'"),
        ("[guard]\nsandbox = 'docker'", "one of auto, bwrap, landlock, none, required"),
        ("[guard]\nnetwork = 'all'", "'guard.network' is a table of settings"),
        (
            "[guard.network]\nagent = 'wifi'",
            "guard.network.agent is 'wifi', but must be one of none, loopback, model, all",
        ),
        ("[guard]\nhosts = ['user@example.com']", "must be a list of hosts"),
        ("[guard]\nhosts = ['example.com:99999']", "must be a list of hosts"),
        ("[guard]\nhosts = ['https://example.com']", "must be a list of hosts"),
        ("[guard]\npass_env = ['HOME']", "must be a list of names of environment variables"),
        ("[agents.aider]\nreads = ['~']", "must be a list of absolute paths"),
        ("[agents.aider]\nreads = ['/']", "must be a list of absolute paths"),
        ("[agents.aider]\nwrites = ['~/../x']", "must be a list of absolute paths"),
        ("budget = 5", "'budget' is a table of settings"),
        ("[budget.usd]\nmost = 5", "budget.usd is"),
        (
            "[agents]\ndefault = 'cluade'",
            "agents.default: There is no agent 'cluade' (did you mean 'claude'?)",
        ),
        ("[rate_limit]\nfallback = ['x']", "rate_limit.fallback: There is no agent 'x'"),
    ],
)
def test_a_wrong_value_is_refused_with_file_key_and_what_is_allowed(home: Path, text: str, told: str) -> None:
    repo(home, text)
    message = refused(home)
    assert message.startswith(".flyball/flyball.toml: ")
    assert told in message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[budget]\nusb = 5", "there is no setting 'budget.usb' (did you mean 'budget.usd'?)"),
        ("[bugdet]\nusd = 5", "there is no setting 'bugdet' (did you mean 'budget'?)"),
        (
            "[limits]\niteratons = 5",
            "the machine 'build' has no limit 'iteratons' (did you mean 'iterations'?); it has ",
        ),
        ("[limits.lop]\nturns = 5", "there is no machine 'lop' (did you mean 'loop'?)"),
        ("[limits.loop.sub]\nturns = 5", "there is no setting 'limits.loop.sub'"),
        ("[agents]\nrewiever = 'codex'", "(did you mean 'agents.reviewer'?)"),
        ("[limits]\n'loop.turns' = 5", "there is no setting 'limits.loop.turns'"),
        ("[nothing]\n", "there is no setting 'nothing'"),
        ("[upp]\nparallel = 1", "there is no setting 'upp'"),
        ("[governance]\nfiles = []", "there is no setting 'governance'"),
        ("[tasks]\nplan = 'a.md'", "there is no setting 'tasks'"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known(home: Path, text: str, told: str) -> None:
    repo(home, text)
    assert told in refused(home)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("limits.iterations=3.0", "--set: limits.iterations is '3.0', but must be a whole number"),
        ("limits.iterations=", "limits.iterations is ''"),
        ("limits.iterations= 3", "limits.iterations is ' 3'"),
        ("limits.iterations=+3", "limits.iterations is '+3'"),
        ("limits.iterations=\u0663", "limits.iterations is"),
        ("limits.iterations=1_0", "limits.iterations is '1_0'"),
        ("budget.usd=$5", "budget.usd is '$5'"),
        ("budget.usd=5,50", "budget.usd is '5,50'"),
        ("budget.usd=nan", "budget.usd is 'nan'"),
        ("run.require_test_pass=no", "but must be true or false"),
        ("proof.commands=[ -f x ]", "where it begins with a bracket"),
        ("limits.iterations", "--set takes key=value"),
        ("=3", "--set takes key=value"),
        ("max-iterations=3", "there is no setting 'max-iterations'"),
        ("limits=3", "'limits' is a table of settings"),
    ],
)
def test_a_flag_that_cannot_be_read_is_refused_never_ignored(home: Path, given: str, told: str) -> None:
    message = refused(home, given)
    assert told in message
    assert "xoxb" not in message


def test_a_wrong_variable_is_named(home: Path) -> None:
    assert refused(home, env={"FLYBALL_BUDGET_USD": "five"}).startswith(
        "Environment variable FLYBALL_BUDGET_USD: budget.usd is 'five', but must be dollars from 0 to"
    )


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"[budget]\nusd = \n", "flyball.toml is not valid TOML: Invalid value (at line 2, column 7)"),
        (b"[run]\nmachine = 'a'\nmachine = 'b'\n", "line 3"),
        (b"[budget", "line 1"),
        (b"a = " + b"[" * 5000, "nested too deeply"),
        (b"a = " + b"9" * 5000, "number that is too long"),
        (b"# ok\n# \xff\n", "is not UTF-8 text (line 2)"),
        (b"#" * 1_000_001, "larger than a megabyte"),
    ],
)
def test_a_broken_file_is_named_with_its_line(home: Path, data: bytes, told: str) -> None:
    (home / "repo/.flyball/flyball.toml").write_bytes(data)
    assert told in refused(home)


def test_a_broken_user_file_is_named_by_its_path(home: Path) -> None:
    user(home, "x")
    assert refused(home).startswith(f"{home}/home/.config/flyball/config.toml is not valid TOML")


def test_what_is_no_regular_file_is_refused_without_waiting(home: Path) -> None:
    os.mkfifo(home / "repo/.flyball/flyball.toml")
    assert "is not a regular file" in refused(home)


def test_a_file_in_the_place_of_the_folder_is_refused(home: Path) -> None:
    (home / "repo/.flyball").rmdir()
    (home / "repo/.flyball").write_text("")
    assert "cannot be " in refused(home)


def test_a_byte_order_mark_is_no_fault(home: Path) -> None:
    (home / "repo/.flyball/flyball.toml").write_bytes(b"\xef\xbb\xbf[guard]\nprocesses = 99\n")
    assert loaded(home).settings().processes == 99


def test_what_is_hashed_is_what_was_read(home: Path) -> None:
    folder = home / "repo/.flyball"
    (folder / "prompts").mkdir()
    (folder / "prompts/coder.md").write_text("Be brief.\n")
    (folder / "prompts/.hidden").write_text("")
    (folder / "policy.toml").write_text("# rules\n")
    found = loaded(home)
    assert found.hashes == {
        ".flyball/policy.toml": hashlib.sha256(b"# rules\n").hexdigest(),
        ".flyball/prompts/coder.md": hashlib.sha256(b"Be brief.\n").hexdigest(),
    }
    assert found.files[".flyball/prompts/coder.md"].text == "Be brief.\n"
    assert found.settings().policy_hash == found.hashes[".flyball/policy.toml"]


# ---- values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "uusd"),
    [("0", 0), ("5", 5_000_000), ("0.1", 100_000), ("12.345678", 12_345_678), ("0.30", 300_000)],
)
def test_money_is_exact(text: str, uusd: int) -> None:
    assert Money().text(text) == uusd


@pytest.mark.parametrize(
    ("uusd", "text"), [(0, "0.0"), (1, "0.000001"), (5_000_000, "5.0"), (250_000, "0.25")]
)
def test_money_is_written_as_it_is_read(uusd: int, text: str) -> None:
    assert dollars(uusd) == text
    assert Money().text(text) == uusd


# ---- agents ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("claude", AgentSpec("claude")),
        ("codex", AgentSpec("codex")),
        ("mechanic", AgentSpec("mechanic")),
        ("acp:gemini --acp", AgentSpec("acp", "gemini --acp")),
        ("command:env A=1 my:tool", AgentSpec("command", "env A=1 my:tool")),
        ("script:/s/a.yaml", AgentSpec("script", "/s/a.yaml")),
        ("script:a.yaml", AgentSpec("script", "/cwd/a.yaml")),
    ],
)
def test_agents_are_read(text: str, spec: AgentSpec) -> None:
    assert parse_agent(text, Path("/cwd")) == spec
    assert parse_agent(str(spec)) == spec


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "There is no agent ''; known are claude, codex, acp:COMMAND"),
        ("gpt", "There is no agent 'gpt'"),
        ("gemini", "write 'acp:gemini --acp'"),
        ("claude:opus", "takes nothing after its name"),
        ("script:", "lacks its file; write script:FILE"),
        ("command:  ", "lacks its command; write command:COMMAND"),
        ("Claude", "(did you mean 'claude'?)"),
    ],
)
def test_what_is_no_agent_is_refused(text: str, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_agent(text)
    assert told in str(error.value)


def test_an_unknown_role_is_refused(home: Path) -> None:
    assert parse_role("coder") == "coder"
    assert refused(home, agents=["codr=claude"]).startswith(
        "There is no role 'codr' (did you mean 'coder'?);"
    )


def test_an_equals_sign_in_a_command_names_no_role(home: Path) -> None:
    assert loaded(home, agents=["command:x A=1"]).settings().agents == {"default": "command:x A=1"}


def test_a_relative_script_is_taken_from_where_it_was_written(home: Path) -> None:
    repo(home, "[agents]\ncoder = 'script:a.yaml'\n")
    user(home, "[rate_limit]\nfallback = ['script:b.yaml']\n")
    found = loaded(home, agents=["critic=script:c.yaml"]).settings()
    assert found.agents["coder"] == f"script:{home}/repo/a.yaml"
    assert found.agents["critic"] == f"script:{home}/c.yaml"
    assert found.fallback == (f"script:{home}/home/.config/flyball/b.yaml",)


# ---- init -----------------------------------------------------------------------------------------------


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "commands"),
    [
        ({}, []),
        ({"pyproject.toml": "[tool.pytest.ini_options]"}, ["python -m pytest -q"]),
        ({"setup.cfg": "[tool:pytest]\naddopts =\n    -q --strict-markers\n"}, ["python -m pytest"]),
        ({"pytest.ini": "[pytest]\naddopts = --q-else --in-q", "tox.ini": "-q"}, ["python -m pytest -q"]),
        ({"tests/test_a.py": "def test_a(): ..."}, ["python -m pytest -q"]),
        ({"tests/test_a.py": "import unittest"}, ["python -m unittest discover -q -s tests"]),
        ({"tests/test_a.py": "import unittest", "tests/__init__.py": ""}, ["python -m unittest discover -q"]),
        ({"test_a.py": "import unittest"}, ["python -m unittest discover -q"]),
        ({"tests/a_test.py": "import unittest"}, ["python -m unittest discover -q -s tests -p '*_test.py'"]),
        ({"tests/a_test.py": "def test_a(): ..."}, ["python -m pytest -q"]),
        (
            {"pytest.ini": "", "tests/test_a.py": "import unittest"},
            ["python -m pytest -q", "python -m unittest discover -q -s tests"],
        ),
        ({"src/a/tests/test_a.py": "def test_a(): ..."}, ["python -m pytest -q"]),
        ({"a/test/test_a.py": "def test_a(): ..."}, ["python -m pytest -q"]),
        ({"tests/tests.py": "import pytest"}, ["python -m pytest -q tests/tests.py"]),
        (
            {"tests/tests.py": "import pytest", "setup.cfg": "python_files = tests.py"},
            ["python -m pytest -q"],
        ),
        (
            {"tests/test_a.py": "import unittest", "tests/__main__.py": ""},
            ["python -m unittest discover -q -s tests", "python -m tests"],
        ),
        ({"manage.py": "", "shop/tests.py": "from django.test import TestCase"}, ["python manage.py test"]),
        ({"pytest.ini": "", ".venv/bin/python": ""}, [".venv/bin/python -m pytest -q"]),
        ({"package.json": '{"scripts": {"test": "vitest"}}'}, ["npm test"]),
        ({"package.json": '{"scripts": {"test": "vitest"}}', "pnpm-lock.yaml": ""}, ["npm test"]),
        ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\""}}'}, []),
        ({"package.json": "[1"}, []),
        ({"package.json": "[]"}, []),
        ({"Cargo.toml": ""}, ["cargo test"]),
        ({"go.mod": "", "Makefile": "test: build\n\tgo test\n"}, ["go test ./...", "make test"]),
        ({"Makefile": "test := 3\nall:\n"}, []),
        ({".venv/lib/test_x.py": "def test_x(): ..."}, []),
    ],
)
def test_the_test_command_is_found(tmp_path: Path, files: dict[str, str], commands: list[str]) -> None:
    assert [found.command for found in detect(put(tmp_path, files)).tests] == commands


def test_the_runner_of_the_lock_file_is_used_where_it_is_installed(tmp_path: Path) -> None:
    put(tmp_path, {"package.json": '{"scripts": {"test": "vitest"}}', "pnpm-lock.yaml": "", "bin/pnpm": ""})
    (tmp_path / "bin/pnpm").chmod(0o755)
    assert detect(tmp_path, path=str(tmp_path / "bin")).tests[0].command == "pnpm test"


def test_environments_that_git_does_not_track_are_shared(tmp_path: Path) -> None:
    put(tmp_path, {".venv/.gitignore": "*\n", "venv/x": "", "env/pyvenv.cfg": "", "virtualenv/x": "", "packages/a/node_modules/b/node_modules/x": ""})  # fmt: skip
    assert detect(tmp_path).share == (".venv", "venv", "env", "packages/a/node_modules")
    assert detect(tmp_path, tracked=["venv"]).share == (".venv", "env", "packages/a/node_modules")
    assert detect(tmp_path, folder="packages/b").share == (".venv", "venv", "env")


def test_a_folder_of_a_repository_has_its_own_tests(tmp_path: Path) -> None:
    put(
        tmp_path,
        {".git/HEAD": "", ".venv/bin/python": "", "a b/pytest.ini": "", "c/x": "", "Makefile": "test:\n"},
    )
    assert detect(tmp_path, folder="a b").tests[0].command == "cd 'a b' && ../.venv/bin/python -m pytest -q"
    assert detect(tmp_path, folder="c").tests[0].command == "make test"


def test_agents_are_found_on_the_path_given(tmp_path: Path) -> None:
    for name in ("gemini", "codex"):
        put(tmp_path, {name: "#!/bin/sh\n"})
        (tmp_path / name).chmod(0o755)
    assert detect(tmp_path, path=str(tmp_path)).agents == ("codex", "gemini")
    assert detect(tmp_path, path="").agents == ()


def test_what_init_writes_says_what_was_found_and_changes_nothing_else(home: Path) -> None:
    tests = (
        ProofCommand('python -m pytest -q -k "a"', "there is pytest.ini"),
        ProofCommand("make test", "a target"),
    )
    repo(home, render_config(Detection(tests, (".venv",), ("opencode",))))
    assert loaded(home).settings() == Settings(
        agents={"default": "acp:opencode acp"}, proof=('python -m pytest -q -k "a"',), share=(".venv",)
    )


def test_every_commented_line_of_init_is_the_true_default(home: Path) -> None:
    lines = [
        line.removeprefix("# ")
        for line in render_config(Detection()).splitlines()
        if " = " in line or line.startswith("[")
    ]
    repo(home, "\n".join(line for line in lines if "my-" not in line))
    found = loaded(home)
    assert {row.key for row in found.rows() if row.origin != "default"} >= set(USUAL)
    assert found.settings() == Settings(
        limits={"build": dict(shipped("build").most)},
        timeouts_us={"build": {"phase_timeout": 30 * MINUTE, "idle_timeout": 10 * MINUTE}},
    )


@pytest.mark.parametrize("command", ["python -m pytest -q", "cargo test"])
def test_the_agents_that_init_names_can_be_used(command: str) -> None:
    text = render_config(Detection((ProofCommand(command, "why"),), (), ("claude", "codex")))
    named = re.findall(r'^(?:# )?(?:default|reviewer) = "([^"]+)"', text, re.M)
    assert len(named) == 2
    assert all(adapter(agent) for agent in named)


def test_a_run_that_began_with_settings_of_old_still_folds() -> None:
    """Journals hold settings that are gone; they are read without them."""
    first = RunBegan(
        at=1, run="r", machine="build", table=shipped("build").table, settings=Settings(), task="x"
    )
    body = msgspec.json.decode(msgspec.json.encode(first))
    gone = {"parallel": 2, "notify": ["x://y"], "governance": ["a"], "task_plan": "b", "commit": "pr"}
    body["settings"] = {**gone, "review": "always"}
    run = fold(None, [decode(msgspec.json.encode(body))])
    assert (run.settings.review, run.settings.commit, run.state) == ("always", "pr", "plan")
