"""Judges every part of a command line in its context: its directory, its variables and its input."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import msgspec

from flyball.guard.change import Verdict
from flyball.guard.commands import endless
from flyball.guard.commands.args import HOLE, VALUE_MOST, Arg
from flyball.guard.commands.checks.wrappers import positional
from flyball.guard.commands.command_judge import DECLARING, CommandJudge
from flyball.guard.commands.context import NO_INPUT, POSITIONS, Chain, Context, Stream, leaver, shared
from flyball.guard.commands.expand import (
    UNKNOWN,
    bounded,
    evaluate,
    expand,
    expand_one,
    expand_words,
    name_again,
)
from flyball.guard.commands.grammar import read
from flyball.guard.commands.known_output import SETS_UP_SHELL, result_of
from flyball.guard.commands.profiles import profile_of
from flyball.guard.commands.syntax_tree import (
    Assign,
    Block,
    Define,
    Item,
    Lit,
    Loop,
    Pipe,
    Redirect,
    Script,
    Simple,
    Stage,
    Sub,
    Sum,
    Test,
    Unreadable,
    Var,
    Word,
)

STAGES_MOST = 200
LOOP_VALUES_MOST = 12
ROUNDS_MOST = 8
DEPTH_MOST = 12

_EVALUATED = re.compile(r"\w\[[^\]]*(?:\$\(|`)")
_COMPARES_NUMBERS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})


class Judge(CommandJudge):
    """Walks a script. What it finds goes to the report of the context that it is given."""

    stages = 0

    # --- scripts

    def text(self, command: str, context: Context) -> Context:
        """A command line inside a command line: `sh -c`, `eval`, a heredoc for a shell. Returns where it ends."""
        if context.depth >= DEPTH_MOST:
            raise Unreadable("too-deep", "Commands are nested too deeply to check. Split them up.")
        inner = context.deeper().reading(shared(context.stdin))
        script, _, only_bash = read(command)
        if context.posix and only_bash:
            context.ask("dialect", f"Other shells read {only_bash} differently. Use bash.")
        self.script(script, inner)
        return inner

    def script(self, script: Script, context: Context) -> None:
        """After `&&` the line continues only if all went well, after `||` only if it did not."""
        state = context.state
        chain = Chain(state.copy())
        if not context.ends_jobs and any(item.after == "&" for item in script.items):
            context = msgspec.structs.replace(context, ends_jobs=endless.ends_jobs(script))
        for item in script.items:
            state.become(chain.entry())
            before = state.copy()
            self.item(item, context)
            chain.went(item, before, state, _leaves(item, context))
        state.become(chain.end())

    def item(self, item: Item, context: Context) -> None:
        if item.after == "&":
            ends = context.ends_jobs or endless.ends_soon(item.pipe)
            if not (ends and self.policy.contained):
                context.ask("background", "Starts a background job.")
            self.pipe(item.pipe, context.copy())
        else:
            self.pipe(item.pipe, context)

    def pipe(self, pipe: Pipe, context: Context) -> None:
        if endless.fills_disk(pipe):
            context.deny("unbounded", "Writes without end, which fills the disk. Limit it with 'head -c'.")
        if endless.seeks_secret_variables(pipe):
            context.deny("secret", "Searches the environment for secrets.")
        stream = context.stdin
        for stage in pipe.stages:
            inner = context if len(pipe.stages) == 1 else context.copy().reading(stream)
            stream = self.flow(stage, inner)

    def flow(self, stage: Stage, context: Context) -> Stream:
        """Judges one stage and returns its output. What came over the network stays remote."""
        self.stages += 1
        if self.stages > STAGES_MOST:
            raise Unreadable("too-long", "The command line has too many parts to check. Split it up.")
        before = context.report.network
        stream = self.stage(stage, context)
        remote = context.report.network > before or context.stdin.kind == "remote"
        return Stream("remote") if remote else stream

    def stage(self, stage: Stage, context: Context) -> Stream:
        match stage:
            case Simple():
                return self.simple(stage, context)
            case Block():
                self.block(stage, context)
            case Loop():
                self.loop(stage, context)
            case Define():
                self.define(stage, context)
            case Test():
                self.redirects(stage.redirects, context)
                self.condition(stage, context)
        return Stream("data")

    # --- compounds

    def block(self, block: Block, context: Context) -> None:
        self.comparison_words(block.words, context)
        self.arithmetic(block.words, context)
        inner = context.reading(self.redirects(block.redirects, context))
        if block.kind == "group":
            self.script(block.scripts[0], inner.reading(shared(inner.stdin)))
        elif block.kind == "while":
            self.while_loop(block, inner)
        else:
            self.branches(block, inner)

    def branches(self, block: Block, context: Context) -> None:
        """Each script may run or not."""
        for script in block.scripts:
            inner = context.copy().reading(shared(context.stdin))
            self.script(script, inner)
            if block.kind not in {"subshell", "coproc"}:
                context.state.may_also(inner.state)

    def while_loop(self, block: Block, context: Context) -> None:
        """A loop's body runs after its condition, and again after itself. The loop may end after either."""
        if endless.never_ends(block):
            context.deny("unbounded", "The loop never ends. Give it a limit.")

        def once(inner: Context) -> None:
            for script in block.scripts:
                self.script(script, inner)
                inner.exits.append(inner.state.copy())

        self.rounds(context, [once])

    def loop(self, loop: Loop, context: Context) -> None:
        values = expand_words(loop.words, context, self) if loop.words is not None else _arguments(context)
        inner = context.reading(shared(self.redirects(loop.redirects, context)))
        self.variable(loop.name, UNKNOWN, False, context)
        bodies = [partial(self.with_value, loop, value) for value in _loop_values(values)]
        if len(values) <= LOOP_VALUES_MOST and all(value.literal for value in values):
            inner = inner.copy()
            for body in bodies:
                self.round(inner, body)
            context.state.may_also(inner.state)
        else:
            self.rounds(inner, bodies)

    def with_value(self, loop: Loop, value: Arg, context: Context) -> None:
        context.state.hold(loop.name, value.text if value.literal else value)
        self.script(loop.body, context)

    def rounds(self, context: Context, bodies: list[Callable[[Context], None]]) -> None:
        """How often and in which order the bodies run is unknown: repeat until nothing new comes up."""
        for _ in range(ROUNDS_MOST):
            before = context.state.copy()
            for body in bodies:
                inner = context.copy().reading(shared(context.stdin))
                self.round(inner, body)
                context.state.may_also(inner.state)
            if context.state.is_like(before):
                return
        context.ask("too-long", "The loop passes too many values from round to round to check.")

    def round(self, context: Context, body: Callable[[Context], None]) -> None:
        """One round of a loop. It may also end wherever the body says `break` or `continue`."""
        inner = context.inside_loop()
        body(inner)
        for state in inner.exits:
            context.state.may_also(state)
        context.exits.extend(inner.exits)

    def define(self, define: Define, context: Context) -> None:
        """The body is judged with unknown arguments here, and with the real ones where the function is called."""
        if profile_of(define.name) or define.name == "flyball":
            context.deny("shadowed-command", f"Defines a function '{define.name}' that hides a command.")
        context.state.define(define.name, define.body)
        anytime = bool(self.traps) and not context.in_trap
        contained = self.policy.contained
        with context.filtered(
            lambda verdict: anytime or not _is_about_arguments(verdict, contained)
        ) as inner:
            deeper = (inner.at_any_time() if anytime else inner).deeper()
            deeper.variables.update(dict.fromkeys(POSITIONS))
            self.body(define.name, define.body, deeper)

    def function(self, name: str, args: list[Arg], context: Context) -> None:
        """A call of a function of this line: its body with these arguments, in this shell."""
        given = positional([Arg(name), *args])
        before = context.copy()
        if context.depth + 1 >= DEPTH_MOST:
            context.ask("too-deep", "Functions call each other too deeply to check.")
            return
        for body in before.functions[name]:
            inner = before.deeper().reading(shared(context.stdin))
            inner.variables.update(given, **{"0": None})
            self.body(name, body, inner)
            for own in ("0", *POSITIONS):
                inner.variables.pop(own, None)
            inner.variables.update({own: before.variables[own] for own in given if own in before.variables})
            context.state.may_also(inner.state)

    def body(self, name: str, body: Stage, context: Context) -> None:
        inner = context.inside_function(name)
        self.flow(body, inner)
        for state in inner.exits:
            context.state.may_also(state)

    def condition(self, test: Test, context: Context) -> None:
        args = self.comparison_words(test.words, context)
        for arg in args:
            self.hidden(arg.text, context)
        for option, name in pairwise(args):
            if option.text == "-v":
                name_again(name, context, self)
        for left, operator, right in zip(args, args[1:], args[2:], strict=False):
            if operator.text in _COMPARES_NUMBERS:
                evaluate(left, context, self)
                evaluate(right, context, self)
        self.arithmetic(test.words, context)

    def arithmetic(self, words: tuple[Word, ...], context: Context) -> None:
        """`((i++))`, `for ((i = 0; …))`."""
        for word in words:
            for part in word.parts:
                if isinstance(part, Sum):
                    self.set_numbers(evaluate(expand_one(part.parts, context, self), context, self), context)

    # --- simple commands

    def arguments(self, words: tuple[Word, ...], context: Context) -> list[Arg]:
        """`export x=$y` is an assignment: the value of y is not split."""
        declares = bool(words) and _plain_text(words[0]) in DECLARING
        return bounded(
            [self.declaration(word, context)]
            if declares and _is_assigned(word)
            else expand(word.parts, context, self)
            for word in words
        )

    def declaration(self, word: Word, context: Context) -> Arg:
        value = expand_one(word.parts, context, self)
        sure = not context.posix or all(isinstance(part, Lit) or part.quoted for part in word.parts)
        return value if sure else Arg(value.text.partition("=")[0] + "=" + HOLE, unknown=2)

    def comparison_words(self, words: tuple[Word, ...], context: Context) -> list[Arg]:
        """Words that are only compared with something: it does not matter what they hold."""
        with context.filtered(lambda verdict: verdict.rule != "opaque-variable") as inner:
            return expand_words(words, inner, self)

    def simple(self, simple: Simple, context: Context) -> Stream:
        compares = _first_word(simple) in {"[", "test"}
        args = (self.comparison_words if compares else self.arguments)(simple.words, context)
        inner = context.reading(self.redirects(simple.redirects, context))
        local = inner.copy() if simple.words else inner
        for assign in simple.assigns:
            if assign.name == "IFS" and args[:1] == [Arg("read")]:
                self.separators(assign, local)
            else:
                self.assign(assign, local, exported=bool(simple.words))
        before = context.report.network
        stream = self.with_variables(args, simple.assigns, inner, local) if args else Stream("data")
        known = bool(args) and args[0].literal and self.policy.contained
        if args and not known and any(isinstance(part, Sub) for part in simple.words[0].parts):
            context.ask("opaque-command", "The name of the command comes from another command's output.")
        if context.report.network > before or context.stdin.kind == "remote":
            self.note_downloads(simple, args)
        elif stream.kind == "text":
            self.note_text(simple, args, stream.text)
        return Stream("data") if any(_takes_output(redirect) for redirect in simple.redirects) else stream

    def with_variables(
        self, args: list[Arg], assigns: tuple[Assign, ...], context: Context, local: Context
    ) -> Stream:
        """`x=1 command`: the assignments apply to this command only; what their values assign (`$((y++))`) stays."""
        given = {
            name: value
            for name, value in local.variables.items()
            if name not in context.variables or context.variables[name] is not value
        }
        alone = {assign.name for assign in assigns}
        before = {name: context.variables[name] for name in alone if name in context.variables}
        context.variables.update(given)
        stream = self.command(args, context)
        parts = [part for assign in assigns for part in assign.value.parts]
        plain = all(isinstance(part, Lit | Sub) or (isinstance(part, Var) and not part.op) for part in parts)
        for name in alone & given.keys():
            same = context.variables.pop(name, None) is given[name]
            if not same or context.posix or not plain:
                context.variables[name] = None
            elif name in before:
                context.variables[name] = before[name]
        return stream

    def separators(self, assign: Assign, local: Context) -> None:
        """`IFS=, read x`: what the line is cut at, for this command alone."""
        value = expand_one(assign.value.parts, local, self)
        plain = value.literal and not (assign.plus or assign.items or assign.subscript)
        local.variables["IFS"] = value.text if plain else None

    def note_downloads(self, simple: Simple, args: list[Arg]) -> None:
        """Remembers files that now contain downloaded data."""
        self.downloads.update(_targets(simple, args))

    def note_text(self, simple: Simple, args: list[Arg], text: str) -> None:
        """Remembers what a file holds that this line writes."""
        appends = any(redirect.op == ">>" for redirect in simple.redirects)
        for target in _targets(simple, args):
            self.written[target] = (self.written.get(target, "") + text)[-VALUE_MOST:] if appends else text

    def assign(self, assign: Assign, context: Context, exported: bool) -> None:
        if assign.subscript and assign.name not in context.state.odd:
            evaluate(expand_one(assign.subscript, context, self), context, self)
        value = expand_one(assign.value.parts, context, self)
        items = expand_words(assign.items, context, self)
        self.variable(assign.name, value, exported, context)
        if _EVALUATED.search(value.text):
            context.deny("hidden-command", "Hides a command in text that arithmetic evaluates.")
        if assign.items:
            known = all(item.literal for item in items) and not assign.plus
            context.state.hold(assign.name, tuple(item.text for item in items) if known else None)
        elif assign.plus or assign.subscript:
            context.state.hold(assign.name, None)
        else:
            context.state.hold(assign.name, value.text if value.literal else value)

    # --- redirections

    def redirects(self, redirects: tuple[Redirect, ...], context: Context) -> Stream:
        """Judges where output goes, and returns the input."""
        stream = context.stdin
        for redirect in redirects:
            stream = self.redirect(redirect, context) or stream
        return stream

    def redirect(self, redirect: Redirect, context: Context) -> Stream | None:
        if redirect.fd.startswith("{"):
            self.set_numbers([redirect.fd.strip("{}")], context)
        if redirect.op == "<<":
            return _fed(expand_one(redirect.body, context, self))
        if redirect.op == "<<<":
            return _fed(expand_one(redirect.target.parts, context, self))
        targets = expand(redirect.target.parts, context, self)
        if len(targets) != 1:
            context.deny("unreadable", "A redirection needs exactly one target.")
        return self.open_target(redirect, targets, context)

    def open_target(self, redirect: Redirect, targets: list[Arg], context: Context) -> Stream | None:
        for target in targets[:-1]:
            self.open_file(redirect.op, target, context)
        target = targets[-1] if targets else Arg(HOLE, unknown=2)
        if redirect.op in {">&", "<&"} and re.fullmatch(r"\d*-?", target.text):
            return None
        if redirect.op == "<&" or (redirect.op == ">&" and redirect.fd not in {"", "1"}):
            context.ask("unreadable", f"'{redirect.fd}{redirect.op}' needs the number of an open file.")
        return self.open_file(redirect.op, target, context)

    def open_file(self, operator: str, target: Arg, context: Context) -> Stream | None:
        if operator in {"<", "<>", "<&"}:
            self.path("read", target, context)
        if operator not in {"<", "<&"}:
            self.path("write", target, context)
            return None
        if target.pipe:
            return Stream("remote" if target.remote else "data")
        return Stream("none") if target.text == "/dev/null" else Stream("data")

    # --- substitutions

    def substitute(self, sub: Sub, context: Context) -> Arg:
        """Judges what a substitution runs, and returns its result as far as it is known."""
        before = context.report.network
        self.script(sub.body, context.copy().reading(NO_INPUT if sub.form != ">" else Stream("data")))
        remote = context.report.network > before
        if sub.form != "$":
            return Arg("/dev/fd/63", pipe=True, remote=remote)
        return self.result(sub.body, context, remote)

    def result(self, body: Script, context: Context, remote: bool) -> Arg:
        known = result_of(body, context.copy(), self)
        if known is None or (remote and known is not SETS_UP_SHELL):
            return Arg(HOLE, unknown=2, remote=remote, from_output=True)
        return known

    def hidden(self, text: str, context: Context) -> None:
        """Text that bash evaluates a second time (arithmetic, subscripts, `declare`, `test -v`)."""
        if "$(" in text or "`" in text:
            context.deny("hidden-command", "Hides a command in text that bash evaluates again.")


