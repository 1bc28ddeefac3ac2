"""The layout of a machine's picture: states in one column, in the order of the table.

An edge to the next state goes straight down. Every other edge leaves at the side, runs in a lane of its own and
comes back in: forward edges on the right, backward ones on the left. Edges to the same place share a lane. Labels
are where an edge leaves, in a column of their own, so nothing overlaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from flyball.domain.machine import Machine
from flyball.views.diagram import Way, folded

LETTER = 7  # pixels a letter, generously: fonts differ
LINE = 14
PORT = 10  # below a label, or around a port without one
LANE = 13
GAP = 26
LABEL_MOST = 26
TOP, BOTTOM = 30, 16  # inside a group's frame, above and below its states
MARGIN = 18
HEAD = 64  # title, and the dot from which the start is entered


class Port(Struct):
    """Where an edge leaves or enters a side. `at` is its height."""

    way: str  # the place the lane leads to
    label: tuple[str, ...] = ()
    into: bool = False
    outside: bool = True  # whether it runs outside the frames
    at: int = 0

    @property
    def height(self) -> int:
        return max(len(self.label), 0) * LINE + PORT


class Box(Struct):
    """A state, or a group's frame (`any:NAME`)."""

    name: str
    x: int = 0
    y: int = 0
    width: int = 0
    height: int = 0
    left: list[Port] = []
    right: list[Port] = []

    def side(self, right: bool) -> list[Port]:
        return self.right if right else self.left


class Down(Struct, frozen=True):
    """A straight edge to the next state."""

    source: str
    target: str
    label: tuple[str, ...]


class Layout(Struct):
    boxes: dict[str, Box]
    frames: dict[str, Box]
    downs: list[Down]
    lanes: dict[tuple[bool, bool, str], int]  # (right, outside, place) -> x
    width: int = 0
    height: int = 0

    def box(self, name: str) -> Box:
        return self.frames[name] if name in self.frames else self.boxes[name]


def laid_out(machine: Machine) -> Layout:
    order = list(machine.states)
    groups = _frameable(machine, order)
    layout = Layout(_boxes(machine, order), {f"any:{g}": Box(f"any:{g}") for g in groups}, [], {})
    _connect(layout, _ways(machine, groups), order, groups)
    _stack(layout, order, groups)
    _widen(layout, groups)
    return layout


def _frameable(machine: Machine, order: Sequence[str]) -> dict[str, Sequence[str]]:
    """The groups whose states are next to each other and in no other frame."""
    frames: dict[str, Sequence[str]] = {}
    used: set[str] = set()
    for name, members in machine.groups.items():
        places = sorted(order.index(member) for member in members)
        together = len(places) > 1 and places == list(range(places[0], places[-1] + 1))
        if together and not used & set(members):
            frames[name] = [order[place] for place in places]
            used |= set(members)
    return frames


def _boxes(machine: Machine, order: Iterable[str]) -> dict[str, Box]:
    states = machine.states.values()
    longest = max(max(len(state.name) + 2, len(state.do)) for state in states)
    return {name: Box(name, width=max(150, longest * (LETTER + 1) + 36), left=[], right=[]) for name in order}


def _ways(machine: Machine, groups: Mapping[str, Sequence[str]]) -> list[Way]:
    """The edges to draw. [anywhere] is listed below the picture, unless an edge has no other outcome."""
    ways = folded(machine, groups)
    return [Way(w.source, w.target, _own_outcomes(machine, w)) for w in ways]


def _own_outcomes(machine: Machine, way: Way) -> tuple[str, ...]:
    if way.source not in machine.states:
        return way.on
    own = machine.states[way.source].on
    return tuple(o for o in way.on if o in own) or way.on


def wrapped(on: Sequence[str]) -> tuple[str, ...]:
    """Outcomes as the lines of a label."""
    lines: list[str] = []
    for number, outcome in enumerate(on):
        word = outcome + ("," if number < len(on) - 1 else "")
        if lines and len(lines[-1]) + 1 + len(word) <= LABEL_MOST:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return tuple(lines)


# ---- who leaves where -----------------------------------------------------------------------------------


def _connect(
    layout: Layout, ways: Iterable[Way], order: Sequence[str], groups: Mapping[str, Sequence[str]]
) -> None:
    place = {name: number for number, name in enumerate(order)}
    place |= {f"any:{g}": place[members[0]] for g, members in groups.items()}
    framed = {name: g for g, members in groups.items() for name in members}
    for way in ways:
        apart = place[way.target] - place[way.source]
        if apart == 1 and way.source in layout.boxes and way.target in layout.boxes:
            layout.downs.append(Down(way.source, way.target, wrapped(way.on)))
            continue
        outside = framed.get(way.source) is None or framed.get(way.source) != framed.get(way.target)
        forward = apart >= 0 and not way.target.startswith("any:")
        _leave(layout, way, right=forward, outside=outside)
    for box in [*layout.boxes.values(), *layout.frames.values()]:
        _sort_ports(box, place)


def _leave(layout: Layout, way: Way, *, right: bool, outside: bool) -> None:
    port = Port(way.target, wrapped(way.on), outside=outside)
    layout.box(way.source).side(right).append(port)
    arrivals = layout.box(way.target).side(right)
    if not any(p.into and p.outside == outside for p in arrivals):
        arrivals.append(Port(way.target, into=True, outside=outside))


