"""Commands that run another command: the inner command decides."""

from __future__ import annotations

import itertools
import re
import shlex
from typing import TYPE_CHECKING

import msgspec

from flyball.guard import word_set
from flyball.guard.commands.args import HOLE, Arg
from flyball.guard.commands.argument_kinds import is_loopback
from flyball.guard.commands.context import NO_INPUT, Value
from flyball.reading.terminal import Lazy

if TYPE_CHECKING:
    from flyball.guard.commands.command_judge import Call

WORDS_MOST = 32
_SHELL_OPTIONS = word_set(
    "pipefail errexit nounset xtrace noglob noclobber verbose nullglob globstar failglob"
)
_GUARDS = Lazy(r"\b(?:8765|8788)\b|flyball|claude|codex|gemini|bwrap|opencode|keeper")
_SQL = Lazy(
    r"\bdrop\s+(?:table|database|schema|user|role|index|view)|\btruncate\b|\bdelete\s+from\s+\w+\s*(?:;|$)|flushall|flushdb"
    r"|dropdatabase|\.drop\(|\bcopy\b.*\bprogram\b|\\!|^\s*system\s|\binto\s+(?:out|dump)file|xp_cmdshell|pg_read_file|lo_import"
    r"|^\s*[.\\](?:shell|system|sh|import|output|once|load|read|save|backup|o|w)\b|load_extension|\bdblink|postgres_fdw|writefile|readfile|config\s+set",
    re.IGNORECASE | re.MULTILINE,
)


def in_shell(call: Call, text: str, given: dict[str, Value] | None = None) -> None:
    """The text runs in a new shell."""
    for context in call.context.deeper().in_new_shells():
        context.variables.update(given or {})
        call.judge.text(text, context)


def run(call: Call, args: list[Arg]) -> None:
    if call.context.depth > 8:
        call.deny("too-deep", "Commands are nested too deeply to check.")
    elif args:
        call.judge.command(args, call.context.beyond_functions())


# --- shells


def shell(call: Call) -> None:
    """`sh -c text` is judged as text; a script file is not a declared command; else standard input is judged as text."""
    posix = call.name not in {"bash", "rbash"}
    call = msgspec.structs.replace(call, context=msgspec.structs.replace(call.context.copy(), posix=posix))
    if call.name in {"zsh", "fish", "csh", "tcsh"}:
        call.ask("dialect", f"'{call.name}' reads commands differently from bash.")
    args = list(call.operands)
    letters = ""
    while args and re.match(r"[-+].", args[0].text):
        option = args.pop(0).text
        if option == "--":
            break
        if option.startswith("--"):
            _long_option(call, option, args)
            continue
        letters += option[1:]
        if option[-1] in "oO" and args and args.pop(0).text not in _SHELL_OPTIONS:
            call.ask("unknown-flag", f"'{call.name} {option}' changes how the shell reads commands.")
    if args and args[0].text == "-" and not letters.count("c"):
        args.pop(0)  # a single dash ends the options
    if "c" in letters:
        _command_string(call, args)
    elif args and "s" not in letters:
        _script(call, args, checks_only="n" in letters)
    elif letters or not call.given.options:
        _standard_input(call)
    if "i" in letters or ("l" in letters and "c" not in letters):
        call.ask("interactive", "An interactive or login shell reads settings from outside the workspace.")


def _long_option(call: Call, option: str, args: list[Arg]) -> None:
    if option in {"--rcfile", "--init-file"}:
        call.deny("hidden-command", "Makes the shell run another file first.")
        if args:
            args.pop(0)
    elif option not in {"--norc", "--noprofile", "--posix", "--version", "--help"}:
        call.ask("unknown-flag", f"Unknown option '{call.name} {option}'.")


def _command_string(call: Call, args: list[Arg]) -> None:
    if not args:
        call.deny("unreadable", "The shell gets no command.")
        return
    text = args[0]
    if text.many and call.judge.policy.contained:  # the name of a file that `find` or `xargs` fills in
        in_shell(call, text.text.replace(HOLE, "${9}"), {"9": Arg(HOLE, unknown=1, many=True)})
        return
    if HOLE in text.text or text.pipe:
        rule = "remote-code" if text.remote else "opaque-command"
        call.deny(rule, "The shell runs a command that is unknown until it runs.")
        return
    in_shell(call, text.text, positional(args[1:]))


def positional(args: list[Arg]) -> dict[str, Value]:
    """`$0`, `$1`, … as the command string will see them."""
    variables: dict[str, Value] = {}
    several = False
    for at, arg in enumerate(args[:10]):
        several = several or arg.glob or (arg.many and not arg.quoted) or arg.loose
        variables[str(at)] = None if several else arg.text if arg.literal else arg
    variables.update((str(at), None if several else "") for at in range(max(len(args), 1), 10))
    rest = args[1:]
    variables["@"] = rest[0] if len(rest) == 1 and not rest[0].literal else None
    if all(arg.literal for arg in rest):
        variables["@"] = tuple(arg.text for arg in rest)
    return variables


