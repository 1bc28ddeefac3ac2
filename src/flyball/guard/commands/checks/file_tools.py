"""Commands that move, remove, pack or find files."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from flyball.guard import word_set
from flyball.guard.commands.args import HOLE, Arg
from flyball.guard.commands.known_output import is_narrow, stand_in_path
from flyball.guard.commands.places import UNKNOWN, place_of

if TYPE_CHECKING:
    from flyball.guard.commands.command_judge import Call

_EVERYTHING = re.compile(r"(?:\./|\.\./)*(?:\*|\.\*|\{,\.\}\*|\*\*(?:/\*)?)")
_LINKABLE = frozenset({"inside", "workspace", "delicate"})
_WORKSPACE = frozenset({"workspace"})


def remove(call: Call) -> None:
    """`rm -r` with a glob that matches everything deletes the whole tree."""
    recursive = call.given.has("-r", "-R", "--recursive")
    for arg in call.operands:
        if recursive and arg.glob and _EVERYTHING.fullmatch(arg.text):
            call.deny("destruction", f"'{arg.text}' matches everything in this directory.")


def chmod(call: Call) -> None:
    """`chmod -x file`: the mode looks like an option, so the first operand is a file already."""
    if call.operands and any(re.fullmatch(r"-[rwxXst]+", arg.text) for arg in call.args):
        call.path("write", call.operands[0])


def copy(call: Call) -> None:
    """`cp -t folder a b`: the last operand is a source too."""
    if call.name == "mv" and any(arg.text.startswith("/dev/") for arg in call.operands):
        call.deny("destruction", "Moves files onto a device, which destroys them.")
    if call.given.has("-t", "--target-directory") and call.operands:
        call.path("read", call.operands[-1])


def link(call: Call) -> None:
    """A link must not lead out of the workspace or to a protected file."""
    if not call.operands:
        return
    target = call.operands[0]
    name = call.operands[-1] if len(call.operands) > 1 else Arg(posixpath.basename(target.text))
    call.path("create", name)
    if not call.given.has("-s", "--symbolic"):
        call.ask("unlisted", "Creates a hard link.")
        call.path("write", target)
    elif HOLE in target.text or target.word:
        call.ask("opaque-operand", "The target of the link is unknown until the command runs.")
    else:
        _link_target(call, posixpath.join(posixpath.dirname(name.text), target.text))


def _link_target(call: Call, target: str) -> None:
    for cwd in call.context.cwds:
        if place_of(target, cwd, call.judge.policy) not in _LINKABLE | call.judge.own_places():
            call.path("write", Arg(target))
            call.ask("link-outside", f"Creates a link to '{target}', which is outside the workspace.")


def dd(call: Call) -> None:
    for arg in call.operands:
        name, _, _ = arg.text.partition("=")
        if name == "of":
            call.path("write", arg.tail(3))
        elif name == "if":
            call.path("read", arg.tail(3))
        elif name not in {"bs", "count", "skip", "seek", "conv", "status", "iflag", "oflag", "ibs", "obs"}:
            call.ask("unknown-flag", f"Unknown operand 'dd {arg.text}'.")


# --- archives


def tar(call: Call) -> None:
    """Creating reads its operands and writes the archive; extracting writes files."""
    first = call.args[0].text if call.args else ""
    if re.fullmatch(r"[A-Za-z]*[ctx][A-Za-z]*", first):
        _old_style(call, first)
        return
    creates, extracts = call.given.has("-c", "--create"), call.given.has("-x", "--extract", "--get")
    for archive in call.given.values("-f", "--file"):
        call.path("write" if creates else "read", archive)
        if ":" in archive.text:
            call.deny("exfiltration", "Writes the archive to another machine.")
    for folder in call.given.values("-C", "--directory"):
        call.path("write" if extracts else "read", folder)
    if creates:
        for arg in call.operands:
            call.path("read", arg)
    elif extracts:
        _extraction(call)


def _old_style(call: Call, letters: str) -> None:
    rest = call.args[1:]
    rewritten = [Arg("-" + re.sub("[fCTXbLNV]", "", letters))]
    for letter in re.findall("[fCTXbLNV]", letters):
        if rest:
            rewritten += [Arg("-" + letter), rest[0]]
            rest = rest[1:]
    call.judge.by_profile(call.profile, rewritten + rest, call.context)


def _extraction(call: Call) -> None:
    if call.given.has("-P"):
        call.deny("destruction", "Extracts absolute paths, which can overwrite any file.")
    folders = call.given.values("-C", "--directory")
    if call.given.has("-O", "--to-stdout"):
        return
    if not folders or any(posixpath.normpath(folder.text) == "." for folder in folders):
        call.ask(
            "unpack",
            "Extracts an archive over the workspace, which can overwrite files. Extract it to a new directory.",
        )


def unzip(call: Call) -> None:
    if call.given.has("-l", "-t", "-v", "-Z", "-z", "-p", "-c"):
        return
    if call.given.has("-:"):
        call.deny("destruction", "Extracts absolute paths, which can overwrite any file.")
    if not call.given.has("-d"):
        call.ask(
            "unpack",
            "Extracts an archive over the workspace, which can overwrite files. Extract it to a new directory.",
        )


def rsync(call: Call) -> None:
    *sources, target = call.operands or [Arg("")]
    if re.match(r"[^/]*:|rsync://", target.text):
        call.context.report.network += 1
        call.deny("exfiltration", "Sends files to another machine.")
        return
    call.path("write", target)
    for source in sources:
        if re.match(r"[^/]*:|rsync://", source.text):
            call.context.report.network += 1
            call.ask("network", "Downloads from another machine.")
        else:
            call.path("read", source)
    if call.given.has("--delete", "--delete-after"):
        call.ask("recursive-delete", "Deletes files that the source does not have.")


# --- find

_TAKES_ONE = word_set(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -type -xtype -size -mtime -atime -ctime -mmin -amin "
    "-cmin -newer -anewer -cnewer -maxdepth -mindepth -perm -user -group -uid -gid -links -inum -samefile -fstype -printf "
    "-regextype -used -lname -ilname -newermt -newerat -newerct -context"
)
_TAKES_NONE = word_set(
    "-print -print0 -ls -prune -quit -depth -d -xdev -mount -empty -readable -writable -executable -true -false -not ! "
    "-o -or -a -and ( ) , -follow -daystart -nouser -nogroup -noleaf -ignore_readdir_race -nowarn -warn -H -L -P"
)


def find(call: Call) -> None:
    args = list(call.operands)
    roots: list[Arg] = []
    while args and not re.match(r"[-!(),]", args[0].text):
        roots.append(args.pop(0))
    while args and args[0].text in {"-H", "-L", "-P"}:
        args.pop(0)
        while args and not re.match(r"[-!(),]", args[0].text):
            roots.append(args.pop(0))
    roots = roots or [Arg(".")]
    for root in roots:
        call.path("look", root)
    _secrets_sought(call, roots, args)
    _expression(call, roots, args)


def _secrets_sought(call: Call, roots: list[Arg], args: list[Arg]) -> None:
    """Searching for key files outside the workspace is denied."""
    outside = not all(call.judge.is_inside(root, call.context, _WORKSPACE) for root in roots)
    names = [arg.text.strip("*") for arg in args]
    if outside and any(
        name and place_of(name, call.judge.policy.home, call.judge.policy) == "secret" for name in names
    ):
        call.deny("secret", "Searches for secrets outside the workspace.")


def _expression(call: Call, roots: list[Arg], args: list[Arg]) -> None:
    at = 0
    while at < len(args):
        word = args[at].text
        if word in _TAKES_ONE:
            if word in {"-newer", "-anewer", "-cnewer", "-samefile"} and at + 1 < len(args):
                call.path("look", args[at + 1])
            at += 2
        elif word in _TAKES_NONE:
            at += 1
        elif word in {"-exec", "-execdir", "-ok", "-okdir"}:
            at = _exec(call, roots, args, at + 1)
        elif word in {"-fprint", "-fprint0", "-fls", "-fprintf"}:
            if at + 1 < len(args):
                call.path("write", args[at + 1])
            at += 3 if word == "-fprintf" else 2
        elif word == "-delete":
            _deletes(call, roots, args)
            at += 1
        else:
            call.ask("unknown-flag", f"Unknown option 'find {word.replace(HOLE, '?')}'.")
            at += 1


def _exec(call: Call, roots: list[Arg], args: list[Arg], at: int) -> int:
    end = next((i for i in range(at, len(args)) if args[i].text in {";", "+"}), len(args))
    name = stand_in_path(roots[0].text, [arg.text for arg in args[: at - 1]], call.judge.policy)
    one_by_one = end < len(args) and args[end].text == ";"
    match = Arg(name, many=True, quoted=one_by_one)
    inner = [match if arg.text == "{}" else _with_match(arg) for arg in args[at:end]]
    if not inner:
        call.ask("unreadable", "'find -exec' has no command.")
        return end + 1
    context = call.context.deeper()
    if context.depth > 8:
        call.deny("too-deep", "Commands are nested too deeply to check.")
    else:
        call.judge.command(inner, context)
    if inner[0].text in {"rm", "shred", "unlink"}:
        _deletes(call, roots, args)
    return end + 1


def _with_match(arg: Arg) -> Arg:
    return Arg(arg.text.replace("{}", HOLE), unknown=2, quoted=True, many=True) if "{}" in arg.text else arg


def _deletes(call: Call, roots: list[Arg], args: list[Arg]) -> None:
    for root in roots:
        call.path("delete", Arg(stand_in_path(root.text, [arg.text for arg in args], call.judge.policy)))
    whole = any(_is_workspace(call, root) for root in roots)
    if whole and not is_narrow([arg.text for arg in args]):
        call.deny("destruction", "Deletes everything in the workspace.")
    else:
        call.ask("recursive-delete", "Deletes every file it finds.")


def _is_workspace(call: Call, root: Arg) -> bool:
    policy = call.judge.policy
    return any(cwd == UNKNOWN or place_of(root.text, cwd, policy) == "workspace" for cwd in call.context.cwds)


_FD_RUNS = word_set("-x -X --exec --exec-batch")


def fd(call: Call) -> None:
    """`fd pattern -x command …`: the rest is a command, with each match at its end or in place of `{}`."""
    at = next((at for at, arg in enumerate(call.args) if arg.text in _FD_RUNS), -1)
    if at < 0:
        return
    call.ask("unlisted", "Runs a command for each file it finds.")
    match = Arg("./found", many=True)
    inner = [match if arg.text.startswith("{") else arg for arg in call.args[at + 1 :] if arg.text != ";"]
    if inner and call.context.depth < 8:
        call.judge.command(inner if match in inner else [*inner, match], call.context.deeper())


def patch(call: Call) -> None:
    if not call.given.has("--dry-run"):
        call.ask("unlisted", "Applies a patch, which can change any file.")
