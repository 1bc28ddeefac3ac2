"""What holds everywhere, from the outside: errors, the user's repository, the tree that is proved, one driver a run."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.yard import ACCEPT, GOOD, PROOF, WORSE, Yard

GOOD_TURN = {"write": {"calc.py": GOOD}}
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
    made.close()


def good(yard: Yard) -> str:
    return yard.script(coder=[GOOD_TURN], critic=ACCEPT)


def one_sentence(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Exit 2, no traceback, and the sentence names what is wrong."""
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr and len(done.stderr.strip().splitlines()) <= 4, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


# ---- SYS-11: bad input ---------------------------------------------------------------------------------------


def test_an_unknown_agent_is_refused(yard: Yard) -> None:
    one_sentence(yard.flyball("run", "x", "--agent", "gpt9"), "gpt9", "claude")


def test_an_agent_that_is_not_installed_is_refused(yard: Yard) -> None:
    one_sentence(
        yard.flyball("run", "x", "--agent", "command:no-such-agent {prompt}"),
        "no-such-agent",
        "not installed",
    )


def test_broken_toml_is_refused(yard: Yard) -> None:
    yard.make({".flyball/flyball.toml": "[proof\ncommands = 3"})
    one_sentence(yard.flyball(*yard.words(good(yard))), "flyball.toml")


def test_a_wrong_value_is_refused(yard: Yard) -> None:
    one_sentence(
        yard.flyball(*yard.words(good(yard), "--set", "limits.iterations=many")), "limits.iterations", "many"
    )
    one_sentence(yard.flyball(*yard.words(good(yard), "--set", "limits.iteratoins=3")), "iteratoins")


