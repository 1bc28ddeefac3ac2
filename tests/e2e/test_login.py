"""A login in the user's home: lent to the agent, demanded and rotated by a model, and brought back whole."""

import json
import os
import shutil
import stat
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.e2e.helpers import FIXED, Place, folder_outside_tmp

from flyball.agents import process
from flyball.agents.login import Login
from flyball.agents.process import Spec

LOGIN = ".claude/.credentials.json"

# What a CLI does with its login: shows the token, gets a new one, and writes it in one of two ways.
CLI = """#!/usr/bin/python3
import json, os, pathlib, sys, urllib.request
file = pathlib.Path(os.environ["HOME"], ".claude/.credentials.json")
login = json.loads(file.read_text())
token = login["claudeAiOauth"]["accessToken"]
asked = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"], headers={"Authorization": "Bearer " + token})
login["claudeAiOauth"]["accessToken"] = urllib.request.urlopen(asked, timeout=20).read().decode()
if os.environ["FLYBALL_ROLE"] == "planner":
    file.write_text(json.dumps(login))
else:
    draft = file.with_suffix(".new")
    draft.write_text(json.dumps(login))
    draft.replace(file)
if os.environ["FLYBALL_ROLE"] == "coder":
    pathlib.Path("calc.py").write_text(FIXED)
print("OUTCOME: accepted" if os.environ["FLYBALL_ROLE"] == "critic" else "done")
"""


