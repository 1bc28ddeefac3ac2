"""One user's records: the journal, the signed heads and the key in the state directory, and runs by name.

Everything that only looks at runs needs no more than this. `runtime.app.App` adds what drives them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from flyball.errors import NotFound, UserError
from flyball.journal import driver as drivers
from flyball.journal.heads import Heads
from flyball.journal.signing import NAME as KEY_FILE
from flyball.journal.signing import Signer, load_or_create
from flyball.journal.sqlite import SqliteJournal
from flyball.reading.terminal import whole
from flyball.state_dir import StateDir
from flyball.views.text import day_and_clock

if TYPE_CHECKING:
    from flyball.core.run import Run


class Records:
    def __init__(self, state_dir: Path, here: Callable[[], str] = str) -> None:
        self.state_dir, self.dirs = state_dir, StateDir(state_dir)
        self.here = here  # the repository that the user stands in, "" for none
        self._journal: SqliteJournal | None = None
        self._heads: Heads | None = None

    @property
    def journal(self) -> SqliteJournal:
        if self._journal is None:
            try:
                self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as problem:
                raise UserError(
                    f"Cannot create the state directory {self.state_dir}: {problem.strerror}. Set FLYBALL_STATE_DIR."
                ) from None
            self._journal = SqliteJournal(self.dirs.journal)
        return self._journal

    @property
    def heads(self) -> Heads:
        if self._heads is None:
            self._heads = Heads(self.dirs.heads, self.signer)
        return self._heads

    @property
    def signer(self) -> Signer:
        return load_or_create(self.state_dir)

    @property
    def has_key(self) -> bool:
        """Whether there is a signing key; `signer` would create one."""
        return (self.state_dir / KEY_FILE).exists()

    def close(self) -> None:
        if self._heads:
            self._heads.flush()
        if self._journal:
            self._journal.close()

    # ---- runs by name ----

    def find(self, name: str) -> str:
        """A run by its id, a unique prefix, or @last (of this repository if it has a run, else of all)."""
        if name == "@last":
            return self._last()
        name = whole(name)  # a terminal can send anything
        matches = self.journal.resolve(name) if name else []
        if name in matches or len(matches) == 1:
            return name if name in matches else matches[0]
        if not matches and name and (at := self.journal.pruned_at(name)):
            raise NotFound(
                f"Run {name} was removed on {day_and_clock(at)}. A line in the journal's registry is all that is kept; "
                "`flyball verify FILE` still checks a certificate that you exported."
            )
        if not matches:
            raise NotFound(f"There is no run '{name}'. `flyball ls` lists the runs there are.")
        raise NotFound(
            f"'{name}' matches {len(matches)} runs: {', '.join(matches[:5])}. Give more of the id."
        )

    def _last(self) -> str:
        here = self.here()
        rows = self.journal.rows(repo=here, parent="", limit=1) if here else []
        rows = rows or self.journal.rows(parent="", limit=1)
        if not rows:
            raise NotFound("There is no run yet. Start one with `flyball run TASK`.")
        return rows[0].run

    def find_known(self, name: str) -> str:
        """Like `find`, but also a run that is missing from the journal and still has a signed head."""
        try:
            return self.find(name)
        except NotFound:
            known = name and not self.journal.pruned_at(name) and self.has_key and self.heads.of(name)
            if not known:
                raise
            return name

    def read(self, run_id: str) -> Run:
        from flyball.journal.history import load  # a list of runs needs no rules

        return load(self.journal, run_id)[0]

    def driven(self, run_id: str) -> bool:
        """Whether a living process drives the run."""
        holder = self.journal.holder(run_id)
        return bool(holder) and drivers.alive(self.state_dir, holder)
