"""Find what an agent reports in its own words: the question with which it ends, and the error that it still has."""

import re

from flyball.reading import prose
from flyball.reading.lazy import Lazy
from flyball.reading.stream import spoken
from flyball.reading.terminal import plain

LONGEST = 1_000
_OFFER = Lazy(
    r"\b(?:would you like|do you want|shall i|should i (?:go ahead|proceed|continue|start|begin)|want me to|let me know"
    r"|anything else|any questions|sound good|does that (?:help|work)|ready to)\b",
    re.I,
)


def final_question(text: str) -> str:
    """The last paragraph, if it ends with a question that is no mere offer to go on; "" if it does not."""
    lines = [line for line in prose.read(spoken(plain(text)).message) if line.raw.strip()]
    if not lines or not lines[-1].own or lines[-1].kind not in ("text", "item"):
        return ""
    last = lines[-1].text.rstrip(" *_\"'”)")
    if not last.endswith("?") or _OFFER.search(_SENTENCE.split(last)[-1]):
        return ""
    return "\n".join(line.text for line in lines if line.block == lines[-1].block)[-LONGEST:]


_SENTENCE = Lazy(r"(?<=[.!?])\s+")

_ERROR = Lazy(
    r"\b(?:\w+(?:Error|Exception)|error|failure|failed|fails)\b\W{0,3}:(?!\W{0,5}(?:0|none)\b)", re.I
)
_OVER = Lazy(
    r"\b(?:fixed|resolved|no longer|no more|solved|gone|handled|avoid(?:s|ed)?|prevent(?:s|ed)?)\b", re.I
)


def reported_error(text: str) -> str:
    """The last line in which the agent itself names an error that it has not got over; "" if there is none."""
    own = [line.text for line in prose.read(spoken(plain(text)).message) if line.own and line.text]
    errors = [line for line in own if _ERROR.search(line) and not _OVER.search(line)]
    return errors[-1][:LONGEST] if errors else ""
