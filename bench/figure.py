"""A figure: a number, its goal, and what was measured beside it within the same minute."""

from __future__ import annotations

from msgspec import Struct


class Beside(Struct, frozen=True):
    """A limit underneath, or a peer that does the same."""

    name: str
    value: float


class Figure(Struct, frozen=True, kw_only=True):
    name: str
    value: float
    unit: str
    goal: float | None = None
    more_is_better: bool = False
    beside: tuple[Beside, ...] = ()
    parts: dict[str, float] = {}  # what the value is made of, in its own unit
    cpu: float | None = (
        None  # the same by CPU time alone: tells a busy machine from slow code; decides nothing
    )
    note: str = ""

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        return self.value >= self.goal if self.more_is_better else self.value <= self.goal

    @property
    def of_goal(self) -> float | None:
        """How many times better than its goal; below 1 it misses it."""
        if self.goal is None or not self.value:
            return None
        return self.value / self.goal if self.more_is_better else self.goal / self.value


def number(value: float, unit: str) -> str:
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {unit}"


def goal_text(figure: Figure) -> str:
    if figure.goal is None:
        return ""
    return f"{'≥' if figure.more_is_better else '≤'} {figure.goal:,g} {figure.unit}"


def met_text(figure: Figure) -> str:
    return {True: "yes", False: "NO", None: ""}[figure.met]


def beside_text(figure: Figure) -> str:
    """Each with the ratio of ours to it."""
    return "; ".join(
        f"{other.name} {number(other.value, figure.unit)} ({_ratio(figure.value, other.value)})"
        for other in figure.beside
    )


def _ratio(ours: float, theirs: float) -> str:
    if not theirs:
        return "–"
    ratio = ours / theirs
    return f"{ratio:.2f}×" if ratio >= 0.1 else f"1/{1 / ratio:,.0f}" if ratio else "0×"
