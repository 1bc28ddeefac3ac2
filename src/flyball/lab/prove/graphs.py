"""Properties of a whole graph, which is given as the steps from each node, by number."""

from __future__ import annotations

from collections.abc import Collection, Sequence

Steps = Sequence[Sequence[int]]


def lost(steps: Steps, good: Collection[int]) -> int | None:
    """The first node from which no good node can be reached."""
    back: list[list[int]] = [[] for _ in steps]
    for node, there in enumerate(steps):
        for one in there:
            back[one].append(node)
    reached, todo = set(good), sorted(good)
    while todo:
        for node in back[todo.pop()]:
            if node not in reached:
                reached.add(node)
                todo.append(node)
    return next((n for n in range(len(steps)) if n not in reached), None)


def in_order(steps: Steps) -> tuple[list[int], list[int]]:
    """The nodes in an order that follows every step; and those that are in a cycle or only reachable through one."""
    entering = [0] * len(steps)
    for there in steps:
        for one in there:
            entering[one] += 1
    order = [n for n, count in enumerate(entering) if not count]
    for node in order:
        for one in steps[node]:
            entering[one] -= 1
            if not entering[one]:
                order.append(one)
    return order, [n for n, count in enumerate(entering) if count]
