"""`flyball machines`: what is printed is the machine, whole, in every form; a fault is a sentence and exit code 2."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from tests.e2e.results_helpers import environment, facts, flyball, make_repo

from flyball.domain.machine import Machine, edges, parse
from flyball.machines import SHIPPED, shipped
from flyball.views import diagram, drawing
from flyball.views.layout import LETTER, LINE, Box, laid_out

WORKING = [
    "pending",
    "assigned",
    "planning",
    "validated",
    "in_progress",
    "testing",
    "quality_review",
    "approved",
    "committing",
]
EDGES = {
    "build": "plan>write write>test write>verify test>fix test>verify fix>test fix>write verify>complete verify>write",
    "loop": "closed>closed closed>open closed>complete open>half_open half_open>closed half_open>open half_open>complete",
    "review": "init>working init>failed working>reviewing working>complete working>failed reviewing>working "
    "reviewing>complete reviewing>failed",
    "cto": "IDLE>PLANNING IDLE>WAITING_FOR_HUMAN PLANNING>EXECUTING PLANNING>WAITING_FOR_HUMAN PLANNING>IDLE "
    "EXECUTING>WAITING_FOR_HUMAN EXECUTING>PLANNING EXECUTING>IDLE WAITING_FOR_HUMAN>EXECUTING "
    "WAITING_FOR_HUMAN>PLANNING WAITING_FOR_HUMAN>IDLE",
    "task": " ".join(
        [
            *(f"{a}>{b}" for a, b in zip(WORKING, [*WORKING[1:], "completed"], strict=True)),
            "planning>planning testing>in_progress quality_review>in_progress committing>in_progress",
            *(f"{a}>cto_intervention cto_intervention>{a} human_escalation>{a}" for a in WORKING),
            "cto_intervention>human_escalation human_escalation>completed",
        ]
    ),
}
OWN = """
name = "mine"
start = "work"
[states]
work = { do = "agent:worker", on = { worked = "work", done = "end", unproven = "work" } }
end = { end = "success" }
[anywhere]
on = { blocked = "@blocked", exhausted = "@fail", timeout = "@fail", error = "@fail", cancel = "@cancel" }
[most]
turns = 5
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path / "home")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "repo", {".flyball/machines/mine.toml": OWN})


def pairs(text: str) -> set[tuple[str, ...]]:
    return {tuple(pair.split(">")) for pair in text.split()}


# ---- show


@pytest.mark.parametrize("name", SHIPPED)
def test_the_facts_hold_exactly_the_edges_between_states(name: str) -> None:
    told = diagram.facts(shipped(name))
    found = [(edge["from"], edge["to"]) for edge in told["edges"]]
    assert set(found) == pairs(EDGES[name])
    assert len(found) == len(set(found))
    assert all(edge["on"] for edge in told["edges"])


def test_show_json_has_the_shape_that_programs_rely_on(env: dict[str, str], tmp_path: Path) -> None:
    told = facts(flyball(env, "machines", "show", "review", "--json", cwd=tmp_path))
    assert list(told) == ["name", "start", "states", "edges", "anywhere", "most", "within", "alert"]
    assert told["states"] == ["init", "working", "reviewing", "complete", "failed"]
    first = {"from": "init", "to": "failed", "on": ["cannot_start", "exhausted", "timeout", "error"]}
    assert first in told["edges"]
    assert told["most"] == {"iterations": 10}
    assert told["within"] == {"working": "1h", "reviewing": "1h"}


@pytest.mark.parametrize("name", SHIPPED)
def test_the_table_fits_one_screen_and_names_every_state_and_outcome(name: str) -> None:
    machine = shipped(name)
    lines = diagram.table(machine, 100).splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 100
    text = "\n".join(lines)
    for state in machine.states.values():
        assert re.search(rf"^{state.name} ", text, re.M)
        assert all(outcome in text for outcome in state.on)


@pytest.mark.parametrize("name", SHIPPED)
def test_mermaid_has_every_edge_the_start_and_the_ends(name: str) -> None:
    machine = shipped(name)
    drawn = set(re.findall(r"^    (\w+) --> (\w+) : ", diagram.mermaid(machine), re.M))
    assert drawn == set(edges(machine))
    assert f"    [*] --> {machine.start}\n" in diagram.mermaid(machine)


def test_a_name_that_mermaid_would_misread_gets_an_alias() -> None:
    machine = parse(
        {
            "name": "m",
            "start": "to-do",
            "states": {"to-do": {"do": "ask", "on": {"x": "end"}}, "end": {"end": "success"}},
        }
    )
    text = diagram.mermaid(machine)
    assert 'state "to-do" as s0' in text
    assert 'state "end" as s1' in text
    assert "s0 --> s1 : x" in text


def test_a_repositorys_own_machine_is_shown_from_any_folder_of_it(env: dict[str, str], repo: Path) -> None:
    below = repo / "deep" / "below"
    below.mkdir(parents=True)
    shown = flyball(env, "machines", "show", "mine", cwd=below)
    assert shown.returncode == 0
    assert "worked, unproven → work · done → end" in shown.stdout
    listed = facts(flyball(env, "machines", "ls", "--json", cwd=below))
    assert [row["name"] for row in listed] == [*SHIPPED, "mine"]


