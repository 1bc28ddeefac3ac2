"""`diff`, `verify`, `land`: what a run leaves can be seen, checked offline, and brought home as it was certified."""

import base64
import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.e2e.helpers import commit_all, git
from tests.e2e.results_helpers import SCRIPT, environment, facts, flyball, make_repo, run_to_end

from flyball.domain import events as e
from flyball.runtime.app import App


class Done(NamedTuple):
    env: dict[str, str]
    root: Path
    run: str
    base: str

    def flyball(self, *words: str | Path) -> Any:
        return flyball(self.env, *words, cwd=self.root)

    @property
    def certificate(self) -> Path:
        return Path(self.env["FLYBALL_STATE_DIR"]) / "runs" / self.run / "certificate.json"

    @property
    def commit(self) -> str:
        return git(self.root, "rev-parse", f"flyball/{self.run}")


def finished(folder: Path, **more: Any) -> Done:
    env, root = environment(folder / "home"), make_repo(folder / "repo")
    base = git(root, "rev-parse", "HEAD")
    return Done(env, root, run_to_end(env, root, **more), base)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """One finished run for everything that changes nothing for good."""
    return finished(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def done(kept: Done) -> Any:
    """The same run; the user's branch and the run's are put back afterwards."""
    before = kept.commit
    yield kept
    git(kept.root, "reset", "-q", "--hard", kept.base)
    git(kept.root, "clean", "-qfd")
    git(kept.root, "branch", "-f", f"flyball/{kept.run}", before)


# ---- diff


def test_diff_shows_the_change_though_the_checkout_is_gone(done: Done) -> None:
    assert not (done.certificate.parent / "checkout").exists()
    shown = done.flyball("diff", "@last")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "-    return a - b\n+    return a + b\n" in shown.stdout
    assert shown.stdout == done.flyball("diff", done.run[:5]).stdout
    assert "calc.py | 2 +-" in done.flyball("diff", done.run, "--stat").stdout


def test_a_diff_in_a_pipe_can_be_applied(done: Done, tmp_path: Path) -> None:
    patch = tmp_path / "p.diff"
    patch.write_text(done.flyball("diff", done.run).stdout)
    git(done.root, "apply", str(patch))
    assert "a + b" in (done.root / "calc.py").read_text()


def test_a_diff_in_colour_is_ours_alone(done: Done) -> None:
    shown = done.flyball("diff", done.run, "--color").stdout
    assert "\x1b[32m+    return a + b" in shown
    assert "\x1b[31m-    return a - b" in shown


@pytest.mark.parametrize("words", [("diff", "nope"), ("verify", "nope"), ("land", "nope")])
def test_an_unknown_run_is_one_sentence(kept: Done, words: tuple[str, str]) -> None:
    told = kept.flyball(*words)
    assert (told.returncode, told.stdout, told.stderr.count("\n")) == (2, "", 1)
    assert "There is no run 'nope'" in told.stderr


# ---- verify


def test_a_good_certificate_is_told_in_words_and_facts(done: Done) -> None:
    told = done.flyball("verify", done.run)
    assert (told.returncode, told.stderr) == (0, "")
    for words in (
        "good: ",
        "python3 check.py: exit code 0",
        "Mend the sum",
        "your key",
        str(done.certificate),
    ):
        assert words in told.stdout
    found = facts(done.flyball("verify", done.run, "--json"))
    assert (found["verdict"], found["commit"], found["proven"]) == ("good", done.commit, True)
    assert found["tree"] == git(done.root, "rev-parse", f"flyball/{done.run}^{{tree}}")


def test_a_branch_that_moved_makes_it_stale(done: Done) -> None:
    git(done.root, "checkout", "-q", f"flyball/{done.run}")
    (done.root / "more.txt").write_text("x")
    commit_all(done.root, "more")
    git(done.root, "checkout", "-q", "main")
    told = done.flyball("verify", done.run)
    assert told.returncode == 1
    assert told.stdout.startswith("stale: ")
    refused = done.flyball("land", done.run)
    assert (refused.returncode, git(done.root, "rev-parse", "main")) == (2, done.base)
    assert "the new commits are not proved" in refused.stderr


def test_a_branch_that_was_moved_back_is_told_so(done: Done) -> None:
    cure = f"git branch -f flyball/{done.run} {done.commit[:12]}"
    git(done.root, "branch", "-f", f"flyball/{done.run}", done.base)
    refused = done.flyball("land", done.run)
    assert (refused.returncode, git(done.root, "rev-parse", "main")) == (2, done.base)
    assert "moved back" in refused.stderr and "new commits" not in refused.stderr
    assert cure in " ".join(refused.stderr.split())


def test_a_branch_that_is_gone_is_stale_until_another_holds_the_commit(done: Done) -> None:
    commit = done.commit
    git(done.root, "branch", "-D", f"flyball/{done.run}")
    assert done.flyball("verify", done.run).returncode == 1
    git(done.root, "branch", "kept-elsewhere", commit)
    assert done.flyball("verify", done.run).returncode == 0
    git(done.root, "branch", "-D", "kept-elsewhere")
    git(done.root, "branch", f"flyball/{done.run}", commit)


def test_an_exported_certificate_verifies_anywhere_with_the_key(done: Done, tmp_path: Path) -> None:
    out = tmp_path / "certificate.json"
    assert done.flyball("verify", done.run, "--export", out).returncode == 0
    assert out.read_bytes() == done.certificate.read_bytes()
    assert done.flyball("verify", done.run, "--export", out).returncode == 2  # never over a file
    assert done.flyball("verify", out).returncode == 0
    stranger, key = (
        environment(tmp_path / "stranger"),
        facts(done.flyball("verify", done.run, "--json"))["key"],
    )
    alone = flyball(stranger, "verify", out, cwd=tmp_path)
    assert alone.returncode == 1
    assert "is not one you trust" in alone.stdout
    assert flyball(stranger, "verify", out, "--key", key, cwd=tmp_path).returncode == 0
    assert flyball(stranger, "verify", out, "--key", key, cwd=done.root).returncode == 0
    assert flyball(stranger, "verify", out, "--key", "ab" * 32, cwd=tmp_path).returncode == 1
    assert not (tmp_path / "stranger/state/signing.key").exists()


def altered(data: bytes, **said: Any) -> bytes:
    envelope = json.loads(data)
    body = json.loads(base64.b64decode(envelope["payload"]))
    body["predicate"] |= said
    envelope["payload"] = base64.b64encode(json.dumps(body).encode()).decode()
    return json.dumps(envelope).encode()


def test_a_word_changed_in_the_certificate_is_found(done: Done, tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_bytes(altered(done.certificate.read_bytes(), sandbox="none at all"))
    told = done.flyball("verify", file)
    assert told.returncode == 1
    assert told.stdout.startswith("bad: ") and "signature" in told.stdout


def test_a_certificate_that_the_journal_does_not_name_is_bad(done: Done, tmp_path: Path) -> None:
    app = App(done.env)
    from flyball.evidence import certificate

    statement = json.loads(base64.b64decode(json.loads(done.certificate.read_bytes())["payload"]))
    statement["predicate"]["turns"] = 99
    certificate.write(tmp_path / "forged.json", statement, app.signer)
    app.close()
    told = done.flyball("verify", tmp_path / "forged.json")
    assert told.returncode == 1
    assert "is not the one that the journal" in told.stdout


def test_a_certificate_put_in_the_runs_place_is_bad_and_nothing_lands(done: Done) -> None:
    before = done.certificate.read_bytes()
    done.certificate.write_bytes(altered(before, task="Something else"))
    try:
        assert done.flyball("verify", done.run).returncode == 1
        assert done.flyball("land", done.run).returncode == 2
        assert git(done.root, "rev-parse", "main") == done.base
    finally:
        done.certificate.write_bytes(before)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '{"payload": "e30=", "payloadType": "x", "signatures": [{"keyid": "a", "sig": "b"}]}'],
)
def test_what_is_no_certificate_is_unreadable(kept: Done, tmp_path: Path, text: str) -> None:
    file = tmp_path / "c.json"
    file.write_text(text)
    told = kept.flyball("verify", file)
    assert (told.returncode, told.stdout, told.stderr.count("\n")) == (2, "", 1)
    assert kept.flyball("verify", tmp_path / "gone.json").returncode == 2