def _targets(simple: Simple, args: list[Arg]) -> list[str]:
    """The files that a command writes its output to."""
    targets = [_plain_text(redirect.target) for redirect in simple.redirects if redirect.op.startswith(">")]
    targets += [arg.text for arg in args[1:] if args[0].text == "tee"]
    return [posixpath.normpath(target) for target in targets if target]


def _leaves(item: Item, context: Context) -> bool:
    """Does nothing after the item run? (`return` outside of a function only prints an error.)"""
    where = {
        "exit": True,
        "return": bool(context.calls),
        "break": context.in_loop,
        "continue": context.in_loop,
    }
    return where.get(leaver(item), False)


def _is_about_arguments(verdict: Verdict, contained: bool) -> bool:
    """Is it only that the arguments are unknown? Every call is judged with its own; `"$@"` is a command then."""
    if contained and verdict.rule == "opaque-command":
        return True
    return (
        verdict.verdict != "deny" and verdict.rule.startswith("opaque-") and verdict.rule != "opaque-command"
    )


def _is_assigned(word: Word) -> bool:
    """`name=value` without braces, which would make it several words."""
    bare = [part.text for part in word.parts if isinstance(part, Lit) and not part.quoted]
    named = isinstance(word.parts[0], Lit) and bare[:1] == [word.parts[0].text]
    return named and re.match(r"[A-Za-z_]\w*\+?=", bare[0]) is not None and "{" not in "".join(bare)


