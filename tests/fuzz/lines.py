"""A seeded grammar of bash: everyday and hostile lines, in every quoting and nesting bash knows, and mutations."""

from __future__ import annotations

import random

from tests.fuzz.corpus import DAILY, EXTERNAL, HOSTILE, PATHS, PIECES, SECRETS, TEXTS, VARIABLES

LONG = 3_000


class Lines:
    """Lines from one seed. `calm` ones are mostly allowed, `wild` ones mostly not, `broken` ones mostly unreadable."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def line(self) -> str:
        kind = self.rng.random()
        if kind < 0.40:
            return self.calm()
        if kind < 0.65:
            return self.script(3, wild=True)
        if kind < 0.97:
            return self.mutated(self.rng.choice(DAILY + HOSTILE) if kind < 0.9 else self.script(2, wild=True))
        return self.huge()

    def calm(self) -> str:
        """Something ordinary in strange clothes: what is allowed of these is run for real."""
        kind = self.rng.random()
        if kind < 0.45:
            return self.script(2, wild=False)
        if kind < 0.70:
            return self.mutated(self.rng.choice(DAILY))
        if kind < 0.90:
            return self.mutated(self.script(2, wild=False))
        return self.rng.choice(DAILY)

    # --- scripts

    def script(self, depth: int, wild: bool) -> str:
        parts = [self.compound(depth, wild) for _ in range(self.rng.choice((1, 1, 1, 2, 2, 3)))]
        marks = ("; ", " && ", " || ", "\n", " | ", " |& ", " & " if wild else "; ", ";", "&&")
        text = parts[0]
        for part in parts[1:]:
            text += self.rng.choice(marks) + part
        return text

    def compound(self, depth: int, wild: bool) -> str:
        if depth <= 0 or self.rng.random() < 0.6:
            return self.simple(depth, wild)
        body = self.script(depth - 1, wild)
        return self.rng.choice(_FRAMES).format(
            body=body,
            body2=self.simple(depth - 1, wild),
            word=self.word(depth - 1, wild),
            name=self.name(),
            quoted=single(
                self.simple(0, wild) + self.rng.choice((' "$1"', ' "$@"', " $2", "; shift; cat $1"))
            ),
        )

    def simple(self, depth: int, wild: bool) -> str:
        kind = self.rng.random()
        if kind < 0.35:
            base = self.rng.choice(HOSTILE if wild and self.rng.random() < 0.6 else DAILY)
        elif kind < 0.45:
            return f"{self.name()}={self.word(depth, wild)}"
        else:
            words = [self.rng.choice(EXTERNAL)]
            words += [self.word(depth, wild) for _ in range(self.rng.randint(0, 4))]
            base = " ".join(words)
        return self.dressed(base, depth, wild)

    def dressed(self, base: str, depth: int, wild: bool) -> str:
        """Wrappers before it, redirections after it, assignments in front."""
        if "<<" in base or "\n" in base:
            return base
        if self.rng.random() < 0.2:
            base = f"{self.rng.choice(_WRAPPERS)} {base}"
        if self.rng.random() < 0.12:
            base = f"{self.rng.choice(VARIABLES if wild else ('CI=1', 'LC_ALL=C', 'TZ=UTC', 'NO_COLOR=1'))} {base}"
        if self.rng.random() < 0.2:
            base += f" {self.redirect(depth, wild)}"
        if self.rng.random() < 0.05:
            base = self.rng.choice(("sh -c {}", "bash -c {}", "eval {}", "bash -ec {}")).format(single(base))
        return base

    def redirect(self, depth: int, wild: bool) -> str:
        target = self.word(depth - 1, wild) if wild else self.rng.choice(("out.txt", "build/o", "/dev/null"))
        kinds = ("> ", ">> ", "2> ", "2>&1 > ", "&> ", ">| ", "< ")
        return self.rng.choice(
            (*(kind + target for kind in kinds), "2>&1", ">&2", f"<<< {self.text(depth, wild)}")
        )

    # --- words

    def word(self, depth: int, wild: bool) -> str:
        """One word, in one or several pieces that bash puts together."""
        return "".join(
            self.piece(depth, wild) for _ in range(self.rng.choice((1, 1, 1, 1, 2, 2, 3)))
        ) or self.rng.choice(PATHS)

    def piece(self, depth: int, wild: bool) -> str:
        rng = self.rng
        text = rng.choice(SECRETS if wild and rng.random() < 0.3 else PATHS + TEXTS)
        forms = (
            lambda: plain(text),
            lambda: single(text),
            lambda: double(text),
            lambda: ansi(text, rng),
            lambda: escaped(text),
            lambda: rng.choice(_GLOBS),
            lambda: rng.choice(_BRACES),
            lambda: rng.choice(_EXPANSIONS),
            lambda: self.substitution(depth, wild),
            lambda: f'"{self.substitution(depth, wild)}"',
            lambda: f"${{{self.name()}:-{self.word(0, wild)}}}",
            lambda: f"$(({rng.randint(0, 9)} + {rng.randint(0, 9)}))",
        )
        return rng.choice(forms[:6] if depth < 0 else forms)()

    def substitution(self, depth: int, wild: bool) -> str:
        if depth <= 0:
            return self.rng.choice(
                ("$(echo a)", "$(pwd)", "$(printf %s b)", "$(date +%s)", "$(ls)", "`echo c`")
            )
        body = self.script(depth - 1, wild)
        form = self.rng.choice(("$({})", "<({})", "$( {} )", "$(\n{}\n)", "`{}`"))
        return form.format(body if form != "`{}`" else body.replace("\\", "\\\\").replace("`", "\\`"))

    def text(self, depth: int, wild: bool) -> str:
        return self.rng.choice((single, double))(self.rng.choice(TEXTS))

    def name(self) -> str:
        return self.rng.choice(("x", "y", "f", "name", "i"))

    # --- mutation and size

    def mutated(self, line: str) -> str:
        for _ in range(self.rng.randint(1, 3)):
            line = self.changed(line)
        return line

    def changed(self, line: str) -> str:
        rng = self.rng
        at, length = rng.randint(0, len(line)), rng.randint(1, 6)
        kind = rng.random()
        if kind < 0.45:
            return line[:at] + rng.choice(PIECES) + line[at:]
        if kind < 0.6:
            return line[:at] + line[at + length :]
        if kind < 0.7:
            return line[:at] + line[at : at + length] * 2 + line[at + length :]
        if kind < 0.8:
            other = rng.choice(DAILY)
            return line[:at] + other[rng.randint(0, len(other)) :]
        if kind < 0.9:
            return self.respelled(line)
        return line + rng.choice(("; ", " | ", " && ", "\n", " ", " #", " <<< ", " > ")) + rng.choice(DAILY)

    def respelled(self, line: str) -> str:
        """The same word in another spelling."""
        words = line.split(" ")
        at = self.rng.randrange(len(words))
        word = words[at]
        if not word or set(word) & set("'\"\\`$\n(){}|&;<>*?[]~#!="):
            return line
        words[at] = self.rng.choice((single, double, escaped, lambda text: ansi(text, self.rng)))(word)
        return " ".join(words)

    def huge(self) -> str:
        rng = self.rng
        unit, count = rng.choice((*PIECES, *DAILY, *_NESTING)), rng.choice((50, 300, LONG))
        opened = unit * count
        middle = rng.choice(DAILY + HOSTILE)
        closers = {"(": ")", "$(": ")", "{ ": "; }", "${x:-": "}", "$((": "))", '"$(': ')"', "[[ ": " ]]"}
        return (opened + middle + closers.get(unit, "") * count)[:60_000]


def plain(text: str) -> str:
    return text if text and not set(text) & set(" \t\n;&|<>()'\"\\$`*?[]{}~#!") else single(text)


def single(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def double(text: str) -> str:
    return '"' + "".join("\\" + char if char in '"\\$`' else char for char in text) + '"'


def escaped(text: str) -> str:
    return "".join(char if char.isalnum() or char == "\n" else "\\" + char for char in text) or "''"


def ansi(text: str, rng: random.Random) -> str:
    """`$'…'` with some characters as numbers."""
    forms = (
        lambda char: f"\\x{ord(char):02x}" if ord(char) < 128 else char,
        lambda char: f"\\{ord(char):03o}" if ord(char) < 128 else char,
        lambda char: f"\\u{ord(char):04x}" if ord(char) < 65536 else char,
        lambda char: "\\" + char if char in "'\\" else char,
    )
    return (
        "$'" + "".join((forms[3] if rng.random() < 0.7 else rng.choice(forms))(char) for char in text) + "'"
    )


_FRAMES = (
    "({body})",
    "{{ {body}; }}",
    "{{ {body}\n}}",
    "if {body2}; then {body}; fi",
    "if {body2}; then {body}; else {body2}; fi",
    "if [[ {word} == a* ]]; then {body}\nfi",
    "for {name} in {word} b; do {body}; done",
    "for {name} in a b; do {body2} ${name}; done",
    'for {name} in *.txt; do {body2} "${name}"; done',
    "for ((i = 0; i < 2; i++)); do {body}; done",
    "while false; do {body}; done",
    "until true; do {body}; done",
    "case {word} in a*) {body};; *) {body2};; esac",
    "case {word} in ({word}) {body};& b|c) {body2};; esac",
    "g() {{ {body}; }}; g {word}",
    "function h {{ {body}; }}; h",
    'g() {{ {body2} "$@"; }}; g {word} b',
    'g() {{ shift; {body2} "$1"; }}; g {word} b',
    "bash -c {quoted} _ {word} b",
    "sh -c {quoted} _ a {word}",
    'true || {name}={word}; {body2} "${name}"',
    '{name}=a.txt; {body2} && {name}={word}; {body2} "${name}"',
    '{name}={word}; {body2} || {name}=a.txt; {body2} "${name}"',
    '{name}={word}; false && {name}=a.txt && true; {body2} "${name}"',
    '{name}=a.txt; ! {body2} && {name}={word} || true; {body2} "${name}"',
    'g() {{ {name}={word}; }}; {name}=a.txt; g; {body2} "${name}"',
    'g() {{ local {name}={word}; {body2}; }}; {name}=a.txt; g; {body2} "${name}"',
    'g() {{ {name}={word}; {body2} && return; {name}=a.txt; }}; g; {body2} "${name}"',
    "g() {{ cd src; }}; g; {body2} > out.txt",
    'g() {{ {body2} "$1.txt"; }}; set -- a; g; g {word}; {body2} "$1"',
    '{name}=a.txt; eval "{name}=b.txt"; {body2} "${name}"',
    '{name}={word} eval true; {body2} "${name}"',
    '{name}=a.txt; read {name} <<< {word}; {body2} "${name}"',
    '{name}=a.txt; false && read -r {name} <<< b.txt; {body2} "${name}"',
    '{name}=a.txt; command read -r {name} <<< {word}; {body2} "${name}"',
    '{name}=a.txt; builtin printf -v {name} %s {word}; {body2} "${name}"',
    'IFS=x read -r {name} <<< {word}; {body2} "${name}"',
    'IFS= read -r {name} <<< {word}; {body2} "${name}"',
    'set -- {word} b; {body2} "$1"; set --; {body2} "$1a.txt"',
    'set -- a.txt; {body2} && set -- {word}; {body2} "$1"',
    "trap '{name}=b.txt' DEBUG; {name}=a.txt; {body2} \"${name}\"",
    '{name}=a.txt; while {name}={word}; false; do {name}=b.txt; done; {body2} "${name}"',
    'for {name} in a.txt {word}; do {body2} && break; {name}=b.txt; done; {body2} "${name}"',
    'declare -l {name}; {name}={word}; {body2} "${name}"',
    'readonly {name}=a.txt\n{name}={word}\n{body2} "${name}"',
    'y={word}; declare {name}=$y; {body2} "${name}"',
    '{name}=a.txt; : ${{{name}:={word}}} $(echo ${{y:={word}}}); {body2} "${name}${{y}}"',
    'false && {name}={word} || {body2} "${name}"',
    "echo {word} | xargs -n1 {body2}",
    "echo {word} | xargs -I{{}} {body2} {{}}",
    "{{ read -r {name}; {body2}; }} <<< {word}",
    "pushd src; {body2}; popd; {body2}",
    "cd src && cd - && {body2}",
    "{name}+={word}; {body2} ${{{name}}}",
    "for {name}; do {body2}; done",
    "eval {quoted}",
    "! {body2}",
    "time {body2}",
    "time -p {body2}",
    "true && {{ {body}; }} || {body2}",
    "cd src && {body2}",
    "(cd src; {body2})",
    "{name}={word}; {body2} ${name}",
    '{name}={word}; {body2} "${name}"',
    '{name}=(a {word}); {body2} "${{{name}[@]}}"',
    "cat <<E\n{body2}\nE",
    "cat <<'E' | {body2}\n$(reboot) `id`\nE",
    "cat <<-E > out.txt\n\t{word}\n\tE",
    "[ -f {word} ] && {body2}",
    "[[ -n {word} ]] || {body2}",
    "test {word} = {word} && {body2}",
    "echo {word} | while read -r {name}; do {body2}; done",
    "find . -name '*.py' -exec {body2} {{}} +",
    "ls | xargs {body2}",
    "rg --files | xargs -n1 {body2}",
    "printf '%s\\n' {word} | xargs {body2}",
    "(({name} = 1 + 2)); {body2}",
    "set -e; {body2}",
    "trap {word} EXIT; {body2}",
    "exec 3< README.md; {body2}",
    "coproc {body2}",
    "{body2} 2> >({body2})",
    "{body2} < <({body})",
    "alias a={word}; {body2}",
    "export {name}={word}; {body2}",
    "declare -a {name}=({word} b); {body2}",
    "unset {name}; {body2}",
    "{body2} # {word}",
    "{body2} \\\n {word}",
)
_WRAPPERS = ("env", "env CI=1", "timeout 5", "nice -n 5", "nice", "command", "stdbuf -oL", "time", "nohup", "/usr/bin/env", "xargs -n1", "timeout -k 1 5", "builtin", "exec", "env -u X", "setsid -w", "sudo", "ionice -c 3", "flock out.lock", "busybox")  # fmt: skip
_GLOBS = ("*.py", "src/*", "?.txt", "[a-c].txt", "*", "[!a]*", "**/*.py", "src/[[:alpha:]]*", "*.none", ".*", "@(a|b).txt")  # fmt: skip
_BRACES = ("{a,b}.txt", "{1..3}", "{a..d}", "a{,.bak}", "{x,y}{1,2}", "{01..03}", "{a}", "{,}", "{a,{b,c}}", "x{1..2}y", "{a..c..2}", "{c..a}", "'{'a,b}", "{a\\,b,c}")  # fmt: skip
_EXPANSIONS = ("$HOME", "${HOME}", "$x", "${x}", '"$x"', "$PWD", "${PWD##*/}", "$?", "$#", "$$", "$USER", "${x:-a}", "${x:=b}", "${#x}", "${x%.*}", "${x/a/b}", "${x^^}", "$1", '"$@"', "$*", "${!x}", "~", "~/x", "~root", "$IFS", "${x[0]}", '"${x[@]}"', "$_", "$RANDOM", "${x:1:2}", "$'\\t'", '$"a"', "${x@Q}", "$-", "$0")  # fmt: skip
_NESTING = ("(", "$(", "{ ", "${x:-", "$((", '"$(', "[[ ", "`", "<(", "if ", "a=(", "sh -c ", "time ", "! ", "<<E ", "{a,b}", "*", "{a,")  # fmt: skip
