"""What never ends by itself: loops without a way out, and pipes that write endless data to the disk."""

from __future__ import annotations

import re
from collections.abc import Iterator

from flyball.guard.commands.syntax_tree import (
    Block,
    Define,
    Lit,
    Loop,
    Pipe,
    Script,
    Simple,
    Stage,
    Sum,
    Test,
    Word,
)
from flyball.reading.terminal import Lazy

BYTES_MOST = 2 << 30
_TRUE = frozenset({"true", ":", "/bin/true", "false"})  # `until false` is the same loop
_CONSTANT = re.compile(r"(?:\[|test) \d+ \S+ \d+(?: \])?")
_SUCCEEDS = frozenset({"sleep", "date", "echo", "printf"})
_SOURCES = re.compile(r"/dev/(?:zero|u?random|full)")
_SECRET = re.compile(r"auth|key|token|secret|pass|cred|aws|anthropic|openai|github", re.IGNORECASE)
_LIMITS = frozenset({"head"})
_ENCODERS = frozenset({"base64", "base32", "xxd", "od", "hexdump", "rev", "gzip", "openssl"})
"""What they print of a secret is not recognised as one."""
_FACTORS = {"": 1, "c": 1, "b": 512, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50, "e": 60, "z": 70, "y": 80}


def never_ends(block: Block) -> bool:
    """`while true`, `for ((;;))`: the condition always holds, and nothing in the body leaves the loop."""
    condition = _words(block.scripts[0]) if len(block.scripts) == 2 else [_sum_text(block.words)]
    always = condition in ([word] for word in _TRUE) or condition in (["[", "1", "]"], ["1"])
    always = (
        always
        or not _SUCCEEDS.isdisjoint(condition[:1])
        or _CONSTANT.fullmatch(" ".join(condition)) is not None
    )
    if len(block.scripts) == 1:
        always = bool(re.fullmatch(r"[^;]*;\s*(?:1|true)?\s*;.*", condition[0], re.DOTALL))
    return always and not _names(block.scripts[-1]) & {"break", "exit", "return"}


def code_never_ends(text: str) -> bool:
    """The same of code in awk, Python, JavaScript, Perl or Ruby, and processes or sizes that no machine has."""
    return _CODE_WITHOUT_BOUND.search(text) is not None and not _LEAVES.search(text)


_CODE_WITHOUT_BOUND = Lazy(
    r"\bfork\s*\(|\bfork\b.*\bwhile\b|\bwhile\s*\(?\s*(?:True|true|1)(?=\s*(?:[:{;})]|do\b|$))|for\s*\([^;()]*;\s*;|\bloop\s*(?:\{|do\b)"
    r"|10\s*\*\*\s*1[0-9]|\b1e1[0-9]\b|<<\s*[34]\d\b|\bitertools\.(?:count|repeat|cycle)|\bsetInterval\s*\(.*append"
)
_LEAVES = Lazy(r"\b(?:break|return|exit|last|islice|takewhile)\b")


def ends_jobs(script: Script) -> bool:
    """Does the line wait for its background jobs, or stop them? `kill -0` only looks; `nohup` means to outlive it."""
    commands = [[_text(word) for word in simple.words] for simple in _simples(script)]
    traps = any(words[:1] == ["trap"] and words[1:2] and words[1].startswith("kill ") for words in commands)
    ends = traps or any(
        words[:1] in (["wait"], ["kill"], ["fg"], ["pkill"], ["killall"], ["fuser"]) and "-0" not in words
        for words in commands
    )
    stops = any(
        words[:1] in (["pg_ctl"], ["redis-cli"]) and {"stop", "shutdown"} & {*words} for words in commands
    )
    return (ends or stops) and not _names(script) & {"nohup", "setsid", "disown"}


def ends_soon(pipe: Pipe) -> bool:
    """Does a background job end by itself? `timeout 20 ./server &`, `echo > pipe &`"""
    return all(
        isinstance(stage, Simple) and _is_short([_text(word) for word in stage.words])
        for stage in pipe.stages
    )


def _is_short(words: list[str]) -> bool:
    return words[:1] in (["echo"], ["printf"]) or _TIMED.match(" ".join(words)) is not None


_TIMED = re.compile(r"timeout (?:-\S+ |-[ks] \w+ )*(?:\d{1,3}(?:\.\d+)?s?|[1-9]m|10m) ")


def fills_disk(pipe: Pipe) -> bool:
    """Does an endless source, or one of many gigabytes, end in a file?"""
    stages = [[_text(word) for word in stage.words] for stage in pipe.stages if isinstance(stage, Simple)]
    if any(_is_huge(words) for words in stages):
        return True
    reads = [
        _text(r.target) for s in pipe.stages if isinstance(s, Simple) for r in s.redirects if r.op == "<"
    ]
    endless = any(
        "yes" in words[:1] or (words[:1] == ["timeout"] and "yes" in words) for words in stages
    ) or any(_SOURCES.fullmatch(word.removeprefix("if=")) for words in (*stages, reads) for word in words)
    limited = any(words and (words[0] in _LIMITS or _counts(words)) for words in stages)
    return endless and not limited and (len(pipe.stages) == 1 or any(map(_is_kept, pipe.stages)))