def test_no_git_repository_is_refused(yard: Yard, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    one_sentence(yard.flyball("run", "x", "--agent", good(yard), "--repo", str(empty)), str(empty))


def test_a_repository_without_a_commit_is_refused(yard: Yard, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    subprocess.run(["git", "init", "-q", str(fresh)], check=True, env=yard.env)
    one_sentence(yard.flyball("run", "x", "--agent", good(yard), "--repo", str(fresh)), "commit")


def test_an_unknown_run_is_refused_by_every_command(yard: Yard) -> None:
    for verb in ("show", "why", "log", "resume", "diff", "verify", "land", "cancel", "watch"):
        one_sentence(yard.flyball(verb, "nosuchrun"), "nosuchrun")
    assert "ALO_LOOP_NOT_FOUND" in yard.flyball("resume", "nosuchrun").stderr


def test_an_unreadable_script_is_refused(yard: Yard) -> None:
    one_sentence(yard.flyball("run", "x", "--agent", "script:/no/such/file.yaml"), "/no/such/file.yaml")
    bad = yard.folder / "bad.yaml"
    bad.write_text("roles: {coder: [{wirte: {a: b}}]}")
    one_sentence(yard.flyball("run", "x", "--agent", f"script:{bad}"), "bad.yaml", "wirte")


def test_an_empty_task_and_a_missing_task_file_are_refused(yard: Yard) -> None:
    one_sentence(yard.flyball("run", "  ", "--agent", good(yard)), "empty")
    one_sentence(yard.flyball("run", "@missing.txt", "--agent", good(yard)), "missing.txt")


def test_a_corrupt_journal_is_refused_and_left_alone(yard: Yard) -> None:
    ran = yard.run(good(yard))
    journal = yard.state / "journal.db"
    for name in ("journal.db-wal", "journal.db-shm"):
        (yard.state / name).unlink(missing_ok=True)
    journal.write_bytes(b"this is no database" * 300)
    before = journal.read_bytes()
    one_sentence(yard.flyball("show", ran.run), "journal.db")
    assert journal.read_bytes() == before


def test_a_truncated_journal_is_refused(yard: Yard) -> None:
    ran = yard.run(good(yard))
    journal = yard.state / "journal.db"
    subprocess.run(
        [
            sys.executable,
            "-c",
            f"import apsw; apsw.Connection({str(journal)!r}).execute('pragma wal_checkpoint(truncate)')",
        ],
        check=True,
    )
    data = journal.read_bytes()
    journal.write_bytes(data[: len(data) // 2])
    one_sentence(yard.flyball("log", ran.run), "journal.db")


def test_a_state_directory_that_cannot_be_made_is_refused(yard: Yard) -> None:
    (yard.folder / "file").write_text("")
    one_sentence(yard.flyball("ls", env={"FLYBALL_STATE_DIR": str(yard.folder / "file" / "state")}), "state")


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
    (yard.repo / "calc.py").write_text(WORSE)
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
    ran = yard.run(
        yard.script(coder=[{"run": hostile, **GOOD_TURN}], critic=ACCEPT), "--set", "guard.sandbox=none"
    )
    assert ran.code in ("completed", "wait.approval"), ran.facts
    assert fingerprint(yard.repo) == before
    assert not list(yard.folder.glob("ran-*")), "nothing of the agent's git runs in Flyball"


def test_a_run_starts_from_head_and_says_so(yard: Yard) -> None:
    (yard.repo / "calc.py").write_text(WORSE)
    done = yard.flyball("run", "x", "--agent", good(yard), "--set", f'proof.commands=["{PROOF}"]')
    assert done.returncode == 0 and "uncommitted" in done.stdout + done.stderr
    assert (yard.repo / "calc.py").read_text() == WORSE


def test_the_last_run_is_that_of_the_repository_one_stands_in(yard: Yard) -> None:
    mine = yard.run(good(yard))
    other = yard.folder / "other"
    shutil.copytree(yard.repo, other)
    told = yard.flyball("run", "Look", "--repo", str(other), "--agent", good(yard), "--json")
    theirs = json.loads(told.stdout)["run"]
    assert yard.flyball("why", "@last").stdout == yard.flyball("why", mine.run).stdout
    assert json.loads(yard.flyball("show", "@last", "--json").stdout)["run"] == mine.run != theirs


# ---- SYS-8: the proof is of this tree and no other ----------------------------------------------------------------


@pytest.fixture
def editable(yard: Yard) -> Yard:
    """The project is installed editable in the user's own environment, which is first on PATH."""
    yard.make(
        {
            "src/calc.py": GOOD,
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
    ran = editable.run(
        editable.script(coder=[{"write": {"src/calc.py": WORSE}}], critic=ACCEPT),
        "--set",
        "limits.fix=0",
        proof=proof,
    )
    assert (ran.exit, ran.code) == (1, "failed.tests"), "the user's own, good files were not what was tested"
    kept = {"write": {"src/calc.py": GOOD + "# same\n"}}
    ran = editable.run(editable.script(coder=[kept], critic=ACCEPT), proof=proof)
    assert (ran.exit, ran.code) == (0, "completed")


def test_without_a_sandbox_such_an_environment_is_refused(editable: Yard) -> None:
    script = editable.script(coder=[{"write": {"src/calc.py": WORSE}}], critic=ACCEPT)
    ran = editable.run(script, "--set", "guard.sandbox=none", proof="python tests/test_it.py")
    assert ran.exit == 2 and ran.facts.get("turns", 0) == 0
    assert "editable" in ran.out + ran.err or "import" in ran.out + ran.err


def test_the_proof_cannot_see_what_the_agent_left_ignored(yard: Yard) -> None:
    yard.make({".gitignore": "helper.txt\n"})
    ran = yard.run(
        yard.script(coder=[{"write": {"helper.txt": "x"}}], critic=ACCEPT),
        "--set",
        "limits.fix=0",
        proof="test -e helper.txt",
    )
    assert ran.code == "failed.tests"


# ---- SYS-12, SYS-15: one driver a run, Ctrl+C, detach -------------------------------------------------------------


def slow(yard: Yard, seconds: float = 20) -> str:
    return yard.script(coder=[{"sleep_s": seconds, **GOOD_TURN}, GOOD_TURN], critic=ACCEPT)


def await_state(yard: Yard, state: str, doing: str = "agent:coder") -> str:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        seen = yard.peek()
        if seen and seen[0].state == state and doing.encode() in seen[1]:
            return seen[0].run
        time.sleep(0.02)
    raise AssertionError(f"it never came to {state}")


def test_a_cancel_from_another_process_ends_the_act_at_once(yard: Yard) -> None:
    process = yard.start(*yard.words(slow(yard, 60)))
    run = await_state(yard, "write")
    assert yard.flyball("cancel", run).returncode == 0
    out, _ = process.communicate(timeout=30)
    facts = json.loads(out)
    assert (process.returncode, facts["stop_reason"]["code"], facts["alo_code"]) == (
        1,
        "cancelled",
        "ALO_CANCELLED",
    )


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
    yard.make({".flyball/flyball.toml": "[budget]\nusd = 0.5\n[limits]\niterations = 2\n"})
    assert yard.run(good(yard)).code == "completed"


def test_an_edit_in_the_runs_checkout_is_tampering(yard: Yard) -> None:
    ran = yard.run(yard.script(coder=[{"write": {".flyball/flyball.toml": "[guard]\nsandbox = 'none'\n"}}]))
    assert (ran.exit, ran.code, ran.status) == (4, "blocked.tampering", "blocked")
    assert "approve" not in ran.facts["question"]["verbs"]


def test_a_certificate_tells_every_ruling_and_what_the_reviewer_said(yard: Yard) -> None:
    turns = [{"write": {"calc.py": WORSE}}, {"write": {"calc.py": GOOD}}]
    ran = yard.run(yard.script(coder=turns, critic=ACCEPT))
    said = json.loads(yard.flyball("verify", ran.run, "--json").stdout)["says"]
    assert [ruling["verdict"] for ruling in said["rulings"]] == ["allow"] * ran.turns
    assert len({ruling["tree"] for ruling in said["rulings"]}) == 3
    assert said["review"].startswith("accepted by critic script:")
