"""What goes wrong in a simulated world, apart from its agents: crashes at any append, disks, clocks, other drivers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from flyball.domain.settings import HOUR, MINUTE
from flyball.errors import AlreadyRunning, Fenced
from flyball.journal import Entry, Write
from flyball.lab.simulate.counts import Breach
from flyball.lab.simulate.virtual import Virtual

if TYPE_CHECKING:
    from flyball.lab.simulate.world import World

JUMPS = (-24 * HOUR, 24 * HOUR, -MINUTE, 7 * HOUR)


class Crash(BaseException):
    """The driver's process has died."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


class Hazards:
    """Called before and after each append; and at some moments something happens by itself."""

    def __init__(self, world: World) -> None:
        self.world, self.rng = world, world.rng
        self.crashes = self.rng.choice((0, 0.01, 0.03, 0.1))
        self.disk = self.rng.choice((0, 0, 0.01, 0.04))
        self.every_us = self.rng.choice((4 * MINUTE, 30 * MINUTE, 3 * HOUR, 24 * HOUR))
        self.lost = self.rng.choice(
            (0.1, 0.3, 0.95)
        )  # in one of this many crashes the keepers die with their driver
        self.zombies: list[Virtual] = []
        self.quiet, self.crashed = False, False
        self.happenings: tuple[Callable[[], None], ...] = (
            *(self.jump, self.kill, self.cut_power, self.second_driver, self.take_over, self.zombie),
        )

    # ---- around an append ----

    def before(self, writes: Sequence[Write]) -> None:
        if self.quiet:
            return
        if self.world.steering is not None and self.world.steered:
            self.world.steering.before()
            return
        if self._chance(self.crashes / 2):
            self.crash("crash before write")
        if self._chance(self.disk):
            how = self.rng.choice(("io", "full"))
            self.world.store.spoil(self.rng.randrange(1, 6), how)

    def after(self, entries: Sequence[Entry]) -> None:
        self.world.store.mend()
        self.world.onlooker.see(entries)
        if self.world.steering is not None and self.world.steered:
            self.world.steering.after(entries)
        elif not self.quiet and self._chance(self.crashes / 2):
            self.crash("crash after write")

    def _chance(self, odds: float) -> bool:
        return self.rng.random() < odds

    def crash(self, how: str) -> None:
        self.crashed = True
        raise Crash(how)

    # ---- by itself ----

    def begin(self) -> None:
        self.world.later(self.rng.randrange(self.every_us), self._happen)

    def _happen(self) -> None:
        if self.quiet:
            return
        self.world.later(self.rng.randrange(2 * self.every_us), self._happen)
        self.rng.choice(self.happenings)()

    def jump(self, by: int = 0) -> None:
        by = by or self.rng.choice(JUMPS)
        self.world.skew += by
        self._note("clock forward" if by > 0 else "clock back")

    def _note(self, what: str) -> None:
        self.world.onlooker.note(what)
        for run in self.world.onlooker.unfinished():
            self.world.fault(what, run.id)

    def kill(self) -> None:
        if self.world.supervisor is not None:
            self.crash("killed")

    def cut_power(self) -> None:
        if self.world.supervisor is not None:
            self.crash("power cut")

    def second_driver(self) -> None:
        """Another process tries to take the runs while one drives them."""
        driver, world = self.world.supervisor, self.world
        tops = [name for name, owned in driver.driven.items() if not owned.run.began.parent] if driver else []
        if not tops:
            return
        second = Virtual(world, world.journal, "second", False)
        try:
            second.adopt(self.rng.choice(tops))
        except AlreadyRunning:
            self._note("second driver")
        else:
            raise Breach("SYS-15", "two drive the same run")
        finally:
            second.die()

    def take_over(self) -> None:
        """The driver is considered dead although it only hangs; another one takes its runs over."""
        driver = self.world.supervisor
        if driver is None or not driver.driven:
            return
        self.zombies.append(driver)
        self.crash("taken for dead")

    def zombie(self) -> None:
        """A driver that was considered dead wakes up and tries to write."""
        if not self.zombies:
            return
        old = self.zombies.pop()
        lost_runs = [name for name in old.driven if self.world.journal.holder(name) != old.driver]
        if not lost_runs:
            return
        self.quiet = True
        try:
            old.scribble(lost_runs[0])
        except Fenced:
            self._note("zombie")
        else:
            raise Breach("SYS-15", f"a driver that was taken for dead still writes to {lost_runs[0]}")
        finally:
            self.quiet = False

    # ---- the end ----

    def still(self) -> None:
        self.quiet = True
        self.crashes = self.disk = 0.0
        self.forget()

    def forget(self) -> None:
        """What a power cut, or the end of the world, leaves of the drivers that hang."""
        self.zombies.clear()
