"""What holds everywhere, from the outside: errors, the user's repository, the tree that is proved, one driver a run."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from tests.e2e.helpers import ACCEPTS, FIXED, PROOF, STILL_BROKEN, Yard

GOOD_TURN = {"write": {"calc.py": FIXED}}
BWRAP = (
    subprocess.run(["sh", "-c", "bwrap --ro-bind / / true"], capture_output=True, check=False).returncode == 0
)
needs_bwrap = pytest.mark.skipif(
    not BWRAP, reason="bubblewrap does not work here; `make setup` installs it where it can"
)


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    made = Yard(tmp_path)
    yield made
    made.clear()


def good(yard: Yard) -> str:
    return yard.script(coder=[GOOD_TURN], critic=ACCEPTS)


def one_sentence(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Exit 2, no traceback, and the sentence names what is wrong."""
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr and len(done.stderr.strip().splitlines()) <= 4, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


# ---- SYS-11: bad input ---------------------------------------------------------------------------------------


def test_bad_input_is_one_sentence_and_nothing_begins(yard: Yard) -> None:
    agent, bad, empty, fresh = good(yard), *(yard.folder / name for name in ("bad.yaml", "empty", "fresh"))
    bad.write_text("roles: {coder: [{wirte: {a: b}}]}")
    empty.mkdir()
    subprocess.run(["git", "init", "-q", str(fresh)], check=True, env=yard.env)
    gone = json.dumps(["command:no-such-agent"])
    for words, named in (
        (("x", "--agent", "gpt9"), "gpt9 claude"),
        (("x", "--agent", "command:no-such-agent {prompt}"), "no-such-agent installed"),
        (("x", "--agent", agent, "--set", f"rate_limit.fallback={gone}"), "no-such-agent"),
        (("x", "--agent", "script:/no/such/file.yaml"), "/no/such/file.yaml"),
        (("x", "--agent", f"script:{bad}"), "bad.yaml wirte"),
        (("x", "--agent", agent, "--set", "limits.iterations=many"), "limits.iterations many"),
        (("x", "--agent", agent, "--set", "limits.iteratoins=3"), "iteratoins"),
        (("x", "--agent", agent, "--machine", "mill"), "mill"),
        (("x", "--agent", agent, "--breakpoint", "complete"), "complete"),
        (("x", "--agent", agent, "--repo", str(empty)), str(empty)),
        (("x", "--agent", agent, "--repo", str(fresh)), "commit"),
        (("  ", "--agent", agent), "empty"),
        (("@missing.txt", "--agent", agent), "missing.txt"),
    ):
        one_sentence(yard.flyball("run", *words), *named.split())
    yard.make({".flyball/flyball.toml": "[proof\ncommands = 3"})
    one_sentence(yard.flyball("run", "x", "--agent", agent), "flyball.toml")
    (yard.folder / "file").write_text("")
    one_sentence(yard.flyball("ls", env={"FLYBALL_STATE_DIR": str(yard.folder / "file" / "state")}), "state")
    assert json.loads(yard.flyball("ls", "--json", "--repo", str(fresh)).stdout or "[]") == []


def test_an_unknown_run_is_refused_by_every_command(yard: Yard) -> None:
    for verb in ("show", "why", "log", "resume", "diff", "verify", "land", "cancel", "watch"):
        one_sentence(yard.flyball(verb, "nosuchrun"), "nosuchrun")
    assert "ALO_LOOP_NOT_FOUND" in yard.flyball("resume", "nosuchrun").stderr


