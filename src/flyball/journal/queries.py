"""Which rows are asked for, as SQL. The index is named, not guessed: a plan must not depend on statistics."""

from typing import NamedTuple

from msgspec.structs import astuple

from flyball.journal.types import Row

TYPES: tuple[type, ...] = tuple(str if default == "" else int for default in astuple(Row()))
COLUMNS = ", ".join(f'"{name}"' for name in Row.__struct_fields__)


class Asked(NamedTuple):
    """What a caller of `rows` wants; None and False: it does not matter."""

    repo: str | None = None
    status: str | None = None
    state: str | None = None
    machine: str | None = None
    root: str | None = None
    parent: str | None = None
    open_question: bool = False
    late_at: int | None = None
    failures: int | None = None

    def fits(self, row: Row) -> bool:
        """Whether a row is among them."""
        return (
            all(getattr(row, name) == value for name, value in self.equals().items())
            and (not self.open_question or row.question != "")
            and (self.late_at is None or 0 < row.alert_at <= self.late_at)
            and (self.failures is None or row.failures >= self.failures)
        )

    def equals(self) -> dict[str, str]:
        """The columns that must have exactly this value."""
        named = {
            name: getattr(self, name) for name in ("repo", "status", "state", "machine", "root", "parent")
        }
        return {name: value for name, value in named.items() if value is not None}


def query(asked: Asked, limit: int | None) -> tuple[str, list[int | str]]:
    """The statement, newest first, and its values."""
    wheres, values = _conditions(asked)
    sql = (
        f"SELECT {COLUMNS} FROM run INDEXED BY {_index(asked)} WHERE {' AND '.join(wheres)} "
        "ORDER BY created_at DESC, n DESC LIMIT ?"
    )
    return sql, [*values, -1 if limit is None else limit]


def _conditions(asked: Asked) -> tuple[list[str], list[int | str]]:
    equal = asked.equals()
    wheres, values = [f"{name} = ?" for name in equal], list[int | str](equal.values())
    if asked.open_question:
        wheres.append("question <> ''")
    if asked.late_at is not None:
        wheres.append("alert_at > 0 AND alert_at <= ?")
        values.append(asked.late_at)
    if asked.failures is not None:
        wheres.append("failures >= ?" if asked.failures < 1 else "failures > 0 AND failures >= ?")
        values.append(asked.failures)
    return wheres or ["true"], values


def _index(asked: Asked) -> str:
    """The narrowest index that fits: what few rows have comes before what many have."""
    if asked.late_at is not None:
        return "run_alert"
    if asked.open_question:
        return "run_question"
    if asked.failures is not None and asked.failures > 0:
        return "run_failures"
    if asked.parent:
        return "run_parent"
    equal = asked.equals()
    return next((index for columns, index in _BY_COLUMNS if columns <= equal.keys()), "run_created")


_BY_COLUMNS: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"root"}), "run_root"),
    (frozenset({"state"}), "run_state"),
    (frozenset({"repo", "status"}), "run_repo_status"),
    (frozenset({"status"}), "run_status"),
    (frozenset({"repo"}), "run_repo"),
    (frozenset({"machine"}), "run_machine"),
    (frozenset({"parent"}), "run_parent"),
)
