"""What people are notified of (HUMAN-5): a question, an escalation, an end, a limit reached or cleared.

Which events are worth a message, and in which words. Sending them is the shell's.
"""

from __future__ import annotations

from msgspec import Struct, field

from flyball.core import stops
from flyball.domain import events as e
from flyball.domain.settings import HOUR, MINUTE, SECOND, rough, show_duration
from flyball.state import fold
from flyball.state.run import Run
from flyball.views import reasons
from flyball.views.text import clean, cost_text, iso, one_line, plural

AGAIN_US = HOUR  # the same notice about a run is sent at most once within this time
MOST, PERIOD_US = 10, 10 * MINUTE  # messages; what exceeds it is told together when the time is over
TEXT_MOST = 600


class Notice(Struct, frozen=True):
    """`key` is what it is about: a notice with a known key was already sent."""

    key: str
    title: str
    body: str


class Notices(Struct):
    """Picks the events worth a message; remembers which runs wait for a limit."""

    limited: set[str] = field(default_factory=set[str])

    def of(self, run: Run, event: e.AnyEvent) -> Notice | None:
        match event:
            case e.Stopped(question=question) if question is not None:
                return _asked(run, event.stop, question)
            case e.Stopped(stop=e.Stop(code="wait.rate_limit"), until=until):
                self.limited.add(run.id)
                wait = f" It continues by itself in {rough(until - event.at)}." if until else ""
                return _notice(
                    run, "limit", "waits for a rate limit", f"The agent reached a rate limit.{wait}"
                )
            case e.Resumed() if run.id in self.limited or event.why == "the wait is over":
                self.limited.discard(run.id)
                return _notice(run, "cleared", "continues", "The limit was reset.")
            case e.Warned(code=stops.NOTIFY | stops.RAISE):
                key = f"{event.code} {run.state} {run.entered_at}"
                return _notice(run, key, "takes long", f"The run is {event.text}. It has not stopped.")
            case e.Warned(code=fold.REMINDER) if run.question is not None and run.stop is not None:
                return _asked(run, run.stop, run.question)
            case e.Ended() if run.owner:
                return _ended(run, event)
            case _:
                return None


def _asked(run: Run, stop: e.Stop, question: e.Question) -> Notice:
    verb = "needs your decision" if question.kind == "escalation" else f"asks you ({question.kind})"
    happened = reasons.happened(stop, run.state)
    text = clean(question.text).strip()[:TEXT_MOST]
    how = reasons.how_to_answer(question)
    waited = show_duration(question.reminded * run.settings.remind_us)
    late = f"STILL WAITING after {waited}: " if question.reminded else ""
    by_itself = (
        f"\nWithout an answer by {iso(question.deadline)}: {question.default}." if question.default else ""
    )
    body = f"{late}{happened} ({stop.code})\n\n{text}\n\nAnswer with: {how}{by_itself}"
    return _notice(run, f"{question.id} {question.reminded}", f"{'STILL ' if late else ''}{verb}", body)


def _ended(run: Run, event: e.Ended) -> Notice:
    verb = {"success": "completed", "cancelled": "was cancelled"}.get(event.end, "failed")
    effort = f"{plural(run.turns, 'turn')}, {cost_text(run, unknown='cost unknown')}"
    result = f"{event.stop.code}; {effort}; {plural(len(run.checkout.changed), 'changed file')}."
    return _notice(run, "ended", verb, f"{result}\n\nDetails: flyball show {run.id}")


def _notice(run: Run, key: str, verb: str, body: str) -> Notice:
    repo = run.began.repo.rpartition("/")[2]
    head = f"{one_line(run.task, 200)}\n{repo}, {run.machine.name}, in '{run.state}'"
    return Notice(f"{run.id} {key}", f"flyball: run {run.id} {verb}", f"{head}\n\n{body}")


# ---- not too often ---------------------------------------------------------------------------------------


class Throttle(Struct):
    """Says whether a notice goes out now. Those that do not are kept, to be told together."""

    times: dict[str, int] = field(default_factory=dict[str, int])  # key -> when
    sent: list[int] = field(default_factory=list[int])
    held: list[Notice] = field(default_factory=list[Notice])

    def admit(self, notice: Notice, now: int) -> bool:
        self._forget(now)
        if notice.key in self.times:
            return False
        self.times[notice.key] = now
        if self.held or len(self.sent) >= MOST:
            self.held.append(notice)
            return False
        self.sent.append(now)
        return True

    def summary(self, now: int, last: bool = False) -> Notice | None:
        """What was held back, as one notice, once there is room again or nothing more will come."""
        self._forget(now)
        if not self.held or (len(self.sent) >= MOST and not last):
            return None
        titles = [one.title.removeprefix("flyball: ") for one in self.held]
        lines = [*titles[:20], *([f"and {len(titles) - 20} more"] if len(titles) > 20 else [])]
        count, self.held = plural(len(self.held), "more message"), []
        self.sent.append(now)
        return Notice(
            "", f"flyball: {count}", "\n".join((*lines, "", "`flyball inbox` lists what waits for you."))
        )

    def wait_s(self, now: int) -> float | None:
        """Until when a summary may be due; None: nothing is held."""
        if not self.held:
            return None
        if len(self.sent) < MOST:
            return 0.0
        return max(0.0, (min(self.sent) + PERIOD_US - now) / SECOND)

    def _forget(self, now: int) -> None:
        self.sent = [at for at in self.sent if now - at < PERIOD_US]
        self.times = {key: at for key, at in self.times.items() if now - at < AGAIN_US}
