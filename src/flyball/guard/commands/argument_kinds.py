"""What an argument is: a path to read or write, text, a command, a URL. Each kind is judged in its own way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flyball.guard import word_set
from flyball.guard.commands.args import HOLE, Arg
from flyball.guard.commands.context import Context
from flyball.guard.commands.places import is_foreign
from flyball.reading.terminal import Lazy

if TYPE_CHECKING:
    from flyball.guard.commands.command_judge import CommandJudge

_PATHS = frozenset({"look", "read", "create", "write", "delete"})
_METADATA = re.compile(r"169\.254\.\d+\.\d+|metadata\.google\.internal|100\.100\.100\.200|\[?fd00:ec2::254")

_LOOPBACK = re.compile(
    r"(?:(?:https?|wss?|tcp|telnet|redis|mqtt)://)?(?:localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0|\[::1\])(?::\d{1,5})?(?:/.*|[?#][^@]*)?",
    re.IGNORECASE | re.DOTALL,
)


def operand_kinds(kinds: tuple[str, ...], operands: list[Arg]) -> Iterator[tuple[str, Arg]]:
    """Each operand with its kind: `pattern read...`, `read... write`. Too many operands are of kind 'extra'."""
    repeated = next((at for at, kind in enumerate(kinds) if kind.endswith("...")), -1)
    if repeated < 0:
        yield from ((kinds[at] if at < len(kinds) else "extra", arg) for at, arg in enumerate(operands))
        return
    last = len(operands) - (len(kinds) - repeated - 1)
    for at, arg in enumerate(operands):
        if at < repeated:
            yield kinds[at], arg
        elif at < max(last, repeated):
            yield kinds[repeated][:-3], arg
        else:
            yield kinds[len(kinds) - (len(operands) - at)], arg


def judge_argument(judge: CommandJudge, kind: str, arg: Arg, context: Context) -> None:
    if kind in _PATHS:
        judge.path(kind, arg, context)
    elif kind in _KINDS:
        _KINDS[kind](judge, arg, context)
    else:
        _text(judge, arg, context)


def _text(judge: CommandJudge, arg: Arg, context: Context) -> None:
    if arg.unknown == 2 and (arg.loose or not arg.quoted or arg.text.startswith(HOLE)):
        context.ask("opaque-operand", "An argument is unknown until the command runs.")


def _free(judge: CommandJudge, arg: Arg, context: Context) -> None:
    """Text that can do no harm whatever it is (echo, a commit message)."""


def _extra(judge: CommandJudge, arg: Arg, context: Context) -> None:
    judge.check_paths_in([arg], context)
    context.ask("unexpected-operand", f"Unexpected argument '{arg.text.replace(HOLE, '?')}'.")


def _program(judge: CommandJudge, arg: Arg, context: Context) -> None:
    context.deny("hidden-command", f"An option runs '{arg.text.replace(HOLE, '?')}'.")


def _command(judge: CommandJudge, arg: Arg, context: Context) -> None:
    """A command line given as one argument: judged like any other."""
    if HOLE in arg.text:
        rule = "remote-code" if arg.remote else "opaque-command"
        context.deny(rule, "Runs a command that is unknown until it runs.")
        return
    for inner in context.in_new_shells():
        judge.text(arg.text, inner)


def _config(judge: CommandJudge, arg: Arg, context: Context) -> None:
    """A file or directory that decides what runs: it must be inside the workspace."""
    if arg.text.lstrip().startswith("{"):
        context.deny("hidden-command", "Passes settings on the command line that can name any program.")
    judge.path("read", arg, context)
    foreign = [is_foreign(arg.text, cwd, judge.policy) for cwd in context.cwds if HOLE not in arg.text]
    if foreign and (all if judge.policy.contained else any)(foreign):
        context.deny("foreign-code", f"'{arg.text}' decides what runs and is outside the workspace.")


def _loaded(judge: CommandJudge, arg: Arg, context: Context) -> None:
    """Code or settings that a tool loads, in a sandbox: from the checkout, the private home or /tmp."""
    if arg.pipe:
        context.deny("opaque-command", "Loads settings that are unknown until the command runs.")
    path = arg.text.rpartition("=")[2]
    if path.startswith(("/", "~", "../")) or path == "..":
        _config(judge, Arg(path), context)
    else:
        judge.check_paths_in([arg], context)


def _away(judge: CommandJudge, arg: Arg, context: Context) -> None:
    """Text that contains a path outside the workspace."""
    context.ask("outside", f"'{arg.text.replace(HOLE, '?')}' is outside the workspace.")
    judge.check_paths_in([arg], context)
    if re.match(r"[/~.]", arg.text):
        _config(judge, arg, context)


def _script(judge: CommandJudge, arg: Arg, context: Context) -> None:
    if arg.pipe or arg.remote or arg.text.startswith(("/dev/", "/proc/")):
        context.deny("remote-code", "Runs code that is not in a file of the workspace.")
    elif arg.glob or arg.many:
        judge.path("read", arg, context)
        context.ask("glob-operand", f"Runs '{arg.text}', which may match any file.")
    elif "://" in arg.text:
        context.deny("remote-code", f"'{arg.text}' is code from the network.")
    elif arg.text == "-":
        context.ask("inline-code", "Runs code from standard input.")
    else:
        _config(judge, arg, context)


def _test_id(judge: CommandJudge, arg: Arg, context: Context) -> None:
    """`tests/test_a.py::test_b[c]`: the file must be inside the workspace."""
    path = re.split(r"::|\[", arg.text, maxsplit=1)[0]
    if path.startswith("@"):
        context.ask("opaque-operand", f"'{path}' contains more arguments.")
    if path:
        _config(judge, Arg(path, unknown=arg.unknown, glob="*" in path and arg.glob), context)


def _packages(judge: CommandJudge, arg: Arg, context: Context) -> None:
    """`./...`, `.`, `pkg/x`: packages of this module, or dotted module names."""
    if "@" in arg.text:
        context.ask("install", f"Downloads '{arg.text}'.")
    elif arg.text.startswith((".", "/", "~")):
        _config(judge, Arg(arg.text.removesuffix("...") or "."), context)
    else:
        _text(judge, arg, context)


def _url(judge: CommandJudge, arg: Arg, context: Context) -> None:
    if arg.unknown and arg.from_output:
        rule = "local-upload" if is_loopback(arg.text) else "exfiltration"
        context.deny(rule, "Sends a command's output as part of the URL.")
    if _METADATA.search(arg.text):
        context.deny("secret", "The URL returns the machine's credentials.")
    if arg.text.lower().startswith("file:"):
        context.deny("hidden-read", "Reads a file through a file: URL.")


def is_loopback(url: str) -> bool:
    return _LOOPBACK.fullmatch(url) is not None


def _remote(judge: CommandJudge, arg: Arg, context: Context) -> None:
    """Where git fetches from: it must not be a command."""
    if re.match(r"ext::|fd::|-|.*[/@:]-", arg.text) or "--upload-pack" in arg.text:
        context.deny("hidden-command", f"The remote '{arg.text}' runs a command.")


def _suffix(judge: CommandJudge, arg: Arg, context: Context) -> None:
    """The suffix of a backup file: with a slash it is another directory."""
    if not re.fullmatch(r"[\w.~-]*", arg.text):
        context.deny("path/outside", "The backup suffix contains a path.")


def _added(judge: CommandJudge, arg: Arg, context: Context) -> None:
    judge.path("read", arg, context)


def _source(judge: CommandJudge, arg: Arg, context: Context) -> None:
    judge.source(arg, context)


def _revision(judge: CommandJudge, arg: Arg, context: Context) -> None:
    """A commit, a range, `rev:path` or a path."""
    _text(judge, arg, context)
    judge.check_paths_in([arg], context)


def _plugin_name(judge: CommandJudge, arg: Arg, context: Context) -> None:
    """A reporter or formatter: a name is part of the tool, a path is code."""
    if re.search(r"[/\\]|\.\w+$", arg.text) or HOLE in arg.text:
        context.deny("hidden-command", f"Loads '{arg.text.replace(HOLE, '?')}' as code.")


def _makefile(judge: CommandJudge, arg: Arg, context: Context) -> None:
    if arg.text == "-" or arg.pipe or arg.text.startswith(("/dev/", "/proc/")):
        context.deny("hidden-command", "The makefile is not a file of the workspace.")
    _config(judge, arg, context)
    if arg.text not in {"Makefile", "makefile", "GNUmakefile"}:
        context.ask("unlisted", f"'{arg.text.replace(HOLE, '?')}' is not the project's usual makefile.")


def _compiler_flags(judge: CommandJudge, arg: Arg, context: Context) -> None:
    if re.search(r"extld|toolexec|-exec|plugin|extldflags|linkmode", arg.text) or HOLE in arg.text:
        context.deny("hidden-command", "These flags can make the build run another program.")


def _cmake_variable(judge: CommandJudge, arg: Arg, context: Context) -> None:
    name, _, value = arg.text.partition("=")
    if re.search(
        r"COMPILER|LAUNCHER|LINKER|PROGRAM|EXECUTABLE|COMMAND|TOOLCHAIN|INCLUDE|MODULE_PATH|PREFIX", name
    ):
        if judge.policy.contained and re.fullmatch(r"[\w./+-]*", value):
            judge.check_paths_in([Arg(value)], context)
            return
        plain = re.fullmatch(r"gcc|g\+\+|clang|clang\+\+|cc|c\+\+|ccache|sccache|ON|OFF", value)
        if not plain:
            context.deny("hidden-command", f"'{name}' decides which program runs.")
    elif re.search(r"[$`;|&<>]", value) or HOLE in value:
        context.ask("opaque-operand", f"The value of '{name}' contains special characters.")


def _assignment(judge: CommandJudge, arg: Arg, context: Context) -> None:
    name, equals, _ = arg.text.partition("=")
    if equals:
        judge.variable(name, arg.tail(len(name) + 1), True, context)


_KINDS = {
    "free": _free,
    "any": _free,
    "extra": _extra,
    "program": _program,
    "command": _command,
    "config": _config,
    "away": _away,
    "loaded": _loaded,
    "folder": _config,
    "script": _script,
    "added": _added,
    "source": _source,
    "suffix": _suffix,
    "rev": _revision,
    "formatter": _plugin_name,
    "reporter": _plugin_name,
    "makefile": _makefile,
    "goflag": _compiler_flags,
    "rustflag": _free,
    "cmakevar": _cmake_variable,
    "data": _free,
    "upload": _free,
    "header": _free,
    "mount": _free,
    "property": _free,
    "pair": _text,
    "filepair": _added,
    "testid": _test_id,
    "packages": _packages,
    "url": _url,
    "remote": _remote,
    "env": _assignment,
}


# --- addresses of other machines in a text

_ADDRESS = Lazy(
    r"\b([a-z][a-z0-9+.-]*)://+(?:[^\s/@'\"]*@)?(\[[^\]\s]*\]|[^\s/:'\"?#)\]},;]*)|(?:^|[\s='\"(])[\w.+-]+@([\w-]+(?:\.[\w-]+)+):",
    re.IGNORECASE,
)
_SOCKET = Lazy(
    r"(?<![\w./-])((?:\d{1,3}\.){3}\d{1,3}|(?:[a-z0-9-]+\.)+[a-z]{2,}(?=:\d{1,5}\b))(?![\w.])", re.IGNORECASE
)
HERE = Lazy(r"localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0|\[::1?\]|::1|", re.IGNORECASE)
_LOCAL_SCHEME = word_set(
    "file sqlite sqlite3 memory jar unix about data postgresql+unix chrome-extension vscode node res"
)


TOP_LEVEL = "com|net|org|io|edu|gov|example|xyz|cloud|dev|co|ru|cn"
_HOST_NAME = Lazy(rf"(?:[\w{HOLE}-]+\.)+(?:{TOP_LEVEL})", re.IGNORECASE)


def is_host_name(text: str) -> bool:
    """A name of a machine without a scheme or a port: `files.example.com`."""
    return _HOST_NAME.fullmatch(text) is not None


_FILE_ENDING = re.compile(
    r".*\.(?:py|pyi|rb|js|jsx|ts|tsx|mjs|cjs|go|rs|java|kt|php|ex|exs|md|rst|txt|json|ya?ml|toml|sh|c|h|cc|cpp|hpp|cs|fs|sql"
    r"|html?|css|scss|vue|svelte|swift|scala|clj|hs|ml|lua|pl|pm|dart|zig|nim|cfg|ini|lock|log|csv|xml|feature|tf|proto|gradle)",
    re.IGNORECASE,
)


def other_machine(text: str) -> str | None:
    """The first address in a text that is not this machine."""
    for match in _ADDRESS.finditer(text):
        scheme, host = (match[1] or "").lower(), match[2] if match[1] else match[3]
        if scheme not in _LOCAL_SCHEME and not HERE.fullmatch(host.lower()):
            return host.replace(HOLE, "?") or "?"
    for match in _SOCKET.finditer(text):
        if not HERE.fullmatch(match[1].lower()) and not _FILE_ENDING.fullmatch(match[1]):
            return match[1]
    return None
