"""`commit = "pr"`: a certified commit becomes one pull request, whatever the forge does and whenever Flyball is killed."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.forge import Forge
from tests.e2e.helpers import ACCEPTS, FIXED, PROOF, Ran, Yard

from flyball.forge import Forge as Client, slug_of

CRASHING = Path(__file__).with_name("crash_driver.py")


@pytest.fixture
def forge() -> Iterator[Forge]:
    made = Forge()
    yield made
    made.close()


@pytest.fixture
def yard(tmp_path: Path, forge: Forge) -> Yard:
    """With a bare remote beside it."""
    made = Yard(tmp_path)
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "remote.git")], check=True)
    made.git("remote", "add", "origin", str(tmp_path / "remote.git"))
    made.env |= {"GITHUB_API_URL": forge.url, "GITHUB_TOKEN": "t0ken"}
    return made


def pushed(yard: Yard, run: str) -> str:
    words = ["git", "-C", str(yard.folder / "remote.git"), "rev-parse", "-q", "--verify", f"flyball/{run}"]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip()


def run(yard: Yard, *more: str) -> Ran:
    agent = yard.script(coder=[{"write": {"calc.py": FIXED}}], critic=ACCEPTS)
    return yard.play(agent, "--set", "run.commit=pr", "--set", "forge.repository=ann/calc", *more)


def retry(yard: Yard, ran: Ran) -> Ran:
    assert yard.flyball("answer", ran.question, "retry").returncode == 0
    return yard.resume()


def test_a_certified_commit_becomes_a_pull_request(yard: Yard, forge: Forge) -> None:
    ran = run(yard)
    assert ran.code == "completed" and pushed(yard, ran.run) == yard.git("rev-parse", f"flyball/{ran.run}")
    (pull,) = forge.pulls
    assert (pull["title"], pull["base"]) == ("Make add() add", "main")
    assert f"`{PROOF}` exited 0" in pull["body"] and f"flyball verify {ran.run}" in pull["body"]
    assert {token for _, token in forge.asked} == {"Bearer t0ken"}
    assert ran.pull_request == pull["html_url"]
    assert pull["html_url"] in yard.flyball("show", ran.run).stdout
    assert f"pull request {pull['html_url']}" in yard.flyball("log", ran.run).stdout
    done = yard.flyball("verify", ran.run, "--export", str(yard.folder / "certificate.json"))
    assert done.returncode == 0, done.stdout
    shown = json.loads(yard.flyball("show", ran.run, "--json").stdout)
    assert shown["certificate"] == ran.certificate
    message = yard.git("log", "-1", "--format=%(trailers:only,unfold)", f"flyball/{ran.run}").splitlines()
    assert message[0] == f"Flyball-Run: {ran.run}"
    assert message[1].startswith("Flyball-Certificate: ed25519:") and ran.run in message[1]
    assert yard.git("rev-parse", "main") != pushed(yard, ran.run), "the user's branch stays where it was"


FAILURES: list[tuple[str, Any]] = [
    *(("POST pulls", fails) for fails in (401, 403, 429, 500, "nothing", 422)),
    *(("GET pulls", fails) for fails in (404, "garbage")),
]


@pytest.mark.sampled(0)
def test_a_forge_that_fails_is_said_and_tried_again(yard: Yard, forge: Forge) -> None:
    """One run that meets every failure after another, and then gets its one pull request."""
    ran = None
    for call, fails in FAILURES:
        forge.refuses = {call: fails}
        ran = retry(yard, ran) if ran else run(yard)
        code = "wait.conflict" if fails == 422 else "wait.infrastructure"
        assert (ran.exit, ran.code, forge.pulls) == (3, code, [])
        said = ran.facts["question"]["text"]
        assert "ann/calc" in said and (isinstance(fails, str) or str(fails) in said) and "\n" not in said
    forge.refuses = {}
    assert ran and retry(yard, ran).code == "completed" and len(forge.pulls) == 1


def test_what_stands_in_the_way_of_a_push_is_said(yard: Yard, forge: Forge) -> None:
    yard.git("remote", "rename", "origin", "other")
    ran = run(yard)
    assert ran.code == "wait.infrastructure" and "no remote 'origin'" in ran.facts["question"]["text"]
    yard.git("remote", "add", "origin", str(yard.folder / "nowhere.git"))
    ran = retry(yard, ran)
    assert ran.code == "wait.infrastructure" and "cannot be pushed" in ran.facts["question"]["text"]
    yard.git("remote", "set-url", "origin", str(yard.folder / "remote.git"))
    hook = yard.folder / "remote.git" / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(hook.stat().st_mode | stat.S_IXUSR)
    ran = retry(yard, ran)
    assert ran.code == "wait.conflict" and "refuses flyball/" in ran.facts["question"]["text"]
    hook.unlink()
    assert retry(yard, ran).code == "completed" and len(forge.pulls) == 1


@pytest.mark.parametrize(("when", "at"), [("after", 4), ("before", 5), ("after", 5)])
def test_killed_around_it_there_is_one_pull_request(yard: Yard, forge: Forge, when: str, at: int) -> None:
    ran = run(yard, "--breakpoint", "verify")
    assert yard.flyball("answer", ran.question, "go-on").returncode == 0
    words = [sys.executable, str(CRASHING), when, str(at), str(yard.repo), "", ""]
    killed = subprocess.run(words, cwd=yard.repo, env=yard.env, capture_output=True, timeout=60)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    yard.flyball("resume", ran.run)
    assert len(forge.pulls) == 1
    assert (
        json.loads(yard.flyball("show", ran.run, "--json").stdout)["pull_request"]
        == forge.pulls[0]["html_url"]
    )
    assert yard.flyball("verify", ran.run).returncode == 0


def test_a_closed_pull_request_asks_and_the_token_may_come_from_gh(yard: Yard, forge: Forge) -> None:
    gh = yard.folder / "bin" / "gh"
    gh.parent.mkdir()
    gh.write_text('#!/bin/sh\n[ "$*" = "auth token" ] && echo from-gh\n')
    gh.chmod(0o755)
    del yard.env["GITHUB_TOKEN"]
    yard.env["PATH"] = f"{gh.parent}:{yard.env['PATH']}"
    forge.refuses = {"POST pulls": 500}
    ran = run(yard)
    forge.refuses = {}
    head = {"ref": f"flyball/{ran.run}"}
    forge.pulls = [{"number": 1, "html_url": "https://example.org/pull/1", "state": "closed", "head": head}]
    ran = retry(yard, ran)
    assert ran.code == "wait.conflict" and "was closed" in ran.facts["question"]["text"]
    forge.pulls[0]["state"] = "open"
    assert retry(yard, ran).code == "completed" and len(forge.pulls) == 1
    assert {token for _, token in forge.asked} == {"Bearer from-gh"}


CHECKS: dict[str, dict[str, str]] = {
    "none": {},
    "pending": {"a": "success", "b": ""},
    "green": {"a": "success", "b": "neutral"},
    "red": {"a": "failure", "b": ""},
}


@pytest.mark.parametrize("state", CHECKS)
def test_the_state_of_ci_is_that_of_all_checks(forge: Forge, state: str) -> None:
    forge.checks = CHECKS[state]
    told = Client("ann/calc", forge.url).ci("c" * 40)
    assert (told.state, told.failing) == (state, ("a",) if state == "red" else ())


ADDRESSES = {
    "git@github.com:ann/calc.git": "ann/calc",
    "https://github.com/ann/calc": "ann/calc",
    "ssh://git@github.com/ann/calc.git/": "ann/calc",
    "/srv/git/calc.git": "",
    "../calc": "",
}


@pytest.mark.parametrize("url", ADDRESSES)
def test_the_address_of_a_remote_names_the_repository(url: str) -> None:
    assert slug_of(url) == ADDRESSES[url]