def _takes_output(redirect: Redirect) -> bool:
    """Does the output go somewhere else than into the pipe?"""
    if redirect.op in {"&>", "&>>"}:
        return True
    return redirect.op in {">", ">>", ">|", ">&", "<>"} and redirect.fd in {"", "1"}


def _plain_text(word: Word) -> str:
    """A word that is plain text, or ''."""
    literals = [part.text for part in word.parts if isinstance(part, Lit)]
    return "".join(literals) if len(literals) == len(word.parts) else ""


def _first_word(simple: Simple) -> str:
    parts = simple.words[0].parts if simple.words else ()
    return parts[0].text if len(parts) == 1 and isinstance(parts[0], Lit) else ""


def _arguments(context: Context) -> list[Arg]:
    """`for x; do`: the arguments of the script or function."""
    given = context.variables.get("@")
    return [Arg(text) for text in given] if isinstance(given, tuple) else [Arg(HOLE, unknown=2)]


def _loop_values(values: list[Arg]) -> list[Arg]:
    if len(values) > LOOP_VALUES_MOST:
        return [Arg(HOLE, unknown=2)]
    return [
        msgspec.structs.replace(value, glob=False, many=True) if value.glob else value for value in values
    ]


def _fed(value: Arg) -> Stream:
    return (
        Stream("remote") if value.remote else Stream("text", value.text) if value.literal else Stream("data")
    )
