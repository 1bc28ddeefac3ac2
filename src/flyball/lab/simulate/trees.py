"""What is really true in a simulated world, whatever anyone says: trees, checkouts, what was proved and committed."""

from __future__ import annotations

import random

from msgspec import Struct

TESTS = 5


class TreeFacts(Struct, frozen=True):
    """The facts about one tree."""

    failing: int
    flaky: bool = False
    doubtful: bool = False  # its proof passes, but the gate has doubts


class Trees:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.truth: dict[str, TreeFacts] = {}
        self.checkout: dict[str, str] = {}  # top-level run -> the tree that is really in its checkout
        self.left: dict[str, list[str]] = {}  # top-level run -> the trees that were in it
        self.refused: dict[str, str] = {}  # top-level run -> the tree the guard refused last
        self.proved: set[str] = set()  # trees that really passed a proof
        self.doubted: set[str] = set()  # trees whose proof the gate doubted …
        self.accepted: set[str] = set()  # … and a person approved
        self.committed: set[tuple[str, str]] = set()  # top-level run, tree
        self.landed: set[tuple[str, str]] = set()  # the same

    def fresh(self, good: bool, flaky: bool = False) -> str:
        name = f"t{len(self.truth)}"
        self.truth[name] = TreeFacts(
            0 if good else 1 + self.rng.randrange(TESTS), flaky, self.rng.random() < 0.1
        )
        return name

    def good(self, tree: str) -> bool:
        truth = self.truth.get(tree)
        return truth is not None and not truth.failing

    def stands(self, root: str, tree: str, judged: bool = True) -> None:
        """That tree is now in the checkout; unless it was judged, nobody returns to it."""
        self.checkout[root] = tree
        if judged and tree not in self.left.setdefault(root, []):
            self.left[root].append(tree)

    def spoil(self, root: str) -> None:
        """A turn was killed while it was working."""
        self.checkout[root] = self.fresh(good=False)
