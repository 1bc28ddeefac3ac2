"""Parses commands: lists, pipelines, compounds, redirections, heredocs. Bash 5, and only what is surely understood.

`read(text)` returns the whole line as a Script and the offsets of its commands. Anything else (an unknown construct,
something left open or left over) raises Unreadable.
"""

from __future__ import annotations

import re

import msgspec

from flyball.guard.commands.syntax_tree import (
    EMPTY,
    Assign,
    Block,
    Define,
    Item,
    Lit,
    Loop,
    Part,
    Pipe,
    Redirect,
    Script,
    Simple,
    Stage,
    Sum,
    Test,
    Word,
)
from flyball.guard.commands.words import META, WordReader, is_name

_ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[)?")
_ARRAY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=\(")
_REDIRECT = re.compile(
    r"(?P<fd>[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})?(<<<|<<-|<<|<>|<&|<(?!\()|>>|>\||>&|>(?!\())|(&>>|&>)"
)
_BLANK = re.compile(r"(?:[ \t]|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")


def _declares(word: Word) -> bool:
    return any(
        word.parts == (Lit(name, False),) for name in ("declare", "typeset", "local", "readonly", "export")
    )


_KEYWORD = re.compile(
    r"(?:if|then|elif|else|fi|for|while|until|do|done|case|esac|select|function|time|coproc|\{|\}|!|\[\[)"
    r"(?=[\s;&|<>()]|$)"
)
_ONLY_BASH = frozenset({"[[", "function", "select", "coproc"})
_CLOSERS = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}"})
_FUNCTION = re.compile(r"([^\s;&|<>()$`'\"\\=]+)[ \t]*\([ \t]*\)")


def read(text: str) -> tuple[Script, frozenset[int], str]:
    """The script, the offsets of its command words, and a construct in it that other shells read differently."""
    reader = Grammar(text)
    script = reader.script_until("")
    return script, frozenset(reader.starts), reader.only_bash


