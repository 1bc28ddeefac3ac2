"""A line is allowed only where two readers agree on it; a substitution counts for what it surely leaves."""

from __future__ import annotations

import pytest

from flyball.guard.commands import calls_of, default_policy, judge_command
from flyball.guard.commands.judge import NODES_MOST, disagreement
from flyball.guard.commands.known_output import printed_text

POLICY = default_policy("/w/repo", "/home/dev")


def verdict(line: str) -> str:
    return judge_command(line, POLICY).verdict


# ---- two readers -----------------------------------------------------------------------------------------------------


def differ(line: str, *starts: int) -> str:
    """What the second reader says where the first one saw commands at these places."""
    return disagreement(line, frozenset(starts))


@pytest.mark.parametrize(
    ("line", "starts"),
    [
        ("echo a", (0,)),
        ("echo a; ls", (0, 8)),
        ("echo $(ls)", (0, 7)),
        ("echo <(ls)", (0, 7)),
        ("x=1 ls", (4,)),
    ],
)
def test_every_command_of_the_second_reader_must_be_one_of_the_first(
    line: str, starts: tuple[int, ...]
) -> None:
    assert differ(line, *starts) == ""
    for missed in starts:
        assert differ(line, *(start for start in starts if start != missed))


def test_places_are_counted_in_letters_also_where_letters_are_long() -> None:
    """`é` is two bytes: the second reader counts those."""
    assert differ("echo é; ls", 0, 8) == ""
    assert differ("echo é; ls", 0, 9)
    assert differ("echo \U0001f600é; ls", 0, 9) == ""
    assert verdict("echo é; ls") == verdict("echo né à; ls src; echo ü") == "allow"


@pytest.mark.parametrize("line", ["echo 'ls; ls'", "echo a # ls; ls", "cat <<E\nls\n$(ls)\nE\n", "echo `ls`"])
def test_text_comments_heredocs_and_backticks_are_left_to_the_first_reader(line: str) -> None:
    assert differ(line, 0) == ""


@pytest.mark.parametrize("line", ["echo (", "if true; then ls", "x=(a b", "cat <<E\nfoo\n", 'echo "a'])
def test_what_the_second_reader_cannot_read_is_not_agreed_on(line: str) -> None:
    assert differ(line, *range(len(line)))


