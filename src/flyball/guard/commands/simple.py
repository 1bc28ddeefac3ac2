"""Simple commands: words, assignments, redirections, heredocs; and the blanks and newlines between them."""

from __future__ import annotations

import re

import msgspec

from flyball.guard.commands.syntax_tree import Assign, Lit, Part, Redirect, Script, Simple, Word
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


class SimpleReader(WordReader):
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
