"""Judges one command with its arguments, by its profile."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

import msgspec

from flyball.guard import word_set
from flyball.guard.change import SEVERITY, Verdict
from flyball.guard.commands import argument_kinds, containment, environment
from flyball.guard.commands.args import HOLE, Arg
from flyball.guard.commands.checks import check_of, inline_code
from flyball.guard.commands.command_policy import CommandPolicy, Rule
from flyball.guard.commands.context import Context, Stream
from flyball.guard.commands.expand import COUNT
from flyball.guard.commands.known_output import file_listing, printed_text
from flyball.guard.commands.places import AT_HOME, PathJudge, place_of, ruling
from flyball.guard.commands.profiles import (
    Arguments,
    Option,
    Profile,
    parse_arguments,
    profile_of,
    runs_code,
    verdict_of,
    why,
)
from flyball.guard.commands.syntax_tree import Sub, Unreadable

_DECODERS = word_set("base64 base32 xxd openssl gpg uudecode tr rev gunzip zcat bunzip2 xz unxz")
_WRAPPER_SCRIPTS = frozenset({"./gradlew", "./mvnw"})
_TOOL_FOLDER = re.compile(r"(?:\./)?(?:\.venv/bin|venv/bin|node_modules/\.bin|vendor/bin|bin)")
_LOOSE = re.compile(r"[=:@,]")
_LOOSE_TOO = re.compile(r"[=:;,]")
_AWAY = re.compile(r"/(?!/|$)|~/|\.\.(?:/|$)")
_SOUGHT = re.compile(
    r"-[ktgREDUWqm]|--?(?:\w+-)*(?:grep|pattern\w*|filter|run|skip|match|tests?|deselect|ignore)s?|--test\w*"
)
"""Options whose value is a pattern or a definition: a slash in it is not a path."""
_TOOLS = re.compile(r"(?:.*/)?(?:bin|\.bin|Scripts)")
_SYSTEM_FOLDER = re.compile(r"/(?:usr|opt|nix)/(?:[\w.@+-]+/)*s?bin")
_CODE = ("python", "node", "perl", "ruby", "php")
_OWN_NAMES = word_set("test install start split watch task")
_LEAVING = frozenset({"network", "install", "publish"})
_SENDS = re.compile(
    r"upload|publish|push|deploy|registry|proxy|pastebin|share|send|telemetry|report-url|webhook|exec|plugin"
)
_FLYBALL = re.compile(r"(?:/.*/s?bin/)?flyball")
CALLS_MOST = 300
PLACES_MOST = 8


class Call(msgspec.Struct):
    """One command, as the checks see it."""

    name: str
    profile: Profile
    args: list[Arg]
    given: Arguments
    context: Context
    judge: CommandJudge

    def ask(self, rule: str, reason: str) -> None:
        self.context.ask(rule, reason)

    def deny(self, rule: str, reason: str) -> None:
        self.context.deny(rule, reason)

    def path(self, use: str, arg: Arg) -> None:
        self.judge.path(use, arg, self.context)

    @property
    def operands(self) -> list[Arg]:
        return self.given.operands


class CommandJudge(PathJudge):
    """Judges commands. `walk.Judge` adds scripts."""

    def __init__(self, policy: CommandPolicy) -> None:
        super().__init__(policy)
        self.commands = 0
        self.traps: list[str] = []  # commands of traps, which run at any later time
        self.downloads: set[str] = set()  # files that came over the network
        self.written: dict[str, str] = {}  # files that this line writes with known text

    def text(self, command: str, context: Context) -> Context:
        raise NotImplementedError(command)

    def substitute(self, sub: Sub, context: Context) -> Arg:
        raise NotImplementedError(sub.form)

    def hidden(self, text: str, context: Context) -> None:
        raise NotImplementedError(text)

    def function(self, name: str, args: list[Arg], context: Context) -> None:
        raise NotImplementedError(name)

    def variable(self, name: str, value: Arg, exported: bool, context: Context) -> None:
        """An assignment: to the environment of a command, or to the shell's own variables."""
        verdict = environment.judge_assignment(name, value, exported, self.policy)
        if verdict:
            context.add(verdict)

    def set_numbers(self, names: list[str], context: Context) -> None:
        """Variables that arithmetic sets: each holds a number now."""
        for name in names:
            self.variable(name, COUNT, False, context)
            context.state.hold(name, COUNT)

    def is_dangerous(self, name: str) -> bool:
        return environment.judge_assignment(name, Arg(""), False, self.policy) is not None

    def run_written(self, script: Arg, context: Context, interpreter: str = "") -> None:
        """A script that this very line has written is code on the command line. In a sandbox it is judged by its text."""
        text = self.written.get(posixpath.normpath(script.text), "")
        if not text or not self.policy.contained:
            if text:
                context.ask("inline-code", f"Runs '{script.text}', which this command line has just written.")
            return
        first, _, _ = text.partition("\n")
        name = interpreter or next((name for name in _CODE if first.startswith("#!") and name in first), "")
        if name:
            inline_code.judge_contained(Call(name, Profile(name), [], Arguments(), context, self), text)
        else:
            self.try_as_command([Arg(text + " ")], context)

    def check_paths_in(self, args: list[Arg], context: Context) -> None:
        """Denies protected paths in the arguments of a command without a profile."""
        for arg in args:
            if _FLYBALL.fullmatch(arg.text):
                context.deny("guard", "Runs Flyball itself.")
            for text in dict.fromkeys((*_LOOSE.split(arg.text), arg.text)):
                if text and HOLE not in text and ("/" in text or "." in text or "~" in text):
                    self.check_path_in_text(text, context)

    def check_unknown_arguments(self, args: list[Arg], context: Context) -> None:
        """Arguments of an unknown command, which may run another one: what is denied as a command is denied here."""
        self.check_paths_in(args, context)
        for command in list(_possible_commands(args))[:PLACES_MOST] if context.depth < 4 else ():
            trial = context.aside()
            self.try_as_command(command, trial)
            verdicts = trial.report.verdicts
            if self.policy.contained:
                context.report.verdicts += containment.remaining(verdicts)
            else:
                context.report.verdicts += [verdict for verdict in verdicts if verdict.verdict == "deny"]

    def try_as_command(self, args: list[Arg], context: Context) -> None:
        """Judges arguments as if they were a command."""
        deeper = context.deeper()
        if " " not in args[0].text:
            self.command(args, deeper)
            return
        try:
            self.text(args[0].text, deeper)
        except Unreadable as unreadable:
            context.ask(unreadable.rule, str(unreadable))

    def check_path_in_text(self, text: str, context: Context) -> None:
        path = self.policy.home + text[1:] if text.startswith("~") else text
        for cwd in context.cwds:
            verdict = ruling(place_of(path, cwd, self.policy), "read", text, self.policy.contained)
            if verdict and verdict.verdict == "deny":
                context.add(verdict)

    def check_download(self, script: Arg, context: Context) -> None:
        """A file that this line has downloaded must not run."""
        if posixpath.normpath(script.text) in self.downloads:
            context.deny("remote-code", f"Runs '{script.text}', which this command line has just downloaded.")

    # --- commands

    def command(self, args: list[Arg], context: Context) -> Stream:
        """Judges one command and returns its output."""
        self.commands += 1
        if self.commands > CALLS_MOST:
            context.ask("too-long", "The command line has too many parts to check. Split it up.")
            return Stream("data")
        self.calls.append(tuple(args))
        head = args[0]
        if not head.literal or not head.text:
            self.opaque_command(head, args[1:], context)
        elif re.search(r"\s", head.text):
            context.deny("opaque-command", f"'{head.text}' is not a command name.")
        elif not self.by_rule(args, context):
            stays = self.policy.contained and not context.ends_jobs and containment.outlives(args)
            if stays:
                context.ask("background", f"'{head.text} {stays}' keeps running after this command.")
            self.by_name(head.text, args[1:], context)
        return self.output(args, context)

    def opaque_command(self, head: Arg, rest: list[Arg], context: Context) -> None:
        self.check_paths_in(rest, context)
        rule = "remote-code" if head.remote else "opaque-command"
        context.deny(rule, "The command name is unknown until it runs. Write it out.")

    def by_rule(self, args: list[Arg], context: Context) -> bool:
        """The project's own rules: deny and ask are added, allow and declared replace the profile."""
        texts = [arg.text for arg in args]
        for rule in self.policy.deny:
            if _begins(texts, rule):
                context.deny("policy", rule.reason or "Denied by the policy.")
        for rule in self.policy.ask:
            if _begins(texts, rule):
                context.ask("policy", rule.reason or "The policy asks for approval.")
        if not any(_begins(texts, rule) for rule in (*self.policy.allow, *self.policy.declared)):
            return False
        self.check_paths_in(args[1:], context)
        if not all(arg.literal for arg in args):
            context.ask(
                "opaque-operand", "A declared command gets an argument that is unknown until it runs."
            )
        return True

    def by_name(self, word: str, rest: list[Arg], context: Context) -> None:
        if word in context.functions:
            self.in_function(word, rest, context)
            return
        name = self.program(word, rest, context)
        if not name:
            return
        profile = profile_of(name)
        if profile is None:
            self.check_unknown_arguments(rest, context)
            self.check_destinations(name, rest, context)
            host = next((arg.text for arg in rest if argument_kinds.is_host_name(arg.text)), "")
            if host:
                host = host.replace(HOLE, "?")
                context.ask("network", f"'{name}' is given another machine ({host}).")
            context.ask("unknown-command", f"Unknown command '{name}'.")
            return
        self.by_profile(profile, rest, context)

    def check_destinations(self, name: str, args: list[Arg], context: Context) -> None:
        """A program that a sandbox contains must not be pointed at another machine."""
        if not self.policy.contained:
            return
        host = containment.away(name, args)
        if host:
            context.ask("network", f"'{name}' is given an address outside this machine ({host}).")
        for arg in args:
            hidden = inline_code.hidden_in(arg.text)
            if hidden:
                context.deny("hidden-command", f"The code for '{name}' {hidden}.")
        script = posixpath.splitext(posixpath.basename(name))[0]
        word = containment.leaving_word([Arg(script), *args] if " " not in name else args)
        if word:
            context.ask("publish", f"'{name} {word}' looks like it publishes, deploys or destroys something.")
        secret = containment.secret_call(args)
        if secret:
            context.deny("secret", f"'{name} {secret}' shows or changes secrets.")
        package = containment.installed_package(args)
        if package:
            context.ask("install", f"'{name}' installs '{package}', which no manifest declares.")

    def in_function(self, word: str, rest: list[Arg], context: Context) -> None:
        self.check_paths_in(rest, context)
        if word in context.calls:
            context.deny("recursion", f"The function '{word}' calls itself.")
        else:
            self.function(word, rest, context)

    def program(self, word: str, args: list[Arg], context: Context) -> str:
        """The program that a command word names, or '' if it is not allowed: a path must lead to a trusted directory."""
        if "/" not in word or word in _WRAPPER_SCRIPTS:
            return word
        if "://" in word:
            context.deny("remote-code", f"'{word}' is code from the network.")
        folder, name = posixpath.split(word)
        if folder in self.policy.trusted_dirs:
            return name
        if self.policy.contained and _SYSTEM_FOLDER.fullmatch(folder):
            return name
        self.path("read", Arg(word), context)
        self.check_download(Arg(word), context)
        if name == "flyball":
            context.deny("guard", "Runs Flyball's own command line.")
        if self.policy.contained and self.is_inside(Arg(word), context, AT_HOME):
            return self.own_program(word, args, context)
        if self.is_inside(Arg(word), context) and (not profile_of(name) or _TOOL_FOLDER.fullmatch(folder)):
            context.ask(
                "unlisted-program", f"'{word}' is a file in the workspace and not a declared command."
            )
        else:
            context.deny("untrusted-program", f"'{word}' is not in a trusted directory.")
        return ""

    def own_program(self, word: str, args: list[Arg], context: Context) -> str:
        """A program of the checkout, the private home or /tmp. In a folder of tools its name says what it is."""
        folder, name = posixpath.split(word)
        if _TOOLS.fullmatch(folder):
            return name
        if profile_of(name) and name not in _OWN_NAMES:
            context.deny("untrusted-program", f"'{word}' is not in a trusted directory.")
        self.check_unknown_arguments(args, context)
        self.check_destinations(word, args, context)
        self.run_written(Arg(word), context)
        return ""

    # --- profiles

    def by_profile(self, profile: Profile, args: list[Arg], context: Context) -> None:
        verdict = verdict_of(profile)
        harmless = profile.verdict == "ask" or profile.rule == "hidden-command"
        if harmless and [arg.text for arg in args] in _ABOUT_ITSELF:
            return
        given = parse_arguments(profile, args)
        if verdict and self.policy.contained and containment.stays_here(profile, args, given, self.written):
            (self.check_unknown_arguments if profile.plain else self.check_paths_in)(args, context)
            if profile.plain:
                self.check_destinations(profile.name, args, context)
            verdict = None
        if verdict:
            context.add(verdict)
            if self.policy.contained and profile.plain:
                self.check_destinations(profile.name, args, context)
            (self.check_unknown_arguments if profile.plain else self.check_paths_in)(args, context)
        if profile.rule in _LEAVING:
            context.report.network += 1
        if profile.is_service and any(_DESTROYS.fullmatch(arg.text) for arg in args[:3]):
            context.deny("destruction", f"'{profile.name}' deletes something on a remote service.")
        if any(arg.loose for arg in args) and profile.name not in _TAKES_ANYTHING:
            rule = "opaque-options" if profile.rule in _LEAVING else "opaque-operand"
            context.ask(rule, "An unknown value without quotes can turn into options. Quote it.")
        self.globs(profile, given, context)
        self.options(profile, given, context)
        self.operands(profile, given, context)
        self.words(profile, given, context)
        if profile.check:
            check_of(profile.check)(Call(profile.name, profile, args, given, context, self))

    def words(self, profile: Profile, given: Arguments, context: Context) -> None:
        """What makes the call worse as an operand or as the value of an option."""
        texts = [arg.text for arg in given.operands]
        texts += [f"{option.name} {option.value.text}" for option in given.options if option.value]
        for pattern, word, rule, sentence in profile.words:
            if any(re.fullmatch(pattern, text, re.DOTALL) for text in texts):
                context.add(Verdict(word, rule, sentence))

    def options(self, profile: Profile, given: Arguments, context: Context) -> None:
        for option in given.options:
            flag = option.flag
            if flag is None:
                self.unknown_flag(profile, option, context)
                self.check_paths_in([option.value] if option.value else [], context)
                continue
            if self.policy.contained and containment.loads_own_code(profile.name, option):
                argument_kinds.judge_argument(self, "loaded", option.value or Arg(""), context)
                continue
            if SEVERITY[flag.verdict]:
                context.add(
                    Verdict(flag.verdict, flag.rule, f"'{profile.name} {flag.name}' {why(flag.rule)}.")
                )
            if option.value is not None:
                argument_kinds.judge_argument(
                    self, self.kind(profile, flag.kind, option.value, flag.name), option.value, context
                )

    def kind(self, profile: Profile, kind: str, arg: Arg, flag: str = "") -> str:
        """The kind of an argument. For tools that run code, any text with a path outside the workspace counts."""
        leads_out = kind == "text" and runs_code(profile.name) and not _SOUGHT.fullmatch(flag)
        return "away" if leads_out and any(map(_AWAY.match, _LOOSE_TOO.split(arg.text))) else kind

    def globs(self, profile: Profile, given: Arguments, context: Context) -> None:
        """A file name that starts with a dash becomes an option if a glob matches it."""
        end = given.after_dashes if given.after_dashes >= 0 else len(given.operands)
        if profile.globs != "allow" and any(
            arg.glob and arg.text[:1] in "*?[" for arg in given.operands[:end]
        ):
            reason = f"A file name could be read as an option of '{profile.name}'. Use './*' instead of '*'."
            context.add(Verdict(profile.globs, "glob-option", reason))

    def unknown_flag(self, profile: Profile, option: Option, context: Context) -> None:
        if profile.verdict == "allow":
            away = option.value and containment.other_machine(option.value.text)
            rule = "unknown-flag" if not away and not _SENDS.search(option.name) else "network"
            context.ask(rule, f"Unknown option '{profile.name} {option.name}'.")

    def operands(self, profile: Profile, given: Arguments, context: Context) -> None:
        if profile.sub:
            self.subcommand(profile, given, context)
        elif profile.wraps >= 0:
            self.wrapped_command(profile, given, context)
        elif profile.verdict == "allow" or profile.operands:
            skip = any(option.name in profile.instead for option in given.options)
            if self.policy.contained and _fills_template(profile.name, given.operands):
                given = Arguments(given.options, given.operands[:1], given.after_dashes)
            for kind, arg in argument_kinds.operand_kinds(
                profile.operands[1:] if skip else profile.operands, given.operands
            ):
                argument_kinds.judge_argument(self, self.kind(profile, kind, arg), arg, context)
        if not given.operands and not given.options:
            self.bare(profile, context)

    def subcommand(self, profile: Profile, given: Arguments, context: Context) -> None:
        if not given.operands:
            if not given.options:
                self.bare(profile, context)
            return
        head, rest = given.operands[0], given.operands[1:]
        if profile.name == "cargo" and rest and re.fullmatch(r"\+[\w.-]+", head.text):
            head, rest = rest[0], rest[1:]
        inner = profile.sub.get(head.text) if head.literal else None
        inner = inner or (profile.sub.get("*") if head.literal else None)
        if inner is None:
            self.unknown_subcommand(profile, head, rest, context)
        else:
            self.by_profile(inner, rest if inner is not profile.sub.get("*") else given.operands, context)

    def unknown_subcommand(self, profile: Profile, head: Arg, rest: list[Arg], context: Context) -> None:
        self.check_unknown_arguments(rest, context)
        self.check_destinations(profile.name, [head, *rest], context)
        name = f"{profile.name} {head.text.replace(HOLE, '?')}"
        rule = (
            "unknown-call" if containment.is_strict(profile.name) or not head.literal else "unknown-command"
        )
        context.ask(rule, f"Unknown command '{name}'.")

    def bare(self, profile: Profile, context: Context) -> None:
        if profile.bare != "allow":
            context.add(Verdict(profile.bare, "bare", f"'{profile.name}' without arguments needs approval."))

    def wrapped_command(self, profile: Profile, given: Arguments, context: Context) -> None:
        """`timeout 5 cmd …`: the inner command decides."""
        inner = given.operands[profile.wraps :]
        if inner:
            self.in_this_shell(inner, context)

    def in_this_shell(self, args: list[Arg], context: Context) -> None:
        """A command behind `builtin`, `command` or `time`: it may set variables of this shell."""
        if context.depth >= 8:
            context.deny("too-deep", "Commands are nested too deeply to check.")
            return
        deeper = context.beyond_functions()
        self.command(args, deeper)
        context.state.may_also(deeper.state)
        for arg in args[1:] if args[0].text in DECLARING else ():
            context.state.hold(
                arg.text.partition("=")[0].rstrip("+"), None
            )  # shells differ on how it is split

    # --- output

    def output(self, args: list[Arg], context: Context) -> Stream:
        """The output of a command, for the next command in the pipe."""
        name = args[0].text
        if name in {"echo", "printf"} and all(arg.literal for arg in args):
            text = printed_text(name, [arg.text for arg in args[1:]])
            return Stream("decoded") if text is None else Stream("text", text)
        if name in _DECODERS:
            return Stream("decoded")
        if name == "seq" and len(args) > 1 and all(arg.literal and arg.text.isdecimal() for arg in args[1:]):
            return Stream("listed", args[-1].text)
        names = file_listing([arg.text for arg in args], context.cwds, self.policy)
        if names:
            return names
        if name == "ls" and all(arg.text[:1] == "-" or arg.text in {".", "./"} for arg in args[1:]):
            return Stream("data", whole=True)
        if context.stdin.kind in {"text", "listed", "decoded"} and name in _PASSING:
            return context.stdin if name in {"cat", "tee"} or context.stdin.kind != "text" else Stream("data")
        return Stream("data")