def test_a_journal_that_was_changed_makes_the_certificate_bad(kept: Done, tmp_path: Path) -> None:
    import apsw

    state = tmp_path / "state"
    shutil.copytree(
        kept.env["FLYBALL_STATE_DIR"], state, symlinks=True, ignore=shutil.ignore_patterns("*.bell")
    )
    db = apsw.Connection(str(state / "journal.db"))
    told = "CAST(replace(CAST(body AS TEXT), 'Mend the sum', 'Rend the sum') AS BLOB)"
    db.execute(f"UPDATE event SET body = {told} WHERE kind = 'RunBegan'")
    assert db.changes() == 1
    db.close()
    told = flyball(kept.env | {"FLYBALL_STATE_DIR": str(state)}, "verify", kept.run, cwd=kept.root)
    assert told.returncode == 1
    assert "event 1 is not what was written" in told.stdout


def test_a_run_without_proof_is_certified_as_unproven(tmp_path: Path) -> None:
    done = finished(tmp_path, proof="")
    told = done.flyball("verify", done.run)
    assert told.returncode == 0
    assert told.stdout.startswith("good, but unproven: ")
    assert facts(done.flyball("verify", done.run, "--json"))["proven"] is False
    landed = done.flyball("land", done.run)
    assert (landed.returncode, "unproven" in landed.stdout) == (0, True)