def test_a_damaged_journal_is_refused_and_left_alone(yard: Yard) -> None:
    ran = yard.play(yard.script(worker=[GOOD_TURN]), "--set", "limits.turns=1", machine="loop", proof=None)
    journal = yard.state / "journal.db"
    apsw.Connection(str(journal)).execute("pragma wal_checkpoint(truncate)").close()
    for name in ("journal.db-wal", "journal.db-shm"):
        (yard.state / name).unlink(missing_ok=True)
    data = journal.read_bytes()
    for damaged in (data[: len(data) // 2], b"this is no database" * 300):
        journal.write_bytes(damaged)
        for words in (
            ("show", ran.run),
            ("log", ran.run),
            ("ls",),
            ("resume",),
            ("run", "x", "--agent", good(yard)),
        ):
            one_sentence(yard.flyball(*words), "journal.db")
        assert journal.read_bytes() == damaged


# ---- SYS-10: the user's repository is as before ----------------------------------------------------------------


def fingerprint(repo: Path) -> dict[str, str]:
    """Every file of the checkout and of .git, but objects and our own branch."""
    found: dict[str, str] = {}
    for path in sorted(repo.rglob("*")):
        name = str(path.relative_to(repo))
        if path.is_file() and not name.startswith(
            (".git/objects/", ".git/refs/heads/flyball/", ".git/logs/refs/heads/flyball/")
        ):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def test_the_users_repository_is_byte_for_byte_as_before(yard: Yard) -> None:
    (yard.repo / "scratch.txt").write_text("not committed\n")
    (yard.repo / "calc.py").write_text(STILL_BROKEN)
    yard.git("stash")
    (yard.repo / "test_calc.py").write_text("# edited, not added\n")
    before = fingerprint(yard.repo)
    ran_at = yard.folder / "ran"
    hostile = (
        "git add -A; git commit -qm mine; mkdir -p .git/hooks; echo '*.py filter=x' > .gitattributes;"
        f"printf '#!/bin/sh\\ntouch {ran_at}-hook\\n' > .git/hooks/post-checkout; chmod +x .git/hooks/*;"
        f"git config filter.x.clean 'touch {ran_at}-filter; cat'; git config alias.status '!touch {ran_at}-alias';"
        f"git config core.hooksPath .git/hooks; git config core.fsmonitor 'touch {ran_at}-fsmonitor'"
    )
    ran = yard.play(
        yard.script(coder=[{"run": hostile, **GOOD_TURN}], critic=ACCEPTS), "--set", "guard.sandbox=none"
    )
    assert ran.code in ("completed", "wait.approval"), ran.facts
    assert fingerprint(yard.repo) == before
    assert not list(yard.folder.glob("ran-*")), "nothing of the agent's git runs in Flyball"


def test_the_last_run_is_that_of_the_repository_one_stands_in(yard: Yard) -> None:
    agent = yard.script(worker=[GOOD_TURN])
    quick = ("--set", "limits.turns=1")
    mine = yard.play(agent, *quick, machine="loop", proof=None)
    other = yard.folder / "other"
    shutil.copytree(yard.repo, other)
    theirs = yard.play(agent, *quick, "--repo", str(other), machine="loop", proof=None)
    assert yard.flyball("why", "@last").stdout == yard.flyball("why", mine.run).stdout
    assert json.loads(yard.flyball("show", "@last", "--json").stdout)["run"] == mine.run != theirs.run


# ---- SYS-8: the proof is of this tree and no other ----------------------------------------------------------------


@pytest.fixture
def editable(yard: Yard) -> Yard:
    """The project is installed editable in the user's own environment, which is first on PATH."""
    yard.make(
        {
            "src/calc.py": FIXED,
            "calc.py": "",
            "tests/test_it.py": "from calc import add\nassert add(1, 2) == 3\n",
        }
    )
    yard.git("rm", "-q", "calc.py", "test_calc.py")
    yard.git("commit", "-qm", "A src layout")
    venv = yard.folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    site = next((venv / "lib").glob("python*/site-packages"))
    (site / "__editable__.calc.pth").write_text(f"{yard.repo}/src\n")
    yard.env["PATH"] = f"{venv}/bin:{yard.env['PATH']}"
    return yard


@needs_bwrap
def test_a_break_in_the_runs_tree_fails_the_proof_of_an_editable_install(editable: Yard) -> None:
    proof = "python tests/test_it.py"
    ran = editable.play(
        editable.script(coder=[{"write": {"src/calc.py": STILL_BROKEN}}], critic=ACCEPTS),
        "--set",
        "limits.fix=0",
        proof=proof,
    )
    assert (ran.exit, ran.code) == (1, "failed.tests"), "the user's own, good files were not what was tested"
    kept = {"write": {"src/calc.py": FIXED + "# same\n"}}
    ran = editable.play(editable.script(coder=[kept], critic=ACCEPTS), proof=proof)
    assert (ran.exit, ran.code) == (0, "completed")


def test_without_a_sandbox_such_an_environment_is_refused(editable: Yard) -> None:
    script = editable.script(coder=[{"write": {"src/calc.py": STILL_BROKEN}}], critic=ACCEPTS)
    ran = editable.play(script, "--set", "guard.sandbox=none", proof="python tests/test_it.py")
    assert ran.exit == 2 and ran.facts.get("turns", 0) == 0
    assert "editable" in ran.out + ran.err or "import" in ran.out + ran.err


def test_a_copied_environment_that_imports_the_original_is_refused(editable: Yard) -> None:
    """It still names the folder that it was made in, sandbox or not."""
    copy, venv = editable.folder / "copy", editable.folder / "venv"
    info = next((venv / "lib").glob("python*/site-packages")) / "calc-1.0.dist-info"
    info.mkdir()
    record = {"url": editable.repo.as_uri(), "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(record))
    shutil.copytree(editable.repo, copy)
    editable.env["VIRTUAL_ENV"] = str(venv)
    words = ("run", "x", "--agent", good(editable), "--set", "proof.commands=['python tests/test_it.py']")
    one_sentence(editable.flyball(*words, "--repo", str(copy)), str(editable.repo), "install -e")
    for repo, warned in ((copy, True), (editable.repo, False)):
        done = editable.flyball("init", "--repo", str(repo))
        assert done.returncode == 0 and ("would not test this code" in done.stdout) == warned


def test_the_proof_cannot_see_what_the_agent_left_ignored(yard: Yard) -> None:
    yard.make({".gitignore": "helper.txt\n"})
    ran = yard.play(
        yard.script(coder=[{"write": {"helper.txt": "x"}}], critic=ACCEPTS),
        "--set",
        "limits.fix=0",
        proof="test -e helper.txt",
    )
    assert ran.code == "failed.tests"


# ---- SYS-14: trust --------------------------------------------------------------------------------------------------


def test_a_tracked_program_needs_trust_once(yard: Yard) -> None:
    yard.make({".flyball/flyball.toml": f'[proof]\ncommands = ["{PROOF}"]\n'})
    words = ("run", "x", "--agent", good(yard))
    one_sentence(yard.flyball(*words), "flyball trust")
    assert yard.flyball("trust").returncode == 0
    assert yard.flyball(*words).returncode == 0
    yard.make({".flyball/flyball.toml": '[proof]\ncommands = ["true"]\n'})
    one_sentence(yard.flyball(*words), "flyball trust")


def test_a_tracked_file_may_tighten_freely(yard: Yard) -> None:
    yard.make({".flyball/flyball.toml": "[budget]\nusd = 0.5\n[limits]\nturns = 1\n"})
    ran = yard.play(yard.script(worker=[GOOD_TURN]), machine="loop", proof=None)
    assert ran.code == "limit.turns"


def test_an_edit_in_the_runs_checkout_is_tampering(yard: Yard) -> None:
    ran = yard.play(yard.script(coder=[{"write": {".flyball/flyball.toml": "[guard]\nsandbox = 'none'\n"}}]))
    assert (ran.exit, ran.code, ran.status) == (4, "blocked.tampering", "blocked")
    assert "approve" not in ran.facts["question"]["verbs"]
