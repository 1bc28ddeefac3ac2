"""One line, one verdict. An internal error is a deny."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

import msgspec
import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from flyball.guard import word_set
from flyball.guard.change import ORDINARY, Verdict, has_ignored, severity, worst
from flyball.guard.commands.args import Arg
from flyball.guard.commands.command_policy import CommandPolicy
from flyball.guard.commands.containment import remaining
from flyball.guard.commands.context import Context, Report, ShellState
from flyball.guard.commands.endless import ends_jobs
from flyball.guard.commands.grammar import read
from flyball.guard.commands.profiles import load
from flyball.guard.commands.syntax_tree import Script, Unreadable
from flyball.guard.commands.walk import Judge

_MILD = word_set("environment-listing process-environment looks-around local-upload")


def judge_command(command: str, policy: CommandPolicy) -> Verdict:
    """The verdict of the policy on one command line (bash 5)."""
    return _safely(command, Judge(policy))


def calls_of(command: str, policy: CommandPolicy) -> tuple[tuple[Arg, ...], ...]:
    """Every call that is judged in a command line: program and arguments, as far as they are known."""
    judge = Judge(policy)
    _safely(command, judge)
    return tuple(judge.calls)


def _safely(command: str, judge: Judge) -> Verdict:
    try:
        return _judged(command, judge)
    except Unreadable as unreadable:
        verdict = Verdict("deny", unreadable.rule, str(unreadable))
        return msgspec.structs.replace(verdict, reason=advised(verdict))
    except Exception as error:  # fail closed: our own error must not let a command through
        return Verdict(
            "deny", "guard-error", f"Internal error while checking this command ({type(error).__name__})."
        )


def _judged(command: str, judge: Judge) -> Verdict:
    policy = judge.policy
    if len(command) > policy.length_most:
        return Verdict(
            "ask",
            "too-long",
            f"The command is longer than {policy.length_most} characters. Put it in a file.",
        )
    strange = odd_character(command)
    if strange:
        reason = f"The command contains {strange}, which can hide what it does. Use plain characters."
        return Verdict("deny", "control-characters", reason)
    script, starts, _ = read(command)
    if not script.items:
        return Verdict("allow", "nothing", "Nothing to run.")
    verdict = _of_script(script, judge)
    if severity(verdict) == 0:
        difference = disagreement(command, starts)
        if difference:
            return Verdict("ask", "two-readers", f"The command is ambiguous: {difference}.")
    return verdict


def _of_script(script: Script, judge: Judge) -> Verdict:
    report = Report()
    context = Context(ShellState((judge.policy.workspace,)), report, ends_jobs=ends_jobs(script))
    try:
        judge.script(script, context)
        for text in (
            judge.traps if judge.policy.contained else ()
        ):  # as they run at the end, with what the line has set
            judge.text(text, context.copy())
    except Unreadable as unreadable:
        context.deny(unreadable.rule, str(unreadable))
    verdicts = remaining(report.verdicts) if judge.policy.contained else report.verdicts
    top = worst([*sorted(verdicts, key=_is_mild), ORDINARY])
    return msgspec.structs.replace(top, reason=advised(top), findings=tuple(verdicts))


def _is_mild(verdict: Verdict) -> bool:
    """Of several denies, one that does harm is reported before one that only looks around."""
    return verdict.rule in _MILD or verdict.rule.startswith("path/looks-")


def advised(verdict: Verdict) -> str:
    """The reason with what to do instead, unless it says so itself."""
    says = verdict.verdict == "allow" or ". " in verdict.reason
    instead: dict[str, str] = load("instead")
    keys = [key for key in instead if verdict.rule.startswith(key)]
    return verdict.reason if says or not keys else f"{verdict.reason} {instead[max(keys, key=len)]}"


# --- characters that make a line look different from what it does

_ORDINARY = re.compile(r"[\t\n\x20-\x7e]*")
_BLANK = "\u2800"
_BAD_KINDS = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_JOINER, _EMOJI_STYLE = "\u200d", "\ufe0f"


def odd_character(text: str) -> str:
    """The name of the first invisible or misleading character in `text`, or ''."""
    if _ORDINARY.fullmatch(text):
        return ""
    strange = {char for char in set(text) if char not in "\t\n" and _is_strange(char)}
    if not strange:
        return ""
    for at, char in enumerate(text):
        if char in strange and not (char in (_JOINER, _EMOJI_STYLE) and _after_emoji(text, at)):
            return f"U+{ord(char):04X} {unicodedata.name(char, 'control character')}"
    return ""


def _is_strange(char: str) -> bool:
    return char == _BLANK or unicodedata.category(char) in _BAD_KINDS or has_ignored(char)


def _after_emoji(text: str, at: int) -> bool:
    before = text[at - 1 : at]
    return bool(before) and (before == _EMOJI_STYLE or unicodedata.category(before) in {"So", "Sk", "Sm"})


# --- a second parser: a line is allowed only if tree-sitter's bash sees the same commands and no error

NODES_MOST = 20_000

_OPAQUE = frozenset({"heredoc_body", "heredoc_content", "comment", "raw_string"})


_TIMED = re.compile(rb"\btime(?: -p)?(?= (?:for|while|until|if|case|select)\b| [({])")
_COMPARED = re.compile(rb"""(?<= )(?:\\[<>]|'[<>]'|"[<>]")(?= )""")


def _known_comparison(match: re.Match[bytes]) -> bytes:
    return b"==" if len(match[0]) == 2 else b"-eq"


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def disagreement(text: str, starts: frozenset[int]) -> str:
    """Why the second parser disagrees with ours, or '' if it does not.

    `starts` are the offsets where our parser saw commands begin; every command that the second one sees
    outside heredocs and backticks must be among them.
    """
    source = text.encode("utf-8", "surrogatepass")
    source = _TIMED.sub(lambda match: b" " * len(match[0]), source)  # it takes `time for …` for a command
    root = _parser().parse(source).root_node
    if root.has_error:  # it does not know `[ a \\> b ]`: try again with a comparison that it knows
        root = _parser().parse(_COMPARED.sub(_known_comparison, source)).root_node
    if root.has_error:
        return "a second parser cannot read it"
    places = (
        starts
        if text.isascii()
        else frozenset(len(text[:at].encode("utf-8", "surrogatepass")) for at in starts)
    )
    for number, node in enumerate(_nodes(root)):
        if number > NODES_MOST:
            return "it has too many parts"
        if node.is_missing:
            return "a second parser misses something"
        if node.type == "command_name" and node.start_byte not in places:
            return "two parsers see different commands"
    return ""


def _nodes(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        if node.type in _OPAQUE or (
            node.type == "command_substitution" and (node.text or b"").startswith(b"`")
        ):
            continue
        waiting.extend(node.children)