def test_a_run_does_not_land_from_another_repository(tmp_path: Path) -> None:
    done = finished(tmp_path)
    refused = flyball(done.env, "land", done.run, cwd=tmp_path)
    assert (refused.returncode, git(done.root, "rev-parse", "HEAD")) == (2, done.base)
    assert str(done.root) in refused.stderr
    assert flyball(done.env, "land", done.run, "--repo", done.root, cwd=tmp_path).returncode == 0


def test_a_run_that_failed_has_no_certificate_and_does_not_land(tmp_path: Path) -> None:
    bad = {"roles": SCRIPT["roles"] | {"coder": [{"write": {"calc.py": "def add(a, b):\n    return 0\n"}}]}}
    done = finished(tmp_path, script=bad, sets=("limits.fix=0", "limits.iterations=1"))
    told = done.flyball("verify", done.run)
    assert told.returncode == 1 and "has no certificate" in told.stdout
    assert "failed.tests" in told.stdout
    refused = done.flyball("land", done.run)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert "did not end in success (failed.tests)" in refused.stderr
    assert git(done.root, "rev-parse", "main") == done.base


def test_a_run_that_waits_says_that_it_has_not_ended(tmp_path: Path) -> None:
    asking = {"roles": SCRIPT["roles"] | {"coder": [{"write": {".github/workflows/ci.yml": "on: push\n"}}]}}
    done = finished(tmp_path, script=asking)
    assert "it has not ended (waiting" in done.flyball("verify", done.run).stdout
    assert "has not ended" in done.flyball("land", done.run).stderr
    shown = done.flyball("diff", done.run)
    assert "+on: push" in shown.stdout
    assert "asked about" in shown.stderr


# ---- land


def landed(done: Done) -> list[e.Landed]:
    app = App(done.env)
    try:
        events = [e.decode(entry.body) for entry in app.journal.read(done.run)]
        assert app.journal.faults() == []
        return [event for event in events if isinstance(event, e.Landed)]
    finally:
        app.close()


