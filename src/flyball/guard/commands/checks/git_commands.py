"""git: what its subcommands do depends on more than their flags."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flyball.guard.commands.args import HOLE, Arg
from flyball.guard.commands.checks.wrappers import as_text, in_shell, run
from flyball.reading.terminal import Lazy

if TYPE_CHECKING:
    from flyball.guard.commands.command_judge import Call

_HARMLESS_KEYS = Lazy(
    r"(?:color|advice|column|log|status|stash)\.[\w.]+|core\.(?:quotepath|abbrev|autocrlf|eol|safecrlf|filemode|ignorecase|precomposeunicode)"
    r"|diff\.(?:renames|noprefix|algorithm|context|mnemonicprefix|colormoved|renamelimit|wordregex|indentheuristic)|merge\.(?:conflictstyle|renamelimit|ff)"
    r"|user\.(?:name|email)|(?:commit|tag)\.gpgsign|init\.defaultbranch|gc\.auto|rerere\.enabled|pull\.(?:rebase|ff)|rebase\.\w+|push\.default|grep\.\w+|blame\.\w+",
    re.IGNORECASE,
)
_NO_PROGRAM = Lazy(r"core\.pager=(?:cat)?|(?:core|sequence)\.editor=(?:true|:)", re.IGNORECASE)
_BRANCH = Lazy(
    r"(?:feature|feat|fix|bugfix|hotfix|release|chore|docs|test|tests|refactor|dev|topic|wip|user|users|experiment)/[\w./-]+"
    r"|main|master|develop|dev|trunk|staging|-|@|HEAD(?:[~^]\d*)*|origin/[\w./-]+|[0-9a-f]{7,40}|v?\d+(?:\.\d+)+"
)
_COMMIT = Lazy(r".*[~^@].*|[0-9a-f]{7,40}|origin/.*|upstream/.*")


def git(call: Call) -> None:
    """`git -c key=value`: only keys that change how output looks."""
    for value in call.given.values("-c"):
        key, _, setting = value.text.partition("=")
        if _NO_PROGRAM.fullmatch(value.text):
            call.ask("git-setting", f"Sets git's '{key}'.")
        elif not _HARMLESS_KEYS.fullmatch(key) or HOLE in value.text or "!" in setting:
            call.deny("hidden-command", f"'git -c {key}' can run a command or change what git trusts.")


def grep(call: Call) -> None:
    patterns = 0 if call.given.has("-e", "-f") else 1
    _paths(call, call.operands[patterns:])


def diff(call: Call) -> None:
    _paths(call, call.operands)


def _paths(call: Call, args: list[Arg]) -> None:
    for arg in args:
        leaves = arg.text.startswith(("/", "..", "~")) and ".." not in arg.text[2:]
        if leaves or call.given.has("--no-index"):
            call.path("read", arg)


def commit(call: Call) -> None:
    names = {
        "-m",
        "-F",
        "-C",
        "--message",
        "--file",
        "--fixup",
        "--squash",
        "--no-edit",
        "--dry-run",
        "--reuse-message",
    }
    if not call.given.has(*names):
        call.ask("interactive", "Without a message git opens an editor.")


def checkout(call: Call) -> None:
    """Switching to a branch is safe; with a path, changes to that file are lost."""
    for arg in call.operands[call.given.after_dashes :] if call.given.after_dashes >= 0 else ():
        if call.judge.policy.contained:
            call.path("write", arg)  # the loss is contained; what protects the run is not to be put back
    creates = call.given.has("-b", "--orphan", "--track", "-t", "--detach", "-d")
    dashed = call.given.after_dashes >= 0
    if creates and not dashed:
        return
    names = [arg.text for arg in call.operands]
    if dashed or len(names) != 1 or not _BRANCH.fullmatch(names[0]):
        call.ask("work-loss", "May discard uncommitted changes. To change branches use 'git switch'.")


def restore(call: Call) -> None:
    staged = call.given.has("-S", "--staged") and not call.given.has("-W", "--worktree")
    for arg in call.operands if call.judge.policy.contained and not staged else ():
        call.path("write", arg)
    if not staged:
        call.ask("work-loss", "Discards uncommitted changes.")


def reset(call: Call) -> None:
    names = [arg.text for arg in call.operands]
    if 0 <= call.given.after_dashes < max(len(names), 1) or not names or names[0] == "HEAD":
        return
    is_path = re.search(r"[./]", names[0]) and not _COMMIT.fullmatch(names[0])
    if not is_path:
        call.ask("history-rewrite", "Moves the branch to another commit.")


def stash(call: Call) -> None:
    if call.operands and call.operands[0].text in {"show", "list"}:
        return
    if call.given.has("-p", "--patch"):
        call.ask("interactive", "Asks about each change interactively.")
    action = call.operands[0].text if call.operands else "push"
    if action in {"drop", "clear"}:
        call.ask("work-loss", "Drops stashed changes.")
    elif action not in {"push", "save", "list", "show", "pop", "apply", "create"}:
        call.ask("unlisted", f"Unknown command 'git stash {action}'.")


# --- remotes


def push(call: Call) -> None:
    if call.given.has("--all", "--branches"):
        call.deny("review-bypass", "Pushes every branch, including protected ones.")
    remote = call.operands[0].text if call.operands else "origin"
    if f"remote {remote}" in call.judge.downloads:
        call.deny("exfiltration", f"Pushes to '{remote}', which this command line has just set.")
    if HOLE in remote:
        call.deny("exfiltration", "The remote is unknown until the command runs.")
    elif re.search(r"[:/]|^\.", remote):
        call.deny("exfiltration", f"'{remote}' is not one of the project's remotes.")
    for spec in call.operands[1:]:
        _refspec(call, spec)


def _refspec(call: Call, spec: Arg) -> None:
    if spec.text.startswith("+"):
        call.deny("force-push", "'+' force-pushes the branch.")
    source, colon, target = spec.text.lstrip("+").partition(":")
    if colon and not source:
        call.deny("force-push", "Deletes a branch on the remote.")
    name = re.sub(r"^(?:refs/)?heads/", "", target if colon else source)
    if name.lower() in call.judge.policy.protected_branches or "*" in name:
        call.deny("review-bypass", f"Pushes to '{name}', which is a protected branch.")


def remote_show(call: Call) -> None:
    if not call.given.has("-n"):
        call.context.report.network += 1
        call.ask("remote-read", "Contacts the remote. Use '-n' to stay offline.")


def symbolic_ref(call: Call) -> None:
    if len(call.operands) > 1:
        call.deny("git-internals", "Points a git reference elsewhere.")


def remote(call: Call) -> None:
    if call.name.endswith(" set-url"):
        call.deny("git-internals", "Changes the URL of a remote.")
    for arg in call.operands[:1] if call.name.endswith((" add", " set-url", " rename")) else ():
        call.judge.downloads.add(f"remote {arg.text}")
    for arg in call.operands:
        if re.match(r"ext::|fd::|-", arg.text):
            call.deny("hidden-command", f"The remote '{arg.text}' runs a command.")


# --- settings and history


def config(call: Call) -> None:
    """Reading a setting is harmless; most settings can make git run something."""
    reads = call.given.has(
        "-l", "--list", "--get", "--get-all", "--get-regexp", "--get-urlmatch", "--get-color"
    )
    keys = call.given.values("--get", "--get-all", "--get-regexp", "--get-urlmatch")
    names = [arg.text for arg in [*keys, *call.operands]]
    if names[:1] in (["get"], ["list"]):
        _secret_setting(call, names)
        return
    if names[:1] in (["set"], ["unset"], ["edit"], ["rename-section"], ["remove-section"]):
        names = names[1:] if names[0] == "set" else [names[0], "changed"]
    if reads or len(names) < 2:
        _secret_setting(call, names)
        return
    outside = call.given.has("--system", "-f", "--file")
    outside = outside or (call.given.has("--global") and not call.judge.policy.contained)
    if outside or not _HARMLESS_KEYS.fullmatch(names[0]) or "!" in names[1]:
        call.deny("git-internals", f"Sets '{names[0]}', which stays after the run and can run commands.")
    else:
        call.ask("git-setting", f"Changes the git setting '{names[0]}'.")


def _secret_setting(call: Call, names: list[str]) -> None:
    if any(re.search(r"extraheader|token|password|credential", name, re.IGNORECASE) for name in names):
        call.deny("secret", "The setting may contain a secret.")


def bisect(call: Call) -> None:
    if call.operands and call.operands[0].text not in {"log", "view", "visualize", "terms", "help"}:
        call.ask("work-loss", "Checks out one commit after another.")
    if call.operands and call.operands[0].text == "run":
        run(call, call.operands[1:])
        _through_shell(call)


def foreach(call: Call) -> None:
    as_text(call)
    _through_shell(call)


def _through_shell(call: Call) -> None:
    """A shell inside the command that git runs: nobody needs that layer."""
    if not call.judge.policy.contained and any(
        args[0].text in {"sh", "bash", "dash", "zsh"} for args in call.judge.calls
    ):
        call.deny("hidden-command", "Runs a shell inside a git command.")


def apply(call: Call) -> None:
    looks = call.given.has("--check", "--stat", "--numstat", "--summary") and not call.given.has("--apply")
    if not looks:
        call.ask("unlisted", "What it changes stands in the patch.")


def remove(call: Call) -> None:
    """With `--cached` the files themselves stay."""
    stay = call.judge.policy.contained and call.given.has("--cached")
    for arg in call.operands:
        call.path("look" if stay else "delete", arg)


def clean(call: Call) -> None:
    for arg in call.operands:
        call.path("delete", arg)
    if not call.given.has("-n", "--dry-run"):
        call.ask("work-loss", "Deletes untracked files.")


def exec_steps(call: Call) -> None:
    """`git rebase -x 'make test'`: in a sandbox the command decides, as it would by itself."""
    for step in call.given.values(
        "-x", "--exec", "--index-filter", "--tree-filter", "--msg-filter", "--env-filter"
    ):
        if call.judge.policy.contained and HOLE not in step.text:
            in_shell(call, step.text)
        else:
            call.deny("hidden-command", f"'{call.name}' runs '{step.text.replace(HOLE, '?')}'.")


def gh_api(call: Call) -> None:
    methods = {value.text.upper() for value in call.given.values("-X", "--method")}
    address = " ".join(arg.text for arg in call.operands)
    writes = bool(methods - {"GET"}) or call.given.has("-f", "-F", "--field", "--raw-field", "--input")
    fields = " ".join(value.text for value in call.given.values("-f", "-F", "--field", "--raw-field"))
    if re.search(r"\bmutation\b", fields):
        call.deny("review-bypass", "Changes data on the server through a GraphQL mutation.")
    if writes:
        call.ask("publish", "Changes data on the server.")
    if "DELETE" in methods:
        call.deny("destruction", "Deletes data on the server.")
    if writes and re.search(r"merge|review|protection|secrets|keys|hooks|collaborators|rulesets", address):
        call.deny("review-bypass", "Bypasses review or changes permissions.")
