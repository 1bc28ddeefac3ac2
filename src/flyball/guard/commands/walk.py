"""Every part of a line is judged where it stands: in its directory, with its variables and its input."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from functools import partial

import msgspec

from flyball.guard.commands import fold
from flyball.guard.commands.args import HOLE, Arg
from flyball.guard.commands.call import DECLARING, Caller
from flyball.guard.commands.chains import Chain, leaver
from flyball.guard.commands.checks.wrappers import positional
from flyball.guard.commands.expand import counted, expand, expand_one, expand_words
from flyball.guard.commands.grammar import read
from flyball.guard.commands.profiles import profile_of
from flyball.guard.commands.scene import NOTHING, POSITIONS, Feed, Scene, partly
from flyball.guard.commands.tree import (
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

_OF_ARGUMENTS = frozenset({"opaque-operand", "opaque-variable"})
"""What a function does with its arguments is judged again, with the arguments, where it is called."""

_EVALUATED = re.compile(r"\w\[[^\]]*(?:\$\(|`)")


class Judge(Caller):
    """Walks a script; verdicts gather in `found`."""

    stages = 0
    loops = 0

    # --- scripts

    def text(self, command: str, scene: Scene) -> Scene:
        """A command line inside a command line: `sh -c`, `eval`, a heredoc fed to a shell. The answer is where it ends."""
        if scene.depth >= DEPTH_MOST:
            raise Unreadable("too-deep", "Commands are nested too deeply to judge; split them up.")
        inner = scene.copy()
        inner.depth += 1
        inner.feed = partly(scene.feed)
        script, _, only_bash = read(command)
        if scene.posix and only_bash:
            self.ask("dialect", f"Shells read {only_bash} differently; use bash, or write it plainly.")
        self.script(script, inner)
        return inner

    def script(self, script: Script, scene: Scene) -> None:
        """After `&&` the line goes on only where all went well, after `||` only where it did not."""
        chain = Chain(scene.copy())
        for item in script.items:
            scene.become(chain.entry())
            before = scene.copy()
            self.item(item, scene)
            chain.went(item, before, scene, self.is_left(item))
        scene.become(chain.end())

    def is_left(self, item: Item) -> bool:
        """Does nothing after the item run? (`return` outside of a function only complains.)"""
        where = {
            "exit": True,
            "return": bool(self.called),
            "break": self.loops > 0,
            "continue": self.loops > 0,
        }
        return where.get(leaver(item), False)

    def item(self, item: Item, scene: Scene) -> None:
        if item.after == "&":
            self.ask("background", "A background job goes on after the step.")
            self.pipe(item.pipe, scene.copy())
        else:
            self.pipe(item.pipe, scene)

    def pipe(self, pipe: Pipe, scene: Scene) -> None:
        feed = scene.feed
        for stage in pipe.stages:
            inner = scene if len(pipe.stages) == 1 else scene.fed(feed)
            feed = self.flow(stage, inner)

    def flow(self, stage: Stage, scene: Scene) -> Feed:
        """Judges one stage and says what it puts out; what came over the network stays remote."""
        self.stages += 1
        if self.stages > STAGES_MOST:
            raise Unreadable("too-long", "The command line does too many things to judge; split it up.")
        before, taken = self.network, scene.feed
        feed = self.stage(stage, scene)
        return Feed("remote") if self.network > before or taken.kind == "remote" else feed

    def stage(self, stage: Stage, scene: Scene) -> Feed:
        match stage:
            case Simple():
                return self.simple(stage, scene)
            case Block():
                self.block(stage, scene)
            case Loop():
                self.loop(stage, scene)
            case Define():
                self.define(stage, scene)
            case Test():
                self.redirects(stage.redirects, scene)
                self.condition(stage, scene)
        return Feed("data")

    # --- compounds

    def block(self, block: Block, scene: Scene) -> None:
        self.compared(block.words, scene)
        self.counters(block.words, scene)
        taken = scene.feed
        scene.feed = self.redirects(block.redirects, scene)
        if block.kind == "group":
            scene.feed = partly(scene.feed)
            self.script(block.scripts[0], scene)
        else:
            (self.repeated if block.kind == "while" else self.branches)(block, scene)
        scene.feed = taken

    def branches(self, block: Block, scene: Scene) -> None:
        """Each script may run or not."""
        for script in block.scripts:
            inner = scene.fed(partly(scene.feed))
            self.script(script, inner)
            if block.kind not in {"subshell", "coproc"}:
                scene.may_also(inner)

    def repeated(self, block: Block, scene: Scene) -> None:
        """A loop's body runs after its condition, and again after itself; it may end after either."""

        def once(inner: Scene) -> None:
            for script in block.scripts:
                self.script(script, inner)
                self.left.append(inner.copy())

        self.rounds(scene, [once])

    def loop(self, loop: Loop, scene: Scene) -> None:
        values = expand_words(loop.words, scene, self) if loop.words is not None else _arguments(scene)
        feed = partly(self.redirects(loop.redirects, scene))
        self.variable(loop.name, Arg(HOLE, unknown=2), False)
        bodies = [partial(self.turn, loop, value) for value in _loop_values(values)]
        taken, scene.feed = scene.feed, feed
        if len(values) <= LOOP_VALUES_MOST and all(value.literal for value in values):
            inner = scene.copy()
            for body in bodies:
                self.inside(inner, body)
            scene.may_also(inner)
        else:
            self.rounds(scene, bodies)
        scene.feed = taken

    def turn(self, loop: Loop, value: Arg, inner: Scene) -> None:
        inner.hold(loop.name, value.text if value.literal else value)
        self.script(loop.body, inner)

    def rounds(self, scene: Scene, bodies: list[Callable[[Scene], None]]) -> None:
        """Nobody knows how often and in which order: until another round would find nothing new."""
        for _ in range(ROUNDS_MOST):
            before = scene.copy()
            for body in bodies:
                inner = scene.fed(partly(scene.feed))
                self.inside(inner, body)
                scene.may_also(inner)
            if scene.is_like(before):
                return
        self.ask("too-long", "The loop hands values on from round to round; write it plainly.")

    def inside(self, inner: Scene, body: Callable[[Scene], None]) -> None:
        """One round of a loop: it may also end, or go on, wherever the body says so."""
        left, self.left, self.loops = self.left, [], self.loops + 1
        body(inner)
        for gone in self.left:
            inner.may_also(gone)
        self.left, self.loops = [*left, *self.left], self.loops - 1

    def define(self, define: Define, scene: Scene) -> None:
        if profile_of(define.name) or define.name == "flyball":
            self.deny("shadowed-command", f"The function '{define.name}' takes the place of a command.")
        scene.define(define.name, define.body)
        inner = scene.at_any_time() if self.trapped else scene.copy()
        inner.variables.update(dict.fromkeys(POSITIONS))
        inner.depth += 1
        before = len(self.found)
        self.in_body(define.name, define.body, inner)
        if not self.trapped:
            self.found[before:] = [
                v for v in self.found[before:] if v.rule not in _OF_ARGUMENTS or v.verdict == "deny"
            ]

    def function(self, name: str, args: list[Arg], scene: Scene) -> None:
        """A call of a function of this line: its body with these arguments, in this shell."""
        given = positional([Arg(name), *args])
        before = scene.copy()
        if scene.depth + 1 >= DEPTH_MOST:
            self.ask("too-deep", "Functions call each other too deeply to judge.")
            return
        for body in before.functions[name]:
            inner = before.fed(partly(scene.feed))
            inner.depth += 1
            inner.variables.update(given, **{"0": None})
            self.in_body(name, body, inner)
            for own in ("0", *POSITIONS):
                inner.variables.pop(own, None)
            inner.variables.update({own: before.variables[own] for own in given if own in before.variables})
            scene.may_also(inner)

    def in_body(self, name: str, body: Stage, inner: Scene) -> None:
        left, loops, self.left, self.loops = self.left, self.loops, [], 0
        self.called.append(name)
        self.flow(body, inner)
        self.called.pop()
        for gone in self.left:
            inner.may_also(gone)
        self.left, self.loops = left, loops

    def condition(self, test: Test, scene: Scene) -> None:
        for arg in self.compared(test.words, scene):
            self.hidden(arg.text, scene)
        self.counters(test.words, scene)

    def counters(self, words: tuple[object, ...], scene: Scene) -> None:
        """`for ((i = 0; …))`: what arithmetic assigns is a number."""
        for word in words:
            for part in getattr(word, "parts", ()):
                if isinstance(part, Sum):
                    text = expand_one(part.parts, scene, self).text
                    for name in counted(text):
                        self.variable(name, Arg("1", unknown=1), False)
                        scene.hold(name, Arg("1", unknown=1))

    # --- simple commands

    def expanded(self, words: tuple[Word, ...], scene: Scene) -> list[Arg]:
        """`export x=$y` is an assignment: what y holds is not split."""
        declares = bool(words) and _plain_text(words[0]) in DECLARING
        return [
            arg
            for word in words
            for arg in (
                [self.declared(word, scene)]
                if declares and _is_assigned(word)
                else expand(word.parts, scene, self)
            )
        ]

    def declared(self, word: Word, scene: Scene) -> Arg:
        value = expand_one(word.parts, scene, self)
        sure = not scene.posix or all(isinstance(part, Lit) or part.quoted for part in word.parts)
        return value if sure else Arg(value.text.partition("=")[0] + "=" + HOLE, unknown=2)

    def compared(self, words: tuple[Word, ...], scene: Scene) -> list[Arg]:
        """Words that are only compared with something: what they hold does no harm."""
        before = len(self.found)
        args = expand_words(words, scene, self)
        self.found[before:] = [
            verdict for verdict in self.found[before:] if verdict.rule != "opaque-variable"
        ]
        return args

    def simple(self, simple: Simple, scene: Scene) -> Feed:
        compares = _first_word(simple) in {"[", "test"}
        args = (self.compared if compares else self.expanded)(simple.words, scene)
        taken = scene.feed
        scene.feed = self.redirects(simple.redirects, scene)
        local = scene if not simple.words else scene.copy()
        for assign in simple.assigns:
            if assign.name == "IFS" and args[:1] == [Arg("read")]:
                self.separators(assign, local)
            else:
                self.assign(assign, local, exported=bool(simple.words))
        before = self.network
        feed = self.with_variables(args, simple.assigns, scene, local) if args else Feed("data")
        if args and any(isinstance(part, Sub) for part in simple.words[0].parts):
            self.ask("opaque-command", "A substitution says which command runs; write its name plainly.")
        if self.network > before or taken.kind == "remote":
            self.brought(simple, args)
        scene.feed = taken
        return Feed("data") if any(_takes_output(redirect) for redirect in simple.redirects) else feed

    def with_variables(
        self, args: list[Arg], assigns: tuple[Assign, ...], scene: Scene, local: Scene
    ) -> Feed:
        """`x=1 command`: the assignments hold for the command alone; what their values assign (`$((y++))`) stays."""
        given = {
            name: value
            for name, value in local.variables.items()
            if name not in scene.variables or scene.variables[name] is not value
        }
        alone = {assign.name for assign in assigns}
        before = {name: scene.variables[name] for name in alone if name in scene.variables}
        scene.variables.update(given)
        feed = self.command(args, scene)
        parts = [part for assign in assigns for part in assign.value.parts]
        plain = all(isinstance(part, Lit | Sub) or (isinstance(part, Var) and not part.op) for part in parts)
        for name in alone & given.keys():
            same = scene.variables.pop(name, None) is given[name]
            if not same or scene.posix or not plain:
                scene.variables[name] = None
            elif name in before:
                scene.variables[name] = before[name]
        return feed

    def separators(self, assign: Assign, local: Scene) -> None:
        """`IFS=, read x`: what the line is cut at, for this command alone."""
        value = expand_one(assign.value.parts, local, self)
        plain = value.literal and not (assign.plus or assign.items or assign.subscript)
        local.variables["IFS"] = value.text if plain else None

    def brought(self, simple: Simple, args: list[Arg]) -> None:
        """Files that now hold what came over the network."""
        targets = [
            _plain_text(redirect.target) for redirect in simple.redirects if redirect.op.startswith(">")
        ]
        targets += [arg.text for arg in args[1:] if args[0].text == "tee"]
        self.downloads.update(posixpath.normpath(target) for target in targets if target)

    def assign(self, assign: Assign, scene: Scene, exported: bool) -> None:
        expand(assign.subscript, scene, self)
        value = expand_one(assign.value.parts, scene, self)
        items = expand_words(assign.items, scene, self)
        self.variable(assign.name, value, exported)
        if _EVALUATED.search(value.text):
            self.deny("hidden-command", "A substitution is hidden in text that arithmetic would evaluate.")
        if assign.items:
            known = all(item.literal for item in items) and not assign.plus
            scene.hold(assign.name, tuple(item.text for item in items) if known else None)
        elif assign.plus or assign.subscript:
            scene.hold(assign.name, None)
        else:
            scene.hold(assign.name, value.text if value.literal else value)

    # --- redirections

    def redirects(self, redirects: tuple[Redirect, ...], scene: Scene) -> Feed:
        """Judges where output goes; the answer is what flows in."""
        feed = scene.feed
        for redirect in redirects:
            feed = self.redirect(redirect, scene) or feed
        return feed

    def redirect(self, redirect: Redirect, scene: Scene) -> Feed | None:
        if redirect.fd.startswith("{"):
            self.variable(redirect.fd.strip("{}"), Arg("1", unknown=1), False)
            scene.hold(redirect.fd.strip("{}"), Arg("1", unknown=1))
        if redirect.op == "<<":
            return _fed(expand_one(redirect.body, scene, self))
        if redirect.op == "<<<":
            return _fed(expand_one(redirect.target.parts, scene, self))
        targets = expand(redirect.target.parts, scene, self)
        if len(targets) != 1:
            self.deny("unreadable", "A redirection must have one target.")
        return self.redirected(redirect, targets, scene)

    def redirected(self, redirect: Redirect, targets: list[Arg], scene: Scene) -> Feed | None:
        for target in targets[:-1]:
            self.open_file(redirect.op, target, scene)
        target = targets[-1] if targets else Arg(HOLE, unknown=2)
        if redirect.op in {">&", "<&"} and re.fullmatch(r"\d*-?", target.text):
            return None
        if redirect.op == "<&" or (redirect.op == ">&" and redirect.fd not in {"", "1"}):
            self.ask("unreadable", f"'{redirect.fd}{redirect.op}' takes the number of an open file.")
        return self.open_file(redirect.op, target, scene)

    def open_file(self, operator: str, target: Arg, scene: Scene) -> Feed | None:
        if operator in {"<", "<>", "<&"}:
            self.path("read", target, scene)
        if operator not in {"<", "<&"}:
            self.path("write", target, scene)
            return None
        if target.pipe:
            return Feed("remote" if target.remote else "data")
        return Feed("none") if target.text == "/dev/null" else Feed("data")

    # --- substitutions

    def substitute(self, sub: Sub, scene: Scene) -> Arg:
        """Judges what a substitution runs; the answer is what is known of its result."""
        inner = scene.copy()
        inner.feed = NOTHING if sub.form != ">" else Feed("data")
        before = self.network
        self.script(sub.body, inner)
        remote = self.network > before
        if sub.form != "$":
            return Arg("/dev/fd/63", pipe=True, remote=remote)
        return self.result(sub.body, scene, remote)

    def result(self, body: Script, scene: Scene, remote: bool) -> Arg:
        if remote:
            return Arg(HOLE, unknown=2, remote=True, said=True)
        return fold.result_of(body, scene.copy(), self) or Arg(HOLE, unknown=2, said=True)

    def hidden(self, text: str, scene: Scene) -> None:
        """Text that bash evaluates a second time (arithmetic, subscripts, `declare`, `test -v`)."""
        if "$(" in text or "`" in text:
            self.deny("hidden-command", "A substitution is hidden in text that bash evaluates again.")


def _is_assigned(word: Word) -> bool:
    """`name=value` without braces, which would make it several words."""
    bare = [part.text for part in word.parts if isinstance(part, Lit) and not part.quoted]
    named = isinstance(word.parts[0], Lit) and bare[:1] == [word.parts[0].text]
    return named and re.match(r"[A-Za-z_]\w*\+?=", bare[0]) is not None and "{" not in "".join(bare)


def _takes_output(redirect: Redirect) -> bool:
    """Does what the command puts out go elsewhere than into the pipe?"""
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


def _arguments(scene: Scene) -> list[Arg]:
    """`for x; do`: the arguments of the script or function."""
    given = scene.variables.get("@")
    return [Arg(text) for text in given] if isinstance(given, tuple) else [Arg(HOLE, unknown=2)]


def _loop_values(values: list[Arg]) -> list[Arg]:
    if len(values) > LOOP_VALUES_MOST:
        return [Arg(HOLE, unknown=2)]
    return [
        msgspec.structs.replace(value, glob=False, many=True) if value.glob else value for value in values
    ]


def _fed(value: Arg) -> Feed:
    return Feed("remote") if value.remote else Feed("text", value.text) if value.literal else Feed("data")
