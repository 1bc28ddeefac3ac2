"""Find the completion indicators that an agent affirms, and the places where it says that it needs help.

A phrase counts only if it is affirmed: not asked, denied, wished for, promised or quoted. `affirmed` and `needs` read
whole sentences, because "not all done", "task complete? no" and "once the task is complete" contain the same words as
a true statement.
"""

import re
from collections.abc import Iterable, Iterator

import msgspec

from flyball.reading.prose import CODE, Line
from flyball.reading.terminal import Lazy

_GLUE = (
    r"(?:\s+(?:is|are|was|has|have|been|be|now|fully|all|100\s?%|totally|entirely|completely|successfully|finally|not|never|yet"
    r"|isn't|aren't|wasn't|hasn't|almost|nearly|half|partially|partly|mostly|only|will|would|should|must|can|could|to|quite))*\s+"
)
_INSIDE_NOT = Lazy(r"\b(?:not|never)\b|n't\b", re.I)
_INSIDE_OPEN = Lazy(
    r"\b(?:almost|nearly|half|partially|partly|mostly|only|will|would|should|must|can|could|to|be|yet)\b",
    re.I,
)
PHRASES: tuple[tuple[str, str], ...] = (
    ("task complete", rf"(?<![\w-])task{_GLUE}(?:complete|completed)\b"),
    ("implementation finished", rf"\bimplementation{_GLUE}(?:finished|complete|completed)\b"),
    ("pr merged", rf"\b(?:pr|pull request)(?:\s+#?\d+)?(?:{_GLUE}approved\s+(?:and|&))?{_GLUE}merged\b"),
    ("all done", r"\ball\s+done\b"),
    ("no more work", r"\bno\s+more\s+work\b"),
    ("ready for review/merge", r"\bready\s+for\s+(?:final\s+|code\s+)?(?:review|merge|merging)\b"),
)
"""The seed's list: name and pattern. Two wordings of one entry are one indicator."""

TICKED: tuple[tuple[str, str], ...] = (
    ("all tests passing", rf"\ball\s+(?:unit\s+)?tests{_GLUE}(?:passing|passed|pass|green)\b"),
    (
        "pr approved",
        rf"\b(?:pr|pull request)(?:\s+#?\d+)?{_GLUE}approved\b(?!\s+(?:and|&)(?:\s+\w+)?\s+merged)",
    ),
    ("ci/cd checks passed", rf"\bci(?:\s?/\s?cd)?(?:\s+checks?)?{_GLUE}(?:passed|passing|pass|green)\b"),
)
"""These count only as ticked boxes of a check-list."""


class Sentence(msgspec.Struct, frozen=True):
    """A sentence of the agent's own; `ticked` if it is at a ticked box, `later` under a heading of things to do."""

    text: str
    ticked: bool = False
    later: bool = False


_LONGEST = 2_000
_LATER = Lazy(
    r"\b(?:remaining|to-?dos?|next|plan|planned|left|outstanding|pending|not (?:yet )?(?:done|complete|finished)|missing"
    r"|criteria|definition of done|instructions?|prompts?|requirements?|conditions?|examples?|template|before|open"
    r"|follow-?ups?|future|goals?|if|when|until|unless|need(?:s|ed)?|must|should|will|expected|incomplete|unfinished)\b",
    re.I,
)
_STOP = Lazy(r"(?<=[.!?;])[\"')\]*_]*\s+|\s+[—–]\s+(?=[A-Z])")
_QUOTED = Lazy(
    r"\"[^\"\n]{0,200}\"|“[^”\n]{0,200}”|«[^»\n]{0,200}»|(?<!\w)'[^'\n]{1,80}'(?!\w)|‘[^’\n]{1,80}’(?!\w)"
)
_MARKS = Lazy(r"\*{1,3}|(?<!\w)_{1,3}|_{1,3}(?!\w)")
_STRUCK = Lazy(r"~~.*?~~")