class Grammar(WordReader):
    def __init__(self, text: str, depth: int = 0) -> None:
        super().__init__(text, depth)
        self.pending: list[tuple[str, bool, bool, list[Part]]] = []

    def enclosed(self) -> Script:
        """A substitution's script; heredocs opened outside it wait until it is closed."""
        waiting, self.pending = self.pending, []
        script = super().enclosed()
        if self.pending:
            raise self.broken("a heredoc has no body")
        self.pending = waiting
        return script

    # --- blanks, comments, newlines

    def blanks(self) -> None:
        match = _BLANK.match(self.text, self.at)
        if match:
            self.at = match.end()
        comment = _COMMENT.match(self.text, self.at)
        if comment:
            self.at = comment.end()

    def newlines(self) -> None:
        self.blanks()
        while self.take("\n"):
            self.step()
            self.heredocs()
            self.blanks()

    def heredocs(self) -> None:
        waiting, self.pending = self.pending, []
        for mark, strip, expands, body in waiting:
            text = self.heredoc(mark, strip)
            if expands and text.endswith("\\\n"):
                raise self.broken("a heredoc's last line continues into its delimiter")
            body.extend(self.expanding(text) if expands else (Lit(text, True),))

    def heredoc(self, mark: str, strip: bool) -> str:
        lines: list[str] = []
        while self.at < len(self.text):
            end = self.text.find("\n", self.at)
            end = len(self.text) if end < 0 else end
            line = self.text[self.at : end]
            line = line.lstrip("\t") if strip else line
            self.at = min(end + 1, len(self.text))
            if line == mark:
                return "".join(lines)
            lines.append(line + "\n")
        raise self.broken(f"the heredoc '{mark}' is not closed")

    # --- simple commands

    def simple(self) -> Simple:
        assigns: list[Assign] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        while self.more():
            redirect = self.redirect()
            if redirect:
                redirects.append(redirect)
                continue
            array = self.declared_array() if words and _declares(words[0]) else None
            assign = None if words else self.assignment()
            if array:
                words.append(array)
            elif assign:
                assigns.append(assign)
            else:
                words.append(self.command_word(first=not words))
        if not (assigns or words or redirects):
            raise self.broken(f"unexpected '{self.peek()}'")
        return Simple(tuple(assigns), tuple(words), tuple(redirects))

    def more(self) -> bool:
        self.step()
        self.blanks()
        if self.at >= len(self.text):
            return False
        if _REDIRECT.match(self.text, self.at) or self.looking("<(") or self.looking(">("):
            return True
        if self.peek() == "(":
            raise self.broken("unexpected '(' in a command")
        return self.peek() not in META

    def command_word(self, first: bool) -> Word:
        if first:
            self.starts.append(self.at)
        word = self.needed_word()
        if self.peek() == "(" and not self.looking("(("):
            raise self.broken("unexpected '(' in a word")
        return word

    def needed_word(self) -> Word:
        start = self.at
        word = self.word()
        if word is None:
            if self.at > start:
                return Word((Lit("", True),), start)
            raise self.broken("a word is missing")
        return word

    def words(self) -> tuple[Word, ...]:
        words: list[Word] = []
        self.blanks()
        while self.at < len(self.text) and (self.peek() not in META or self.looking("<(")):
            words.append(self.needed_word())
            self.blanks()
        return tuple(words)

    def assignment(self) -> Assign | None:
        match = _ASSIGN.match(self.text, self.at)
        if not match:
            return None
        start, self.at = self.at, match.end()
        subscript: tuple[Part, ...] = ()
        before = self.only_bash
        if match[2]:
            self.only_bash = "a subscript"
            subscript = self.parts_until("]\n")
            self.take("]")
        plus = self.take("+")
        if not self.take("="):
            self.at, self.only_bash = start, before
            return None
        self.only_bash = "+=" if plus else self.only_bash
        return self.assigned(match[1], plus, subscript)

    def declared_array(self) -> Word | None:
        """`declare -A m=([a]=1 [b]=2)`: one word, as if its items stood in quotes."""
        at = self.at
        if not _ARRAY.match(self.text, at):
            return None
        assign = self.assignment()
        if assign is None:
            return None
        parts: list[Part] = [Lit(f"{assign.name}=", False)]
        for item in assign.items:
            parts += [Lit(" ", True), *(msgspec.structs.replace(part, quoted=True) for part in item.parts)]
        return Word(tuple(parts), at)

    def assigned(self, name: str, plus: bool, subscript: tuple[Part, ...]) -> Assign:
        at = self.at
        if not self.take("("):
            return Assign(name, self.word() or Word((), at), (), plus, subscript)
        self.only_bash = "an array"
        items: list[Word] = []
        self.newlines()
        while not self.take(")"):
            items.append(self.needed_word())
            self.newlines()
        return Assign(name, Word((), at), tuple(items), plus, subscript)

    def redirects(self) -> tuple[Redirect, ...]:
        redirects: list[Redirect] = []
        self.blanks()
        while redirect := self.redirect():
            redirects.append(redirect)
            self.blanks()
        return tuple(redirects)

    def redirect(self) -> Redirect | None:
        match = _REDIRECT.match(self.text, self.at)
        if not match:
            return None
        self.at = match.end()
        operator = match[2] or match[3]
        if operator in {"<<<", "&>", "&>>"} or match.group().startswith("{"):
            self.only_bash = operator
        self.blanks()
        target = self.needed_word()
        if operator in {"<<", "<<-"}:
            return self.start_heredoc(operator, target)
        return Redirect(operator, target, [], match["fd"] or "")

    def start_heredoc(self, operator: str, target: Word) -> Redirect:
        if not all(isinstance(part, Lit) for part in target.parts):
            raise self.broken("a heredoc's delimiter contains an expansion")
        literals = [part for part in target.parts if isinstance(part, Lit)]
        body: list[Part] = []
        expands = not any(part.quoted for part in literals)
        self.pending.append(("".join(part.text for part in literals), operator == "<<-", expands, body))
        return Redirect("<<", target, body)

    def name(self) -> str:
        match = re.compile(r"\w+").match(self.text, self.at)
        if not match or not is_name(match.group()):
            raise self.broken("a loop has no variable name")
        self.at = match.end()
        return match.group()

    def take_keyword(self, keyword: str) -> bool:
        follower = self.text[self.at + len(keyword) : self.at + len(keyword) + 1]
        return (not follower or follower in META) and self.take(keyword)

    def nested(self, text: str) -> Script:
        inner = Grammar(text, self.depth)
        inner.deeper()
        inner.steps = self.steps + 5
        script = inner.script_until("")
        self.steps = inner.steps
        self.only_bash = self.only_bash or inner.only_bash
        return script

    # --- lists

    def script_until(self, close: str) -> Script:
        """Items up to `close` (taken): a character, a keyword, or '' for the end of the text."""
        script = self.items(close)
        if close and not self.take(close):
            raise self.broken(f"'{close}' is missing")
        if not close and self.at < len(self.text):
            raise self.broken(f"unexpected '{self.peek()}'")
        if not close and self.pending:
            raise self.broken("a heredoc has no body")
        return script

    def items(self, close: str) -> Script:
        items: list[Item] = []
        self.newlines()
        while self.at < len(self.text) and not self.closing(close):
            self.step()
            pipe = self.pipeline()
            items.append(Item(pipe, self.separator()))
            self.newlines()
        if items and items[-1].after in {"&&", "||"}:
            raise self.broken("a command is missing after '&&' or '||'")
        return Script(tuple(items)) if items else EMPTY

    def closing(self, close: str) -> bool:
        if self.peek() == ")" or (close == "case" and (self.looking(";;") or self.looking(";&"))):
            return True
        return self.keyword() in _CLOSERS

    def keyword(self) -> str:
        match = _KEYWORD.match(self.text, self.at)
        return match.group() if match else ""

    def separator(self) -> str:
        self.blanks()
        for mark in ("&&", "||"):
            if self.take(mark):
                return mark
        if self.looking(";;") or self.looking(";&"):
            return ""
        if self.looking("&>"):
            raise self.broken("unexpected '&>'")
        if self.peek() in (";", "&"):
            self.at += 1
            return self.text[self.at - 1]
        return self.line_end()

    def line_end(self) -> str:
        if self.at >= len(self.text) or self.peek() in "\n)":
            return ""
        raise self.broken(f"unexpected '{self.peek()}' after a command")

    def pipeline(self) -> Pipe:
        negated = self.pipe_prefix()
        stages = [self.stage()]
        self.blanks()
        while self.looking("|") and not self.looking("||"):
            self.only_bash = "|&" if self.looking("|&") else self.only_bash
            self.at += 2 if self.looking("|&") else 1
            self.newlines()
            stages.append(self.stage())
            self.blanks()
        return Pipe(tuple(stages), negated)

    def pipe_prefix(self) -> bool:
        """Skips `!` and `time [-p]`, which do not change what runs. Returns whether there was a `!`."""
        negated = False
        while self.keyword() in {"!", "time"}:
            negated = negated or self.keyword() == "!"
            self.step()
            self.starts.append(self.at)
            self.at += len(self.keyword())
            self.blanks()
            if re.compile(r"-p(?=\s)").match(self.text, self.at):
                self.at += 2
                self.blanks()
        return negated

    # --- one command

    def stage(self) -> Stage:
        self.deeper()
        stage = self.compound() or self.simple()
        self.depth -= 1
        return stage

    def compound(self) -> Stage | None:
        keyword = self.keyword()
        if self.looking("(("):
            return self.sum_command()
        if self.take("("):
            return Block("subshell", (self.script_until(")"),), (), self.redirects())
        opener = _OPENERS.get(keyword)
        if keyword == "time":
            return None  # only a pipeline's first word is the keyword
        if opener:
            self.only_bash = keyword if keyword in _ONLY_BASH else self.only_bash
            self.at += len(keyword)
            return opener(self)
        if keyword:
            raise self.broken(f"unexpected '{keyword}'")
        return self.definition()

    def group(self) -> Stage:
        return Block("group", (self.script_until("}"),), (), self.redirects())

    def if_block(self) -> Stage:
        scripts = [self.script_until("then")]
        while True:
            self.step()
            scripts.append(self.items("fi"))
            if self.take("fi"):
                return Block("if", tuple(scripts), (), self.redirects())
            if self.take("elif"):
                scripts.append(self.script_until("then"))
            elif not self.take("else"):
                raise self.broken("'fi' is missing")

    def while_block(self) -> Stage:
        condition = self.script_until("do")
        return Block("while", (condition, self.script_until("done")), (), self.redirects())

    def for_block(self) -> Stage:
        self.blanks()
        if self.looking("(("):
            head = self.sum_command()
            self.loop_start()
            return Block("while", (self.script_until("done"),), head.words, self.redirects())
        name = self.name()
        self.newlines()
        words = self.words() if self.take_keyword("in") else None
        self.loop_start()
        return Loop(name, words, self.script_until("done"), self.redirects())

    def loop_start(self) -> None:
        self.blanks()
        self.take(";")
        self.newlines()
        if not self.take_keyword("do"):
            raise self.broken("'do' is missing")

    def case_block(self) -> Stage:
        self.blanks()
        words = [self.needed_word()]
        self.newlines()
        if not self.take_keyword("in"):
            raise self.broken("'in' is missing")
        scripts: list[Script] = []
        self.newlines()
        while not self.take_keyword("esac"):
            self.step()
            words.extend(self.case_patterns())
            scripts.append(self.items("case"))
            self.case_end()
        return Block("case", tuple(scripts), tuple(words), self.redirects())

    def case_patterns(self) -> list[Word]:
        self.take("(")
        words: list[Word] = []
        while not words or self.take("|"):
            self.blanks()
            words.append(self.needed_word())
            self.blanks()
        if not self.take(")"):
            raise self.broken("a case pattern is not closed")
        return words

    def case_end(self) -> None:
        self.newlines()
        if not (self.take(";;&") or self.take(";;") or self.take(";&") or self.keyword() == "esac"):
            raise self.broken("';;' is missing")
        self.newlines()

    def function_block(self) -> Stage:
        self.blanks()
        match = re.compile(r"[^\s;&|<>()$`'\"\\]+").match(self.text, self.at)
        if not match:
            raise self.broken("a function has no name")
        self.at = match.end()
        self.blanks()
        if self.take("("):
            self.blanks()
            self.take(")")
        self.newlines()
        return Define(match.group(), self.stage())

    def definition(self) -> Stage | None:
        match = _FUNCTION.match(self.text, self.at)
        if not match:
            return None
        self.at = match.end()
        self.newlines()
        return Define(match.group(1), self.stage())

    def coproc_block(self) -> Stage:
        self.starts.append(self.at - len("coproc"))
        self.blanks()
        named = re.compile(r"[A-Za-z_]\w*[ \t]+(?=[({])").match(self.text, self.at)
        self.at = named.end() if named else self.at
        return Block("coproc", (Script((Item(Pipe((self.stage(),)), "&"),)),))

    def sum_command(self) -> Test:
        start = self.at
        self.only_bash = "((…))"
        self.at += 2
        parts = self.sum_parts()
        if parts is None:
            raise self.broken("'((' is not closed by '))'")
        return Test((Word((Sum(parts, True),), start),), self.redirects())

    def condition(self) -> Stage:
        """`[[ … ]]`: every expansion in it is kept, operators are text."""
        words: list[Word] = []
        while True:
            self.step()
            self.newlines()
            if re.compile(r"\]\](?=[\s;&|<>)]|$)").match(self.text, self.at):
                self.at += 2
                return Test(tuple(words), self.redirects())
            word = self.word()
            if word is None and self.at >= len(self.text):
                raise self.broken("'[[' is not closed")
            if word is None:
                self.at += 1
            else:
                words.append(word)


_OPENERS = {
    "{": Grammar.group,
    "if": Grammar.if_block,
    "while": Grammar.while_block,
    "until": Grammar.while_block,
    "for": Grammar.for_block,
    "select": Grammar.for_block,
    "case": Grammar.case_block,
    "function": Grammar.function_block,
    "coproc": Grammar.coproc_block,
    "[[": Grammar.condition,
}