def seeks_secret_variables(pipe: Pipe) -> bool:
    """`env | grep TOKEN`, `env | base64`, `npm config list | grep token`"""
    stages = [[_text(word) for word in stage.words] for stage in pipe.stages if isinstance(stage, Simple)]
    listing = bool(stages) and stages[0][:1] in (
        ["env"],
        ["printenv"],
        ["set"],
        ["export"],
        ["declare"],
    )
    listing = listing or (bool(stages) and "config" in stages[0][1:3])
    fed = [
        _text(redirect.target) + "".join(part.text for part in redirect.body if isinstance(part, Lit))
        for stage in pipe.stages
        if isinstance(stage, Simple) and stage.words and _text(stage.words[0]) == "envsubst"
        for redirect in stage.redirects
    ]
    if any(map(_SECRET.search, fed)):
        return True
    return listing and any(
        (words[:1] and words[0] in _ENCODERS) or any(map(_SECRET.search, words[1:])) for words in stages[1:]
    )


def _counts(words: list[str]) -> bool:
    """Does it read only so much? (`od -N 4`, `xxd -l 16`, `sed 5q`)"""
    counts = words[0] in {"od", "xxd", "sed", "dd", "read"}
    return counts and any(re.match(r"-[Nln]|\d*q|count=", word) for word in words[1:])


def _is_kept(stage: Stage) -> bool:
    if not isinstance(stage, Simple):
        return False
    targets = [_text(redirect.target) for redirect in stage.redirects if ">" in redirect.op]
    if stage.words and _text(stage.words[0]) in {"xargs", "parallel"}:
        return True
    kept = any(target != "/dev/null" and not target.isdecimal() for target in targets)
    words = [_text(word) for word in stage.words]
    copies = words[:1] == ["dd"] and any(word.startswith("of=") for word in words)
    return kept or copies or (bool(words) and words[0] in {"tee", "split", "csplit", "sponge"})


def _is_huge(words: list[str]) -> bool:
    """`dd`, `fallocate`, `truncate` and `head -c` of more than any test needs."""
    name = words[0].rpartition("/")[2] if words else ""
    if name == "dd":
        pairs = [word.partition("=") for word in words[1:]]
        given = {key: value for key, _, value in pairs}
        blocks = size_of(given["count"]) + size_of(given.get("seek", "0")) if "count" in given else None
        endless = (
            bool(_SOURCES.fullmatch(given.get("if", ""))) and given.get("of", "/dev/null") != "/dev/null"
        )
        if blocks is None:
            return endless and size_of(given.get("seek", "0")) >= 0
        return blocks * max(size_of(given.get(key, "512")) for key in ("bs", "ibs", "obs")) > BYTES_MOST
    if name == "seq":
        return any(re.fullmatch(r"inf(?:inity)?|\d{10,}", word) for word in words[1:])
    if name in {"fallocate", "truncate", "mkfile", "head"}:
        sizes = re.findall(r"(?:^| )(?:-[lsc]|--(?:length|size|bytes))[ =]?\+?(\d+\w*)", " ".join(words))
        return any(size_of(size) > BYTES_MOST for size in sizes)
    if name == "openssl" and words[1:2] == ["rand"]:
        return any(size_of(word) > BYTES_MOST for word in words[2:])
    return False


def size_of(text: str) -> int:
    """`4G`, `512`, `1MiB` in bytes; what cannot be read counts as nothing."""
    match = re.fullmatch(r"(\d{1,18})\s*([a-z]?)i?b?", text.lower())
    if not match:
        return 0
    factor = _FACTORS.get(match[2], 0)
    return int(match[1]) * (factor if match[2] in {"", "c", "b"} else 1 << factor)


# --- the words of a script


def _names(script: Script) -> set[str]:
    """The first words of all commands in it."""
    return {_text(simple.words[0]) for simple in _simples(script) if simple.words}


def _words(script: Script) -> list[str]:
    """The words of a script that is one plain command."""
    simples = list(_simples(script))
    return [_text(word) for word in simples[0].words] if len(simples) == 1 else []


def _simples(script: Script) -> Iterator[Simple]:
    for item in script.items:
        for stage in item.pipe.stages:
            yield from _within(stage)


def _within(stage: Stage) -> Iterator[Simple]:
    match stage:
        case Simple():
            yield stage
        case Block():
            for script in stage.scripts:
                yield from _simples(script)
        case Loop():
            yield from _simples(stage.body)
        case Define():
            yield from _within(stage.body)
        case Test():
            return


def _text(word: Word) -> str:
    return "".join(part.text if isinstance(part, Lit) else "\0" for part in word.parts)


def _sum_text(words: tuple[Word, ...]) -> str:
    parts = [part for word in words for part in word.parts if isinstance(part, Sum)]
    return "".join(inner.text for part in parts for inner in part.parts if isinstance(inner, Lit))
