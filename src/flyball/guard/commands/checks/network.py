"""The network: what is sent, where it goes, which commands a connection runs; and containers, clusters and clouds."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from flyball.guard import word_set
from flyball.guard.commands.args import HOLE, Arg
from flyball.guard.commands.argument_kinds import is_loopback

if TYPE_CHECKING:
    from flyball.guard.commands.command_judge import Call

_SOCKET_RUNS = re.compile(
    r"-\w*[ec]|--exec|--sh-exec|--lua-exec|(?:exec|system|open|create|gopen):.*", re.IGNORECASE
)
_OTHER_WAYS = word_set(
    "-x --proxy --preproxy --socks4 --socks4a --socks5 --socks5-hostname --connect-to --resolve -K --config --url -L"
    " --location --location-trusted --interface --unix-socket --abstract-unix-socket --next -e --execute -i --input-file"
)
_REMOTE = re.compile(r"[^/]*:.*|\w+://.*")


_GUARD = re.compile(
    r":(?:8765|8788)\b|/(?:api/)?(?:approv|answer|grant|trust|land|runs?/[^/]+/(?:approve|answer))",
    re.IGNORECASE,
)


def curl(call: Call) -> None:
    call.context.report.network += 1
    if any(_GUARD.search(arg.text) for arg in call.operands if is_loopback(arg.text)):
        call.deny("guard", "Calls Flyball's own web page.")
    for option in call.given.options:
        kind = option.flag.kind if option.flag else ""
        if option.value and kind in {"data", "upload", "header"}:
            _carried(call, option.name, kind, option.value)
        elif option.value and option.name in {"-o", "--output", "-O", "--output-document"}:
            call.judge.downloads.add(posixpath.normpath(option.value.text))
    folders = ["", *(value.text for value in call.given.values("-P", "--directory-prefix", "--output-dir"))]
    call.judge.downloads.update(
        posixpath.normpath(posixpath.join(folders[-1], posixpath.basename(arg.text))) for arg in call.operands
    )


def _carried(call: Call, name: str, kind: str, value: Arg) -> None:
    """Data taken from a file, from standard input or from a substitution leaves the machine."""
    shape = {"--data-urlencode": r"[^=]*@", "-F": r"[^=]*=[@<]", "--form": r"[^=]*=[@<]"}.get(name, "@")
    rule = "local-upload" if _stays_here(call) else "exfiltration"
    if kind == "upload" or (kind == "data" and re.match(shape, value.text)):
        call.deny(rule, "Uploads a file.")
        call.path(
            "read", Arg(re.sub(rf"^{shape}" if kind == "data" else "^", "", value.text).partition(";")[0])
        )
    elif HOLE in value.text or value.from_output:
        call.deny(rule, "Sends data that is unknown until the command runs.")


def _stays_here(call: Call) -> bool:
    """Does everything go to this machine itself?"""
    ways = call.given.has(*_OTHER_WAYS)
    return bool(call.operands) and not ways and all(is_loopback(arg.text) for arg in call.operands)


def ssh(call: Call) -> None:
    if call.context.stdin.kind not in {"none", "text"}:
        call.deny("exfiltration", "Sends its standard input to another machine.")
    if any(HOLE in arg.text for arg in call.operands):
        call.deny("exfiltration", "Sends data that is unknown until the command runs.")
    elif len(call.operands) > 1:
        command = " ".join(arg.text for arg in call.operands[1:])
        call.judge.check_unknown_arguments([Arg(command), *call.operands[2:]], call.context)


def scp(call: Call) -> None:
    *sources, target = call.operands or [Arg("")]
    if call.name == "sftp" and call.context.stdin.kind != "none":
        call.deny("exfiltration", "Reads from standard input which files to transfer.")
    if _REMOTE.fullmatch(target.text):
        call.deny("exfiltration", "Sends files to another machine.")
    else:
        call.path("write", target)
    for source in sources:
        if not _REMOTE.fullmatch(source.text):
            call.path("read", source)


def socket(call: Call) -> None:
    call.context.report.network += 1
    if call.context.stdin.kind != "none":
        here = all(is_loopback(arg.text) or arg.text.isdecimal() for arg in call.operands)
        rule = "local-upload" if here and call.operands else "exfiltration"
        call.deny(rule, "Sends its standard input to another machine.")
    for arg in call.operands:
        if _SOCKET_RUNS.fullmatch(arg.text):
            call.deny("remote-code", "Runs a command for the connection.")
        elif re.fullmatch(r"-\w*l\w*|--listen", arg.text):
            call.deny("remote-code", "Listens for connections.")


# --- containers, clusters and clouds: they can change far more than the workspace

_CLOUD_DENY = re.compile(
    r"delete\b.*|delete-.*|rm|rb|terminate-.*|destroy.*|remove-.*|purge|get-secret.*|get-parameter.*|get-password.*|get-login.*|secretsmanager|secrets?"
    r"|kms|iam|configure|assume-role.*|get-session-token|create-access-key|print-access-token|print-identity-token|put-.*|add-iam.*|keyvault|ad|login|auth"
)


def docker_run(call: Call) -> None:
    for value in call.given.values("-v", "--volume", "--mount"):
        _mount(call, value)
    if any(value.text in {"host"} for value in call.given.values("--network", "--net")):
        call.deny("privilege", "The container shares the machine's network.")
    if (
        any(value.text in {"root", "0"} for value in call.given.values("-u", "--user"))
        and " exec" in call.name
    ):
        call.deny("privilege", "Runs as root.")
    call.judge.check_unknown_arguments(call.operands[1:], call.context)


def _mount(call: Call, value: Arg) -> None:
    match = re.search(r"(?:source|src)=([^,]+)", value.text)
    source = match[1] if match else value.text.split(":", 1)[0]
    named = source.startswith(("/", "~", "."))
    if named and not call.judge.is_inside(Arg(source), call.context, frozenset({"workspace"})):
        call.deny("privilege", f"The container can change '{source}', which is outside the workspace.")


def docker_prune(call: Call) -> None:
    words = {arg.text for arg in call.operands}
    if words & {"prune", "rm", "remove"} and ("volume" in call.name or "system" in call.name):
        call.deny("destruction", "Deletes data of other projects too.")


def docker_compose(call: Call) -> None:
    words = [arg.text for arg in call.operands]
    if words[:1] == ["down"] and {"-v", "--volumes"} & set(words):
        call.deny("destruction", "Deletes the data in volumes.")


def cloud(call: Call) -> None:
    words = [arg.text for arg in call.operands]
    if any(_CLOUD_DENY.fullmatch(word) for word in words):
        call.deny("destruction", "Deletes data or shows secrets in the cloud.")
    uploads = words[:2] in (["s3", "cp"], ["s3", "sync"], ["s3", "mv"], ["storage", "cp"])
    if uploads and words and re.match(r"s3://|gs://", words[-1]):
        call.deny("exfiltration", "Uploads files.")
