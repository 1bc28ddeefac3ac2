"""Text tools with their own language (sed, awk, jq), and commands that print the environment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flyball.guard import word_set
from flyball.guard.commands import sedscript
from flyball.guard.commands.args import HOLE, Arg
from flyball.guard.commands.awkscript import hazards as awk_hazards
from flyball.guard.commands.checks.shell_builtins import joined
from flyball.guard.commands.endless import code_never_ends
from flyball.guard.commands.environment import harmless, looks_secret
from flyball.guard.commands.substitution import printed_text

if TYPE_CHECKING:
    from flyball.guard.commands.command_judge import Call

SCRIPT_MOST = 4_000
_FILE_TESTS = word_set("-a -b -c -d -e -f -g -h -k -p -r -s -t -u -w -x -G -L -N -O -S")


def printf(call: Call) -> None:
    words = list(call.operands)
    if words and re.match(r"-v.", words[0].text):
        words[:1] = [Arg("-v"), words[0].tail(2)]
    if len(words) > 1 and words[0].text == "-v":
        call.judge.hidden(words[1].text, call.context)
        call.judge.variable(words[1].text.partition("[")[0], Arg(HOLE, unknown=2), False, call.context)
        texts = [arg.text for arg in words[2:]]
        known = all(arg.literal for arg in words[2:]) and texts[:1] != ["-v"]
        call.context.state.hold(words[1].text, printed_text("printf", texts) if known else None)


def test(call: Call) -> None:
    """`test -f path` looks at a file; `-v` and subscripts are evaluated again."""
    before = ""
    for arg in call.operands:
        if before == "-v" or re.search(r"\[.*[$`]", arg.text):
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
    hazards = sedscript.hazards(script.text)
    if hazards is None:
        call.ask("unreadable", "The sed script cannot be parsed.")
    for kind, value in hazards or ():
        if kind == "run":
            call.deny("hidden-command", "The sed script runs a command.")
        else:
            call.path(kind, Arg(value))


def awk(call: Call) -> None:
    operands = list(call.operands)
    for program in call.given.values("-e", "--source"):
        _awk_program(call, program)
    if not call.given.has("-f", "--file", "-e", "--source", "-E", "--exec") and operands:
        _awk_program(call, operands.pop(0))
    for arg in operands:
        if not re.match(r"[A-Za-z_]\w*=", arg.text):
            call.path("read", arg)


def _awk_program(call: Call, program: Arg) -> None:
    if HOLE in program.text or len(program.text) > SCRIPT_MOST:
        call.ask("opaque-operand", "The awk program is too long or unknown until the command runs.")
        return
    if code_never_ends(program.text):
        call.deny("unbounded", "The awk program never ends. Give it a limit.")
    for kind, value in awk_hazards(program.text):
        if kind == "run":
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


def date(call: Call) -> None:
    if any(not arg.text.startswith("+") and arg.text for arg in call.operands):
        call.deny("privilege", "Sets the machine's clock.")


def ps(call: Call) -> None:
    if any(re.fullmatch(r"[a-df-zA-Z]*e[a-zA-Z]*", arg.text) for arg in call.operands):
        call.deny("process-environment", "Shows the environment of processes.")


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


CHECKS = {
    "printf": printf,
    "test": test,
    "sed": sed,
    "awk": awk,
    "jq": jq,
    "date": date,
    "ps": ps,
    "printenv": printenv,
    "env": env,
}