def test_a_second_reading_ends_after_so_many_parts() -> None:
    """Each command has three parts, and one stands between two."""
    most = "; ".join(["a"] * (NODES_MOST // 4))
    every = range(len(most))
    assert differ(f"{most} b", *every) == ""
    assert differ(f"{most} b b", *every)


def test_what_two_readers_see_differently_is_asked_about() -> None:
    found = judge_command("ls $((echo a); ls)", POLICY)
    assert found.verdict != "allow"


# ---- substitutions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "verdicts"),
    [
        ("touch $(echo {})", ("allow", "deny")),
        ("touch $(printf {})", ("allow", "deny")),
        ("touch $(printf '%s' {})", ("allow", "deny")),
        ("touch $(pwd)/../../{}", ("ask", "deny")),
        ("touch src/$(basename {})", ("allow", "allow")),
    ],
)
def test_a_substitution_is_judged_by_what_it_leaves(known: str, verdicts: tuple[str, str]) -> None:
    assert (verdict(known.format("src/x")), verdict(known.format("/etc/x"))) == verdicts


@pytest.mark.parametrize(
    "line",
    [
        "touch $(echo src/x; echo src/y)",  # two commands
        "touch $( (echo src/x) )",  # no simple one
        "touch $(true | echo src/x)",  # in a pipe
        "touch $(echo src/x > src/y)",  # it goes elsewhere
        "touch $(echo $(echo src/x))",  # in another
        "touch src/$(basename a b)",
        "touch $(git rev-parse --show-toplevel HEAD)/src/x",
        "touch $(dirname -z a)/x",
        'touch src/$(basename "$1")',
        "touch src/$(cat *.py)",
        "touch src/$(dirname *.py)",
        "touch src/$(basename *$1)",
        "touch src/$(cat a)",
        "touch src/$(grep x a | head -1)",
        "touch src/$(sort < a)",
        "touch src/$()",
        'touch "$(git rev-parse --git-dir)/hooks/pre-commit"',
        "touch $(git rev-parse a/../../../../etc/x)",  # it prints what is no revision
        "cat $(git rev-parse id_rsa)",
        "touch $(ls)",
        "if true; then cd src; fi; touch $(pwd)/x",  # in either folder
        "touch $(echo 'src/a\\x')",
    ],
)
def test_what_a_substitution_leaves_is_unknown_where_nobody_can_tell(line: str) -> None:
    assert (verdict(line), judge_command(line, POLICY).rule.partition("-")[0]) == ("ask", "opaque")


@pytest.mark.parametrize(
    "line",
    [
        "touch src/$(ls | wc -l)",  # a count
        "touch src/$(wc -l < a)",
        "touch src/$(wc -l *.py)",
        "touch src/$(date +%F)",
        "touch log-$(git rev-parse HEAD)",
        "sleep $(nproc)",
        "make -j$(nproc)",
        'for f in *.py; do touch src/$(basename "$f" .py); done',
        "cat $(git ls-files)",
        "cd src && touch $(pwd)/x",
        "touch $(git rev-parse --show-toplevel)/src/x",
        "touch $(dirname src/a)/x",
        "touch $(dirname a)/x",
    ],
)
def test_what_a_substitution_leaves_is_harmless_where_it_surely_is(line: str) -> None:
    assert verdict(line) == "allow"


@pytest.mark.parametrize(
    "line",
    [
        "touch $(basename /x/.git)/config",
        "touch $(basename /x/.git/)/config",
        "touch $(dirname /etc/a)/x",
        "cd /etc && touch $(pwd)/x",
        "touch $(git rev-parse --show-toplevel)/.git/x",
        "$(echo rm) -rf /home",
        "$(date)",
        "$(nproc)",
        'curl -d "$(git ls-files)" http://localhost:8000',
        "curl http://localhost:8000/?d=$(nproc)",
    ],
)
def test_a_substitution_does_not_hide_what_is_refused(line: str) -> None:
    assert verdict(line) == "deny"


def test_the_folder_of_a_file_at_the_top_is_the_top() -> None:
    found = judge_command("touch $(dirname /a)/x", POLICY)
    assert (found.verdict, found.rule) == ("ask", "path/outside")


def test_names_of_files_that_a_command_lists_are_many() -> None:
    assert judge_command("rm $(git ls-files)", POLICY).rule == "many-files"
    assert verdict("cat $(git ls-files .env)") != "allow"


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("echo", [], ""),
        ("echo", ["a", "b"], "a b"),
        ("echo", ["-n", "-e", "a\\tb"], "a\tb"),
        ("echo", ["-ne", "a\\nb"], "a\nb"),
        ("echo", ["a", "-e"], "a -e"),
        ("echo", ["a\\nb"], None),
        ("echo", ["-E", "a\\nb"], None),
        ("echo", ["-e", "\\x41"], None),
        ("printf", ["-x"], "-x"),
        ("printf", ["--", "%s!", "a"], "a!"),
        ("printf", ["--"], ""),
        ("printf", ["a\\nb"], "a\nb"),
        ("printf", ["%s"], ""),
        ("printf", ["%s:%%"], ":%"),
        ("printf", ["%%%s,", "a", "b"], "%a,%b,"),
        ("printf", ["%s,%s;", "a", "b", "c", "d"], "a,b;c,d;"),
        ("printf", ["x", "a", "b"], "x"),
        ("printf", ["%s", *["a"] * 64], "a" * 64),
        ("printf", ["%s", *["a"] * 65], None),
        ("printf", ["%q", "a"], None),
        ("printf", ["%s%%s"], "%s"),
    ],
)
def test_what_is_said_is_what_every_shell_says(name: str, words: list[str], said: str | None) -> None:
    assert printed_text(name, words) == said


