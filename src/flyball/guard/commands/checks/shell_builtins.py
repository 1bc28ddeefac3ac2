"""Shell builtins: those that move, define, evaluate or set something for the rest of the line."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

import msgspec

from flyball.guard import word_set
from flyball.guard.commands.args import HOLE, Arg
from flyball.guard.commands.checks.wrappers import positional
from flyball.guard.commands.context import NO_INPUT, POSITIONS, Stream, Value
from flyball.guard.commands.environment import harmless, looks_secret
from flyball.guard.commands.expand import evaluate, name_again
from flyball.guard.commands.places import UNKNOWN

if TYPE_CHECKING:
    from flyball.guard.commands.command_judge import Call

_SET_FLAGS = re.compile(r"[-+][euxfvCn]*o?")
_SET_NAMES = word_set("pipefail errexit nounset xtrace noglob noclobber verbose")
_WHOLE_LINES = ("", "\n", " \t\n")
"""Values of IFS with which one variable gets a whole line."""


def cd(call: Call) -> None:
    """Later parts of the line are judged from the new directory."""
    if call.name == "dirs":
        return
    unsaid = Arg(call.judge.policy.home if call.name == "cd" else "-")
    target = _remembered(call) or (call.operands[0] if call.operands else unsaid)
    if target.text == "-" or not target.literal or (call.name == "popd" and target.text[:1] != "/"):
        call.context.state.cwds = (UNKNOWN,)
        call.ask("opaque-operand", "The directory is unknown until the command runs.")
        return
    call.path("look", target)
    moved = [joined(cwd, target) for cwd in call.context.cwds]
    previous = (
        call.context.cwds[0] if len(call.context.cwds) == 1 and call.context.cwds[0] != UNKNOWN else None
    )
    call.context.variables["OLDPWD"] = previous
    if call.name == "pushd":
        below = call.context.variables.get("DIRSTACK", ())
        call.context.variables["DIRSTACK"] = (
            (previous, *below) if previous and isinstance(below, tuple) else None
        )
    call.context.state.cwds = tuple(dict.fromkeys(moved))
    for text in call.judge.traps if not call.context.in_trap else ():
        trap_runs(call, text)


def _remembered(call: Call) -> Arg | None:
    """Where `cd -` and `popd` go back to, if this line has left it."""
    words = [arg.text for arg in call.operands]
    if call.name == "cd" and words == ["-"]:
        before = call.context.variables.get("OLDPWD")
        return Arg(before) if isinstance(before, str) and before.startswith("/") else None
    stack = call.context.variables.get("DIRSTACK")
    if call.name == "popd" and not words and isinstance(stack, tuple) and stack:
        call.context.variables["DIRSTACK"] = stack[1:]
        return Arg(stack[0])
    return None


def joined(cwd: str, folder: Arg) -> str:
    """The new directory; unknown if either part is."""
    if not folder.literal or (cwd == UNKNOWN and not folder.text.startswith("/")):
        return UNKNOWN
    return posixpath.normpath(posixpath.join(cwd, folder.text))


def declare(call: Call) -> None:
    exported = call.name == "export" or call.given.has("-x")
    if call.given.has("-n"):
        call.deny("hidden-command", "A name reference hides which variable is set.")
    if call.given.has("-f") and exported:
        call.deny("hidden-command", "Exports a function to every later command.")
    if not call.operands and not call.given.has("-f", "-F"):
        call.deny("environment-listing", "Prints all variables.")
    for arg in call.operands:
        name, equals, _ = arg.text.partition("=")
        call.judge.hidden(arg.text, call.context)
        if HOLE in name:
            name_again(arg, call.context, call.judge)
        if equals and call.given.has("-i"):
            evaluate(arg.tail(len(name) + 1), call.context, call.judge)
        if call.given.has("-p") and not harmless(name):
            call.deny("secret" if looks_secret(name) else "environment-listing", f"Prints '{name}'.")
        if equals or exported:
            call.judge.variable(
                name.rstrip("+").partition("[")[0], arg.tail(len(name) + 1), exported, call.context
            )
        _declared(call, name, arg.tail(len(name) + 1) if equals else None)


def _declared(call: Call, name: str, value: Arg | None) -> None:
    """Attributes change what is assigned later; a local variable starts anew."""
    bare = name.rstrip("+").partition("[")[0]
    changes = call.given.has("-g", "-i", "-l", "-u", "-a", "-A", "-t", "-I")
    if value is None and not changes:
        if call.name == "local" or call.context.calls:
            call.context.state.hold(bare, None)
    else:
        known = value is not None and bare == name and not changes
        call.context.state.hold(
            name.rstrip("+"), (value.text if value.literal else value) if value and known else None
        )
    if changes or call.name == "readonly" or call.given.has("-r"):
        call.context.state.odd.add(bare)


def shift(call: Call) -> None:
    """After a `shift` the positional arguments are unknown."""
    call.context.variables.update((name, None) for name in POSITIONS)


def leave(call: Call) -> None:
    """`return`, `break`, `continue`: the function or loop may end in this state."""
    call.context.exits.append(call.context.state.copy())


def unset(call: Call) -> None:
    for arg in call.operands:
        call.judge.hidden(arg.text, call.context)
        if arg.text.startswith("FLYBALL_"):
            call.deny("guard", f"'{arg.text}' belongs to Flyball.")
        if call.judge.is_dangerous(arg.text):
            call.ask("environment", f"'{arg.text}' changes what commands run or read.")
        if not call.given.has("-v"):
            call.context.functions.pop(arg.text, None)
        if not call.given.has("-f"):
            within = call.context.calls or call.context.depth
            call.context.state.hold(
                arg.text, None if within else ""
            )  # an outer variable of that name may show again


def set_options(call: Call) -> None:
    if not call.operands:
        call.deny("environment-listing", "Prints all variables.")
    expects_name = False
    for at, arg in enumerate(call.operands):
        if arg.text == "--":
            given = positional([arg, *call.operands[at + 1 :]])
            call.context.variables.update({name: given[name] for name in POSITIONS})
            return
        if expects_name and arg.text in _SET_NAMES:
            expects_name = False
        elif _SET_FLAGS.fullmatch(arg.text):
            expects_name = arg.text.endswith("o")
        else:
            call.ask("unknown-flag", f"Unknown option 'set {arg.text.replace(HOLE, '?')}'.")


def eval_(call: Call) -> None:
    """The arguments, joined, are a command line."""
    command = " ".join(arg.text for arg in call.operands)
    if HOLE in command or not all(arg.literal for arg in call.operands):
        remote = any(arg.remote for arg in call.operands)
        rule = "remote-code" if remote else "opaque-command"
        call.deny(rule, "Runs a command with 'eval' that is unknown until it runs.")
    else:
        call.context.state.may_also(call.judge.text(command, call.context).state)


def source(call: Call) -> None:
    if not call.operands:
        return
    script = call.operands[0]
    if script.pipe or script.remote or script.text.startswith("/dev/"):
        call.deny("remote-code", "Runs commands that are not in a file of the workspace.")
        return
    call.path("read", script)
    call.judge.check_download(script, call.context)
    if call.judge.is_inside(script, call.context, call.judge.own_places()):
        call.ask("unlisted-program", f"'{script.text}' runs in this shell and is not a declared command.")
        call.judge.run_written(script, call.context)
    else:
        call.deny("foreign-code", "Runs commands from outside the workspace in this shell.")


def command(call: Call) -> None:
    if call.operands and not call.given.has("-v", "-V"):
        call.judge.in_this_shell(call.operands, call.context)


def trap(call: Call) -> None:
    if not call.operands or call.given.has("-l", "-p"):
        return
    text = call.operands[0].text
    if HOLE in text:
        call.deny("opaque-command", "Sets a trap with a command that is unknown until it runs.")
    elif len(call.operands) > 1 and text not in {"", "-"}:
        trap_runs(call, text)
        _trap_sets(call, text)
        if text not in call.judge.traps:
            call.judge.traps.append(text)


def trap_runs(call: Call, text: str) -> None:
    """A trap runs at any time from now on. In a sandbox `rm "$dir"` and `kill $pid` are judged by their values at the end."""
    later = {"opaque-path", "process"} if call.judge.policy.contained else set[str]()
    with call.context.filtered(lambda verdict: verdict.rule not in later) as inner:
        call.judge.text(text, msgspec.structs.replace(inner.at_any_time(), in_trap=True))


def _trap_sets(call: Call, text: str) -> None:
    """What a trap assigns may hold from now on, between any two commands."""
    state = call.context.state
    start = msgspec.structs.replace(state.copy(), variables={})
    there = msgspec.structs.replace(call.context.aside(), state=start, stdin=NO_INPUT, in_trap=True)
    end = call.judge.text(text, there).state
    if end.cwds != start.cwds or not end.variables.keys().isdisjoint(POSITIONS):
        call.ask("opaque-operand", "A trap changes the directory or the arguments.")
    state.odd.update(end.variables)
    state.variables.update(dict.fromkeys(end.variables))
    state.may_also(msgspec.structs.replace(end, variables=state.variables))


def read(call: Call) -> None:
    targets = [*call.operands, *call.given.values("-a")]
    for arg in targets:
        call.judge.hidden(arg.text, call.context)
        call.judge.variable(arg.text.partition("[")[0], Arg(HOLE, unknown=2), False, call.context)
        call.context.state.hold(arg.text, None)
    call.context.variables.update(dict.fromkeys(("REPLY", "OPTARG", "OPTIND")))
    alone = len(targets) == 1 and {option.name for option in call.given.options} <= {"-r"}
    if alone and call.name == "read" and call.context.variables.get("IFS", "") in _WHOLE_LINES:
        call.context.state.hold(call.operands[0].text, _line(call.context.stdin))


def _line(feed: Stream) -> Value:
    """The value that `read` takes from the input. With a backslash it is unknown: it may quote or not."""
    if feed.kind == "listed":
        return Arg(feed.text, many=True)
    line = feed.text.removesuffix("\n")
    plain = feed.kind == "text" and re.fullmatch(r"[^\s\\](?:[^\\\n]*[^\s\\])?", line)
    return line if plain else None


def mapfile(call: Call) -> None:
    """Reads lines into an array: which ones is unknown."""
    for arg in call.operands or [Arg("MAPFILE")]:
        call.judge.variable(arg.text, Arg(HOLE, unknown=2), False, call.context)
        call.context.state.hold(arg.text, None)


def let(call: Call) -> None:
    for arg in call.operands:
        call.judge.set_numbers(evaluate(arg, call.context, call.judge), call.context)
    if any("[" in arg.text for arg in call.operands):
        call.ask("opaque-arithmetic", "Evaluates an array subscript, which can run a command.")
