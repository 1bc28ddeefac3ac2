"""The rules that a run goes by are those it began with, or it stops."""

from __future__ import annotations

import sys

import pytest
from tests.e2e.helpers import FIXED, Place

from flyball.agents.sandbox import probe


def test_a_touched_pinned_policy_blocks_whatever_it_would_allow(place: Place) -> None:
    (place.repo / ".flyball").mkdir()
    (place.repo / ".flyball/policy.toml").write_text("[policy.default.radius]\nfiles_ask = 9\n")
    loosens = f"echo '# mine' >> {place.state}/runs/$FLYBALL_RUN/pinned/policy.toml"
    agent = place.script(coder=[{"write": {"calc.py": FIXED}, "run": loosens}])
    said = place.run(agent, "--set", "guard.sandbox=none", "--json")
    assert (said.code, said.json["stop_reason"]["code"]) == (4, "blocked.tampering")


def test_a_touched_copy_of_the_users_git_hooks_blocks(place: Place) -> None:
    hook = place.repo / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    mends = f"echo 'exit 0' > {place.state}/runs/$FLYBALL_RUN/pinned/git-hooks/pre-commit"
    agent = place.script(coder=[{"write": {"calc.py": FIXED}, "run": mends}])
    said = place.run(agent, "--set", "guard.sandbox=none", "--json")
    assert (said.code, said.json["stop_reason"]["code"]) == (4, "blocked.tampering")
    assert "git-hooks/pre-commit" in said.json["stop_reason"]["evidence"]["detail"]


def test_an_event_changed_by_the_agent_is_seen_at_the_end_of_its_turn(place: Place) -> None:
    forges = (
        f"{sys.executable} -c \"import sqlite3; base = sqlite3.connect('{place.state}/journal.db'); "
        "base.execute('UPDATE event SET at = at + 1'); base.commit()\""
    )
    agent = place.script(coder=[{"write": {"calc.py": FIXED}, "run": forges}])
    said = place.run(agent, "--set", "guard.sandbox=none", "--json")
    assert (said.code, said.json["stop_reason"]["code"]) == (4, "blocked.tampering")
    assert "the journal" in said.json["stop_reason"]["evidence"]["detail"]


def test_an_old_event_changed_by_the_agent_is_seen_before_anything_is_certified(place: Place) -> None:
    """After a turn only the newer events are verified; before a commit all of them are."""
    forges = (
        f"{sys.executable} -c \"import sqlite3; base = sqlite3.connect('{place.state}/journal.db'); "
        "base.execute('UPDATE event SET at = at + 1 WHERE id IN (SELECT min(id) FROM event)'); base.commit()\""
    )
    agent = place.script(coder=[{"write": {"calc.py": FIXED}, "run": forges}])
    said = place.run(agent, "--set", "guard.sandbox=none", "--json")
    assert (said.code, said.json["stop_reason"]["code"]) == (3, "wait.infrastructure")
    assert "the journal" in said.json["stop_reason"]["evidence"]["detail"]
    assert "event 1" in place.fb("check").out


@pytest.mark.sampled(0)
def test_a_hook_that_leaves_something_beside_it_is_no_tampering(place: Place) -> None:
    hook = place.repo / ".git/hooks/pre-commit"
    hook.write_text('#!/bin/sh\ndate > "$(dirname "$0")/last-run"\ngrep -q good calc.py\n')
    hook.chmod(0o755)
    agent = place.script(coder=[{"write": {"calc.py": FIXED}}, {"write": {"calc.py": f"{FIXED}# good\n"}}])
    said = place.run(agent, "--set", "guard.sandbox=none", "--json")
    assert (said.code, said.json["stop_reason"]["code"]) == (0, "completed")


@pytest.mark.sampled(0)
def test_hooks_of_a_folder_in_the_repository_find_each_other(place: Place) -> None:
    """As husky lays them out: what git runs looks for the user's own script one folder up."""
    files = {"_/pre-commit": '#!/bin/sh\n. "$(dirname "$0")/h"\n', "pre-commit": "grep -q good calc.py\n"}
    files["_/h"] = 'exec sh -e "$(dirname "$(dirname "$0")")/$(basename "$0")"\n'
    for name, text in files.items():
        (place.repo / ".husky" / name).parent.mkdir(parents=True, exist_ok=True)
        (place.repo / ".husky" / name).write_text(text)
    (place.repo / ".husky/_/pre-commit").chmod(0o755)
    place.git("config", "core.hooksPath", ".husky/_")
    agent = place.script(coder=[{"write": {"calc.py": FIXED}}, {"write": {"calc.py": f"{FIXED}# good\n"}}])
    said = place.run(agent, "--json")
    assert (said.code, said.json["stop_reason"]["code"]) == (0, "completed")
    assert "good" in place.fb("diff", "@last").out


@pytest.mark.skipif(probe("landlock").kind != "landlock", reason=probe("landlock").why)
def test_a_changed_mode_of_the_users_git_configuration_blocks(place: Place) -> None:
    """Landlock lets the same user change modes anywhere."""
    config = place.repo / ".git/config"
    loosen = {"write": {"calc.py": FIXED}, "run": f"chmod 666 {config}"}
    result = place.run(place.script(coder=[loosen]), "--json", "--set", "guard.sandbox=landlock")
    assert (result.code, result.json["stop_reason"]["code"]) == (4, "blocked.tampering")
    assert "mode" in place.fb("why", "@last").out and config.stat().st_mode & 0o777 == 0o666