def _sort_ports(box: Box, place: Mapping[str, int]) -> None:
    """Order the ports so that lanes cross little: on the right arrivals first and far targets high, on the left reversed."""
    box.right.sort(key=lambda p: (not p.into, p.way != box.name, -place[p.way]))
    box.left.sort(key=lambda p: (p.into, -place[p.way]))


# ---- heights --------------------------------------------------------------------------------------------


def _stack(layout: Layout, order: Sequence[str], groups: Mapping[str, Sequence[str]]) -> None:
    first = {members[0]: layout.frames[f"any:{g}"] for g, members in groups.items()}
    last = {members[-1]: layout.frames[f"any:{g}"] for g, members in groups.items()}
    labels = {down.source: down.label for down in layout.downs}
    y = HEAD
    for name in order:
        box = layout.boxes[name]
        if name in first:
            first[name].y = y
            y = _spread(first[name], y + TOP - PORT, into=True)
        box.y, box.height = y, max(44, *(_room(box.side(right)) for right in (False, True)))
        for right in (False, True):
            _share(box.side(right), box)
        y += box.height
        if name in last:
            y = _spread(last[name], y + BOTTOM + LINE * len(labels.get(name, ())), into=False)
            last[name].height = y - last[name].y
        y += GAP + LINE * len(labels.get(name, ()))
    layout.height = y - GAP


def _room(ports: Sequence[Port]) -> int:
    return sum(port.height for port in ports) + PORT


def _share(ports: Sequence[Port], box: Box) -> None:
    at = box.y + (box.height - _room(ports)) // 2 + PORT // 2
    for port in ports:
        at += port.height
        port.at = at - PORT // 2


def _spread(frame: Box, y: int, *, into: bool) -> int:
    """Edges enter a frame above its states and leave it below them. Returns the height after that."""
    lowest = y
    for right in (False, True):
        at = y
        for port in frame.side(right):
            if port.into == into:
                at += port.height
                port.at = at - PORT
        lowest = max(lowest, at)
    return lowest


# ---- widths ---------------------------------------------------------------------------------------------


def _widen(layout: Layout, groups: Mapping[str, Sequence[str]]) -> None:
    boxes, frames = list(layout.boxes.values()), list(layout.frames.values())
    width = max(box.width for box in boxes)
    down = max((_width(d.label) for d in layout.downs), default=0)
    width = max(width, 2 * down)
    inner = {right: _zone(layout, boxes, right, outside=False) for right in (False, True)}
    outer = {right: _zone(layout, frames or [], right, outside=True) for right in (False, True)}
    labels = {right: _labels(boxes, right) for right in (False, True)}
    pad = LANE if frames else 0
    left = MARGIN + outer[False][0] + outer[False][1] + pad + inner[False][1] + labels[False]
    for box in boxes:
        box.x, box.width = left, width
    frame_left = left - labels[False] - inner[False][1] - pad
    frame_right = left + width + labels[True] + inner[True][1] + pad
    for frame in frames:
        frame.x, frame.width = frame_left, frame_right - frame_left
    _place_lanes(layout, False, False, left - labels[False])
    _place_lanes(layout, True, False, left + width + labels[True])
    _place_lanes(layout, False, True, (frame_left if frames else left - labels[False]) - outer[False][0])
    _place_lanes(
        layout, True, True, (frame_right if frames else left + width + labels[True]) + outer[True][0]
    )
    layout.width = frame_right + outer[True][0] + outer[True][1] + MARGIN


def _width(label: Sequence[str]) -> int:
    return max((len(line) for line in label), default=0) * LETTER + 14


def _labels(boxes: Iterable[Box], right: bool) -> int:
    """The width of the column of labels beside the boxes; 0 if no edge is on that side."""
    return max((_width(port.label) for box in boxes for port in box.side(right)), default=0)


def _zone(layout: Layout, boxes: Sequence[Box], right: bool, *, outside: bool) -> tuple[int, int]:
    """The width of the labels beside these boxes, and of the lanes of this zone."""
    lanes = _coloured(layout, right, outside)
    wide = (max(lanes.values()) + 1) * LANE + LANE if lanes else 0
    return _labels(boxes, right), wide


def _place_lanes(layout: Layout, right: bool, outside: bool, start: int) -> None:
    for place, lane in _coloured(layout, right, outside).items():
        away = LANE + lane * LANE
        layout.lanes[right, outside, place] = start + (away if right else -away)


def _coloured(layout: Layout, right: bool, outside: bool) -> dict[str, int]:
    """Place -> lane. Short lanes are inside; two that overlap in height never share one."""
    spans: dict[str, list[int]] = {}
    for box in [*layout.boxes.values(), *layout.frames.values()]:
        for port in box.side(right):
            if port.outside == outside:
                spans.setdefault(port.way, []).append(port.at)
    lanes: dict[str, int] = {}
    for place, heights in sorted(spans.items(), key=lambda item: (max(item[1]) - min(item[1]), min(item[1]))):
        clash = {lanes[other] for other in lanes if _meet(heights, spans[other])}
        lanes[place] = next(lane for lane in range(len(spans)) if lane not in clash)
    return lanes


def _meet(one: Sequence[int], other: Sequence[int]) -> bool:
    return min(one) <= max(other) + PORT and min(other) <= max(one) + PORT