def _script(call: Call, args: list[Arg], checks_only: bool) -> None:
    script = args[0]
    if script.pipe or script.remote or script.text.startswith("/dev/"):
        call.deny("remote-code", "The shell runs commands that are not in a file of the workspace.")
        return
    call.path("read", script)
    call.judge.check_download(script, call.context)
    call.judge.check_paths_in(args[1:], call.context)
    if checks_only:
        return
    if call.judge.is_inside(script, call.context, call.judge.own_places()) and not script.glob:
        call.ask("unlisted-program", f"'{script.text}' is not a declared command.")
        call.judge.run_written(script, call.context)
        call.judge.check_destinations(script.text, args[1:], call.context)
    else:
        call.deny("foreign-code", "The shell runs a script from outside the workspace.")


def _standard_input(call: Call) -> None:
    feed = call.context.stdin
    if feed.kind == "text":
        in_shell(msgspec.structs.replace(call, context=call.context.reading(NO_INPUT)), feed.text)
    elif feed.kind == "none":
        call.ask("interactive", "Starts an interactive shell.")
    else:
        rule = "remote-code" if feed.kind == "remote" else "opaque-command"
        call.deny(rule, "The shell runs its standard input.")


# --- xargs and its kin


def xargs(call: Call) -> None:
    command = list(call.operands) or [Arg("echo")]
    marks = [value.text for value in call.given.values("-I", "--replace", "-i")]
    marks += ["{}"] if call.given.has("-i", "--replace") and not marks else []
    given = _given(call, bool(marks))
    if call.judge.policy.contained and command[0].text not in {"echo", "printf"} and _hides_names(call):
        call.ask("opaque-path", "Reads names from its input that could be any file.")
    if call.context.stdin.whole and command[0].text in {"rm", "shred", "unlink"}:
        call.deny("destruction", "Deletes everything in this directory.")
    call = msgspec.structs.replace(
        call, context=call.context.copy().reading(NO_INPUT)
    )  # a command of xargs has no input
    counted = call.given.has("-n", "--max-args", "-L", "-l", "--max-lines")
    for one in given if marks else ():
        run(call, [part for arg in command for part in _filled(arg, marks[-1], [one])])
    for arg in given if counted else ():
        run(call, [*command, arg])
    if not given or not (marks or counted) or (counted and len(given) > 1):
        run(call, [*command, *given])
    if given and not marks and not call.given.has("-r", "--no-run-if-empty"):
        run(call, command)  # xargs also runs it without input


def _hides_names(call: Call) -> bool:
    """Text that xargs unquotes, or a listing with hidden files: a secret may be among the names."""
    feed = call.context.stdin
    quoted = feed.kind == "text" and re.search(r"['\"\\]", feed.text) is not None
    hidden = any(
        args[0].text == "ls" and re.search(r"-\w*[aA]", args[1].text)
        for args in call.judge.calls
        if len(args) > 1
    )
    return quoted or feed.kind == "decoded" or hidden


def _given(call: Call, by_line: bool) -> list[Arg]:
    """The arguments from standard input: known words, files that some command listed, or unknown."""
    feed = call.context.stdin
    if call.given.has("-a", "--arg-file") or feed.kind not in {"text", "listed"}:
        return [
            Arg(
                HOLE,
                unknown=2,
                remote=feed.kind == "remote",
                loose=not by_line,
                from_output=feed.kind == "data",
            )
        ]
    if feed.kind == "listed":
        return [Arg(feed.text, many=True)]
    lines = [line.lstrip(" \t") for line in feed.text.split("\n") if line.strip()]
    words = lines if by_line else feed.text.split()
    alone = all(value.text == "1" for value in call.given.values("-n", "--max-args"))
    by_size = call.given.has("-L", "--max-lines", "-l", "-s", "--max-chars") or not alone
    split_otherwise = call.given.has("-d", "--delimiter", "-0", "--null", "-E")
    if split_otherwise or by_size or len(words) > WORDS_MOST or re.search(r"['\"\\]", feed.text):
        return [Arg(HOLE, unknown=2, loose=not by_line)]
    return [Arg(word) for word in words]


def _filled(arg: Arg, mark: str, given: list[Arg]) -> list[Arg]:
    if arg.text == mark:
        return given
    if mark in arg.text:
        known = given[0].text if len(given) == 1 and given[0].literal else HOLE
        unknown = arg.unknown if known != HOLE else 2
        fills = known == HOLE and not any(one.remote for one in given)
        return [Arg(arg.text.replace(mark, known), unknown=unknown, quoted=True, many=fills)]
    return [arg]


