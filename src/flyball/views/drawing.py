"""A machine as an SVG picture, for light and dark backgrounds, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from flyball.domain.machine import WAITING_ACTS, Machine, State
from flyball.domain.settings import show_duration
from flyball.views.diagram import MEANINGS, leads
from flyball.views.layout import HEAD, LETTER, LINE, MARGIN, Box, Down, Layout, Port, laid_out

ROUND = 7
NOTE_MOST = 20  # lines below the picture

STYLE = """\
.ground{fill:#ffffff}.box{fill:#f5f7fa;stroke:#8b96a8;stroke-width:1.2}.frame{fill:none;stroke:#aab3c2;stroke-dasharray:5 4}
.line{fill:none;stroke:#66718a;stroke-width:1.3}.head{fill:#66718a}text{fill:#3d4759;font:12px system-ui,sans-serif}
.name{fill:#161c28;font-weight:600;font-size:14px}.does{fill:#66718a}.title{fill:#161c28;font-weight:700;font-size:17px}
.agent{fill:#2f6fde}.run{fill:#8250df}.act{fill:#7d8899}.person{fill:#c77700}.success{fill:#1a7f4b}.failure{fill:#c93c37}
.box.good{stroke:#1a7f4b;stroke-width:2}.box.bad{stroke:#c93c37;stroke-width:2}.box.here{stroke:#c77700;stroke-width:3}
@media (prefers-color-scheme:dark){.ground{fill:#10141b}.box{fill:#1a212c;stroke:#5b677c}.frame{stroke:#4a566b}
.line{stroke:#93a0b5}.head{fill:#93a0b5}text{fill:#c3ccda}.name,.title{fill:#eef2f8}.does{fill:#93a0b5}
.agent{fill:#6ea8fe}.run{fill:#b392f0}.act{fill:#8492a8}.person{fill:#f0a640}.success{fill:#3fb970}.failure{fill:#ff7b72}
.box.good{stroke:#3fb970}.box.bad{stroke:#ff7b72}.box.here{stroke:#f0a640}}
"""


def svg(machine: Machine, here: str = "") -> str:
    """The picture of a machine; the state `here` is highlighted."""
    layout = laid_out(machine)
    notes = _notes(machine)
    width = max(layout.width, max(len(note) for note in notes) * LETTER + 2 * MARGIN)
    height = layout.height + len(notes) * (LINE + 4) + 2 * MARGIN
    name = escape(machine.name)
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        f"<title>The machine {name}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="ground" width="{width}" height="{height}"/>',
        _text(MARGIN, 30, machine.name, "title"),
        *_frames(layout),
        *_lanes(layout),
        *(_down(layout, down) for down in layout.downs),
        *_start(machine, layout.boxes[machine.start]),
        *(
            part
            for state in machine.states.values()
            for part in _state(state, layout.boxes[state.name], here)
        ),
        *(part for box in layout.boxes.values() for part in _labels(box)),
        *(part for frame in layout.frames.values() for part in _labels(frame)),
        *_footer(notes, layout.height + MARGIN),
        "</svg>",
    ]
    return "\n".join(body) + "\n"


def _text(x: int, y: int, words: str, kind: str = "", anchor: str = "") -> str:
    attribute = f' class="{kind}"' if kind else ""
    placed = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x}" y="{y}"{attribute}{placed}>{escape(words)}</text>'


# ---- states ---------------------------------------------------------------------------------------------


def _state(state: State, box: Box, here: str) -> Iterator[str]:
    kind = {"success": " good", "failure": " bad"}.get(state.end, "") + (
        " here" if state.name == here else ""
    )
    yield f'<g data-state="{escape(state.name)}">'
    yield f'<rect class="box{kind}" x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="{ROUND}"/>'
    yield f'<rect class="{_kind(state)}" x="{box.x + 8}" y="{box.y + 9}" width="4" height="{box.height - 18}" rx="2"/>'
    middle = box.y + box.height // 2
    yield _text(box.x + 22, middle - 3, state.name, "name")
    yield _text(box.x + 22, middle + 13, f"ends in {state.end}" if state.end else state.do, "does")
    yield "</g>"


def _kind(state: State) -> str:
    if state.end:
        return state.end
    if state.act in WAITING_ACTS:
        return "person"
    return state.act if state.act in ("agent", "run") else "act"


def _start(machine: Machine, box: Box) -> Iterator[str]:
    """A dot with an arrow into the start state from above; inside the box if another state is above it."""
    first = next(iter(machine.states)) == machine.start
    x = box.x + box.width // 2
    if not first:
        yield f'<circle class="head" cx="{box.x + box.width - 14}" cy="{box.y + box.height // 2}" r="5"/>'
        return
    yield f'<circle class="head" cx="{x}" cy="{HEAD - 26}" r="5"/>'
    yield f'<path class="line" d="M{x} {HEAD - 26}V{box.y - 6}"/>' + _arrow(x, box.y, "down")


# ---- edges ----------------------------------------------------------------------------------------------


def _down(layout: Layout, down: Down) -> str:
    source, target = layout.boxes[down.source], layout.boxes[down.target]
    x, top = source.x + source.width // 2, source.y + source.height
    label = [_text(x + 8, top + 16 + LINE * n, line) for n, line in enumerate(down.label)]
    return (
        f'<path class="line" d="M{x} {top}V{target.y - 6}"/>' + _arrow(x, target.y, "down") + "".join(label)
    )


def _lanes(layout: Layout) -> Iterator[str]:
    for box in [*layout.boxes.values(), *layout.frames.values()]:
        for right in (False, True):
            for port in box.side(right):
                yield _edge(layout, box, port, right)


def _edge(layout: Layout, box: Box, port: Port, right: bool) -> str:
    """From a port to its lane and along the lane; with an arrow where it arrives."""
    lane = layout.lanes[right, port.outside, port.way]
    x = box.x + box.width if right else box.x
    if port.into:
        tip, bent = (x + 6, lane - ROUND) if right else (x - 6, lane + ROUND)
        return f'<path class="line" d="M{bent} {port.at}H{tip}"/>' + _arrow(
            x, port.at, "left" if right else "right"
        )
    end = next(p.at for p in layout.box(port.way).side(right) if p.into and p.outside == port.outside)
    turn = ROUND if end > port.at else -ROUND
    back = ROUND if lane > x else -ROUND
    bend = f"H{lane - back}Q{lane} {port.at} {lane} {port.at + turn}V{end - turn}Q{lane} {end} {lane - back} {end}"
    return f'<path class="line" d="M{x} {port.at}{bend}"/>'


def _labels(box: Box) -> Iterator[str]:
    for right in (False, True):
        x, anchor = (box.x + box.width + 7, "start") if right else (box.x - 7, "end")
        for port in box.side(right):
            for n, line in enumerate(reversed(port.label)):
                yield _text(x, port.at - 4 - LINE * n, line, anchor=anchor)


def _arrow(x: int, y: int, towards: str) -> str:
    points = {
        "down": ((x, y), (x - 4, y - 8), (x + 4, y - 8)),
        "left": ((x, y), (x + 8, y - 4), (x + 8, y + 4)),
        "right": ((x, y), (x - 8, y - 4), (x - 8, y + 4)),
    }[towards]
    return f'<path class="head" d="M{" ".join(f"{a},{b}" for a, b in points)}Z"/>'


def _frames(layout: Layout) -> Iterator[str]:
    for name, box in layout.frames.items():
        yield f'<rect class="frame" x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="10"/>'
        yield _text(box.x + 12, box.y + 18, name, "does")


# ---- below ----------------------------------------------------------------------------------------------


def _notes(machine: Machine) -> list[str]:
    """What applies to all states, as lines."""
    targets = {outcome: MEANINGS.get(target, target) for outcome, target in machine.anywhere.items()}
    notes = [f"in any state: {part}" for part in leads(targets).split(" · ") if part]
    if machine.most:
        notes.append("at most " + ", ".join(f"{count} {name}" for name, count in machine.most.items()))
    for title, spans in (("within", machine.within_us), ("alert after", machine.alert_us)):
        notes += [
            f"{title} {show_duration(us)}: {', '.join(_of(spans.items(), us))}"
            for us in dict.fromkeys(spans.values())
        ]
    return notes[:NOTE_MOST] or [""]


def _of(spans: Iterable[tuple[str, int]], number: int) -> list[str]:
    return [state for state, us in spans if us == number]


def _footer(notes: Sequence[str], y: int) -> Iterator[str]:
    for number, note in enumerate(notes, 1):
        yield _text(MARGIN, y + number * (LINE + 4), note, "does")