# ---- where a line stands -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cd src || exit; touch ../x", "allow"),  # who could not enter has left
        ("cd src || exit && touch ../x", "allow"),
        ("cd src || cd tests || exit; touch ../x", "allow"),
        ("cd /etc || exit; touch x", "deny"),
        ("cd src || exit; touch ../../x", "ask"),
        ("cd src || true; touch ../x", "ask"),  # it may still be outside of it
        ("cd src || cd tests; touch ../x", "ask"),
        ("cd src && true || true; touch ../x", "ask"),
        ("cd src; touch ../x", "ask"),
        ("true && cd src; touch ../x", "ask"),
        ("cd src && cd .. && touch x", "allow"),
        ("cd src && touch a || touch ../../b", "ask"),
        ("cd .. | true; touch x", "ask"),
        ("(cd ..); touch x", "ask"),
        ("{ cd ..; }; touch x", "ask"),
        ("if true; then cd ..; fi; touch x", "ask"),
        ("while test -e y; do touch x; cd ..; done", "ask"),  # the second round begins there
        ("f() { cd ..; }; f; touch x", "ask"),
    ],
)
def test_a_line_is_judged_in_every_folder_that_it_may_be_in(line: str, expected: str) -> None:
    assert verdict(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("d=src; d=tests && true; touch $d/x", "allow"),
        ("d=src; d=tests && d=lib && true; touch $d/x", "allow"),
        ("d=src; true || d=..; touch $d/x", "ask"),
        ("d=src; true && d=..; touch $d/x", "ask"),
        ("d=src; true && d=tests || d=..; touch $d/x", "ask"),
        ("d=src; for f in a b; do touch $d/x; d=..; done", "ask"),
        ("for f in a b; do touch $d/x; d=..; done", "ask"),
        (f"for f in {' '.join('abcdefghijkl')}; do touch src/$f; done", "allow"),
        (f"for f in {' '.join('abcdefghijklm')}; do touch src/$f; done", "ask"),  # more than are looked at
        ("for f in a ../b; do touch $f; done", "ask"),
        ("for f; do touch $f; done", "ask"),
        ("for f in *.py; do cat $f; done", "allow"),
        ("for PATH in a b; do ls; done", "deny"),
        ("for ((i=0;i<3;i++)); do touch src/$i; done", "allow"),
        ("for ((PATH=0;PATH<3;PATH++)); do ls; done", "deny"),
        ("f() { touch $1; }; f src/x", "allow"),
        ("f() { touch $1; }; f ../x", "ask"),
        ("f() { f; }; f", "deny"),
        ("CI=src; CI=.. pytest; touch $CI/x", "allow"),  # given to one command alone
        ("CI=src; CI=1 read CI; touch $CI/x", "ask"),  # which may have set it
        ("g() { touch src/x; }; f() { g; }; f", "allow"),
    ],
)
def test_a_variable_is_judged_by_all_that_it_may_hold(line: str, expected: str) -> None:
    assert verdict(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ls 2>&1", "allow"),
        ("ls >&2", "allow"),
        ("ls >&-", "allow"),
        ("cat <&3", "allow"),
        ("ls >&src/x", "allow"),
        ("ls >&/etc/x", "deny"),
        ("ls > a b", "allow"),
        ("ls > {a,b}", "deny"),
        ("cat <> /etc/a", "deny"),
        ("sh < src/a.sh", "deny"),
        ("ls > >(sh)", "deny"),
    ],
)
def test_a_redirection_is_judged_by_the_one_place_that_it_opens(line: str, expected: str) -> None:
    assert verdict(line) == expected


# ---- another shell ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x=src/a; cat ${x:-/etc/shadow}", "allow"),
        ("x=src/a; bash -c 'cat ${x:-/etc/shadow}'", "deny"),  # x was not exported
        ("x=src/a; bash -c 'cat $x'", "ask"),
        ("for x in a b; do sh -c 'cat ${x:-/etc/shadow}'; done", "deny"),
        ("x=src/a; sh <<'E'\ncat ${x:-/etc/shadow}\nE", "deny"),
        ("x=src/a; watch 'cat ${x:-/etc/shadow}'", "deny"),
        ("X=/home sh -c 'rm -rf $X'", "deny"),  # x was
        ("f() { echo a; }; f", "allow"),
        ("f() { echo a; }; bash -c f", "ask"),
        ("bash -c 'x=src/a; cat $x'", "allow"),
        ("bash -c 'cat $1' _ src/a", "allow"),
    ],
)
def test_another_shell_has_what_was_exported_or_nothing(line: str, expected: str) -> None:
    assert verdict(line) == expected


def test_what_xargs_runs_may_get_no_argument() -> None:
    assert verdict("find src -name '*.py' | xargs git stash") == "ask"
    assert verdict("find src -name '*.py' | xargs wc -l") == "allow"


