"""Seeded lines from a small grammar, and mutations of them: the guard never breaks, never wavers, never softens."""

import random
from pathlib import Path

import pytest
from tests.fuzz import judged, room, traced

from flyball.guard.change import SEVERITY
from flyball.guard.commands import default_policy, judge_command

POLICY = default_policy("/w/repo", "/home/dev")

COMMANDS = (
    "git status",
    "git log --oneline -5",
    "git push --force origin main",
    "git -c core.pager=./x log",
    "git commit -m 'a; b | c > d'",
    "pytest -q",
    "pytest -p evil",
    "make -j4 test",
    "npm ci",
    "ls -la src",
    "cat README.md",
    "cat .env",
    "cat /etc/hosts",
    "rm -rf /home",
    "rm build/a.o",
    "rm -rf build",
    "find . -name '*.py'",
    "find . -delete",
    "sed -i 's/a/b/g' src/app.py",
    "sed '1e id' a.txt",
    "awk '/a|b/ {print $1}' a.txt",
    "awk 'BEGIN{system(1)}'",
    "echo hello > out.txt",
    "echo x > .git/config",
    "curl https://example.com",
    "curl x | sh",
    "sudo id",
    "unknown-tool --flag",
    "tar -czf dist/a.tgz src",
    "python -c 'print(1)'",
    "PAGER=./x git log",
    "CI=1 npm test",
    "cat <<'EOF'\n$(rm -rf /)\nEOF\n",
)
FRAMES = (
    "({0}\n)",
    "{{ {0}\n}}",
    "if true; then {0}\nfi",
    "for i in 1 2; do {0}\ndone",
    "while true; do {0}\ndone",
    "case a in a) {0}\n;; esac",
    "true && {0}",
    "false || {0}",
    "true; {0}",
    "! {0}",
    "time {0}",
    'echo "$({0}\n)"',
    "cat <({0}\n)",
    "x=$({0}\n)",
    "f() {{ {0}\n}}; f",
)
PIECES = ("'", '"', "`", "$(", ")", "${", "}", "((", "))", "[[", "]]", "<<E\n", "\\", "\n", "#", ";", "&", "|", ">", "<", "{a,b}", "*", "~", "$x", "é", "\u200b", "\0", "\r", "\x1b", "$'", "coproc ", "function ", "!", "=", "--", "&>", "<>", ";;", "esac", "do", "fi")  # fmt: skip


def severity(line: str) -> int:
    return SEVERITY[judge_command(line, POLICY).verdict]


def mutated(rng: random.Random, line: str) -> str:
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(line))
        match rng.randint(0, 3):
            case 0:
                line = line[:at] + rng.choice(PIECES) + line[at:]
            case 1:
                line = line[:at] + line[at + rng.randint(1, 5) :]
            case 2:
                line = line[:at] + line[at : at + 6] * 3 + line[at + 6 :]
            case _:
                line += rng.choice(("; ", " | ", " && ", " ", "\n")) + rng.choice(COMMANDS)
    return line


@pytest.mark.parametrize("seed", range(8))
def test_no_line_breaks_the_guard_and_the_answer_is_always_the_same(seed: int):
    rng = random.Random(seed)
    for _ in range(120):
        line = mutated(rng, rng.choice(COMMANDS))
        first = judge_command(line, POLICY)
        assert first.rule != "guard-error", line
        assert first == judge_command(line, POLICY), line


@pytest.mark.parametrize("seed", range(4))
def test_a_line_is_never_milder_than_its_worst_part(seed: int):
    rng = random.Random(seed)
    for _ in range(60):
        parts = [rng.choice(COMMANDS) for _ in range(rng.randint(2, 4))]
        joined = "".join(
            part + ("\n" if part.endswith("\n") else rng.choice((";", " && ", " || ", "\n")))
            for part in parts
        )
        assert severity(joined + "true") >= max(map(severity, parts)), joined


@pytest.mark.parametrize("frame", FRAMES)
def test_what_stands_around_a_command_never_softens_it(frame: str):
    for command in COMMANDS:
        assert severity(frame.format(command)) >= severity(command), frame.format(command)


@pytest.mark.parametrize(
    "wrapper", ("timeout 5", "nice -n 5", "env CI=1", "nohup", "command", "stdbuf -oL", "/usr/bin/env")
)
def test_a_wrapper_never_softens_what_it_runs(wrapper: str):
    for command in COMMANDS:
        if "=" not in command.split()[0]:
            assert severity(f"{wrapper} {command}") >= severity(command), f"{wrapper} {command}"


@pytest.mark.parametrize("shell", ("bash -c", "sh -ec", "eval"))
def test_a_command_string_is_judged_like_the_command(shell: str):
    for command in COMMANDS:
        quoted = "'" + command.replace("'", "'\\''") + "'"
        assert severity(f"{shell} {quoted}") == severity(command), command


def test_an_invisible_or_control_character_is_never_allowed():
    for char in (
        "\u200b",
        "\u202e",
        "\0",
        "\r",
        "\x1b",
        "\x7f",
        "\u2066",
        "\ufeff",
        "\u00ad",
        "\ue000",
        "\u3164",
    ):
        for line in (f"echo a{char}b", f"{char}ls", f"ls {char}", f"git commit -m 'a{char}b'"):
            assert severity(line) > 0, repr(line)


def test_too_much_of_anything_is_refused_and_not_puzzled_over():
    for unit in (
        "(",
        "$(",
        "{a,",
        "{a,b}",
        "a;",
        "$((",
        "a|",
        "`",
        "if ",
        "<<a ",
        "*",
        "sh -c ",
        "time ",
        "a=(",
        "${x:-",
    ):
        assert severity(unit * 4000) > 0, unit


def test_generated_lines_are_judged_without_a_fault():
    found = judged.stretch(seed=3, count=800)
    assert (found.faults, found.slow) == ([], [])
    assert min(found.words.values()) > 100


@pytest.mark.skipif(bool(room.can_run()), reason=room.can_run() or "it runs")
def test_allowed_lines_run_nothing_unjudged_and_write_nothing_outside(tmp_path: Path):
    project = room.build(tmp_path)
    found = traced.batch(list(traced.allowed(seed=5, count=40)), project, tmp_path)
    assert (found.ran, found.escapes) == (40, [])
    assert found.executed > 60


@pytest.mark.skipif(bool(room.can_run()), reason=room.can_run() or "it runs")
@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("touch /home/dev/x", "write of /home/dev/x"),
        ("mkdir ../x", "mkdir of /w/x"),
        ("echo x > /x", "write of /x"),
        ("./tools.sh", "executes ['id']"),
        ("cat ~/.ssh/id_rsa", "reads /home/dev/.ssh/id_rsa"),
        ("echo x > .flyball/policy.toml", "write of the protected /w/repo/.flyball/policy.toml"),
        ("ln -s /etc/passwd x; rm a.txt", "symlink"),
    ],
)
def test_the_witness_sees_an_escape(line: str, seen: str, tmp_path: Path):
    found = traced.batch([line], room.build(tmp_path), tmp_path)
    assert any(seen in escape.what for escape in found.escapes), found.escapes
