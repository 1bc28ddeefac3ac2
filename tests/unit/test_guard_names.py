"""Which files a pattern means, where a path leads, and what a rule lets through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import flyball.guard
from flyball.guard.change import LINKS_MOST, Change, Links, place
from flyball.guard.changes import judge_changes
from flyball.guard.policy import LineRule, PathRule, Policy, leads_into, matches, parse
from flyball.guard.policy_faults import looser

POLICY = parse((Path(flyball.guard.__file__).parent / "policies" / "default.toml").read_text("utf-8")).get()


def ruled(*changes: Change, **more: Any) -> tuple[str, str]:
    ruling = judge_changes(list(changes), POLICY, workspace="/w/repo", **more)
    return ruling.verdict, ruling.rule


def rules(change: Change) -> set[str]:
    verdict = judge_changes([change], POLICY, workspace="/w/repo")
    return {finding.rule for finding in verdict.findings} or {verdict.rule}


# ---- patterns --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("a**b", "ax/yb", True),
        ("a**b", "axyc", False),
        ("**/x.py", "x.py", True),
        ("**/x.py", "a/b/x.py", True),
        ("**/x.py", "a/yx.py", False),
        ("src/**", "src/a/b", True),
        ("src/**", "src", True),
        ("src/**", "lib/src/a", False),
        ("name", "a/name", True),
        ("name", "a/name/b", False),
        ("name", "rename", False),
        ("/name", "a/name", False),
        ("a.b", "axb", False),
        ("}", "}", True),
        ("a}b", "a}b", True),
        ("{a,b}{c,d}", "bd", True),
        ("{a,b}{c,d}", "b", False),
        ("a?c", "a/c", False),
        ("**/a,b", "x/a,b", True),
        ("**/a,b", "b", False),
        ("src/gen/", "src/gen/a/b", True),
        ("src/gen/", "src/gen", True),
        ("src/gen/", "src/generic", False),
        ("src/gen/", "lib/src/gen/a", False),
        ("gen/", "lib/gen/a", True),
        ("gen/", "lib/generic/a", False),
        ("a/b", "a/b", True),
        ("a/b", "x/a/b", False),
        ("a/b", "a/b/c", False),
        ("/docs", "docs", True),
        ("x.{py,js}", "a/x.js", True),
        ("x.{py,js}", "a/x.ts", False),
        ("{a,b}/x.{py,js}", "b/x.py", True),
        ("{a,b}/x.{py,js}", "c/x.py", False),
        ("{a,b}{c,d}{e,f}", "ade", True),
        ("{a,{b,c}}", "c", True),
        ("{a,b}.txt", "x/b.txt", True),
        ("{a,b},c", "b,c", True),
        ("{a,b},c", "c", False),
        ("a,b", "a", False),
        ("src/{x{1,2},y}/*.py", "src/x2/m.py", True),
        ("src/{x{1,2},y}/*.py", "src/x/m.py", False),
        ("/docs/", "x/docs/a", False),
        ("a/**/b", "a/x/y/b", True),
        ("a/*/b", "a/x/y/b", False),
        ("?.py", "a.py", True),
        ("?.py", "ab.py", False),
    ],
)
def test_a_pattern_means_these_files_and_no_others(pattern: str, path: str, fits: bool) -> None:
    assert matches((pattern,), path) is fits
    assert matches(("never", pattern), path) is fits
    assert matches((), path) is False


@pytest.mark.parametrize(
    ("pattern", "path", "leads"),
    [
        ("src/auth/*.py", "src", True),
        ("src/auth/*.py", "src/auth", True),
        ("/src/auth/*.py", "src", True),
        ("src/auth/*.py", "auth", False),
        ("src/auth/*.py", "src/other", False),
        ("src/auth/*.py", "lib/src", False),
        ("src/auth", "src", True),
        ("src/auth", "src/auth", True),
        ("src/a{b,c}/d", "src", True),
        ("**/auth/keys/*.py", "auth", True),
        ("**/auth/keys/*.py", "lib/auth", True),
        ("**/auth/keys/*.py", "lib/auth/keys", True),
        ("**/auth/keys/*.py", "lib", False),
        ("**/auth/keys/*.py", "auth/lib", False),
        ("name", "name", False),
        ("name/", "name", False),
        ("*.py", "src", False),
    ],
)
def test_a_folder_on_the_way_to_what_a_pattern_means_is_known(pattern: str, path: str, leads: bool) -> None:
    assert leads_into((pattern,), path) is leads
    assert leads_into(("never/x", pattern), path) is leads
    assert leads_into((), path) is False


def test_a_link_put_in_the_place_of_a_protected_folder_is_asked_about() -> None:
    rule = PathRule("deny", "Keys are not an agent's.", ("secret/keys/*.pem",))
    policy = replace(POLICY, paths={**POLICY.paths, "keys": rule})

    def found(path: str) -> str:
        change = Change(path, "symlink", target="elsewhere")
        return judge_changes([change], policy, workspace="/w/repo").verdict

    assert (found("secret"), found("secret/keys"), found("other")) == ("deny", "deny", "allow")


# ---- paths -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        *(
            (name, "git-internals")
            for name in ("git~1", "GIT~2", ".GIT", ".git.", ".git ", ".git. .", ".git:x")
        ),
        (".g\u200bit", "git-internals"),
        ("flybal~1", "tampering"),
        ("FLYBAL~2", "tampering"),
        ("claude~3", "agent-settings"),
        *((name, "ordinary") for name in ("git~x", "git~", "git", "other~1", "a1", "\u00c9")),
    ],
)
def test_a_name_is_compared_as_the_most_forgiving_disk_would(name: str, rule: str) -> None:
    assert rule in rules(Change(f"src/{name}/x", "add"))


def test_two_forms_of_a_letter_are_one_name() -> None:
    assert ruled(Change("\u00e9.py", "add"), Change("e\u0301.py", "add")) == ("ask", "name-collision")


@pytest.mark.parametrize(
    ("first", "last"),
    [
        *((0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),
        *((0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F)),
        *((0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
    ],
)
def test_what_a_disk_ignores_is_ignored_to_its_last(first: int, last: int) -> None:
    for code, is_ignored in ((first - 1, False), (first, True), (last, True), (last + 1, False)):
        hidden = rules(Change(f".git{chr(code)}/x", "add"))
        assert ("git-internals" in hidden) is is_ignored
        assert not is_ignored or "odd-name" in hidden


@pytest.mark.parametrize("name", [".g\u0456t", ".\u0261it", "\u2024git", ".g\u00eft"])
def test_a_name_is_what_a_reader_takes_it_for(name: str) -> None:
    assert "lookalike" in rules(Change(f"src/{name}/x", "add"))


@pytest.mark.parametrize(
    ("path", "elsewhere"),
    [
        ("~", True),
        ("~/x", True),
        ("$HOME/x", True),
        ("${HOME}/x", True),
        ("%APPDATA%\\x", True),
        ("c:/x", True),
        ("C:\\x", True),
        ("c:", True),
        ("1:/x", False),
        ("cc:/x", False),
        (":/x", False),
        ("c", False),
        ("//host/x", True),
        ("\\\\host\\x", True),
        ("a/~", False),
        ("a/c:/x", False),
    ],
)
def test_a_home_a_drive_and_a_share_are_elsewhere(path: str, elsewhere: bool) -> None:
    assert ("outside" in rules(Change("a/link", "symlink", target=path))) is elsewhere


def links(**targets: str) -> Links:
    return Links("/w/repo", targets)


@pytest.mark.parametrize(
    ("path", "exact", "outside"),
    [
        ("src/a", ("src/a",), False),
        ("./src//a", ("src/a",), False),
        ("src\\a", ("src/a",), False),
        ("src/../a", ("a",), False),
        ("/w/repo/a", ("a",), False),
        ("/w/repository/a", (), True),
        ("/W/repo/a", (), True),
        ("../a", (), True),
        ("/w", (), True),
        (".", (), True),
        ("src/..", (), True),
        ("~/x", ("~/x",), True),
    ],
)
def test_a_path_is_where_it_leads(path: str, exact: tuple[str, ...], outside: bool) -> None:
    where = place(path, links())
    assert (where.shown, where.exact, bool(where.outside)) == (path, exact, outside)


def test_a_path_through_a_link_has_both_its_names() -> None:
    inside = links(link="src/real")
    assert place("link/a", inside).exact == ("src/real/a", "link/a")
    assert place("src/real/a", inside).exact == ("src/real/a", "link/a")
    assert place("src/real", inside).exact == ("src/real", "link")
    assert place("src/realistic", inside).exact == ("src/realistic",)
    assert place("LINK/a", inside).exact[0] == "src/real/a"
    assert place("link", inside).exact[0] == "src/real"
    assert place("link", inside, last=False).exact[0] == "link"
    assert place("link/../b", inside).exact == ("src/b", "b")


def test_a_chain_of_forty_links_is_followed_and_a_longer_one_is_a_circle() -> None:
    chain = links(**{f"l{n}": f"l{n + 1}" for n in range(41)})
    assert LINKS_MOST == 40
    assert place("l1", chain).exact[0] == "l41"
    assert place("l0", chain).outside


def test_a_link_that_leads_out_is_outside() -> None:
    out = links(out="/etc", up="../..", round="round")
    assert all(place(path, out).outside for path in ("out/passwd", "up/x", "round/x"))
    assert not place("out/../w/repo/a", out).outside
    assert place("out/../../w/repo/a", out).outside  # as it is written it leads out


@pytest.mark.parametrize(
    ("path", "odd"),
    [
        *((path, False) for path in ("a/b", "a-b", "a b", "a/..x", "\u00e9" * 127, "d" * 255)),
        *(
            (path, True)
            for path in ("a\tb", "a\u2028b", "a\\-b", "a/-b", "a\\b ", "a/ b", "a/b.", "a$(b)", "a;b")
        ),
        *((f"a{mark}b", True) for mark in "\u202a\u202e\u2066\u2069\u200e\u200f"),
        ("\u00e9" * 128, True),
        ("d" * 256, True),
        ("/".join(["d" * 127] * 8) + "x", False),  # 1024
        ("/".join(["d" * 127] * 8) + "xy", True),
    ],
)
def test_an_odd_name_is_asked_about(path: str, odd: bool) -> None:
    assert ("odd-name" in rules(Change(path, "add"))) is odd


# ---- what no policy can allow ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (Change("a", "symlink"), ("ask", "link")),
        (Change("a", "symlink", target="~/x"), ("deny", "outside")),
        (Change("a", "symlink", target="src"), ("allow", "ordinary")),
        (Change("a", "symlink", target="."), ("ask", "link")),
        (Change("a", "symlink", target="../../etc"), ("deny", "outside")),
        (Change("a", "symlink", target=".flyball/out/x"), ("deny", "tampering")),
        (Change("a", "symlink", added=("~/x",)), ("deny", "outside")),
        (Change("a", "symlink", added=("src",)), ("allow", "ordinary")),
        (Change("a", "symlink", added=("src", "lib")), ("ask", "link")),
        (
            Change("a/b/c.txt", "hardlink", target="../d.txt"),
            ("allow", "ordinary"),
        ),  # counted from its folder
        (Change("c.txt", "hardlink", target="../d.txt"), ("deny", "outside")),
        (Change("a/b.txt", "hardlink", target="/etc/passwd"), ("deny", "outside")),
        (Change("a/b.txt", "hardlink", target=".env"), ("deny", "secret-file")),
        (Change("a/b.txt", "hardlink", target="c.txt"), ("allow", "ordinary")),
        (Change("a/b.txt", "hardlink", target=""), ("deny", "link")),
        (Change("b.txt", "hardlink", target=".git/config"), ("deny", "git-internals")),
        (Change("a/link", "symlink", target="../src/x.py"), ("allow", "ordinary")),
        (Change("a/link", "symlink", target="../.git/hooks"), ("deny", "git-internals")),
        (Change("a", "special"), ("deny", "special-file")),
        (Change("a", "add", mode="160000"), ("ask", "embedded-repo")),
        (Change("a", "add", mode="104755"), ("ask", "mode-bits")),
        (Change("a", "add", mode="100666"), ("ask", "mode-bits")),
        (Change("a", "add", mode="100644"), ("allow", "ordinary")),
        (Change(".flyball/out/a", "add"), ("allow", "ordinary")),
        (Change(".flyball/policy.toml", "modify"), ("deny", "tampering")),
        (Change(".flyball/out/a", "symlink", target="b"), ("deny", "tampering")),
        (Change("flyball.toml", "modify"), ("deny", "tampering")),
        (Change("x/.config/flyball/a", "add"), ("deny", "tampering")),
        (Change(".config/flyball/a", "add"), ("deny", "tampering")),
        (Change("src/a", "rename", from_=".flyball/out/a"), ("allow", "ordinary")),
        (Change("x/.local/state/flyball", "add"), ("deny", "tampering")),
        (Change("x/.local/state/flyballs", "add"), ("allow", "ordinary")),
        (Change("a\0b", "add"), ("deny", "odd-name")),
        (Change("a\tb", "add"), ("ask", "odd-name")),
        (Change(" ", "add"), ("deny", "odd-name")),
    ],
)
def test_what_a_change_is_decides_before_any_policy(change: Change, found: tuple[str, str]) -> None:
    assert ruled(change) == found


# ---- policies ------------------------------------------------------------------------------------------------------------------


def line_rule(**more: Any) -> Policy:
    rule = LineRule(**{"verdict": "ask", "reason": "r", "files": ("*.py",), "lines": ("x", "y"), **more})
    return replace(POLICY, lines={"mine": rule})


@pytest.mark.parametrize(
    ("old", "new", "is_looser"),
    [
        ({}, {}, False),
        ({}, {"ops": ("add",)}, True),
        ({"ops": ("add", "modify")}, {"ops": ("add",)}, True),
        ({"ops": ("add",)}, {"ops": ("add", "modify")}, False),
        ({"ops": ("add",)}, {"ops": ("add",)}, False),
        ({"ops": ("add",)}, {}, False),
        ({}, {"lines": ("x",)}, True),
        ({}, {"files": ("*.js",)}, True),
        ({"verdict": "deny"}, {}, True),
        ({}, {"verdict": "deny"}, False),
    ],
)
def test_a_rule_on_lines_that_applies_to_less_is_looser(
    old: dict[str, Any], new: dict[str, Any], is_looser: bool
) -> None:
    assert bool(looser(line_rule(**old), line_rule(**new))) is is_looser


def path_rule(**more: Any) -> Policy:
    rule = PathRule(**{"verdict": "ask", "reason": "r", "match": ("a", "b"), **more})
    return replace(POLICY, paths={"mine": rule})


@pytest.mark.parametrize(
    ("old", "new", "is_looser"),
    [
        ({}, {"match": ("a",)}, True),
        ({}, {"match": ("a",), "also": ("b",)}, False),
        ({}, {"except_": ("a",)}, True),
        ({"except_": ("a",)}, {}, False),
        ({"verdict": "deny"}, {}, True),
        ({}, {"verdict": "deny"}, False),
    ],
)
def test_a_rule_on_paths_that_covers_less_is_looser(
    old: dict[str, Any], new: dict[str, Any], is_looser: bool
) -> None:
    assert bool(looser(path_rule(**old), path_rule(**new))) is is_looser


def test_a_removed_rule_is_looser_and_one_more_is_not() -> None:
    without = replace(POLICY, paths={}, lines={})
    assert looser(replace(without, paths=path_rule().paths), without)
    assert looser(replace(without, lines=line_rule().lines), without)
    assert looser(without, replace(without, paths=path_rule().paths, lines=line_rule().lines)) == []


def test_an_exemption_counts_only_where_every_name_has_it() -> None:
    rule = PathRule("deny", "r", ("keys/*",), except_=("keys/public",))
    assert not rule.covers(place("keys/public", links()))
    assert rule.covers(place("keys/private", links()))
    assert rule.covers(place("keys/Public", links()))  # folded, but not exempted as written
    assert rule.covers(place("keys/public", links(**{"keys/other": "public"})))
    assert not rule.covers(place("src/a", links()))


def test_a_reason_is_a_sentence_with_one_end() -> None:
    for change in (
        Change("a", "special"),
        Change("a", "symlink", target=".env"),
        Change("a", "hardlink", target=".env"),
        Change("a", "add", mode="100666"),
    ):
        reason = judge_changes([change], POLICY, workspace="/w/repo").reason
        assert reason.endswith(".") and not reason.endswith("..")


# ---- changes as a whole ----------------------------------------------------------------------------------------------------


def evil(old: str | None, new: str | None, **more: Any) -> tuple[str, int]:
    """Verdict and line where a rule asks about added lines with the word evil."""
    policy = line_rule(lines=("evil",))
    change = Change(**{"path": "src/a.py", "op": "modify", "lines_added": 1, **more})
    texts = {"src/a.py": (old, new)} if new is not None else {}
    ruling = judge_changes([change], policy, workspace="/w/repo", texts=texts)
    return ruling.verdict, ruling.line


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("a\nb\n", "a\nevil\nb\n", ("ask", 2)),
        ("", "evil\n", ("ask", 1)),
        (None, "x\ny\nevil\n", ("ask", 3)),
        ("evil\na\n", "a\nevil\n", ("allow", 0)),  # it only moved
        ("evil\na\n", "a\nevil\nevil\n", ("ask", 3)),
        ("evil\nevil\na\n", "b\na\nevil\nevil\n", ("allow", 0)),
        ("evil\na\n", "a\n", ("allow", 0)),
    ],
)
def test_an_added_line_is_judged_where_it_stands_and_a_moved_one_is_not(
    old: str | None, new: str, found: tuple[str, int]
) -> None:
    assert evil(old, new) == found


def test_lines_of_a_diff_are_judged_with_or_without_their_marks() -> None:
    assert evil(None, None, added=("+evil", "")) == ("ask", 0)
    assert evil(None, None, added=("evil",)) == ("ask", 0)
    assert evil(None, None, added=("+a", "b")) == ("allow", 0)
    anchored = line_rule(lines=("^evil",))
    for added, word in ((("+evil",), "ask"), (("+evil", "x"), "allow")):
        change = Change("src/a.py", "modify", lines_added=1, added=added)
        assert judge_changes([change], anchored, workspace="/w/repo").verdict == word


def test_no_approval_lifts_what_no_policy_can_allow() -> None:
    def waivable(*changes: Change) -> bool:
        return judge_changes(list(changes), POLICY, workspace="/w/repo").waivable

    assert waivable(Change("src/a.py", "add")) and waivable(Change("a\tb", "add"))
    assert not waivable(Change(".git/config", "modify"))
    assert not waivable(Change("src/a.py", "add"), Change("../x", "add"))
    assert waivable(Change("src/pipe", "special"))  # refused, but a person may say otherwise


def test_links_are_as_they_will_be_after_the_change() -> None:
    there = {"link": "/etc"}
    written = Change("link/passwd", "modify")
    assert ruled(written, existing_symlinks=there) == ("deny", "outside")
    assert ruled(written)[0] == "allow"
    assert ruled(Change("link", "delete"), existing_symlinks=there)[0] == "allow"
    gone = Change("link", "delete")
    assert ruled(gone, written, existing_symlinks=there)[0] == "allow"
    moved = Change("other", "rename", from_="link")
    assert ruled(moved, existing_symlinks=there)[0] == "deny"
    up = Change("other", "rename", from_="a/b/link")
    assert ruled(up, existing_symlinks={"a/b/link": "src"})[0] == "allow"
    assert ruled(up, existing_symlinks={"a/b/link": "../../src"})[0] == "deny"  # from there it leads out
    made = Change("link", "symlink", target="/etc")
    assert ruled(made, written)[0] == "deny"


def test_files_changed_before_count_once() -> None:
    one, most = Change("src/a.py", "modify", lines_added=1), POLICY.radius.files_ask
    prior = [f"src/f{n}.py" for n in range(most)]
    assert ruled(one, prior_changed_files=prior) == ("ask", "radius-files")
    assert ruled(one, prior_changed_files=[*prior[:-1], "src/a.py"])[0] == "allow"
    assert ruled(one, prior_changed_files=[*prior[:-1], "./src/../src/a.py"])[0] == "allow"
    assert ruled(one, prior_changed_files=most - 1)[0] == "allow"
    assert ruled(one, prior_changed_files=most)[0] == "ask"


def test_a_change_that_cannot_be_judged_is_refused() -> None:
    broken = Change("src/a.py", "modify", added=(3,))  # type: ignore[arg-type]
    assert ruled(broken) == ("deny", "guard-error")


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (Change("lib/a.exe", "add"), "binary"),
        (Change("lib/a", "add", binary=True, mode="100755"), "binary"),
        (Change("lib/a", "add", binary=True, mode="100644"), "ordinary"),
        (Change("lib/a.exe", "delete"), "ordinary"),
    ],
)
def test_a_program_that_cannot_be_read_is_asked_about(change: Change, rule: str) -> None:
    assert ruled(change)[1] == rule