def sentences(lines: Iterable[Line]) -> Iterator[Sentence]:
    """The agent's own sentences, each with whether it is ticked and whether it is about things to come."""
    under_heading = under_lead = False
    for line, text in _joined(lines):
        if line.kind == "heading":
            under_heading, under_lead = _LATER.search(text) is not None, False
        elif line.kind == "text":
            under_lead = text.rstrip(" *_").endswith(":") and _LATER.search(text) is not None
        if line.box == " " or line.kind == "table":
            continue
        later = line.box != "x" and (under_heading or (under_lead and line.kind == "item"))
        for part in _STOP.split(_clean(text)):
            yield Sentence(text=part[:_LONGEST], ticked=line.box == "x", later=later)


def _joined(lines: Iterable[Line]) -> Iterator[tuple[Line, str]]:
    """Own lines, with a sentence that runs on over a line break put together again."""
    texts: list[str] = []
    first: Line | None = None
    for line in lines:
        if not line.own or not line.text:
            continue
        joins = first is not None and line.kind == "text" and line.block == first.block
        if joins and _runs_on(texts[-1], line.text):
            texts.append(line.text)
            continue
        if first:
            yield first, " ".join(texts)
        first, texts = line, [line.text]
    if first:
        yield first, " ".join(texts)


def _runs_on(before: str, after: str) -> bool:
    return not before.endswith((".", "!", "?", ":", ";")) and (
        after[0].islower() or before.endswith((",", " not"))
    )


def _clean(text: str) -> str:
    text = " ".join(text.split())
    text = text.replace("’", "'") if "“" not in text and "‘" not in text else text
    return _MARKS.sub("", _QUOTED.sub(CODE, _STRUCK.sub(CODE, text)))


