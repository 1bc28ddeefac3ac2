"""Text tools with their own language (sed, awk, jq), and commands that print the environment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from flyball.guard import word_set
from flyball.guard.commands.args import HOLE, Arg
from flyball.guard.commands.checks.shell_builtins import joined
from flyball.guard.commands.checks.wrappers import in_shell
from flyball.guard.commands.context import Stream
from flyball.guard.commands.endless import code_never_ends
from flyball.guard.commands.environment import harmless, looks_secret
from flyball.guard.commands.expand import name_again
from flyball.guard.commands.known_output import printed_text

if TYPE_CHECKING:
    from flyball.guard.commands.command_judge import Call

SCRIPT_MOST = 4_000
_FILE_TESTS = word_set("-a -b -c -d -e -f -g -h -k -p -r -s -t -u -w -x -G -L -N -O -S")


def printf(call: Call) -> None:
    words = list(call.operands)
    if words and re.match(r"-v.", words[0].text):
        words[:1] = [Arg("-v"), words[0].tail(2)]
    if len(words) > 1 and words[0].text == "-v":
        name_again(words[1], call.context, call.judge)
        call.judge.variable(words[1].text.partition("[")[0], Arg(HOLE, unknown=2), False, call.context)
        texts = [arg.text for arg in words[2:]]
        known = all(arg.literal for arg in words[2:]) and texts[:1] != ["-v"]
        call.context.state.hold(words[1].text, printed_text("printf", texts) if known else None)


def test(call: Call) -> None:
    """`test -f path` looks at a file; `-v` and subscripts are evaluated again."""
    before = ""
    for arg in call.operands:
        if before == "-v":
            name_again(arg, call.context, call.judge)
        elif re.search(r"\[.*[$`]", arg.text):
            call.judge.hidden(arg.text, call.context)
        if before in _FILE_TESTS and arg.text not in {"]", "-o", "-a"} and HOLE not in arg.text:
            call.path("look", arg)
        before = arg.text


def sed(call: Call) -> None:
    scripts = call.given.values("-e", "--expression")
    operands = list(call.operands)
    if not scripts and not call.given.has("-f", "--file") and operands:
        scripts = [operands.pop(0)]
    if scripts:
        _sed_script(call, Arg("\n".join(script.text for script in scripts)))
    in_place = call.given.has("-i", "--in-place")
    if any(not re.fullmatch(r"[\w.~-]*", suffix.text) for suffix in call.given.values("-i", "--in-place")):
        call.deny("path/outside", "The backup suffix contains a path.")
    for arg in operands:
        call.path("write" if in_place else "read", arg)


def _sed_script(call: Call, script: Arg) -> None:
    if HOLE in script.text or len(script.text) > SCRIPT_MOST:
        call.ask("opaque-operand", "The sed script is too long or unknown until the command runs.")
        return
    hazards = _sed_hazards(script.text)
    if hazards is None:
        call.ask("unreadable", "The sed script cannot be parsed.")
    for kind, value in hazards or ():
        if kind == "run":
            call.deny("hidden-command", "The sed script runs a command.")
        else:
            call.path(kind, Arg(value))


def awk(call: Call) -> None:
    operands = list(call.operands)
    included = {value.text for value in call.given.values("-i", "--include")}
    if included - ({"inplace"} if call.judge.policy.contained else set()):
        call.deny("hidden-command", "Loads other awk code.")
    for program in call.given.values("-e", "--source"):
        _awk_program(call, program)
    if not call.given.has("-f", "--file", "-e", "--source", "-E", "--exec") and operands:
        _awk_program(call, operands.pop(0))
    for arg in operands:
        if not re.match(r"[A-Za-z_]\w*=", arg.text):
            call.path("write" if included else "read", arg)


def _awk_program(call: Call, program: Arg) -> None:
    if HOLE in program.text or len(program.text) > SCRIPT_MOST:
        call.ask("opaque-operand", "The awk program is too long or unknown until the command runs.")
        return
    if code_never_ends(program.text):
        call.deny("unbounded", "The awk program never ends. Give it a limit.")
    for kind, value in _awk_hazards(program.text):
        if kind == "feed" and call.judge.policy.contained:
            in_shell(msgspec.structs.replace(call, context=call.context.reading(Stream("data"))), value)
        elif kind in {"run", "feed"}:
            call.deny("hidden-command", "The awk program runs a command.")
        elif kind == "unknown":
            call.ask("opaque-path", "The awk program uses a file that is unknown until it runs.")
        elif kind == "environment":
            call.deny("secret", "The awk program reads the environment.")
        else:
            call.path(kind, Arg(value))


def jq(call: Call) -> None:
    program = call.operands[0].text if call.operands else ""
    bare = re.sub(r'"(?:[^"\\]|\\[^(])*"', '""', program)
    if re.search(r"\$ENV|\$__prog|(?<![.\w$@])(?:str)?env(?:subst)?\b", bare):
        call.deny("secret", f"The {call.name} program reads the environment.")
    if re.search(r"(?<![.\w$])(?:import|include|load\w*|input_filename)\b", bare):
        call.ask("opaque-path", f"The {call.name} program reads other files.")


def printenv(call: Call) -> None:
    if not call.operands:
        call.deny("environment-listing", "Prints all environment variables.")
    for arg in call.operands:
        if looks_secret(arg.text):
            call.deny("secret", f"Prints '{arg.text}', which looks like a secret.")
        elif not harmless(arg.text):
            call.ask("environment", f"Prints '{arg.text}', which is not on the list of harmless variables.")


def env(call: Call) -> None:
    """`env NAME=value … command`: the assignments are judged, then the command."""
    operands = list(call.operands)
    while operands and "=" in operands[0].text:
        name = operands[0].text.partition("=")[0]
        call.judge.variable(name, operands.pop(0).tail(len(name) + 1), True, call.context)
    if operands:
        context = call.context.beyond_functions()
        for folder in call.given.values("-C", "--chdir"):
            context.state.cwds = tuple(joined(cwd, folder) for cwd in context.cwds)
        call.judge.command(operands, context)
    elif not call.given.has("--version", "--help"):
        call.deny("environment-listing", "Prints all environment variables.")


# --- what an awk program does besides filtering: run commands, use other files, read the environment

_MARK = re.compile(
    r'"(?:[^"\\]|\\.)*"|#[^\n]*|/(?:[^/\\\n\[]|\\.|\[(?:[^\]\\]|\\.)*\])+/|[A-Za-z_@]\w*|\|&|\|\||&&|>>|>=|<=|[0-9.]+|\s+|.',
    re.DOTALL,
)
_REGEX_MAY_FOLLOW = frozenset(
    {"(", ",", "!", "~", "&&", "||", "{", ";", "\n", "}", "", "|", "?", ":", "=", "print"}
)
_DANGEROUS = frozenset({"system"})
_ENDS = frozenset({";", "}", "\n", "{"})
_FILE_ENDS = frozenset({";", "}", "\n", ")", ""})

Hazard = tuple[str, str]
"""What a script does, and to which file: `run`, `read`, `write`, `unknown` or `environment`."""


def _awk_hazards(program: str) -> list[Hazard]:
    """("run", …), ("feed", command), ("write", path), ("read", path), ("unknown", …) and ("environment", …)."""
    marks = [*_marks(program), "", ""]
    rows: list[Hazard] = []
    printing, level, getting = False, 0, False
    for at, mark in enumerate(marks[:-2]):
        printing = mark in {"print", "printf"} or (printing and mark not in _ENDS)
        getting = mark == "getline" or (getting and mark not in _ENDS)
        level = _level(mark, level, printing)
        rows.extend(_hazard(mark, marks[at + 1 : at + 3], printing and level == 0, getting))
    return rows


def _level(mark: str, level: int, printing: bool) -> int:
    if mark in {"print", "printf"} or not printing:
        return 0
    return max(level + {"(": 1, ")": -1}.get(mark, 0), 0)


def _hazard(mark: str, after: list[str], printing: bool, getting: bool) -> list[Hazard]:
    if mark == "|" and printing and _file("feed", after)[0] == "feed":
        return [_file("feed", after)]
    if mark in _DANGEROUS or mark[0] == "@" or mark in {"|&", "|"}:
        return [("run", mark)]
    if mark in {"ENVIRON", "PROCINFO", "SYMTAB", "FUNCTAB"}:
        return [("environment", mark)]
    if mark == "<" and (getting or _is_text(after[0])):
        return [_file("read", after)]
    if mark in {">", ">>"} and printing:
        return [_file("write", after)]
    return _arguments(mark, after)


def _arguments(mark: str, after: list[str]) -> list[Hazard]:
    """`ARGV[1] = "x"` adds a file to read."""
    return [("unknown", mark)] if mark == "ARGV" and after[0] == "[" else []


def _file(use: str, after: list[str]) -> Hazard:
    """The file is known only if a single string names it."""
    plain = _is_text(after[0]) and "\\" not in after[0] and after[1] in _FILE_ENDS
    return (use, after[0][1:-1]) if plain else ("unknown", after[0])


def _is_text(mark: str) -> bool:
    return len(mark) > 1 and mark[0] == mark[-1] == '"'


def _marks(program: str) -> list[str]:
    """Words and marks without blanks, comments and regular expressions."""
    marks: list[str] = []
    at = 0
    while at < len(program):
        match = _MARK.match(program, at)
        mark = match.group() if match else program[at]
        before = marks[-1] if marks else ""
        if len(mark) > 1 and mark[0] == "/" and before not in _REGEX_MAY_FOLLOW:
            mark = "/"  # a division, not a regular expression
        at += len(mark)
        if mark[0] == "#" or (len(mark) > 1 and mark[0] == "/"):
            continue
        if not mark.isspace():
            marks.append(mark)
        elif "\n" in mark:
            marks.append("\n")
    return marks


# --- what a sed script does besides editing: run commands, read and write other files

_ADDRESS = re.compile(r"[0-9]+(?:~[0-9]+)?|\$|~[0-9]+|\+[0-9]+")
_PLAIN = re.compile(r"[dDgGhHnNpPxzF=l]")
_LABEL = re.compile(r"[:btTvqQLl]\s*[^;}\n]*")
_TEXT = re.compile(r"[aic](?:[^\n\\]|\\.|\\\n)*", re.DOTALL)
_FILE = re.compile(r"[^\n]*")


def _sed_hazards(script: str) -> list[Hazard] | None:
    """Everything it reads, writes and runs, or None if the script cannot be parsed."""
    rows: list[Hazard] = []
    at = 0
    for _ in range(len(script) + 1):
        at = _blank(script, at)
        if at >= len(script):
            return rows
        step = _command(script, at, rows)
        if step is None or step <= at:
            return None
        at = step
    return None


def _blank(script: str, at: int) -> int:
    match = re.compile(r"(?:[\s;{}]|#[^\n]*)*").match(script, at)
    return match.end() if match else at


def _command(script: str, at: int, rows: list[Hazard]) -> int | None:
    start = _addresses(script, at)
    if start is None or start >= len(script):
        return None
    at, letter = start, script[start]
    if letter in "{}":
        return at + 1
    if letter == "s":
        return _substitute(script, at, rows)
    if letter == "y":
        return _delimited(script, at + 1, 2)
    if letter in "rRwW":
        return _sed_file(script, at, rows, "read" if letter in "rR" else "write")
    if letter == "e":
        rows.append(("run", ""))
        return len(script)
    for pattern in (_PLAIN, _LABEL, _TEXT):
        match = pattern.match(script, at)
        if match:
            return match.end()
    return None


def _addresses(script: str, at: int) -> int | None:
    for _ in range(2):
        end = _address(script, at)
        if end is None:
            return None
        at = end
        comma = re.compile(r"\s*,\s*").match(script, at)
        if not comma:
            break
        at = comma.end()
    match = re.compile(r"[\s!]*").match(script, at)
    return match.end() if match else at


def _address(script: str, at: int) -> int | None:
    match = _ADDRESS.match(script, at)
    if match:
        return match.end()
    if script.startswith("/", at):
        return _flags(script, _delimited(script, at, 1))
    if script.startswith("\\", at):
        return _flags(script, _delimited(script, at + 1, 1))
    return at


def _flags(script: str, at: int | None) -> int | None:
    while at is not None and script[at : at + 1] in ("I", "M"):
        at += 1
    return at


def _delimited(script: str, at: int, count: int) -> int | None:
    """The end of `count` parts after the delimiter at `at`."""
    if at >= len(script) or script[at] in "\\\n":
        return None
    mark, at = script[at], at + 1
    inside = False
    while at < len(script) and count:
        char = script[at]
        if char == "\\":
            at += 1
        elif char == "[" and not inside:
            inside = "]" in script[at + 2 :]
        elif char == "]" and inside:
            inside = False
        elif char == mark and inside:
            return None  # seds differ on a delimiter inside brackets
        elif char == mark:
            count -= 1
        at += 1
    return None if count else at


def _substitute(script: str, at: int, rows: list[Hazard]) -> int | None:
    end = _delimited(script, at + 1, 2)
    if end is None:
        return None
    match = re.compile(r"[gpiImM0-9]*").match(script, end)
    end = match.end() if match else end
    if script[end : end + 1] == "e":
        rows.append(("run", ""))
        return len(script)
    if script[end : end + 1] == "w":
        return _sed_file(script, end, rows, "write")
    return end if script[end : end + 1] in ("", ";", "\n", " ", "}", "\t", "#") else None


def _sed_file(script: str, at: int, rows: list[Hazard], kind: str) -> int:
    match = _FILE.match(script, at + 1)
    name = match.group().strip() if match else ""
    rows.append((kind, name or "-"))
    return match.end() if match else len(script)
