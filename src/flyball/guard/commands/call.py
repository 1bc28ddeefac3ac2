"""One command with its arguments: found, unwrapped, and judged by its profile."""

from __future__ import annotations

import posixpath
import re

import msgspec

from flyball.guard.commands import environment, kinds
from flyball.guard.commands.args import HOLE, Arg
from flyball.guard.commands.checks import CHECKS
from flyball.guard.commands.command_policy import CommandPolicy, Rule
from flyball.guard.commands.fold import spoken
from flyball.guard.commands.listing import listing
from flyball.guard.commands.names import names
from flyball.guard.commands.options import Sorted, sort_arguments
from flyball.guard.commands.places import glob_place, place_of, ruling
from flyball.guard.commands.profiles import Profile, profile_of, runs_code, verdict_of
from flyball.guard.commands.scene import Feed, Scene
from flyball.guard.commands.tree import Unreadable
from flyball.guard.verdict import SEVERITY, Verdict

_DECODERS = names("base64 base32 xxd openssl gpg uudecode tr rev gunzip zcat bunzip2 xz unxz")
_WRAPPER_SCRIPTS = frozenset({"./gradlew", "./mvnw"})
_TOOL_FOLDER = re.compile(r"(?:\./)?(?:\.venv/bin|venv/bin|node_modules/\.bin|vendor/bin|bin)")
_PIPE = re.compile(r"/dev/fd/\d+")
_LOOSE = re.compile(r"[=:@,]")
_LOOSE_TOO = re.compile(r"[=:;,]")
_AWAY = re.compile(r"/(?!/|$)|~/|\.\.(?:/|$)")
_SOUGHT = re.compile(
    r"-[ktgREDUWqm]|--?(?:\w+-)*(?:grep|pattern\w*|filter|run|skip|match|tests?|deselect|ignore)s?|--test\w*"
)
"""Options for names to look for, for definitions and for warnings: a slash in them is no path."""
CALLS_MOST = 300


class Call(msgspec.Struct):
    """One command about to run, for the checks that look deeper than flags and kinds."""

    name: str
    profile: Profile
    args: list[Arg]
    given: Sorted
    scene: Scene
    judge: Caller

    def ask(self, rule: str, reason: str) -> None:
        self.judge.ask(rule, reason)

    def deny(self, rule: str, reason: str) -> None:
        self.judge.deny(rule, reason)

    def path(self, use: str, arg: Arg) -> None:
        self.judge.path(use, arg, self.scene)

    @property
    def operands(self) -> list[Arg]:
        return self.given.operands