@pytest.mark.parametrize("line", ["echo a 2>&b", "cat <&b"])
def test_a_file_is_no_number_of_an_open_one(line: str) -> None:
    assert verdict(line) == "ask"


# ---- what a variable holds ------------------------------------------------------------------------------------------


def sure(line: str) -> bool:
    """Whether the guard believes that the last word of the line's end, `cat "$x"`, is one it knows."""
    return calls_of(f'{line}; cat "$x"', POLICY)[-1][-1].literal


@pytest.mark.parametrize("other", ["x=b", "read -r x <<< b", "printf -v x b", "declare x=b", "eval x=b"])
@pytest.mark.parametrize(
    "line",
    [
        "x=a; false && {}",
        "x=a; true; false && {}; true",
        "x=a; false || {}",
        "x=a; ls && {} && ls",
        "x=a; ls && {} || ls",
        "x=a; if ls; then {}; fi",
        "x=a; case a in b) {};; esac",
        "x=a; while ls; do {}; done",
        "x=a; while {}; ls; do x=a; done",
        "for i in *; do {}; break; x=a; done",
        "for i in 1 2; do x=a; ls && continue; {}; done",
        "f() {{ {}; }}; x=a; f",
        "f() {{ {}; ls && return; x=a; }}; f",
        "f() {{ local x=a; {}; }}; x=c; f",
        "x=a; eval '{}'",
        "trap '{}' DEBUG; x=a",
        "x=a; trap '{}' ERR",
        "readonly x=a\n{}",
        "declare -l x\n{}",
        "declare -i x; {}",
        "x=a; {}; x[0]=c",
    ],
)
def test_what_may_have_been_assigned_is_not_believed(line: str, other: str) -> None:
    assert not sure(line.format(other))


@pytest.mark.parametrize(
    "line",
    [
        "x=b; builtin read -r x <<< a",
        "x=b; command printf -v x a",
        "x=a; unset 'x[0]'",
        "x=a; declare x+=b",
        "y='a b'; x=a; command declare x=$y",
        "_=a; echo .env; x=$_",
        "x=a; exec {x}> out",
        "x=a; echo $((x = 1))",
        "x=$((y++)) ls; x=$y",
        "x=a; x=b sh -c 'x=c'; getopts a x",
        "read x <<< 'a\\b'",
        "read x <<< '\\a'",
        "read x <<< 'a\\'",
        "read x <<< ' a'",
        "IFS=a read x <<< ba",
        "IFS=$y read -r x <<< a",
        "eval 'read y; read x' <<< a",
        "bash -c 'read y; read x' <<< a; read x",
        "a=1; b=1; x=1; while ls; do x=$b; b=$a; a=2; done",
        "sh -c 'x=b eval true'; x=$1",
    ],
)
def test_what_nobody_can_know_is_not_believed(line: str) -> None:
    assert not sure(line)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("x=a; x=b", "b"),
        ("x=a; true && x=b", "b"),
        ("x=a; x=b && true && x=c", "c"),
        ("x=a; (x=b)", "a"),
        ("x=a; x=b ls", "a"),
        ("x=a; x=b | ls", "a"),
        ("x=a; unset -f x", "a"),
        ("y='a b'; declare x=$y", "a b"),
        ("x=a; y=$(echo ${x:=b})", "a"),
        ("y=; z=$(echo ${y:=b}); x=a$y", "a"),
        ("read x <<< 'a b'", "a b"),
        ("IFS= read -r x <<< a", "a"),
        ("printf -vx a", "a"),
        ("set -- a b; x=$2", "b"),
        ("set -- a b; set -- c; x=$1$2", "c"),
        ("set -- a; f() { x=$1; }; x=; f; x=$1", "a"),
        ("for x in a b; do ls; done; x=a", "a"),
        ("f() { return; }; x=a; f", "a"),
    ],
)
def test_what_was_surely_assigned_is_believed(line: str, value: str) -> None:
    calls = calls_of(f'{line}; cat "$x"', POLICY)
    assert calls[-1][-1].literal
    assert calls[-1][-1].text == value


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x='rm -rf /'; false && x=ls; $x", "deny"),
        ("x='rm -rf /'; export x; $x", "deny"),
        ('set -- a; set --; cat "$1.env"', "deny"),
        ('set -- a; f() { cat "$1.env"; }; f', "deny"),
        ("set -- a; bash -c 'cat \"$1.env\"'", "deny"),
        ('f() { cat "$x"; }; ls || f() { echo "$x"; }; x=.env; f', "deny"),
        ("f() { cd .git; }; f; touch hooks/x", "deny"),
        ("eval 'cd .git'; touch hooks/x", "deny"),
        ("trap 'touch hooks/x' EXIT; cd .git", "deny"),
        ("x=ls; trap '$x' EXIT; x='rm -rf /'", "deny"),
        ('f() { ls; }; trap f EXIT; f() { cat "$x"; }; x=.env', "ask"),
        ("trap 'cd ..' DEBUG; touch x", "ask"),
        ("trap 'rm -f out' EXIT; ls", "allow"),
        ("! cd src && touch ../x", "ask"),
        ("cd src && cd nope; cd - && touch ../x", "ask"),
        ("pushd src && pushd nope; popd && touch ../x", "ask"),
        ("pushd src; ls; popd; touch x", "allow"),
        ("popd; touch x", "ask"),
        ("f() { ls; }; command f", "ask"),  # a program of that name
        ("f() { ls; }; timeout 5 f", "ask"),
        ('f() { local x=.env; declare -g x=a; cat "$x"; }; f', "ask"),
        ('x=.env; f() { unset x; cat "$x"; }; x=a f', "ask"),
        ('g() { ls; }; trap g EXIT; set -- .example; g() { cat ".env$1"; }', "ask"),
        ("cd src || return; touch ../x", "ask"),  # there is no function to return from
        ("shopt -s lastpipe; ls", "ask"),
        ("bash -O lastpipe -c ls", "ask"),
        ("bash -o pipefail -c ls", "allow"),
        (f"{'; '.join(f'cd d{n}' for n in range(6))}; touch x", "ask"),
    ],
)
def test_what_a_function_a_trap_or_a_failure_leaves_is_judged(line: str, expected: str) -> None:
    assert verdict(line) == expected