class Model:
    """Takes one token, once, and answers with the next one."""

    def __init__(self) -> None:
        self.count, self.refused = 0, list[str]()
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                token = (self.headers["Authorization"] or "").removeprefix("Bearer ")
                good = token == f"token-{model.count}"
                model.count += good
                if not good:
                    model.refused.append(token)
                self.send_response(200 if good else 401)
                self.end_headers()
                self.wfile.write(f"token-{model.count}".encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def model() -> Iterator[Model]:
    model = Model()
    yield model
    model.server.shutdown()
    model.server.server_close()


@pytest.fixture
def outside(request: pytest.FixtureRequest) -> Iterator[Place]:
    place = Place(folder_outside_tmp(request))
    yield place
    place.clear()
    shutil.rmtree(place.folder)


def log_in(home: Path, token: str = "token-0") -> Path:
    """As a dotfiles manager has it: the file in the home is a link."""
    kept = home / "dotfiles/credentials.json"
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(json.dumps({"claudeAiOauth": {"accessToken": token, "scopes": ["a"]}}))
    kept.chmod(0o600)
    file = home / LOGIN
    file.parent.mkdir(exist_ok=True)
    if not file.is_symlink():
        file.symlink_to(kept)
    return file


@pytest.mark.sampled(1)
@pytest.mark.parametrize("sandbox", ["bwrap", "landlock", "none"])
def test_a_rotated_login_reaches_the_users_file_in_every_turn(
    outside: Place, model: Model, sandbox: str
) -> None:
    home = outside.folder / "home"
    file = log_in(home)
    (home / ".ssh").mkdir()
    (home / ".ssh/id").write_text("secret")
    program = home / ".local/bin/claude"
    program.parent.mkdir(parents=True)
    program.write_text(CLI.replace("FIXED", repr(FIXED)))
    program.chmod(0o755)
    env = {"PATH": f"{program.parent}:{os.environ['PATH']}", "ANTHROPIC_BASE_URL": model.url}
    more = ("--set", 'proof.commands=["grep -q a.+.b calc.py"]', "--set", f"guard.sandbox={sandbox}")
    ran = outside.fb("run", "Fix add", "--agent", "command:claude", *more, env=env)
    assert (ran.code, model.refused) == (0, []), ran.err
    assert model.count == 3, "planner, coder and critic each took a token and left a new one"
    assert json.loads(file.read_text())["claudeAiOauth"] == {"accessToken": "token-3", "scopes": ["a"]}
    assert file.is_symlink() and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(path.name for path in file.resolve().parent.iterdir()) == ["credentials.json"]


@pytest.mark.parametrize(
    ("token", "login", "code"), [("token-0", "works", 0), ("of yesterday", "refused", 1)]
)
def test_a_login_is_tried_as_in_a_run(
    outside: Place, model: Model, token: str, login: str, code: int
) -> None:
    """The model demands the token and gives another, which reaches the user's file; what it refuses is said."""
    file = log_in(outside.folder / "home", token)
    program = outside.folder / "home/.local/bin/claude"
    program.parent.mkdir(parents=True)
    program.write_text(CLI.replace("FIXED", repr(FIXED)))
    program.chmod(0o755)
    env = {"PATH": f"{program.parent}:{os.environ['PATH']}", "ANTHROPIC_BASE_URL": model.url}
    tried = outside.fb("agents", "try", "command:claude", "--json", env=env)
    (found,) = tried.json
    assert (tried.code, found["login"]) == (code, login), tried
    assert ("To log in, run `claude` and type /login" in found["why"]) == (login == "refused")
    kept = json.loads(file.read_text())["claudeAiOauth"]["accessToken"]
    assert (model.count, kept) == ((1, "token-1") if login == "works" else (0, token))
    assert not list(outside.state.glob("trial-*"))


# ---- both sides, one step at a time


@pytest.fixture
def login(tmp_path: Path) -> Login:
    (tmp_path / "user").mkdir()
    (tmp_path / "private").mkdir()
    files = [[str(tmp_path / "user/auth.json"), ".codex/auth.json", True, []]]
    places = {"home": "private", "ledger": "ledger.json", "lock": "lock"}
    return Login({**{name: str(tmp_path / place) for name, place in places.items()}, "files": files})


def sides(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "user/auth.json", tmp_path / "private/.codex/auth.json"


def auth(token: str, account: str = "me") -> str:
    return json.dumps({"tokens": {"refresh_token": token, "account_id": account}, "last": token})


def test_what_was_rotated_before_a_crash_is_brought_back_before_it_is_lent_again(
    tmp_path: Path, login: Login
) -> None:
    user, ours = sides(tmp_path)
    user.write_text(auth("one"))
    login.share(lend=True)
    assert ours.read_text() == auth("one")
    ours.write_text(auth("two"))  # and the keeper was killed
    login.share(lend=True)
    assert user.read_text() == ours.read_text() == auth("two")


def test_what_another_program_rotated_reaches_the_agent_while_it_works(tmp_path: Path, login: Login) -> None:
    user, ours = sides(tmp_path)
    user.write_text(auth("one"))
    login.share(lend=True)
    login.share()
    login.next = 0
    assert not login.due()
    user.write_text(auth("two"))
    login.next = 0
    assert login.due()
    login.share()
    assert ours.read_text() == auth("two")


@pytest.mark.parametrize(
    "left",
    [
        "",
        '{"tokens": {"refresh_to',
        "[]",
        json.dumps({"last": "two"}),
        auth("two", account="another"),
        "x" * (1 << 21),
    ],
    ids=["empty", "half written", "a list", "a part is missing", "of another account", "too large"],
)
def test_only_a_whole_login_of_the_same_account_goes_back(tmp_path: Path, login: Login, left: str) -> None:
    user, ours = sides(tmp_path)
    user.write_text(auth("one"))
    login.share(lend=True)
    ours.write_text(left)
    login.share()
    assert user.read_text() == auth("one")


def test_a_copy_that_the_agent_removes_takes_nothing_away(tmp_path: Path, login: Login) -> None:
    user, ours = sides(tmp_path)
    user.write_text(auth("one"))
    login.share(lend=True)
    ours.unlink()
    login.share()
    assert user.read_text() == ours.read_text() == auth("one")


def test_if_both_have_changed_the_users_stands_and_the_other_is_kept(tmp_path: Path, login: Login) -> None:
    user, ours = sides(tmp_path)
    user.write_text(auth("one"))
    login.share(lend=True)
    user.write_text(auth("theirs"))
    ours.write_text(auth("ours"))
    login.share()
    assert user.read_text() == ours.read_text() == auth("theirs")
    assert (tmp_path / "ledger.json.kept").read_text() == auth("ours")


def test_while_another_program_writes_the_users_file_nothing_is_done(tmp_path: Path, login: Login) -> None:
    user, ours = sides(tmp_path)
    user.write_text(auth("one"))
    login.share(lend=True)
    user.write_text("")
    login.share()
    assert ours.read_text() == auth("one") and user.read_text() == ""


def test_no_link_of_the_agents_is_followed(tmp_path: Path, login: Login) -> None:
    user, ours = sides(tmp_path)
    user.write_text(auth("one"))
    login.share(lend=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "auth.json").write_text(auth("two"))
    ours.unlink()
    ours.symlink_to(elsewhere / "auth.json")
    login.share()
    assert user.read_text() == auth("one") and (elsewhere / "auth.json").read_text() == auth("two")
    shutil.rmtree(ours.parent)
    ours.parent.symlink_to(elsewhere)
    user.write_text(auth("three"))
    with pytest.raises(OSError, match=r".codex"):
        login.share()
    assert (elsewhere / "auth.json").read_text() == auth("two")


def test_a_keeper_brings_it_back_while_the_agent_still_works(tmp_path: Path, login: Login) -> None:
    user, _ = sides(tmp_path)
    user.write_text(auth("one"))
    login.share(lend=True)
    given = {"home": login.home, "ledger": login.ledger, "lock": login.lock, "files": login.files}
    write = f"echo '{auth('two')}' > {login.home}/.codex/auth.json; sleep 60"
    argv, act = ("/bin/sh", "-c", write), tmp_path / "act"
    process.begin(act, Spec(argv=argv, cwd="/", env={"PATH": os.environ["PATH"]}, login=given))
    deadline = time.monotonic() + 10
    while "two" not in user.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert json.loads(user.read_text()) == json.loads(auth("two"))
    process.end(act, now=True)
    assert process.attend(act).error == ""


SHOW = """#!/bin/sh
[ "$FLYBALL_ROLE" = coder ] || { echo "OUTCOME: accepted"; exit 0; }
{ echo "key=$ANTHROPIC_API_KEY other=$OTHER_KEY pass=$PASSED named=$NAMED"
  cat "$HOME/.claude.json"; echo; cat "$HOME/.toolrc"; cat "$HOME/.netrc"; } > seen.txt 2>&1
echo more >> "$HOME/.cache/tool"
sed -i 's/a - b/a + b/' calc.py
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("sandbox", ["bwrap", "landlock", "none"])
def test_keys_and_what_the_user_lends_are_seen_and_nothing_else(outside: Place, sandbox: str) -> None:
    home = outside.folder / "home"
    (home / ".claude").mkdir()
    (home / "key").write_text("key-from-helper")
    (home / ".claude/settings.json").write_text(json.dumps({"apiKeyHelper": f"cat {home}/key"}))
    (home / ".claude.json").write_text(
        json.dumps({"userID": "me", "projects": {"/other": {"history": ["x"]}}})
    )
    (home / ".toolrc").write_text("tool settings\n")
    (home / ".netrc").write_text("secret\n")
    (home / ".cache").mkdir()
    (home / ".cache/tool").write_text("cached\n")
    program = home / "bin/claude"
    program.parent.mkdir()
    program.write_text(SHOW)
    program.chmod(0o755)
    (home / ".config/flyball").mkdir(parents=True)
    (home / ".config/flyball/config.toml").write_text(
        '[agents.claude]\nenv = ["NAMED"]\nreads = ["~/.toolrc"]\nwrites = ["~/.cache/tool"]\n'
    )
    env = {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "OTHER_KEY": "hidden",
        "NAMED": "n",
        "PASSED": "p",
    }
    more = ("--set", 'proof.commands=["grep -q a.+.b calc.py"]', "--set", f"guard.sandbox={sandbox}")
    ran = outside.fb("run", "Fix add", "--agent", "command:claude", *more, "--pass-env", "PASSED", env=env)
    assert ran.code == 0, ran.err
    branch = outside.git("branch", "--list", "flyball/*", "--format=%(refname:short)")
    seen = outside.git("show", f"{branch}:seen.txt").splitlines()
    assert seen[0] == "key=key-from-helper other= pass=p named=n"
    assert [json.loads(seen[1]), *seen[2:3]] == [{"userID": "me"}, "tool settings"]
    assert "No such file" in seen[3]
    assert (home / ".cache/tool").read_text() == "cached\nmore\n"


def test_a_helper_that_fails_is_said_before_the_agent_starts(outside: Place) -> None:
    home = outside.folder / "home"
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").write_text(json.dumps({"apiKeyHelper": "echo no >&2; exit 3"}))
    program = home / "bin/claude"
    program.parent.mkdir()
    program.write_text(SHOW)
    program.chmod(0o755)
    ran = outside.fb(
        "run", "Fix add", "--agent", "command:claude", env={"PATH": f"{program.parent}:{os.environ['PATH']}"}
    )
    assert ran.code == 3
    assert "apiKeyHelper in ~/.claude/settings.json printed no key (exit code 3)" in ran.out + ran.err
