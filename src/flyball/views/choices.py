"""What each answer to a question does, shown with the question."""

from __future__ import annotations

from collections.abc import Mapping

from flyball.core.stops import ALIASES
from flyball.domain import events as e
from flyball.domain.settings import TAKES_TEXT

RETRY = "the agent tries again"
RETRY_STEP = "the same as go-on, but failed tests run again even if no file has changed"
TEXT = "TEXT: the agent continues with your text as its instruction"
# verb -> the key that answers with it, the same in every question
KEYS = {
    "approve": "a",
    "go-on": "g",
    "answer": "w",
    "redirect": "i",
    "reject": "r",
    "retry": "t",
    "raise": "s",
    "grant": "n",
    "cancel": "c",
    "proceed": "p",
    "replan": "l",
    "drop": "o",
    "complete": "m",
    "abandon": "b",
}
SHOW, QUIT = "d", "q"  # keys that answer nothing
# verb -> what it does
DOES = {
    "approve": "continue",
    "go-on": "continue",
    "answer": "TEXT: the agent continues with your answer",
    "redirect": TEXT,
    "reject": RETRY,
    "retry": RETRY,
    "raise": "raise the budget to the amount named above and continue",
    "cancel": "end the run; its branch stays",
    "proceed": "continue with the plan",
    "replan": "make a new plan",
    "drop": "give this task up",
    "complete": "end the run as completed, if its tests pass",
    "abandon": "end the run as failed",
}
# kind of question -> verb -> what it does there
DOES_HERE = {
    "approval": {
        "approve": "keep the change and continue",
        "reject": "undo the change; the agent tries again with your reason",
        "retry": "undo the change; the agent tries again",
        "redirect": "TEXT: undo the change; the agent continues with your text as its instruction",
    },
    "block": {"approve": "keep the change and continue", "reject": "the agent tries again with your reason"},
    "evidence": {
        "approve": "accept the result; the run completes",
        "reject": "the agent continues and gets the list of doubts",
    },
    "permission": {
        "approve": "allow it, now and later in this run",
        "grant": "allow it once",
        "reject": "refuse it; the agent continues without",
    },
    "budget": {"approve": "the same as raise"},
    "breakpoint": {
        "reject": "discard the outcome and repeat this state",
        "redirect": "TEXT: repeat this state with your text as its instruction",
    },
    "clarification": {
        "answer": "TEXT: the agent gets your text as the answer to its question",
        "redirect": "TEXT: the agent gets your text as a new instruction instead of an answer",
    },
    "done": {
        "approve": "accept the work as done",
        "answer": "TEXT: it is not done; the agent continues with your text",
        "redirect": "TEXT: the same as answer",
    },
    "loop": {
        "go-on": "continue as before; the count starts again",
        "answer": "TEXT: continue, and tell the agent what to do differently",
        "redirect": "TEXT: the same as answer",
        "retry": RETRY_STEP,
    },
    "infrastructure": {"go-on": "try the same step again", "retry": RETRY_STEP},
    "limit": {"go-on": "allow the same once more and continue", "retry": RETRY_STEP},
    "escalation": {"redirect": "TEXT: make a new plan with your text"},
}


def offered(question: e.Question) -> tuple[str, ...]:
    """The verbs that a question takes, without other words for the same answer."""
    same = (ALIASES.get(verb) if verb not in TAKES_TEXT else None for verb in question.verbs)
    return tuple(
        verb for verb, other in zip(question.verbs, same, strict=True) if other not in question.verbs
    )


def keys_of(question: e.Question) -> dict[str, str]:
    """Key -> verb. A verb of a user's own machine gets its first letter that no other answer has."""
    keys = {KEYS[verb]: verb for verb in offered(question) if verb in KEYS}
    for verb in offered(question):
        letters = [letter for letter in verb if letter.isalpha() and letter not in (*keys, SHOW, QUIT)]
        if verb not in KEYS and letters:
            keys[letters[0]] = verb
    return keys


def choices(question: e.Question, keys: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """The verbs that a question takes, each with its key (`keys`: key -> verb) and what it does."""
    here = DOES_HERE.get(question.kind, {})
    options = [(verb, here.get(verb) or DOES.get(verb, "")) for verb in offered(question)]
    if not keys:
        return [(verb, does) for verb, does in options if does]
    key_of = {verb: key for key, verb in keys.items()}  # the text is asked for after the key
    return [
        (f"{key_of.get(verb, ' ')} {verb}", does.removeprefix("TEXT: ")) for verb, does in options if does
    ]