def parallel(call: Call) -> None:
    args = call.operands
    end = next((at for at, arg in enumerate(args) if arg.text.startswith(":::")), len(args))
    flows = [Arg(word) for word in call.context.stdin.text.split("\n") if word][:WORDS_MOST]
    given = args[end + 1 :] or flows or [Arg(HOLE, unknown=2)]
    if end == 1 and " " in args[0].text:
        line = args[0].text if "{}" in args[0].text else args[0].text + " {}"
        for arg in given[:32]:
            in_shell(call, line.replace("{}", shlex.quote(arg.text.replace(HOLE, "x"))))
        call.judge.check_paths_in(given, call.context)
    elif any("{}" in arg.text for arg in args[:end]):
        for one in given[:WORDS_MOST]:
            run(call, [part for arg in args[:end] for part in _filled(arg, "{}", [one])])
    else:
        run(call, [*args[:end], *given] if end else given)


def as_text(call: Call) -> None:
    """`watch 'cmd'`, `git submodule foreach 'cmd'`: the operands joined are a command line."""
    if any(not arg.literal for arg in call.operands):
        call.deny("opaque-command", "Runs a command that is unknown until it runs.")
    elif call.operands:
        in_shell(call, " ".join(arg.text for arg in call.operands))


def flock(call: Call) -> None:
    if not call.operands:
        return
    call.path("create", call.operands[0])
    rest = call.operands[1:]
    if rest and rest[0].text in {"-c", "--command"}:
        if len(rest) > 1 and rest[1].literal:
            in_shell(call, rest[1].text)
        else:
            call.deny("opaque-command", "Runs a command that is unknown until it runs.")
    else:
        run(call, rest)


# --- processes, editors, databases


def kill(call: Call) -> None:
    texts = [arg.text for arg in call.operands]
    targets = [text for at, text in enumerate(texts) if at > 0 or not text.startswith("-")]
    if any(text in {"-1", "1", "0"} for text in targets) or any(_GUARDS.search(text) for text in texts):
        call.deny("guard", "Stops processes of the run itself.")
    searched = (arg.text for words in call.judge.calls for arg in words)
    if any(HOLE in text for text in texts) and any(map(_GUARDS.search, searched)):
        call.deny("guard", "Stops processes of the run itself.")
    if call.name != "kill" and any(re.match(r"-[uUG]|--(?:e?uid|user|group)", text) for text in texts):
        call.deny("guard", "Stops every process of a user, including the run itself.")


def debugger(call: Call) -> None:
    """`gdb -ex run --args ./app`: a program of the workspace, and commands of the debugger, which can run a shell."""
    texts = [arg.text for arg in call.operands]
    if any(re.match(r"--?p(?:id)?(?:=|$)|--?attach", text) for text in texts):
        call.deny("process", "Attaches to another process.")
    for text in texts:
        inner = re.search(r"(?:^|\s)(?:shell|!|pipe|make|platform shell)\s*(\S.*)", text)
        if inner:
            in_shell(call, inner[1])
        elif (
            re.search(r"\b(?:python|py|script|source|target|attach|call|system|target\s+remote)\b", text)
            and " " in text
        ):
            call.deny("hidden-command", "The debugger runs code that the guard cannot read.")
    call.judge.check_unknown_arguments(call.operands, call.context)


def crontab(call: Call) -> None:
    """Listing scheduled jobs is less serious than changing them."""
    call.judge.check_unknown_arguments(call.operands, call.context)
    lists = [arg.text for arg in call.operands] == ["-l"]
    call.deny("looks-around" if lists else "persistence", "Shows or changes scheduled jobs.")


def line_editor(call: Call) -> None:
    """`ed` reads its commands from standard input; `!` runs a shell."""
    for arg in call.operands:
        call.path("write", arg)
    if "!" in call.context.stdin.text or any("!" in arg.text for arg in call.operands):
        call.deny("hidden-command", "The editor runs a command.")


def pager(call: Call) -> None:
    for arg in call.operands:
        if re.match(r"\+(?![FG\d/])", arg.text) or (arg.text[:1] == "+" and not call.judge.policy.contained):
            call.deny("hidden-command", "The pager runs a command.")
        elif arg.text[:1] != "+":
            call.path("read", arg)


def database(call: Call) -> None:
    values = [option.value for option in call.given.options if option.value]
    texts = [arg.text for arg in [*call.operands, *values]]
    texts.append(" ".join(arg.text for arg in call.operands))
    if any(_SQL.search(text) for text in [*texts, call.context.stdin.text]):
        call.deny("destruction", "Destroys data or runs commands through the database.")


def openssl(call: Call) -> None:
    words = {arg.text for arg in call.operands[:1]}
    texts = [arg.text for arg in call.operands]
    connects = dict(itertools.pairwise(texts)).get("-connect", "")
    if words == {"version"} or (words == {"s_client"} and is_loopback(connects)):
        return
    call.ask("unlisted", "This command is not on the list of harmless commands.")
    call.judge.check_paths_in(call.operands, call.context)
    if words & {"s_client", "s_server"}:
        call.context.report.network += 1
        call.deny("exfiltration", "Opens a raw network connection.")
