"""A run of about two hundred events, made by the production rules: what a driver would append, step by step.

It is the same each time, so that a journal can be compared with it event by event.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from flyball.core.decide import Do, Finished, Note, due, react
from flyball.core.mail import hear
from flyball.domain import events as e
from flyball.domain.messages import Tell, encode
from flyball.domain.settings import Settings
from flyball.journal import Entry, Row, Write
from flyball.journal.chain import extend
from flyball.journal.records import Batch, DrivenRun
from flyball.machines import shipped
from flyball.state.fold import fold
from flyball.state.run import Run

RUN = "story"
EVENTS = 200  # at least
TELL_EVERY = 9  # turns
WORDS = "The change is made as asked and the reasons are written down beside it. " * 4


class Step(Struct, frozen=True):
    """One transaction; before it, somebody leaves this message. `run` is the run after it."""

    write: Write
    message: bytes
    run: Run


class Story(Struct, frozen=True):
    steps: tuple[Step, ...]
    entries: tuple[Entry, ...]

    def taken(self, seq: int) -> int:
        """How many messages a run has taken at this event."""
        return sum(bool(step.message) for step in self.steps if step.write.after < seq)


@cache
def story(events: int = EVENTS) -> Story:
    """A loop that works until it has enough events, gets a message now and then, is proved and committed."""
    teller = _Teller(events)
    teller.tell()
    drafts = tuple(draft for step in teller.steps for draft in step.write.drafts)
    return Story(tuple(teller.steps), tuple(extend(RUN, 0, b"", drafts)))


class _Teller:
    def __init__(self, events: int) -> None:
        self.most, self.steps = events, list[Step]()
        self.driven: dict[str, DrivenRun] = {}
        self.now = 1_000_000

    @property
    def run(self) -> Run:
        return self.driven[RUN].run

    def tell(self) -> None:
        batch = Batch(self.driven)
        batch.start(_began(self.now), 1)
        self._keep(batch)
        while self.run.status != "ended":
            self.now += 1000
            match due(self.run, self.now):
                case Do(act):
                    self._add([e.ActStarted(at=self.now, act=act)])
                    self._add(react(self.run, _finished(act, self._is_last), self.now))
                    self._tell(act)
                case Note(facts):
                    self._add(facts)
                case _:
                    raise AssertionError("the story waits")

    @property
    def _is_last(self) -> bool:
        return self.driven[RUN].seq >= self.most - 12

    def _tell(self, act: e.Act) -> None:
        if act.turn % TELL_EVERY == 0 and act.do == "agent:worker":
            body = encode(Tell(text=f"A word after turn {act.turn}.", who="anna"))
            self._add(hear(self.run, body, 1, self.now), body)

    def _add(self, facts: list[e.AnyEvent] | tuple[e.AnyEvent, ...], message: bytes = b"") -> None:
        batch = Batch(self.driven)
        batch.add(RUN, facts)
        self._keep(batch, message)

    def _keep(self, batch: Batch, message: bytes = b"") -> None:
        (write,) = batch.writes()
        self.driven.update(batch.after())
        self.steps.append(Step(replace(write, fence=0), message, self.run))


def _began(now: int) -> e.RunBegan:
    settings = Settings(proof=("prove",), agents={"default": "script:x"})
    table = shipped("loop").table
    return e.RunBegan(
        at=now, run=RUN, machine="loop", table=table, settings=settings, task="Tell a story.", rules=e.RULES
    )


def _finished(act: e.Act, last: bool) -> Finished:
    result: e.AnyResult
    match act.do:
        case "prepare":
            result = e.Prepared(base_tree="t0", base_commit="c0")
        case "proof":
            result = e.ProofEnded(tree=act.tree, passed=act.why != "baseline", summary="1 failed")
        case "commit":
            result = e.CommitEnded(outcome="committed", tree=act.tree, commit="c1")
        case _:
            claim = e.Claim(finished=True, indicators=("all done", "task complete")) if last else e.Claim()
            usage = e.Usage(input_tokens=900, output_tokens=100, cost_uusd=1_000)
            tree = f"t{act.turn}"
            result = e.TurnEnded(verdict="ok", tree=tree, message=WORDS, claim=claim, usage=usage)
    ruling = e.Ruling(verdict="allow", policy="default", policy_hash="h", tree=f"t{act.turn}")
    turned = isinstance(result, e.TurnEnded)
    return Finished(key=act.key, result=result, took_us=500, ruling=ruling if turned else None)


def folded(entries: Sequence[Entry]) -> Run | None:
    """The run that these events add up to; None if there are none."""
    return fold(None, [e.decode(entry.body) for entry in entries]) if entries else None


def row_at(story: Story, seq: int) -> Row | None:
    """The row that belongs to the run at this event; None if there is none yet, or no transaction ends there."""
    ends = {step.write.after + len(step.write.drafts): step.write.row for step in story.steps}
    return ends.get(seq)