def test_landing_fast_forwards_once_and_is_journaled_once(tmp_path: Path) -> None:
    done = finished(tmp_path)
    first = done.flyball("land", done.run)
    assert (first.returncode, git(done.root, "rev-parse", "main")) == (0, done.commit)
    assert git(done.root, "status", "--short") == ""
    assert "a + b" in (done.root / "calc.py").read_text()
    again = done.flyball("land", done.run, "--json")
    assert (again.returncode, facts(again)["already"]) == (0, True)
    assert [(event.commit, event.branch) for event in landed(done)] == [(done.commit, "main")]
    assert done.flyball("verify", done.run).returncode == 0


def test_a_target_that_moved_is_merged_proved_and_certified_again(tmp_path: Path) -> None:
    done = finished(tmp_path)
    (done.root / "other.py").write_text("x = 1\n")
    moved = commit_all(done.root, "Meanwhile")
    told = done.flyball("land", done.run)
    assert told.returncode == 0, told.stderr
    head = git(done.root, "rev-parse", "main")
    assert git(done.root, "log", "-1", "--format=%P", head).split()[0] == moved
    assert (done.root / "other.py").exists()
    assert "a + b" in (done.root / "calc.py").read_text()
    assert git(done.root, "status", "--short") == ""
    found = facts(done.flyball("verify", done.run, "--json"))
    assert (found["verdict"], found["commit"]) == ("good", head)
    assert found["says"]["review"].startswith("accepted by critic")
    assert [event.commit for event in landed(done)] == [head]
    assert "other.py" not in done.flyball("diff", done.run).stdout
    assert facts(done.flyball("land", done.run, "--json"))["already"] is True


def test_a_dirty_target_is_refused_and_keeps_its_changes(done: Done) -> None:
    (done.root / "check.py").write_text("mine\n")
    told = done.flyball("land", done.run)
    assert (told.returncode, told.stdout, told.stderr.count("\n")) == (2, "", 1)
    assert "has uncommitted changes" in told.stderr
    assert (done.root / "check.py").read_text() == "mine\n"
    assert git(done.root, "rev-parse", "main") == done.base


def test_a_conflict_is_refused_and_names_the_file(done: Done) -> None:
    (done.root / "calc.py").write_text("def add(a, b):\n    return sum((a, b))\n")
    mine = commit_all(done.root, "My own way")
    told = done.flyball("land", done.run)
    assert told.returncode == 2
    assert "both changed calc.py" in told.stderr
    assert "git merge flyball/" in told.stderr
    assert git(done.root, "rev-parse", "main") == mine
    assert git(done.root, "status", "--short") == ""
    assert done.flyball("verify", done.run).returncode == 0


def test_a_merge_that_fails_its_proof_does_not_land(done: Done) -> None:
    (done.root / "check.py").write_text("from calc import add\nassert add(2, 3) == 6, 'new rule'\n")
    mine = commit_all(done.root, "Another rule")
    told = done.flyball("land", done.run)
    assert told.returncode == 2
    assert "fails its proof, so it was not landed" in told.stderr
    assert "new rule" in told.stderr
    assert git(done.root, "rev-parse", "main") == mine
    git(done.root, "reset", "-q", "--hard", done.base)
    assert done.flyball("verify", done.run).returncode == 0


def test_another_branch_can_be_landed_on(done: Done) -> None:
    git(done.root, "branch", "release")
    told = done.flyball("land", done.run, "--onto", "release")
    assert (told.returncode, git(done.root, "rev-parse", "release")) == (0, done.commit)
    assert git(done.root, "rev-parse", "main") == done.base
    assert done.flyball("land", done.run, "--onto", "nowhere").returncode == 2
    git(done.root, "branch", "-D", "release")


def test_a_run_that_another_process_drives_cannot_be_landed_meanwhile(done: Done) -> None:
    from flyball.journal.database import Driver

    app = App(done.env)
    driver = Driver(app.state_dir)
    app.journal.acquire(done.run, driver.name, lambda _name: False)
    try:
        assert done.flyball("land", done.run).returncode == 2
        assert git(done.root, "rev-parse", "main") == done.base
    finally:
        app.journal.release(done.run, driver.name)
        driver.close()
        app.close()