class Caller:
    """Judges commands; the walk above it judges scripts."""

    def __init__(self, policy: CommandPolicy) -> None:
        self.policy = policy
        self.found: list[Verdict] = []
        self.network = 0
        self.calls = 0
        self.called: list[str] = []
        self.left: list[Scene] = []  # where `return`, `break` and `continue` stood
        self.trapped: list[str] = []  # what runs at some later time, wherever the line is then
        self.downloads: set[str] = set()
        self.seen: list[tuple[Arg, ...]] = []

    def text(self, command: str, scene: Scene) -> Scene:
        raise NotImplementedError(command)

    def hidden(self, text: str, scene: Scene) -> None:
        raise NotImplementedError(text)

    def function(self, name: str, args: list[Arg], scene: Scene) -> None:
        raise NotImplementedError(name)

    # --- verdicts

    def add(self, verdict: Verdict) -> None:
        self.found.append(verdict)

    def ask(self, rule: str, reason: str) -> None:
        self.found.append(Verdict("ask", rule, reason))

    def deny(self, rule: str, reason: str) -> None:
        self.found.append(Verdict("deny", rule, reason))

    def variable(self, name: str, value: Arg, exported: bool) -> None:
        """An assignment: to the environment of a command, or to the shell's own variables."""
        verdict = environment.judged(name, value, exported, self.policy)
        if verdict:
            self.add(verdict)

    def is_dangerous(self, name: str) -> bool:
        return environment.judged(name, Arg(""), False, self.policy) is not None

    # --- paths

    def path(self, use: str, arg: Arg, scene: Scene) -> None:
        """A path is judged from every directory the line may be in."""
        if arg.pipe and use in {"create", "delete"}:
            self.ask("opaque-operand", f"It would {use} what is no file.")
        if arg.text == "-" or (arg.pipe and _PIPE.fullmatch(arg.text)):
            return
        if arg.many and use not in {"look", "read"}:
            self.ask("many-files", f"It would {use} files that only a listing names.")
        if HOLE in arg.text or arg.word:
            self.opaque_path(use, arg, scene)
        else:
            self.known_path(use, arg, scene)

    def source(self, arg: Arg, scene: Scene) -> None:
        """A file for a linter or formatter: a glob of the workspace is as good as its names."""
        if HOLE in arg.text or arg.word or not (arg.glob or arg.many):
            self.path("write", arg, scene)
            return
        for cwd in scene.cwds:
            verdict = ruling(glob_place(arg.text, cwd, self.policy), "write", arg.text)
            if verdict:
                self.add(verdict)

    def opaque_path(self, use: str, arg: Arg, scene: Scene) -> None:
        start = arg.text.split(HOLE, 1)[0]
        prefix = posixpath.dirname(start if arg.word else start + "x")
        if prefix:
            self.known_path(use, Arg(prefix), scene)
        self.ask("opaque-operand", f"Nobody can tell which file it would {use}.")

    def known_path(self, use: str, arg: Arg, scene: Scene) -> None:
        text = self.policy.home + arg.text[1:] if re.match(r"~(?:/|$)", arg.text) else arg.text
        globbing = arg.glob or arg.many
        for cwd in scene.cwds:
            place = (glob_place if globbing else place_of)(text, cwd, self.policy)
            verdict = ruling(place, use, arg.text)
            if verdict:
                self.add(verdict)
        if use in {"create", "write"} and posixpath.basename(text).startswith("-"):
            self.ask(
                "option-like-name", f"'{arg.text}' would be taken for an option wherever a glob finds it."
            )
        if arg.glob and use not in {"look", "read"}:
            self.ask("glob-operand", f"Nobody can tell which files '{arg.text}' would {use}.")

    def sniff(self, args: list[Arg], scene: Scene) -> None:
        """Arguments of a command that nobody described: protected paths in them are still refused."""
        for arg in args:
            if arg.text == "flyball":
                self.deny("guard", "It would change the guard itself.")
            for text in {arg.text, *_LOOSE.split(arg.text)}:
                if text and HOLE not in text and ("/" in text or "." in text or "~" in text):
                    self.sniffed(text, scene)

    def undescribed(self, args: list[Arg], scene: Scene) -> None:
        """Arguments of a command that may be a wrapper: what would be refused alone is refused in them too."""
        self.sniff(args, scene)
        places = [at for at, arg in enumerate(args) if arg.literal and arg.text.split(" ")[0] in _RUNNABLE]
        for at in places[:3] if scene.depth < 4 else ():
            before, network = len(self.found), self.network
            self.tried(args[at:], scene)
            self.network = network
            self.found[before:] = [found for found in self.found[before:] if found.verdict == "deny"]

    def tried(self, args: list[Arg], scene: Scene) -> None:
        """One argument that begins like a command line, or the beginning of a command."""
        deeper = scene.copy()
        deeper.depth += 1
        if " " not in args[0].text:
            self.command(args, deeper)
            return
        try:
            self.text(args[0].text, deeper)
        except Unreadable as unreadable:
            self.ask(unreadable.rule, str(unreadable))

    def sniffed(self, text: str, scene: Scene) -> None:
        path = self.policy.home + text[1:] if text.startswith("~") else text
        for cwd in scene.cwds:
            verdict = ruling(place_of(path, cwd, self.policy), "read", text)
            if verdict and verdict.verdict == "deny":
                self.add(verdict)

    def fetched(self, script: Arg) -> None:
        """A file that this very line brought in is code from the network."""
        if posixpath.normpath(script.text) in self.downloads:
            self.deny("remote-code", f"'{script.text}' was fetched from the network just before.")

    # --- commands

    def command(self, args: list[Arg], scene: Scene) -> Feed:
        """Judges one command; the answer is what it puts out."""
        self.calls += 1
        if self.calls > CALLS_MOST:
            self.ask("too-long", "The command line does too many things to judge; split it up.")
            return Feed("data")
        self.seen.append(tuple(args))
        head = args[0]
        if not head.literal or not head.text:
            self.opaque_command(head, args[1:], scene)
        elif re.search(r"\s", head.text):
            self.deny("opaque-command", f"'{head.text}' is no name of a command.")
        elif not self.by_rule(args, scene):
            self.named(head.text, args[1:], scene)
        return self.output(args, scene)

    def opaque_command(self, head: Arg, rest: list[Arg], scene: Scene) -> None:
        self.sniff(rest, scene)
        rule = "remote-code" if head.remote else "opaque-command"
        self.deny(rule, "Nobody can tell which command would run; write its name plainly.")

    def by_rule(self, args: list[Arg], scene: Scene) -> bool:
        """The project's own rules: deny and ask add to the verdict, allow and declared replace the profile's."""
        texts = [arg.text for arg in args]
        for rule in self.policy.deny:
            if _begins(texts, rule):
                self.deny("policy", rule.reason or "The policy says deny.")
        for rule in self.policy.ask:
            if _begins(texts, rule):
                self.ask("policy", rule.reason or "The policy says ask.")
        if not any(_begins(texts, rule) for rule in (*self.policy.allow, *self.policy.declared)):
            return False
        self.sniff(args[1:], scene)
        if not all(arg.literal for arg in args):
            self.ask("opaque-operand", "A declared command gets an argument nobody can know.")
        return True

    def named(self, word: str, rest: list[Arg], scene: Scene) -> None:
        if word in scene.functions:
            self.in_function(word, rest, scene)
            return
        name = self.program(word, scene)
        if not name:
            return
        profile = profile_of(name)
        if profile is None:
            self.undescribed(rest, scene)
            self.ask("unknown-command", f"Nothing is known of '{name}'.")
            return
        self.by_profile(profile, rest, scene)

    def in_function(self, word: str, rest: list[Arg], scene: Scene) -> None:
        self.sniff(rest, scene)
        if word in self.called:
            self.deny("recursion", f"The function '{word}' calls itself.")
        else:
            self.function(word, rest, scene)

    def program(self, word: str, scene: Scene) -> str:
        """The name a command word stands for, '' if it was refused: a path must lead to a trusted folder."""
        if "/" not in word or word in _WRAPPER_SCRIPTS:
            return word
        folder, name = posixpath.split(word)
        if folder in self.policy.trusted_dirs:
            return name
        self.path("read", Arg(word), scene)
        self.fetched(Arg(word))
        if name == "flyball":
            self.deny("guard", "It is the guard's own command line.")
        inside = all(place_of(word, cwd, self.policy) in {"inside", "delicate"} for cwd in scene.cwds)
        if inside and (not profile_of(name) or _TOOL_FOLDER.fullmatch(folder)):
            self.ask("unlisted-program", f"'{word}' is a file of the workspace, not a declared command.")
        else:
            self.deny("untrusted-program", f"'{word}' is not where a trusted '{name}' lives.")
        return ""

    # --- profiles

    def by_profile(self, profile: Profile, args: list[Arg], scene: Scene) -> None:
        verdict = verdict_of(profile)
        if profile.verdict == "ask" and [arg.text for arg in args] in _ABOUT_ITSELF:
            return
        if verdict:
            self.add(verdict)
            (self.undescribed if profile.plain else self.sniff)(args, scene)
        if profile.rule in {"network", "install", "publish"}:
            self.network += 1
        if profile.is_service and any(_DESTROYS.fullmatch(arg.text) for arg in args[:3]):
            self.deny("destruction", f"'{profile.name}' would destroy something elsewhere.")
        if any(arg.loose for arg in args) and profile.name not in _TAKES_ANYTHING:
            self.ask("opaque-operand", "What stands outside quotes may become options; put it in quotes.")
        given = sort_arguments(profile, args)
        self.globs(profile, given)
        self.options(profile, given, scene)
        self.operands(profile, given, scene)
        if profile.check:
            CHECKS[profile.check](Call(profile.name, profile, args, given, scene, self))

    def options(self, profile: Profile, given: Sorted, scene: Scene) -> None:
        for option in given.options:
            flag = option.flag
            if flag is None:
                self.unknown_flag(profile, option.name)
                self.sniff([option.value] if option.value else [], scene)
                continue
            if SEVERITY[flag.verdict]:
                reason = f"'{profile.name} {flag.name}' may not be used unasked ({flag.rule})."
                self.add(Verdict(flag.verdict, flag.rule, reason))
            if option.value is not None:
                kinds.judge(self, self.kind(profile, flag.kind, option.value, flag.name), option.value, scene)

    def kind(self, profile: Profile, kind: str, arg: Arg, flag: str = "") -> str:
        """What a tool is pointed at outside the workspace decides what it runs or writes, whatever it is for."""
        leads_out = kind == "text" and runs_code(profile.name) and not _SOUGHT.fullmatch(flag)
        return "away" if leads_out and any(map(_AWAY.match, _LOOSE_TOO.split(arg.text))) else kind

    def globs(self, profile: Profile, given: Sorted) -> None:
        """A file named like an option is one, wherever a glob that begins with a wildcard finds it."""
        end = given.after_dashes if given.after_dashes >= 0 else len(given.operands)
        if profile.globs != "allow" and any(
            arg.glob and arg.text[:1] in "*?[" for arg in given.operands[:end]
        ):
            reason = f"A file could be named like an option of '{profile.name}'; write './*' for '*'."
            self.add(Verdict(profile.globs, "glob-option", reason))

    def unknown_flag(self, profile: Profile, name: str) -> None:
        if profile.verdict == "allow":
            self.ask("unknown-flag", f"Nothing is known of '{profile.name} {name}'.")

    def operands(self, profile: Profile, given: Sorted, scene: Scene) -> None:
        if profile.sub:
            self.subcommand(profile, given, scene)
        elif profile.wraps >= 0:
            self.wrapped(profile, given, scene)
        elif profile.verdict == "allow" or profile.operands:
            skip = any(option.name in profile.instead for option in given.options)
            for kind, arg in kinds.paired(profile.operands[1:] if skip else profile.operands, given.operands):
                kinds.judge(self, self.kind(profile, kind, arg), arg, scene)
        if not given.operands and not given.options and profile.bare != "allow":
            self.add(Verdict(profile.bare, "bare", f"'{profile.name}' alone needs a person's word."))

    def subcommand(self, profile: Profile, given: Sorted, scene: Scene) -> None:
        if not given.operands:
            if not given.options:
                self.bare(profile)
            return
        head, rest = given.operands[0], given.operands[1:]
        if profile.name == "cargo" and rest and re.fullmatch(r"\+[\w.-]+", head.text):
            head, rest = rest[0], rest[1:]
        inner = profile.sub.get(head.text) if head.literal else None
        inner = inner or (profile.sub.get("*") if head.literal else None)
        if inner is None:
            self.undescribed(rest, scene)
            self.ask("unlisted", f"Nothing is known of '{profile.name} {head.text.replace(HOLE, '?')}'.")
        else:
            self.by_profile(inner, rest if inner is not profile.sub.get("*") else given.operands, scene)

    def bare(self, profile: Profile) -> None:
        if profile.bare != "allow":
            self.add(Verdict(profile.bare, "bare", f"'{profile.name}' alone needs a person's word."))

    def wrapped(self, profile: Profile, given: Sorted, scene: Scene) -> None:
        """`timeout 5 cmd …`: the inner command decides."""
        inner = given.operands[profile.wraps :]
        if inner:
            self.here(inner, scene)

    def here(self, args: list[Arg], scene: Scene) -> None:
        """A command behind `builtin`, `command` or `time`: what it sets, it may set in this shell."""
        if scene.depth >= 8:
            self.deny("too-deep", "Wrappers are nested too deeply to judge.")
            return
        deeper = scene.beyond_functions()
        self.command(args, deeper)
        scene.may_also(deeper)
        for arg in args[1:] if args[0].text in DECLARING else ():
            scene.hold(arg.text.partition("=")[0].rstrip("+"), None)  # shells differ on how it is split

    # --- output

    def output(self, args: list[Arg], scene: Scene) -> Feed:
        """What a command puts out, for whatever reads it next in the pipe."""
        name = args[0].text
        if name in {"echo", "printf"} and all(arg.literal for arg in args):
            said = spoken(name, [arg.text for arg in args[1:]])
            return Feed("decoded") if said is None else Feed("text", said)
        if name in _DECODERS:
            return Feed("decoded")
        names = listing([arg.text for arg in args], scene.cwds, self.policy)
        if names:
            return names
        if name == "ls" and all(arg.text[:1] == "-" or arg.text in {".", "./"} for arg in args[1:]):
            return Feed("data", whole=True)
        if scene.feed.kind in {"text", "listed", "decoded"} and name in _PASSING:
            return scene.feed if name in {"cat", "tee"} or scene.feed.kind != "text" else Feed("data")
        return Feed("data")


DECLARING = names("export declare typeset local readonly")
_TAKES_ANYTHING = names("echo printf test [ : true false exit return")
_DESTROYS = re.compile(r"(?:[\w-]+[:-])?(?:destroy|delete|terminate|purge)(?:-[\w-]+)?")
_RUNNABLE = names(
    "rm unlink shred dd mv tee chmod chown find git curl wget nc sh bash dash zsh ksh python python3 perl"
    " /bin/rm /usr/bin/rm /bin/sh /bin/bash"
)
_ABOUT_ITSELF = (["--version"], ["--help"], ["-version"])  # the only argument: it tells about itself
_PASSING = names("cat tee sort uniq head tail grep sed awk cut")


def _begins(texts: list[str], rule: Rule) -> bool:
    return bool(rule.words) and texts[: len(rule.words)] == list(rule.words)
