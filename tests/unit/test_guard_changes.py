"""The change guard: where a path really leads, what is protected, how far a run may reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import flyball.guard
from flyball.guard.change import Change, Verdict, read_changes, read_links, worst
from flyball.guard.changes import judge_changes
from flyball.guard.policy import parse

POLICY = parse((Path(flyball.guard.__file__).parent / "policies" / "default.toml").read_text("utf-8")).get()
WORKSPACE = "/w/repo"


def judge(
    *changes: Change | str, links: Mapping[str, str] | None = None, prior: Sequence[str] | int = ()
) -> Verdict:
    made = [
        c if isinstance(c, Change) else Change(c, "modify", lines_added=3, lines_deleted=1) for c in changes
    ]
    return judge_changes(
        made, POLICY, workspace=WORKSPACE, existing_symlinks=links, prior_changed_files=prior
    )


def ruled(*changes: Change | str, **more: Any) -> tuple[str, str]:
    ruling = judge(*changes, **more)
    return ruling.verdict, ruling.rule


def link(path: str, target: str) -> Change:
    return Change(path, "symlink", target=target)


def many(count: int, op: Any = "add") -> list[Change]:
    return [Change(f"src/m{n}.py", op, lines_added=1) for n in range(count)]


@pytest.mark.parametrize(
    "path",
    [
        *("src/app.py", "README.md", ".gitignore", ".github/FUNDING.yml", ".github/PULL_REQUEST_TEMPLATE.md"),
        *(
            ".env.example",
            "config/.env.sample",
            "src/license.py",
            "docs/migration-guide.md",
            "src/hooks/useX.ts",
        ),
        *("src/infra/db.py", "package.json", "pyproject.toml", "app/[slug]/page.tsx", "app/routes/$id.tsx"),
        *("docs/über.md", "src/a b.py", "/w/repo/src/x.py", "src/../src/x.py", "src\\x.py", "./src//x.py"),
        *(
            "src/git/x.py",
            "locales/en/auth.json",
            ".flyball/out/PLAN.md",
            "src/charts/pie.tsx",
            "SECURITY.md",
        ),
    ],
)
def test_everyday_files_are_allowed(path: str) -> None:
    assert ruled(path) == ("allow", "ordinary")


@pytest.mark.parametrize(
    "path",
    [
        *(".git/config", ".git", "vendor/x/.git", ".GIT/hooks/x", "src/../.git/x", "src//..//.git/x"),
        *(".git\\hooks\\x", "src\\..\\.git\\x", ".g\u200bit/config", "\ufeff.git/x", ".git./x", ".git /x"),
        *(".git::$INDEX_ALLOCATION/x", "git~1/config", "/w/repo/.git/config", "a/b/.Git/modules/x"),
    ],
)
def test_the_files_of_git_are_refused_however_they_are_written(path: str) -> None:
    assert "git-internals" in {f.rule for f in judge(path).findings}
    assert judge(path).verdict == "deny"


@pytest.mark.parametrize(
    "path",
    [
        *(".flyball/policy.toml", ".FLYBALL/x", ".flyball", ".flyball/machines/m.toml", ".fly\u200bball/x"),
        *(".flyball/out/../policy.toml", ".flyball/OUT/x", ".flyball/outer/x", ".flyball\\policy.toml"),
        *("flyball.toml", "src/../.flyball/flyball.toml"),
    ],
)
def test_the_files_of_flyball_are_tampering(path: str) -> None:
    ruling = judge(path)
    assert (ruling.verdict, ruling.waivable) == ("deny", False)
    assert "tampering" in {f.rule for f in ruling.findings}


@pytest.mark.parametrize(
    "path",
    [
        *(
            "../x.py",
            "/etc/passwd",
            "src/../../x",
            "/w/repo2/x",
            "/w/repo/../x",
            "~/.bashrc",
            "C:\\Windows\\x",
        ),
        *("..\\x", "//etc/x", "\\\\server\\share\\x", "/w/repo", "src/..", "."),
    ],
)
def test_the_world_outside_is_refused(path: str) -> None:
    assert ruled(path) == ("deny", "outside")


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        (".claude/settings.json", "agent-settings"),
        ("sub/.CLAUDE/hooks/x.sh", "agent-settings"),
        (".mcp.json", "agent-settings"),
        (".codex/config.toml", "agent-settings"),
        (".vscode/settings.json", "agent-settings"),
        (".env", "secret-file"),
        ("config/.env.production", "secret-file"),
        ("keys/id_ed25519", "secret-file"),
        ("certs/server.pem", "secret-file"),
        (".aws/credentials", "secret-file"),
    ],
)
def test_settings_of_agents_and_files_of_secrets_are_refused(path: str, rule: str) -> None:
    assert ruled(path) == ("deny", rule)


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        (".github/workflows/ci.yml", "ci"),
        (".GitHub/Workflows/ci.yml", "ci"),
        (".gitlab-ci.yml", "ci"),
        ("Jenkinsfile", "ci"),
        (".husky/pre-commit", "hooks"),
        (".pre-commit-config.yaml", "hooks"),
        ("setup.py", "build-scripts"),
        ("Makefile", "build-scripts"),
        ("src/x.pth", "build-scripts"),
        ("CLAUDE.md", "instructions"),
        (".cursor/rules/a.mdc", "instructions"),
        ("app/migrations/0002_x.py", "migrations"),
        ("infra/main.tf", "infrastructure"),
        ("Dockerfile", "infrastructure"),
        ("LICENSE", "licence"),
        (".gitmodules", "embedded-repo"),
        ("pytest.ini", "test-config"),
        (".github/CODEOWNERS", "review-rules"),
        ("package-lock.json", "lockfile"),
    ],
)
def test_what_needs_a_person_is_asked(path: str, rule: str) -> None:
    assert ruled(path) == ("ask", rule)


@pytest.mark.parametrize(
    "name", ["a\nb.py", "\u202eyp.exe", "x\u200b.py", "-rf", "$(id).py", "a\x1b.py", "n" * 300]
)
def test_odd_names_are_asked_about(name: str) -> None:
    assert judge(f"src/{name}").verdict == "ask"


def test_a_name_that_only_looks_protected_is_asked_about() -> None:
    assert ruled(".g\u0456t/config") == ("ask", "lookalike")


@pytest.mark.parametrize(
    "changes",
    [
        [link("a", "/etc/passwd")],
        [link("src/a", "../../x")],
        [link("a", "b"), link("b", "/etc")],
        [link("a", "b"), link("b", "a")],
        [link("d", "/etc"), Change("d/x", "add")],
        [Change("h", "hardlink", target="/etc/passwd")],
        [Change("x", "add", mode="120000", added=("/etc/passwd",))],
    ],
)
def test_links_that_lead_out_are_refused(changes: list[Change]) -> None:
    assert judge(*changes).verdict == "deny"
    assert "outside" in {f.rule for f in judge(*changes).findings}


@pytest.mark.parametrize(
    ("target", "rule"), [(".git", "git-internals"), (".flyball/x", "tampering"), (".env", "secret-file")]
)
def test_links_to_what_is_protected_are_refused(target: str, rule: str) -> None:
    assert ruled(link("a", target)) == ("deny", rule)
    assert ruled(Change("a", "hardlink", target=target)) == ("deny", rule)


def test_links_that_stay_inside_are_allowed() -> None:
    assert judge(link("src/a", "../README.md"), link("b", "src"), link("c", "/w/repo/src")).verdict == "allow"


def test_writing_through_a_link_is_writing_where_it_leads() -> None:
    assert ruled("d/x", links={"d": "/etc"}) == ("deny", "outside")
    assert ruled("D/x", links={"d": "/etc"}) == ("deny", "outside")
    assert ruled("d/config", links={"d": "e", "e": ".git"}) == ("deny", "git-internals")
    assert ruled("d/../x", links={"d": "/etc"}) == ("deny", "outside")
    assert ruled("d/x", links={"d": "src"}) == ("allow", "ordinary")


def test_a_file_is_judged_by_every_name_it_has() -> None:
    assert ruled("cfg/settings.json", links={".claude": "cfg"}) == ("deny", "agent-settings")
    assert ruled("ci/workflows/x.yml", links={".github": "ci"}) == ("ask", "ci")
    assert judge(link(".github", "ci"), "ci/workflows/x.yml").rule == "ci"


def test_a_removed_link_no_longer_leads_anywhere() -> None:
    assert ruled(Change("d", "delete"), "d/x", links={"d": "/etc"}) == ("allow", "ordinary")


def test_a_link_that_moves_is_judged_from_its_new_place() -> None:
    moved = Change("link", "rename", from_="a/b/link")
    assert ruled(moved, links={"a/b/link": "../../x"}) == ("deny", "outside")


def test_a_rename_is_judged_at_both_ends() -> None:
    assert ruled(Change("x.txt", "rename", from_=".env")) == ("deny", "secret-file")
    assert ruled(Change(".git/hooks/x", "rename", from_="x")) == ("deny", "git-internals")
    assert ruled(Change("x.yml", "rename", from_=".github/workflows/x.yml")) == ("ask", "ci")


@pytest.mark.parametrize(("count", "verdict"), [(20, "allow"), (21, "ask"), (199, "ask"), (200, "deny")])
def test_files_have_a_limit(count: int, verdict: str) -> None:
    assert judge(*many(count)).verdict == verdict


@pytest.mark.parametrize(("count", "verdict"), [(5, "allow"), (6, "ask"), (29, "ask"), (30, "deny")])
def test_deletions_have_a_limit(count: int, verdict: str) -> None:
    assert judge(*many(count, "delete")).verdict == verdict


def test_lines_have_a_limit_over_the_run() -> None:
    half = Change("a.py", "modify", lines_added=400, lines_deleted=400)
    assert judge(half).verdict == "allow"
    again = judge_changes([half], POLICY, workspace=WORKSPACE, prior_lines=1)
    assert (again.verdict, again.rule) == ("ask", "radius-lines")


def test_files_are_counted_once_over_the_run() -> None:
    before = ["src/a.py", *(f"s/m{n}.py" for n in range(19))]
    assert judge("src/a.py", "./src/../src/a.py", prior=before).verdict == "allow"
    assert ruled("src/b.py", prior=before) == ("ask", "radius-files")
    assert ruled("src/b.py", prior=20) == ("ask", "radius-files")


@pytest.mark.parametrize(
    ("change", "verdict", "rule"),
    [
        (Change("a.png", "add", binary=True, bytes=1_000_000), "allow", "ordinary"),
        (Change("a.png", "add", binary=True, bytes=1_000_001), "ask", "big-file"),
        (Change("a.mp4", "add", bytes=50_000_001), "deny", "big-file"),
        (Change("a.json", "add", bytes=5_000_001), "ask", "big-file"),
        (Change("bin/t", "add", binary=True, mode="100755"), "ask", "binary"),
        (Change("a.exe", "add"), "ask", "binary"),
        (Change("run.sh", "mode", mode="100755"), "allow", "ordinary"),
        (Change("run.sh", "mode", mode=104755), "ask", "mode-bits"),
        (Change("p", "special"), "deny", "special-file"),
        (Change("vendor/x", "add", mode="160000"), "ask", "embedded-repo"),
    ],
)
def test_kinds_and_sizes(change: Change, verdict: str, rule: str) -> None:
    assert ruled(change) == (verdict, rule)


def test_a_lock_file_goes_with_its_manifest() -> None:
    assert judge("package.json", "package-lock.json").verdict == "allow"
    assert judge("crates/x/Cargo.toml", "Cargo.lock").verdict == "allow"
    assert judge("uv.lock", prior=["pyproject.toml"]).verdict == "allow"
    assert ruled("sub/package-lock.json", "package.json") == ("ask", "lockfile")


@pytest.mark.parametrize(
    ("path", "line", "rule"),
    [
        ("package.json", '"postinstall": "node x.js"', "install-scripts"),
        ("package.json", '    "prepare": "husky"', "install-scripts"),
        ("pyproject.toml", 'build-backend = "own"', "build-backend"),
        ("requirements.txt", "--index-url http://somewhere/simple", "package-source"),
        (".gitattributes", "*.c filter=own", "git-attributes"),
        ("src/x.py", "access = 'user\u202e'", "hidden-character"),
    ],
)
def test_lines_that_need_a_person(path: str, line: str, rule: str) -> None:
    assert ruled(Change(path, "modify", lines_added=1, added=(line,))) == ("ask", rule)


@pytest.mark.parametrize(
    "line", ['"prettier": "^3.0.0",', '"postcss": "^8",', '"build": "tsc"', '"lodash": "^4"']
)
def test_ordinary_lines_of_a_manifest_are_allowed(line: str) -> None:
    assert judge(Change("package.json", "modify", lines_added=1, added=(line,))).verdict == "allow"


def test_a_secret_is_refused_with_its_line_and_cannot_be_waived() -> None:
    new = 'a = 1\nt = "' + "ghp_" + "p9Lm4KzX7vQw2RtY8nBs5HcJd1Fg6Ue3AoTi" + '"\n'
    change = Change("src/x.py", "modify", lines_added=1)
    ruling = judge_changes([change], POLICY, workspace=WORKSPACE, texts={"src/x.py": ("a = 1\n", new)})
    assert (ruling.verdict, ruling.rule, ruling.file, ruling.line) == ("deny", "secret", "src/x.py", 2)
    assert not ruling.waivable


def test_a_secret_that_was_there_before_is_no_new_one() -> None:
    old = 't = "' + "ghp_" + "p9Lm4KzX7vQw2RtY8nBs5HcJd1Fg6Ue3AoTi" + '"\n'
    change = Change("src/x.py", "modify", lines_added=1)
    ruling = judge_changes([change], POLICY, workspace=WORKSPACE, texts={"src/x.py": (old, old + "b = 2\n")})
    assert ruling.verdict == "allow"


def test_a_public_certificate_is_no_secret() -> None:
    seen = ("-----BEGIN CERTIFICATE-----", "MIIB", "-----END CERTIFICATE-----")
    assert judge(Change("certs/ca.pem", "add", lines_added=3, added=seen)).verdict == "allow"


def test_two_names_that_are_one_on_some_disks_are_asked_about() -> None:
    assert ruled(Change("README.md", "add"), Change("readme.md", "add")) == ("ask", "name-collision")


def test_a_repository_under_another_name_is_asked_about() -> None:
    assert ruled(Change("x/HEAD", "add"), Change("x/objects/ab", "add")) == ("ask", "embedded-repo")


def test_the_worst_finding_decides_and_all_are_told() -> None:
    ruling = judge("src/app.py", "Makefile", ".git/hooks/pre-commit")
    assert (ruling.verdict, ruling.rule, ruling.file) == ("deny", "git-internals", ".git/hooks/pre-commit")
    assert {"build-scripts", "git-internals"} <= {f.rule for f in ruling.findings}


def test_only_some_refusals_cannot_be_waived() -> None:
    assert judge(*many(250)).waivable
    assert judge(".claude/settings.json").waivable
    assert not judge("../x").waivable


def test_what_cannot_be_judged_is_refused() -> None:
    broken: Any = [Change("src/x.py", "modify", mode="\ud800"), None]
    ruling = judge_changes(broken, POLICY, workspace=WORKSPACE)
    assert (ruling.verdict, ruling.rule, ruling.waivable) == ("deny", "guard-error", False)


PIECES = [
    *(
        "src",
        "tests",
        "/",
        "..",
        ".",
        "\\",
        ".git",
        ".flyball",
        "out",
        "~",
        "C:",
        "\0",
        "\u200b",
        "e\u0301",
        "test_x.py",
    ),
    *("package.json", "\ud800", "*", "{", "\n", "-", " "),
]
LINES = [
    "assert x == 1",
    "def test_a():",
    "(",
    '"""',
    "token = '",
    "\0",
    "try:",
    "except:",
    "\ud800",
    "if 1:",
    "expect(",
]
NAME = st.lists(st.sampled_from(PIECES), max_size=5).map("".join)
TEXT = st.lists(st.sampled_from(LINES), max_size=5).map(tuple)
CHANGE = st.builds(
    Change,
    path=NAME,
    op=st.sampled_from(["add", "modify", "delete", "rename", "symlink", "hardlink", "special", "mode"]),
    from_=st.none() | NAME,
    target=st.none() | NAME,
    added=st.none() | TEXT,
    removed=st.none() | TEXT,
    mode=st.sampled_from([None, "100755", "x", -1, "160000", 120000]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(CHANGE, max_size=3), st.dictionaries(NAME, NAME, max_size=3), TEXT)
def test_whatever_comes_is_judged(
    changes: list[Change], links: dict[str, str], text: tuple[str, ...]
) -> None:
    texts = {change.path: (None, "\n".join(text)) for change in changes}
    ruling = judge_changes(changes, POLICY, workspace=WORKSPACE, existing_symlinks=links, texts=texts)
    assert ruling.rule != "guard-error", ruling.reason
    assert ruling.verdict == worst(ruling.findings).verdict


def test_changes_are_read_from_plain_rows() -> None:
    rows = [{"path": "b.py", "op": "rename", "from": "a.py"}, {"path": "x", "op": "mode", "mode": 100755}]
    assert read_changes(rows) == (Change("b.py", "rename", from_="a.py"), Change("x", "mode", mode=100755))


@pytest.mark.parametrize("form", [{"a": "b"}, [["a", "b"]], [{"path": "a", "target": "b"}]])
def test_links_are_read_in_any_form(form: object) -> None:
    assert read_links(form) == {"a": "b"}
    assert read_links(None) == {}


@pytest.mark.parametrize(
    "path", ["docs/Dockerfile.md", "docs/compose.md", "src/hooks/useAuth.ts", ".github/FUNDING.yml"]
)
def test_a_document_about_something_is_not_the_thing(path: str) -> None:
    assert judge(Change(path)).verdict == "allow"


def test_attributes_are_asked_about_where_their_lines_are_not_known() -> None:
    assert judge(Change(".gitattributes")).verdict == "ask"
    assert judge(Change(".gitattributes", added=("*.png binary",))).verdict == "allow"


def test_a_guide_about_a_build_file_or_a_licence_is_a_guide() -> None:
    guides = ("docs/Makefile.md", "docs/setup.py.md", "docs/guide/LICENSE-guide.md", "src/makefile-notes.md")
    assert {ruled(path)[0] for path in guides} == {"allow"}
    assert {ruled(path)[0] for path in ("Makefile", "docs/Makefile", "LICENSE.md", "LICENSE-MIT")} == {"ask"}