DECLARING = word_set("export declare typeset local readonly")
_TAKES_ANYTHING = word_set("echo printf test [ : true false exit return basename dirname")
_DESTROYS = re.compile(r"(?:[\w-]+[:-])?(?:destroy|delete|terminate|purge)(?:-[\w-]+)?")
_RUNNABLE = word_set(
    "rm unlink shred dd mv tee chmod chown find git curl wget nc sh bash dash zsh ksh python python3 perl"
    " /bin/rm /usr/bin/rm /bin/sh /bin/bash"
    " npm npx yarn pnpm uv uvx pip pip3 pipx poetry cargo gem docker podman ssh scp sftp rsync gh glab twine aws gcloud kubectl terraform helm"
    " sudo unshare bwrap nsenter chroot flyball timeout xargs nohup setsid"
)
_COMMAND_IN_TEXT = re.compile(
    rf"(?:^|[;&|(=!\"'`]|\bshell|\bscript)\s*((?:{'|'.join(sorted(map(re.escape, _RUNNABLE), reverse=True))}) [^\"'`]*)"
)
_ABOUT_ITSELF = (
    ["--version"],
    ["--help"],
    ["-version"],
    ["-V"],
)  # the only argument: it prints information about itself
_PASSING = word_set("cat tee sort uniq head tail grep sed awk cut")


def _possible_commands(args: list[Arg]) -> Iterator[list[Arg]]:
    """Where another command may begin among arguments: a word, or the text of one argument from there on."""
    for at, arg in enumerate(args):
        if arg.literal and arg.text in _RUNNABLE:
            yield args[at:]
        elif arg.literal and " " in arg.text:
            yield from ([Arg(arg.text[match.start(1) :])] for match in _COMMAND_IN_TEXT.finditer(arg.text))


def _fills_template(name: str, operands: list[Arg]) -> bool:
    """`cp .env.example .env`: there is no secret in it yet."""
    words = " ".join(arg.text for arg in operands)
    return (
        name == "cp"
        and re.fullmatch(
            r"\S*\.env\.(?:example|sample|template|dist)\S* \S*\.env(?:\.(?:local|test|dev|development|ci))?",
            words,
        )
        is not None
    )


def _begins(texts: list[str], rule: Rule) -> bool:
    return bool(rule.words) and texts[: len(rule.words)] == list(rule.words)