@pytest.mark.parametrize("name", ["nope", "../machines/build", ""])
def test_an_unknown_machine_is_one_sentence_and_exit_2(env: dict[str, str], repo: Path, name: str) -> None:
    done = flyball(env, "machines", "show", name, cwd=repo)
    assert (done.returncode, done.stdout) == (2, "")
    assert "build, loop, review, task, cto, mine." in done.stderr
    assert done.stderr.count("\n") == 1


# ---- the picture


@pytest.mark.parametrize("name", SHIPPED)
def test_the_picture_is_well_formed_and_names_every_state(name: str) -> None:
    root = ElementTree.fromstring(drawing.svg(shipped(name)))
    states = [g.get("data-state") for g in root.iter("{http://www.w3.org/2000/svg}g")]
    assert states == list(shipped(name).states)
    assert "<script" not in drawing.svg(shipped(name))


def rectangles(machine: Machine) -> list[tuple[int, int, int, int]]:
    """Every box and every label, as left, top, right, bottom."""
    layout = laid_out(machine)
    found = [(b.x, b.y, b.x + b.width, b.y + b.height) for b in layout.boxes.values()]
    for box in [*layout.boxes.values(), *layout.frames.values()]:
        found += [r for right in (False, True) for r in labels(box, right)]
    for down in layout.downs:
        source = layout.boxes[down.source]
        x, y = source.x + source.width // 2 + 8, source.y + source.height + 4
        found.append((x, y, x + width(down.label), y + LINE * len(down.label)))
    return found


def labels(box: Box, right: bool) -> list[tuple[int, int, int, int]]:
    found: list[tuple[int, int, int, int]] = []
    for port in box.side(right):
        if port.label:
            left = box.x + box.width + 7 if right else box.x - 7 - width(port.label)
            found.append((left, port.at - 2 - LINE * len(port.label), left + width(port.label), port.at - 2))
    return found


def width(label: tuple[str, ...]) -> int:
    return max(map(len, label)) * LETTER


@pytest.mark.parametrize("name", SHIPPED)
def test_nothing_in_the_picture_lies_on_top_of_anything_else(name: str) -> None:
    found = rectangles(shipped(name))
    for number, (left, top, right, bottom) in enumerate(found):
        for other in found[number + 1 :]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top, (
                found[number],
                other,
            )


@pytest.mark.parametrize("name", SHIPPED)
def test_no_lane_runs_through_a_box_or_a_label_and_no_two_share_a_line(name: str) -> None:
    layout = laid_out(shipped(name))
    spans: dict[tuple[bool, bool, str], list[int]] = {}
    for box in [*layout.boxes.values(), *layout.frames.values()]:
        for right in (False, True):
            for port in box.side(right):
                spans.setdefault((right, port.outside, port.way), []).append(port.at)
    for key, heights in spans.items():
        x = layout.lanes[key]
        for left, top, right_, bottom in rectangles(shipped(name)):
            assert not (left < x < right_ and top < max(heights) and min(heights) < bottom)
        for other, theirs in spans.items():
            apart = max(heights) < min(theirs) or max(theirs) < min(heights)
            assert other == key or layout.lanes[other] != x or apart


def test_the_picture_is_printed_and_where_a_run_stands_can_stand_out(
    env: dict[str, str], tmp_path: Path
) -> None:
    shown = flyball(env, "machines", "show", "task", "--svg", cwd=tmp_path)
    assert shown.stdout == drawing.svg(shipped("task"))
    assert drawing.svg(shipped("task"), here="testing").count('class="box here"') == 1
    assert "prefers-color-scheme:dark" in shown.stdout


# ---- check


def test_a_machine_without_fault_passes(env: dict[str, str], repo: Path) -> None:
    done = flyball(env, "machines", "check", ".flyball/machines/mine.toml", cwd=repo)
    assert (done.returncode, done.stderr) == (0, "")
    assert "'mine'" in done.stdout and "2 states" in done.stdout


def test_every_fault_is_a_sentence_of_its_own(env: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(OWN.replace('done = "end"', 'done = "gone"').replace('error = "@fail", ', ""))
    done = flyball(env, "machines", "check", file, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert any("'done' leads to 'gone', which is not a state" in line for line in lines)
    assert any("does not say where 'error' leads" in line for line in lines)
    told = facts(flyball(env, "machines", "check", file, "--json", cwd=tmp_path))
    assert (told["ok"], len(told["faults"])) == (False, len(lines))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("turns = 5", ""), "Nothing bounds the cycle work → work"),
        (
            ('end = { end = "success" }', 'end = { end = "success" }\nlost = { end = "failure" }'),
            "'lost' is never entered",
        ),
        (('done = "end", ', ""), "'end' is never entered"),
        (('do = "agent:worker"', 'do = "run:nowhere"'), "'work' runs the machine 'nowhere'"),
        (("[states]", "[states"), "is not valid TOML"),
    ],
)
def test_a_fault_is_found_before_anything_runs(
    env: dict[str, str], tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    file = tmp_path / "m.toml"
    text = OWN.replace(*change)
    file.write_text(text.replace("worked", "success") if "run:" in text else text)
    done = flyball(env, "machines", "check", file, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_file_that_is_not_there_is_one_sentence(env: dict[str, str], tmp_path: Path) -> None:
    done = flyball(env, "machines", "check", "gone.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Cannot read" in done.stderr
