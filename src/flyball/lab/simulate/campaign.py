"""Many seeds, one after the other, and what they reached together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from flyball.domain import events as e
from flyball.lab.simulate.coverage import Coverage
from flyball.lab.simulate.goals import goals_of
from flyball.lab.simulate.onlooker import Line
from flyball.lab.simulate.world import Aim, SeedResult, World
from flyball.views.run_view import Timeline

HOUR_US = 3_600_000_000
BY_LOT = 8  # every eighth seed
LAST = 20  # events printed for a seed that fails


class Campaign(Struct):
    seeds: int = 0
    events: int = 0
    virtual_us: int = 0
    took_s: float = 0.0
    coverage: Coverage = field(default_factory=Coverage)
    failed: list[SeedResult] = field(default_factory=list[SeedResult])

    @property
    def good(self) -> bool:
        return not self.failed

    @property
    def hours(self) -> int:
        return self.virtual_us // HOUR_US

    @property
    def hours_a_minute(self) -> int:
        return int(self.hours / self.took_s * 60) if self.took_s else 0

    @property
    def events_a_second(self) -> int:
        return int(self.events / self.took_s) if self.took_s else 0

    def add(self, result: SeedResult) -> None:
        self.seeds += 1
        self.events += result.events
        self.virtual_us += result.virtual_us
        self.coverage.add(result.coverage)
        if result.broken:
            self.failed.append(replace(result, lines=result.lines[-LAST:]))


def aim(seed: int, machine: str = "") -> Aim | None:
    """What a seed aims for, one goal after the other; every eighth seed aims for nothing."""
    goals = goals_of(machine)
    return goals[(seed - seed // BY_LOT - 1) % len(goals)] if seed % BY_LOT else None


def aimed(seed: int, machine: str = "") -> str:
    """The same in words."""
    goal = aim(seed, machine)
    if goal is None:
        return "by lot"
    beside = f", with {', '.join(goal[1].faults)}" if goal[1].faults else ""
    return f"aims for {goal[0]} {goal[1].state} × {goal[1].outcome} (premise '{goal[1].way.premise}'){beside}"


def simulate(
    seeds: Iterable[int],
    machine: str = "",
    watch: Callable[[SeedResult], None] = lambda result: None,
    by_lot: bool = False,
) -> Campaign:
    """Run each seed, with a goal or all at random; `watch` gets each result with all its lines."""
    campaign, start = Campaign(), time.perf_counter()
    for seed in seeds:
        result = World(seed, machine, None if by_lot else aim(seed, machine)).play()
        watch(result)
        campaign.add(result)
        campaign.took_s = time.perf_counter() - start
    return campaign


# ---- in words ----------------------------------------------------------------------------------------------------------


def traced(lines: Iterable[Line]) -> Iterator[str]:
    """One line for each event: the time, the run, the event; or what happened in the world."""
    timeline = Timeline()
    for line in lines:
        says = f"* {line.says}"
        if line.event is not None:
            says = f"{timeline.line(line.run, line.event).text}{_trees(line.event)}"
        yield f"{line.true / HOUR_US:10.3f} h  {line.run:<6} {says}"


def _trees(event: e.AnyEvent) -> str:
    match event:
        case e.ActStarted():
            return f" [{event.act.key} {event.act.why} on {event.act.tree}]".replace("  ", " ")
        case e.ActFinished():
            return f" [{event.key}: {getattr(event.result, 'tree', '')}]"
        case _:
            return ""
