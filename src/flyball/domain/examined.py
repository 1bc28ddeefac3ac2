"""What the gate found out about a proof besides exit 0 (EVID-7)."""

from __future__ import annotations

from msgspec import Struct


class Evidence(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Names of tests are at most fifty of a kind; the counts are whole."""

    require: str = "all"  # or "no-worse"
    judged: str = "command"  # by "tests", each by its id, or by the exit codes of commands alone
    runners: tuple[str, ...] = ()
    passed: int = 0
    skipped: int = 0
    fail_to_pass: tuple[str, ...] = ()
    fail_to_pass_count: int = 0
    pass_to_pass_count: int = 0
    removed: tuple[str, ...] = ()
    newly_skipped: tuple[str, ...] = ()
    still_failing: tuple[str, ...] = ()  # as "no-worse" allows
    new_count: int = 0
    flaky: tuple[str, ...] = ()
    bite: str = ""  # noticed | not noticed | nothing to break | not tried
    bite_places: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()  # what a person is asked about, a sentence each
    versions: tuple[str, ...] = ()  # how the tests in doubt were changed, as a diff
    doubts_key: str = ""  # an approval is of exactly these doubts about this tree
