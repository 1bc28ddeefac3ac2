"""Parses words: quotes, escapes, expansions. A word is read as bash reads it, or it is Unreadable."""

from __future__ import annotations

import re

from flyball.guard.commands.syntax_tree import Lit, Part, Script, Sub, Sum, Unreadable, Var, Word

STEPS_MOST = 2_000
RUN_MOST = 2_000
DEPTH_MOST = 24

META = " \t\n;&|<>()"
_PLAIN = re.compile(r"""[^\x00-\x20"$&'()\\;<>`|\x7f]+""")
_QUOTED_RUN = re.compile(r'[^"\\$`]+')
_HEREDOC_RUN = re.compile(r"[^\\$`]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-]")
_OPERATOR = re.compile(r":[-=?+]|##?|%%?|//?|\^\^?|,,?|@[A-Za-z]|[-=?+:]")
_POSIX_OPERATORS = frozenset((":-", ":=", ":?", ":+", "-", "=", "?", "+", "#", "##", "%", "%%"))
_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_SIMPLE_ESCAPES = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))


class WordReader:
    """Reads words from `text` at `at`; the grammar above it reads commands."""

    def __init__(self, text: str, depth: int = 0) -> None:
        self.text: str = text
        self.at: int = 0
        self.depth: int = depth
        self.steps = 0
        self.starts: list[int] = []  # where each simple command's first word begins
        self.only_bash = ""  # something in the text that other shells read differently

    def script_until(self, close: str) -> Script:
        """Overridden by the grammar: a script that ends at `close`."""
        raise NotImplementedError(close)

    def nested(self, text: str) -> Script:
        """Overridden by the grammar: another text, one level deeper."""
        raise NotImplementedError(text)

    # --- small steps

    def peek(self, count: int = 1) -> str:
        return self.text[self.at : self.at + count]

    def looking(self, mark: str) -> bool:
        return self.text.startswith(mark, self.at)

    def take(self, mark: str) -> bool:
        if not self.looking(mark):
            return False
        self.at += len(mark)
        return True

    def step(self) -> None:
        self.steps += 1
        if self.steps > STEPS_MOST:
            raise Unreadable("too-long", "The command line has too many parts to check. Split it up.")

    def broken(self, what: str) -> Unreadable:
        return Unreadable("unreadable", f"Cannot parse the command: {what}.")

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > DEPTH_MOST:
            raise Unreadable("too-deep", "Commands are nested too deeply to check. Split them up.")

    # --- words

    def word(self) -> Word | None:
        """The word that starts here, or None if something else does."""
        start = self.at
        parts = self.parts_until(META)
        return Word(parts, start) if self.at > start and parts else None

    def parts_until(self, stops: str) -> tuple[Part, ...]:
        """Parts of an unquoted word up to one of `stops` (left standing)."""
        parts: list[Part] = []
        while self.at < len(self.text):
            self.step()
            if self.looking("<(") or self.looking(">("):
                parts.append(self.process())
            elif self.peek() in stops:
                break
            else:
                self.piece(parts, stops)
        return tuple(parts)

    def piece(self, parts: list[Part], stops: str) -> None:
        char = self.peek()
        if char == "\\":
            self.escape(parts)
        elif char == "'":
            parts.append(Lit(self.single(), True))
        elif char == '"':
            self.at += 1
            parts.append(Lit("", True))
            parts.extend(self.double())
        elif char == "$":
            parts.extend(self.dollar(quoted=False))
        elif char == "`":
            parts.append(self.backtick(quoted=False))
        else:
            parts.append(Lit(self.plain(stops), False))

    def plain(self, stops: str) -> str:
        """A run of ordinary characters that holds none of `stops`."""
        match = _PLAIN.match(self.text, self.at)
        run = match.group() if match else self.peek()
        if len(run) > RUN_MOST:
            raise Unreadable("too-long", "A word without quotes is too long to check.")
        if not run.isascii() and any(char.isspace() for char in run):
            raise Unreadable("strange-space", "A Unicode space outside quotes is not a space for the shell.")
        cut = min((run.find(stop) for stop in stops if stop in run), default=len(run))
        run = run[: max(cut, 1)]
        if "{" in run and run != "{}":
            self.only_bash = "braces"
        self.at += len(run)
        return run

    def escape(self, parts: list[Part]) -> None:
        follower = self.text[self.at + 1 : self.at + 2]
        if not follower:
            raise self.broken("it ends in a backslash")
        self.at += 2
        if follower != "\n":
            parts.append(Lit(follower, True))

    def single(self) -> str:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise self.broken("a single quote is not closed")
        text = self.text[self.at + 1 : end]
        self.at = end + 1
        return text

    def double(self) -> list[Part]:
        """The text up to the closing double quote; the opening one is already taken."""
        parts: list[Part] = []
        while not self.take('"'):
            self.step()
            if self.at >= len(self.text):
                raise self.broken("a double quote is not closed")
            self.inner(parts, _QUOTED_RUN, '$`"\\')
        return parts

    def inner(self, parts: list[Part], run: re.Pattern[str], escapable: str) -> None:
        """One part of text that expands but is not split: double quotes, heredocs."""
        char = self.peek()
        if char == "$":
            parts.extend(self.dollar(quoted=True))
        elif char == "`":
            parts.append(self.backtick(quoted=True))
        elif char == "\\":
            self.quoted_escape(parts, escapable)
        else:
            match = run.match(self.text, self.at)
            text = match.group() if match else char
            self.at += len(text)
            parts.append(Lit(text, True))

    def quoted_escape(self, parts: list[Part], escapable: str) -> None:
        follower = self.text[self.at + 1 : self.at + 2]
        if not follower:
            raise self.broken("it ends in a backslash")
        self.at += 2
        if follower == "\n":
            return
        parts.append(Lit(follower if follower in escapable else "\\" + follower, True))

    def expanding(self, text: str) -> tuple[Part, ...]:
        """The parts of a heredoc's body (its own small text)."""
        saved = self.text, self.at, self.starts
        self.text, self.at, self.starts = text, 0, []
        parts: list[Part] = []
        while self.at < len(self.text):
            self.step()
            self.inner(parts, _HEREDOC_RUN, "$`\\")
        self.text, self.at, self.starts = saved
        return tuple(parts)

    # --- expansions

    def dollar(self, quoted: bool) -> list[Part]:
        self.step()
        follower = self.text[self.at + 1 : self.at + 2]
        if self.looking("$\\\n"):
            raise self.broken("a line break inside an expansion")
        if follower == "'" and not quoted:
            self.only_bash = "$'…'"
            return [Lit(self.ansi_c(), True)]
        if follower == '"' and not quoted:
            self.only_bash = '$"…"'
            self.at += 2
            return [Lit("", True), *self.double()]
        if follower == "(":
            return [self.arithmetic(quoted) or self.substitution(quoted)]
        if follower == "{":
            return [self.braced(quoted)]
        if follower == "[":
            raise self.broken("$[…] is obsolete arithmetic")
        return [self.parameter(quoted)]

    def parameter(self, quoted: bool) -> Part:
        match = _PARAMETER.match(self.text, self.at + 1)
        if not match:
            self.at += 1
            return Lit("$", True)
        name = match.group()
        name = name[0] if name[0].isdigit() else name
        self.at += 1 + len(name)
        if self.looking("\\\n") and re.match(r"\w", self.text[self.at + 2 : self.at + 3]):
            raise self.broken("a line break inside an expansion")
        return Var(name, "", (), quoted)

    def ansi_c(self) -> str:
        self.at += 1
        start, at = self.at + 1, self.at + 1
        while at < len(self.text) and self.text[at] != "'":
            at += 2 if self.text[at] == "\\" else 1
        if at >= len(self.text):
            raise self.broken("a $'…' is not closed")
        self.at = at + 1
        if any(
            int(code[1] or "0", 16) > 127 or int(code[4] or "0", 8) > 127
            for code in _ESCAPE.finditer(self.text, start, at)
        ):
            raise self.broken("a $'…' contains raw bytes")
        text = _ESCAPE.sub(_unescape, self.text[start:at])
        if "\0" in text:
            raise self.broken("a $'…' contains a NUL byte")
        return text

    def substitution(self, quoted: bool) -> Sub:
        self.at += 2
        return Sub(self.enclosed(), "$", quoted)

    def process(self) -> Sub:
        form = "<" if self.peek() == "<" else ">"
        self.only_bash = f"{form}(…)"
        self.at += 2
        return Sub(self.enclosed(), form, False)

    def enclosed(self) -> Script:
        self.deeper()
        body = self.script_until(")")
        self.depth -= 1
        return body

    def backtick(self, quoted: bool) -> Sub:
        at = self.at + 1
        while at < len(self.text) and self.text[at] != "`":
            at += 2 if self.text[at] == "\\" else 1
        if at >= len(self.text):
            raise self.broken("a backtick is not closed")
        escapable = r'\\([$`\\"]|\n)' if quoted else r"\\([$`\\]|\n)"
        inner = re.sub(escapable, lambda match: match[1].strip("\n"), self.text[self.at + 1 : at])
        self.at = at + 1
        return Sub(self.nested(inner), "$", quoted)

    def arithmetic(self, quoted: bool) -> Sum | None:
        """`$((…))`, or None where it turns out to be `$( (…) … )`."""
        if not self.looking("$(("):
            return None
        start, depth = self.at, self.depth
        self.deeper()
        self.at += 3
        parts = self.sum_parts()
        self.depth = depth
        if parts is None:
            self.at = start
            return None
        return Sum(parts, quoted)

    def sum_parts(self) -> tuple[Part, ...] | None:
        """Parts up to the closing `))`, which is taken; None if it closes with a single `)`."""
        parts: list[Part] = []
        level = 0
        while self.at < len(self.text):
            self.step()
            char = self.peek()
            if char == ")" and level == 0:
                return tuple(parts) if self.take("))") else None
            level += {"(": 1, ")": -1}.get(char, 0)
            self.sum_piece(parts)
        return None

    def sum_piece(self, parts: list[Part]) -> None:
        if self.peek() in "$`\"'\\":
            self.piece(parts, "")
            return
        parts.append(Lit(self.peek(), False))
        self.at += 1

    def braced(self, quoted: bool) -> Var:
        """`${name}`, `${name[sub]}`, `${#name}`, `${name:-word}` and their kin."""
        self.deeper()
        self.at += 2
        prefix = self.brace_prefix()
        match = _PARAMETER.match(self.text, self.at)
        if not match:
            raise self.broken("a ${…} has no name")
        self.at = match.end()
        parts = self.brace_subscript()
        operator = self.brace_operator()
        parts += self.brace_word(quoted)
        self.depth -= 1
        return Var(match.group(), prefix + ("[" if parts and not operator else "") + operator, parts, quoted)

    def brace_prefix(self) -> str:
        """`#` or `!` before the name (`${#}` and `${!}` are names themselves)."""
        mark = self.peek()
        if mark in "#!" and self.text[self.at + 1 : self.at + 2] not in "}:-+=?%/":
            self.only_bash = "${!…}" if mark == "!" else self.only_bash
            self.at += 1
            return "length" if mark == "#" else mark
        return ""

    def brace_subscript(self) -> tuple[Part, ...]:
        if not self.take("["):
            return ()
        self.only_bash = "a subscript"
        parts = self.parts_until("]")
        if not self.take("]"):
            raise self.broken("a subscript is not closed")
        return (*parts, Lit("[", True))

    def brace_operator(self) -> str:
        match = _OPERATOR.match(self.text, self.at)
        if not match:
            return ""
        self.at = match.end()
        if match.group() not in _POSIX_OPERATORS:
            self.only_bash = "${…" + match.group() + "}"
        return match.group()

    def brace_word(self, quoted: bool) -> tuple[Part, ...]:
        parts: list[Part] = []
        while not self.take("}"):
            self.step()
            if self.at >= len(self.text):
                raise self.broken("a ${…} is not closed")
            if self.looking("$'") and not quoted:
                raise self.broken("a $'…' inside a ${…}")
            if quoted and self.peek() == "'":
                parts.append(Lit("'", True))
                self.at += 1
            else:
                self.piece(parts, "}")
        return tuple(parts)


def _unescape(match: re.Match[str]) -> str:
    code = next(
        (int(match[group], base) for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)) if match[group]), -1
    )
    if code >= 0:
        return chr(code & 0xFF if match[4] else min(code, 0x10FFFF))
    if match[5]:
        return chr(ord(match[5].upper()) & 0x1F)
    return _SIMPLE_ESCAPES.get(match[6], "\\" + match[6])


def unescaped(text: str) -> str:
    """Backslash escapes as `$'…'`, `echo -e` and `printf` read them."""
    return _ESCAPE.sub(_unescape, text)


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None
