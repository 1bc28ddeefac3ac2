"""The rules that a run goes by are those it began with, or it stops."""

from __future__ import annotations

from helpers import FIXED, Place


def test_a_touched_pinned_policy_blocks_whatever_it_would_allow(place: Place) -> None:
    (place.repo / ".flyball").mkdir()
    (place.repo / ".flyball/policy.toml").write_text("[policy.default.radius]\nfiles_ask = 9\n")
    loosens = f"echo '# mine' >> {place.state}/runs/$FLYBALL_RUN/pinned/policy.toml"
    agent = place.script(coder=[{"write": {"calc.py": FIXED}, "run": loosens}])
    said = place.run(agent, "--set", "guard.sandbox=none", "--json")
    assert (said.code, said.json["stop_reason"]["code"]) == (4, "blocked.tampering")
