"""Containers, clusters and clouds: they can change far more than the workspace."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flyball.guard.commands.args import Arg

if TYPE_CHECKING:
    from flyball.guard.commands.command_judge import Call

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


def kubectl_get(call: Call) -> None:
    if any(re.match(r"secrets?\b", arg.text) for arg in call.operands):
        call.deny("secret", "Shows the cluster's secrets.")


def cloud(call: Call) -> None:
    words = [arg.text for arg in call.operands]
    if any(_CLOUD_DENY.fullmatch(word) for word in words):
        call.deny("destruction", "Deletes data or shows secrets in the cloud.")
    uploads = words[:2] in (["s3", "cp"], ["s3", "sync"], ["s3", "mv"], ["storage", "cp"])
    if uploads and words and re.match(r"s3://|gs://", words[-1]):
        call.deny("exfiltration", "Uploads files.")


def helm(call: Call) -> None:
    if any(option.name.startswith("--post-renderer") for option in call.given.options):
        call.deny("hidden-command", "The post-renderer runs a command.")


CHECKS = {
    "docker_run": docker_run,
    "docker_prune": docker_prune,
    "docker_compose": docker_compose,
    "kubectl_get": kubectl_get,
    "cloud": cloud,
    "helm": helm,
}
