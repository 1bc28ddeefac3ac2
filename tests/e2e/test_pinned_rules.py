"""The rules that a run goes by are those it began with, or it stops."""

from __future__ import annotations

import sys

from helpers import FIXED, Place


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