# ---- names that somebody chose -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "git rev-parse --abbrev-ref HEAD",
        "git branch --show-current",
        "git symbolic-ref --short HEAD",
        "git describe --tags",
        "date +id_rsa",
        "date +i%pd_rsa",
        "TZ=abc date +%Z",
    ],
)
def test_a_chosen_name_is_harmless_as_text_but_not_as_a_path(name: str) -> None:
    assert verdict(f"echo $({name})") == verdict(f'git commit -m "on $({name})"') == "allow"
    assert verdict(f"cat $({name})") == verdict(f'cp a "src/$({name})"') == "ask"
    assert verdict(f"b=$({name}); cat $b") == verdict(f"echo a > $({name})") == "ask"


@pytest.mark.parametrize(
    "glob", ["*.env", "src/*.en?", "**/*.env", "cred*", "secrets.*", "[^a]d_rsa", "[[:alpha:]]d_rsa"]
)
def test_a_glob_that_finds_secrets_reads_them(glob: str) -> None:
    assert verdict(f"cat {glob}") == "deny"


@pytest.mark.parametrize("glob", ["*", "*.json", "*.yaml", "*.txt", "src/*.py", "src/*", "*s", "test_*"])
def test_a_glob_for_files_of_a_kind_is_no_search_for_secrets(glob: str) -> None:
    assert verdict(f"cat {glob}") == "allow"


def test_a_pattern_given_by_option_leaves_all_operands_as_paths() -> None:
    assert verdict("git grep -e S -- .env") == verdict("git grep S .env") == "deny"
    assert verdict("git grep -e S -- src") == "allow"


def test_a_line_that_runs_on_in_backticks_is_one_line() -> None:
    assert verdict("cat `echo '.e\\\nnv'`") == verdict("cat \"`echo '.e\\\nnv'`\"") == "deny"


@pytest.mark.parametrize(
    "word",
    [
        "{a}'{'x,/etc/shadow}",
        "{a}x,/etc/shadow}",
        "a{b}c,/etc/shadow}",
        "{a}{b}c,/etc/shadow}",
        "{/etc/..','shadow}",
    ],
)
def test_braces_that_bash_reads_on_through_are_not_allowed(word: str) -> None:
    assert verdict(f"cat {word}") != "allow"
    assert verdict("git diff stash@{0} stash@{1}") == "allow"