def affirmed(sentences: Iterable[Sentence], extra: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The names of the distinct indicators that are affirmed and nowhere denied, in the list's order."""
    table = [
        (name, re.compile(pattern, re.I), name in _TICKED_NAMES) for name, pattern in (*PHRASES, *TICKED)
    ]
    table += [(phrase.lower(), _literal(phrase), False) for phrase in extra if phrase.strip()]
    verdicts: dict[str, bool] = {}
    for sentence in sentences:
        for name, pattern, tick_only in table:
            for match in pattern.finditer(sentence.text):
                _note(verdicts, name, sentence, match, tick_only)
    return tuple(name for name, _, _ in table if verdicts.get(name))


def named(names: Iterable[str], extra: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The items of the list that an agent names over its structured channel; different wordings of one are the
    same one.
    """
    words = (re.sub(r"[\s_-]+", " ", text[:_LONGEST]) for text in names)
    return affirmed((Sentence(text=_clean(text), ticked=True) for text in words), extra)


_TICKED_NAMES = frozenset(name for name, _ in TICKED)
_LISTED = frozenset(name for name, _ in (*PHRASES, *TICKED))


def _literal(phrase: str) -> re.Pattern[str]:
    return re.compile(r"(?<!\w)" + r"\s+".join(map(re.escape, phrase.split())) + r"(?!\w)", re.I)


_NEARBY = 300  # text further away in the sentence does not change a phrase


def _note(
    verdicts: dict[str, bool], name: str, sentence: Sentence, match: re.Match[str], tick_only: bool
) -> None:
    """A denial beats every affirmation; a wish says nothing either way."""
    before = sentence.text[max(0, match.start() - _NEARBY) : match.start()]
    after = sentence.text[match.end() : match.end() + _NEARBY]
    inside = match.group() if name in _LISTED else ""
    if _denied(before, after) or _INSIDE_NOT.search(inside):
        verdicts[name] = False
    elif sentence.later or (tick_only and not sentence.ticked):
        return
    elif not _open(before, after) and not _INSIDE_OPEN.search(inside):
        verdicts.setdefault(name, True)


_BUT = Lazy(r"[,;:—–(]|\s-\s|\b(?:but|so|however|therefore|thus|hence|because|since)\b", re.I)
_NOT = Lazy(
    r"(?:\b(?:not|never|cannot|neither|nor|hardly|barely|far from|without|nowhere near)|n't)\b((?:\s+\S+){0,8}?)\s*$",
    re.I,
)
_NO = Lazy(r"\b(?:no|non|un|isn't|wasn't)[\s-]+$", re.I)
_NOT_AFTER = Lazy(
    r"\W*(?:no\b(?! (?:open|more|tests?|failing|findings?|further|known|other|remaining|issues?|failures?|errors?|blockers?|changes?|regressions?|problems?))"
    r"|nope\b|not\b|never\b|false\b|isn't\b|(?:is|was|are) (?:not|false|wrong|untrue|premature)\b|❌|✗|✘|\d{1,2}(?:\.\d+)?\s?%)",
    re.I,
)


def _denied(before: str, after: str) -> bool:
    clause = _BUT.split(before)[-1]
    said_not = _NOT.search(clause)
    if said_not and not re.search(r"\b(?:and|only)\b", said_not.group(1), re.I):
        return True
    return bool(_NO.search(clause) or _NOT_AFTER.match(after))


_LABEL = Lazy(
    r"\W*(?:.*\bindicators? \(.*\bneed\b[^)]*\)|to[ -]?dos?|goals?|next(?: steps?)?|plan(?:ned)?|remaining|pending|left|open|missing|waiting|wip|outstanding|target|aim"
    r"|expected|(?:nearly|almost|not|still|if|when|once|until|unless) [^:]{0,60})\s*:",
    re.I,
)
_IF = Lazy(
    r"\b(?:if|unless|until|till|once|when|whenever|as soon as|provided|assuming|in case|whether)\b",
    re.I,
)
_SO = Lazy(r"\b(?:so|therefore|thus|hence|now|but|and (?:the|all|everything))\b", re.I)
_WISH = Lazy(
    r"\b(?:will|would|could|should|might|may|must|shall|can|going to|gonna|needs?|wants?|plan(?:s|ning)?|about to|expect|hope"
    r"|wish|soon|later|tomorrow|eventually|todo|remaining|pending|await(?:s|ing)?|wait(?:s|ing)?|requires?|supposed|pretend"
    r"|claim(?:s|ed)?|says?|said|told|instruct(?:s|ed)?|print(?:s|ed)?|output(?:s|ted)?|emit(?:s|ted)?|mark|declare|call|doubt"
    r"|unclear|unsure|towards?|aim|goal|target|try(?:ing)?|almost|nearly|mostly|partially|partly|half|close to|yet to|got to"
    r"|have to|has to|let's|'ll|'d|want|to get|to be|to have|in order|make sure|ensure|verify that|check(?:ing)? (?:if|that|whether)|assume|remains?|left|before|until|then"
    r"|means?|phrases?|words?|indicators?|like|such as|e\.g|example|instead of|rather than|criteri(?:a|on) (?:for|of)|definition of|false|wrong|premature(?:ly)?)\b",
    re.I,
)
_OTHER = Lazy(
    r"\b(?:sub|each|every|first|second|third|fourth|last|next|previous|prior|another|one|other|any|which|per|earlier|upstream"
    r"|old|dependency|related|separate|a|an|half|\d+)[\s-]+$",
    re.I,
)
_AFTER = Lazy(
    r"\s*\?"
    r"|\W*(?:pending|in[ _-]progress|to-?do|tbd|n/?a|unknown|maybe|almost|partial(?:ly)?|partly|mostly|nearly|soon|tomorrow|later"
    r"|eventually|apparently|hopefully|minus|half|somewhat)\b"
    r"|,?\s*(?:except|apart from|aside from|other than|besides|excluding|save for|but (?:for|the|one|a|an|two|three|some|not|still)\b)"
    r"|,?\s*(?:if|when|once|unless|until|till|as soon as|provided|assuming|subject to|should|would|will|can|could|might|may|must)\b"
    r"|\s+only\b|\s+(?:for|in|with|of|on|up to|as of|through) (?:the )?(?:module|parts?|steps?|phases?|stages?|now|today|most|some"
    r"|first|second|this|that|half|section|chapter|milestone|one|two|three|\d|my|these|those|items?|iteration|moment|task \d)"
    r"|,?\s*or so\b|\s+after (?:that|this|one more|two more|another|the next|\d+ more)\b"
    r"|\s+(?:is|are|was) (?:what|(?:an? |the )?(?:phrases?|words?|indicators?|signals?))\b"
    r"|\s+today\b|\s+(?:yet|already)\s*\?|\s+to be\b|\s+by (?:tomorrow|monday|next|then|friday)\b"
    r"|[\s\"'-]+(?:events?|webhooks?|e-?mails?|buttons?|messages?|banners?|handlers?|callbacks?|notifications?|labels?|states?"
    r"|status(?:es)?|flags?|signals?|indicators?|criteri(?:a|on)|checklists?|checks?|pages?|screens?|hooks?|logs?|lines?|text"
    r"|strings?|tests?|toasts?|dialogs?|badges?|columns?|fields?|functions?|methods?|phrases?|markers?|rows?|modals?|copy"
    r"|icons?|count(?:er)?s?|dates?|timestamps?|queue|list|sound|animation|view|type|enum|constant|rate|ratio|percentage)\b",
    re.I,
)
_REST = Lazy(
    r",?\s*(?:but|although|though|however|yet|while)\b.*\b(?:not|n't|fail\w*|remain\w*|still|to-?do|left|missing|pending|broken"
    r"|unfinished|incomplete|need\w*|wait\w*|open|skipped|except|later|tomorrow)\b"
    r"|.*\b(?!0\b|no\b|zero\b)\S+\s+(?:tests?|checks?|cases?)\s+(?:are\s+|is\s+|still\s+)*(?:fail\w*|skipped|broken|red)\b"
    r"|.*\b[1-9]\d*\s+(?:still\s+)?(?:fail\w*|skipped|errors?)\b"
    r"|.*\b(?:the|this|that|first|one)\s+(?:\w+\s+){0,2}(?:part|half|portion)\b"
    r"|.*\b(?:only|so far|for module|in theory)\b|.*\bare (?:the )?(?:indicators|phrases|words|signals)\b|.*\?\s*$",
    re.I,
)


def _open(before: str, after: str) -> bool:
    """Asked, conditional, in the future, about another thing, or only in part."""
    if CODE in before[-2:] and CODE in after[:2]:
        return True
    if _LABEL.match(before):
        return True
    condition = _IF.search(before)
    conditional = condition is not None and not _SO.search(before[condition.end() :])
    clause = _BUT.split(before)[-1]
    is_wish = bool(_WISH.search(clause) or _OTHER.search(clause))
    return conditional or is_wish or bool(_AFTER.match(after) or _REST.match(after))


_THING = (
    r"(?:api[ -]?keys?|keys?|tokens?|passwords?|passphrase|credentials?|secrets?|access|permissions?|approval|login|licen[cs]e"
    r"|decisions?|clarification|confirmation|answer|guidance|input|help|instructions?|certificate|account|url|endpoint|schema"
    r"|specification|requirements?|details|information|sign-?off|authori[sz]ation|vpn|hardware|database|env(?:ironment)? variables?)"
)
_DO = (
    r"(?:provide|decide|grant|choose|confirm|approve|give|supply|set|tell|log in|rotate|create|add|install|restart|enable|clarify"
    r"|answer|specify|share|send|pick|configure|unlock|start|upload|fix|resolve|explain)"
)
_NEEDS = Lazy(
    rf"\bi(?:'m| am)\s+(?:currently\s+|now\s+|still\s+|completely\s+|fully\s+)*(?:blocked|stuck)\b(?! no)"
    rf"|^(?:status\s*:\s*)?blocked\s*(?:[:—–-]\s*(?!none|no\b|nothing|n/a|false|0\b)\S|\b(?:on|by|because|until|waiting|pending)\b)"
    rf"|\b(?:i|we)\s+(?:can(?:not|'t|\s+not)|could(?: not|n't)|(?:am|are|'m|'re)\s+(?:unable|not able)\s+to)\s+"
    rf"(?:proceed|continue|go on|go any further|make (?:any |further )?progress|move forward|finish|complete|start|test|deploy|push)\b"
    rf".{{0,300}}\b(?:without|until|unless|because|since|as|before)\b"
    rf"|\b(?:i|we)\s+(?:still\s+|also\s+|first\s+|now\s+|just\s+|really\s+)?(?:need|require)\s+(?!to\b|no\b)"
    rf"(?:you(?: or \w+)? to {_DO}\b|(?:[\w'/.-]+\s+){{0,6}}?{_THING}\b|(?:a |some )?human\b)"
    rf"|^(?:please|kindly|could you(?: please)?|can you(?: please)?)\s+{_DO}\b.{{0,300}}\b{_THING}\b"
    rf"|\b(?:i(?:'m| am)\s+)?waiting\s+(?:for|on)\s+(?:you\b|your\b|a human|human|the user|user|someone|(?:an?|the)?\s*(?:\w+\s+)?{_THING}\b)"
    rf"|\b(?:needs?|requires?|awaiting)\s+(?:a\s+)?(?:human|manual)\s+(?:intervention|input|help|decision|action|approval)\b"
    rf"|\b(?:human|manual|user)\s+(?:intervention|input|decision|action)\s+(?:is\s+)?(?:required|needed|necessary)\b"
    rf"|\bescalating\s+to\s+(?:a\s+)?human\b"
    rf"|\b(?:missing|no)\s+(?:[\w'/.-]+\s+){{0,4}}?(?:key|token|password|credentials?|access|permission)\b.{{0,300}}\b(?:cannot|can't|unable|blocked|stuck)\b",
    re.I,
)
_NOT_NEEDED = Lazy(
    r"\b(?:no longer|not|never|was|were|had been|if|would|might|may|could be|used to|unless you)\s+(?:\w+\s+){0,2}$|\bif\b|\bwhen\b",
    re.I,
)


def needs(sentences: Iterable[Sentence]) -> bool:
    """The agent says that it cannot continue without somebody's help."""
    return any(_is_need(sentence) for sentence in sentences)


def _is_need(sentence: Sentence) -> bool:
    match = _NEEDS.search(sentence.text.strip())
    return match is not None and not _NOT_NEEDED.search(sentence.text.strip()[: match.start()])


_RED = Lazy(
    r"\b(?:ci(?:\s?/\s?cd)?|the (?:build|pipeline) on \w+)(?:\s+(?:checks?|builds?|pipelines?|runs?|jobs?|workflows?|status))?"
    r"(?:\s+(?:is|are|has|have|still|currently|now|again|remains?|keeps?)|\s*:)*\s+(?:red|failing|fails?|failed|broken)\b",
    re.I,
)
_NOT_RED = Lazy(
    r"\b(?:was|were|had|been|before|previously|earlier|formerly|used to|no longer|not|never|n't|if|when|whenever|unless|until"
    r"|once|so that|would|could|might|may|fix(?:ed|es)?|why|where|because|repair(?:ed)?|resolve[sd]?|example|e\.g|like)\b|n't\b|\?",
    re.I,
)


def says_ci_is_red(sentences: Iterable[Sentence]) -> bool:
    """Whether the agent states, about now and without a condition, that continuous integration fails."""
    return any(
        not sentence.ticked
        and not sentence.later
        and _RED.search(sentence.text) is not None
        and _NOT_RED.search(sentence.text) is None
        for sentence in sentences
    )
