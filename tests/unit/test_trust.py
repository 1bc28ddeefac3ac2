"""A tracked file tightens freely; a program, an address or a loosening in it needs a yes bound to its bytes."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flyball.authority.trust import Need, TrustStore, is_tracked, needs, refusal, untrusted
from flyball.config.detect import Detection, ProofCommand, render_config
from flyball.config.load import REPO_FILE, LoadedConfig, load
from flyball.config.loosening import AT_LEAST
from flyball.errors import ConfigError, Untrusted

SHA = "a" * 64


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "repo/.flyball").mkdir(parents=True)
    return tmp_path / "repo"


def loaded(root: Path, text: str, user: str = "", **flags: object) -> LoadedConfig:
    (root / REPO_FILE).write_text(text)
    config = root.parent / "config/flyball/config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(user)
    env = {"HOME": str(root.parent), "XDG_CONFIG_HOME": str(root.parent / "config")}
    return load(root, env, cwd=root, **flags)  # type: ignore[arg-type]


def asked(root: Path, text: str, user: str = "", **flags: object) -> list[str]:
    return [need.sentence for need in needs(loaded(root, text, user, **flags), {REPO_FILE})]


LOOSE = [
    ("proof.commands", "commands = ['pytest']", "runs 'pytest'"),
    ("proof.timeout", "timeout = '11m'", "loosens to 11m (it was 10m)"),
    ("workspace.setup", "setup = ['make deps', 'x']", "runs 'make deps', 'x'"),
    ("agents.coder", "coder = 'command:evil --now'", "runs 'command:evil --now'"),
    ("agents.default", "default = 'acp:x'", "runs 'acp:x'"),
    ("agents.default", "default = 'script:/a.yaml'", "runs 'script:/a.yaml'"),
    ("rate_limit.fallback", "fallback = ['codex', 'command:x']", "runs 'command:x'"),
    ("budget.usd", "usd = 5.01", "loosens to 5.01 (it was 5.0)"),
    ("budget.usd", "usd = 'none'", "loosens to none (it was 5.0)"),
    ("budget.tokens", "tokens = 3_000_000", "loosens to 3000000 (it was 2000000)"),
    ("budget.wall", "wall = '5h'", "loosens to 5h (it was 4h)"),
    ("guard.sandbox", "sandbox = 'none'", "loosens to none (it was auto)"),
    ("guard.sandbox", "sandbox = 'landlock'", "loosens to landlock (it was auto)"),
    ("guard.network.proof", "network = { proof = 'all' }", "loosens to all (it was loopback)"),
    ("guard.policy", "policy = 'lax'", "loosens to lax (it was default)"),
    ("run.require_test_pass", "require_test_pass = false", "loosens to false (it was true)"),
    ("run.commit", "commit = 'merge'", "loosens to merge (it was branch)"),
    ("limits.iterations", "iterations = 11", "loosens to 11 (it was 10)"),
    ("limits.retries", "retries = 4", "loosens to 4 (it was 3)"),
    ("limits.idle_timeout", "idle_timeout = '11m'", "loosens to 11m (it was 10m)"),
    ("limits.phase_timeout", "phase_timeout = '31m'", "loosens to 31m (it was 30m)"),
    ("limits.cooldown", "cooldown = '1h'", "loosens to 1h (it was none)"),
    ("limits.turns", "turns = 1", "loosens to 1 (no limit is known)"),
]


@pytest.mark.parametrize(("key", "line", "told"), LOOSE)
def test_a_program_an_address_or_a_loosening_is_asked_about(
    root: Path, key: str, line: str, told: str
) -> None:
    found = needs(loaded(root, f"[{key.split('.')[0]}]\n{line}\n"), {REPO_FILE})
    assert found == [Need(REPO_FILE, key, f"{key} {told}")]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[agents]\ndefault = 'codex'\ncoder = 'mechanic'\n",
        "[budget]\nusd = 1\ntokens = 0\nwall = '1h'\n",
        "[limits]\niterations = 10\nfix = 0\nphase_timeout = '5m'\nidle_timeout = '1m'\ncooldown = 'none'\n",
        "[run]\nreview = 'always'\nconsensus = true\nbreakpoints = ['write']\nmachine = 'loop'\ndone_word = 'OK'\n",
        "[guard]\nsandbox = 'required'\nnetwork = { agent = 'loopback', proof = 'none' }\n",
        "[workspace]\nshare = ['.venv']\n",
        "[proof]\ncommands = []\ntimeout = '1m'\n",
        "[rate_limit]\nfallback = ['codex']\nretry_every = '2m'\n",
    ],
)
def test_a_tightening_or_a_plain_choice_is_free(root: Path, text: str) -> None:
    assert asked(root, text) == []


@pytest.mark.parametrize(
    ("user", "text", "told"),
    [
        ("[budget]\nusd = 1\n", "[budget]\nusd = 2\n", ["budget.usd loosens to 2.0 (it was 1.0)"]),
        ("[budget]\nusd = 'none'\n", "[budget]\nusd = 900\n", []),
        ("[budget]\nusd = 50\n", "[budget]\nusd = 20\n", []),
        ("[limits.build]\nfix = 1\n", "[limits]\nfix = 2\n", ["limits.fix loosens to 2 (it was 1)"]),
        ("[limits]\nfix = 9\n", "[limits.build]\nfix = 5\n", []),
        ("[proof]\ncommands = ['a', 'b']\n", "[proof]\ncommands = ['b']\n", ['proof.commands loosens to ["b"] (it was ["a", "b"])']),
        ("[proof]\ncommands = ['a']\n", "[proof]\ncommands = ['a']\n", []),
        ("[run]\nbreakpoints = ['write']\n", "[run]\nbreakpoints = ['test']\n", ['run.breakpoints loosens to ["test"] (it was ["write"])']),
        ("[run]\nreview = 'always'\n", "[run]\nreview = 'unless-done'\n", ["run.review loosens to unless-done (it was always)"]),
        ("[run]\nconsensus = true\n", "[run]\nconsensus = false\n", ["run.consensus loosens to false (it was true)"]),
        ("[run]\ncommit = 'merge'\n", "[run]\ncommit = 'branch'\n", []),
        ("[limits]\ncooldown = '1h'\n", "[limits]\ncooldown = '2h'\n", []),
        ("[limits]\ncooldown = '1h'\n", "[limits]\ncooldown = '1m'\n", ["limits.cooldown loosens to 1m (it was 1h)"]),
        ("", "[limits.loop]\nturns = 51\n", ["limits.loop.turns loosens to 51 (it was 50)"]),
    ],
)  # fmt: skip
def test_what_is_looser_is_measured_against_the_users_own_layer(
    root: Path, user: str, text: str, told: list[str]
) -> None:
    assert asked(root, text, user) == told


def test_a_bare_limit_is_weighed_for_the_machine_of_the_run(root: Path) -> None:
    found = loaded(root, "[limits]\nno_progress = 8\n")
    assert needs(found, {REPO_FILE}, "cto") == []
    assert [need.key for need in needs(found, {REPO_FILE}, "loop")] == ["limits.no_progress"]


def test_what_a_flag_overrides_is_not_asked_about(root: Path) -> None:
    text = "[agents]\ndefault = 'command:x'\ncoder = 'command:y'\n[budget]\nusd = 90\n"
    assert len(asked(root, text)) == 3
    assert asked(root, text, agents=["mechanic"], sets=["budget.usd=1"]) == []


def test_a_file_that_git_does_not_track_is_the_users_own(root: Path) -> None:
    assert needs(loaded(root, "[proof]\ncommands = ['x']\n"), {"src/a.py"}) == []


@pytest.mark.parametrize(
    ("tracked", "expected"),
    [
        ({".flyball/flyball.toml"}, True),
        ({".flyball"}, True),  # a link or a submodule
        ({".Flyball/FLYBALL.toml"}, True),
        ({".flyball/policy.toml"}, False),
        ({".flyball/flyball.toml.bak"}, False),
        (set[str](), False),
    ],
)
def test_a_way_through_a_tracked_link_is_tracked(tracked: set[str], expected: bool) -> None:
    assert is_tracked(REPO_FILE, tracked) is expected


def test_machines_prompts_and_policy_are_asked_about_as_a_whole(root: Path) -> None:
    for name in ("machines/build.toml", "machines/mine.toml", "prompts/reviewer.md", "policy.toml"):
        (root / ".flyball" / name).parent.mkdir(exist_ok=True)
        (root / ".flyball" / name).write_text("# text\n")
    found = loaded(root, "")
    told = {need.file: need.sentence for need in needs(found, {".flyball"})}
    assert told == {
        ".flyball/policy.toml": "it sets the rules of the guard",
        ".flyball/machines/build.toml": "it replaces the machine 'build', its states and limits",
        ".flyball/machines/mine.toml": "it defines the machine 'mine', its states and limits",
        ".flyball/prompts/reviewer.md": "it says what an agent is told ('reviewer')",
    }
    judged = needs(found, {".flyball/policy.toml"}, policy=lambda text: [f"loose: {text.strip()}"])
    assert judged == [Need(".flyball/policy.toml", "", "loose: # text")]
    assert needs(found, {".flyball/policy.toml"}, policy=lambda text: []) == []


def test_weaker_sandboxes_are_ordered_without_contradiction() -> None:
    for sandbox, tighter in AT_LEAST.items():
        assert sandbox in tighter
        assert all(set(AT_LEAST[other]) <= set(tighter) for other in tighter)


# ---- the answers ----------------------------------------------------------------------------------------


def test_a_yes_is_bound_to_repository_path_and_bytes(tmp_path: Path) -> None:
    store = TrustStore(tmp_path / "state")
    assert not store.trusted(tmp_path, REPO_FILE, SHA)
    store.trust(tmp_path, REPO_FILE, SHA)
    assert TrustStore(tmp_path / "state").trusted(tmp_path, REPO_FILE, SHA)
    assert not store.trusted(tmp_path, REPO_FILE, "b" * 64)
    assert not store.trusted(tmp_path, ".flyball/policy.toml", SHA)
    assert not store.trusted(tmp_path / "other", REPO_FILE, SHA)


def test_a_changed_file_is_asked_about_again(root: Path) -> None:
    store = TrustStore(root.parent / "state")
    first = loaded(root, "[proof]\ncommands = ['x']\n")
    store.trust(root, REPO_FILE, first.hashes[REPO_FILE])
    assert untrusted(needs(first, {REPO_FILE}), first, root, store) == []
    second = loaded(root, "[proof]\ncommands = ['x'] \n")
    assert len(untrusted(needs(second, {REPO_FILE}), second, root, store)) == 1


def test_what_init_wrote_can_be_trusted_at_once(root: Path) -> None:
    store = TrustStore(root.parent / "state")
    found = loaded(root, render_config(Detection((ProofCommand("make test", "a target"),))))
    assert [need.key for need in needs(found, {REPO_FILE})] == ["proof.commands"]
    store.trust(root, REPO_FILE, found.hashes[REPO_FILE])
    assert untrusted(needs(found, {REPO_FILE}), found, root, store) == []


def test_answers_are_readable_by_the_user_alone_and_leave_nothing_beside_them(tmp_path: Path) -> None:
    store = TrustStore(tmp_path / "state")
    store.trust(tmp_path, REPO_FILE, SHA)
    store.trust(tmp_path, REPO_FILE, SHA)
    (file,) = store.folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"repo": "elsewhere"}'])
def test_a_damaged_answer_is_a_no(tmp_path: Path, text: str) -> None:
    store = TrustStore(tmp_path / "state")
    store.trust(tmp_path, REPO_FILE, SHA)
    (file,) = store.folder.iterdir()
    file.write_text(text)
    assert not store.trusted(tmp_path, REPO_FILE, SHA)


def test_answers_given_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    hashes = [f"{n:064x}" for n in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda sha: TrustStore(tmp_path).trust(tmp_path, REPO_FILE, sha), hashes * 2))
    assert all(TrustStore(tmp_path).trusted(tmp_path, REPO_FILE, sha) for sha in hashes)
    assert len(list((tmp_path / "trust").iterdir())) == 40


def test_a_yes_can_be_taken_back(tmp_path: Path) -> None:
    store = TrustStore(tmp_path / "state")
    assert store.forget(tmp_path) == 0
    store.trust(tmp_path, REPO_FILE, SHA)
    store.trust(tmp_path / "other", REPO_FILE, SHA)
    assert store.forget(tmp_path) == 1
    assert not store.trusted(tmp_path, REPO_FILE, SHA)
    assert store.trusted(tmp_path / "other", REPO_FILE, SHA)


def test_an_answer_that_cannot_be_kept_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(ConfigError, match="Cannot save"):
        TrustStore(tmp_path / "state").trust(tmp_path, REPO_FILE, SHA)


def test_the_refusal_names_file_needs_and_both_ways_to_say_yes(root: Path) -> None:
    error = refusal(needs(loaded(root, "[budget]\nusd = 6\n[proof]\ncommands = ['x']\n"), {REPO_FILE}))
    assert isinstance(error, Untrusted)
    assert error.exit_code == 2
    assert str(error) == (
        "Not trusted yet: .flyball/flyball.toml (budget.usd loosens to 6.0 (it was 5.0), and "
        "proof.commands runs 'x'). Read it, then run `flyball trust`, or add --trust for this run only."
    )
