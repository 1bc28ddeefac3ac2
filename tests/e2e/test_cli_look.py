"""ls, show, why and log: they tell what is there, to people and to programs, and touch nothing."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.e2e.helpers import FIXED, REAL_PROOF, STILL_BROKEN, Place, command, make_repo, on_terminal

from flyball.cli import COMMANDS

ONE_OF_EACH = {module: name for name, module in COMMANDS.items()}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Generator[Place]:
    """A place in which one run succeeded (with a run below) and a later one asks."""
    place = Place(tmp_path_factory.mktemp("look"))
    done = {"finish": {"indicators": ["all done", "task complete"]}, "say": "All done."}
    spent = {"usage": {"cost_usd": 0.25, "input_tokens": 100, "output_tokens": 20}}
    worker = [{"write": {"calc.py": STILL_BROKEN}, **done, **spent}, {"write": {"calc.py": FIXED}, **done}]
    agent = place.script(worker=worker, planner=[{"say": "Turn the sign."}])
    first = ("run", "Fix add\nwith care", "--agent", agent, "--set", REAL_PROOF, "--set", "run.write=loop")
    assert place.fb(*first).code == 0
    assert place.run(place.script("asks", planner=[{"ask": "Really?"}]), task="Ask me").code == 3
    yield place


def succeeded(place: Place) -> str:
    return place.fb("ls", "--status", "ended", "--json").json[0]["run"]


def test_ls_lists_this_repositorys_runs_newest_first_without_children(seen: Place) -> None:
    rows = seen.fb("ls", "--json").json
    assert [(row["task"].split("\n")[0], row["code"]) for row in rows] == [
        ("Ask me", "wait.question"),
        ("Fix add", "completed"),
    ]
    assert (rows[1]["turns"], rows[1]["cost_usd"], rows[1]["driven"]) == (4, 0.25, False)
    table = seen.fb("ls").out.splitlines()
    assert table[0].split() == ["RUN", "STATUS", "MACHINE", "STATE", "TURNS", "COST", "AGE", "TASK"]
    assert len(table) == 3 and table[2].split()[:4] == [rows[1]["run"], "completed", "build", "complete"]
    assert (
        table[2].split()[5] == "$0.25" and table[1].split()[5] == "$0.00"
    )  # a script is known to cost nothing
    assert len(seen.fb("ls", "--children").out.splitlines()) == 5


def test_ls_keeps_to_its_repository_unless_all_are_asked_for(seen: Place, tmp_path: Path) -> None:
    make_repo(tmp_path / "other", {"a": "b\n"})
    assert seen.fb("ls", "--json", cwd=tmp_path / "other").json == []
    assert len(seen.fb("ls", "--all", "--json", cwd=tmp_path / "other").json) == 2
    assert len(seen.fb("ls", "--json", cwd=tmp_path).json) == 2
    header, *rows = seen.fb("ls", cwd=tmp_path).out.splitlines()
    assert header.split()[:3] == ["RUN", "REPOSITORY", "STATUS"]
    assert {row.split()[1] for row in rows} == {seen.repo.name}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--status", "foo"), 2, "'foo' is not one of 'running'"),
        (("--limit", "0"), 2, "'--limit'"),
        (("--status", "paused"), 0, "have the status 'paused'"),
    ],
)
def test_ls_refuses_a_filter_that_cannot_match_and_says_what_matched_nothing(
    seen: Place, words: tuple[str, str], code: int, says: str
) -> None:
    said = seen.fb("ls", *words)
    assert said.code == code and says in said.out + said.err


NO_RUN = ("diff", "log", "show", "verify", "watch", "why")  # look at the latest run if none is named
LOOKS = (*((verb, "@last") for verb in ("export", "log", "show", "why")), *((verb,) for verb in NO_RUN))
SPEAKS = (
    "answer",
    "approve",
    "cancel",
    "land",
    "pause",
    "resume",
    "retry",
    "rm",
    "rollback",
    "stop",
    "take-over",
)
ACTS = (
    *((verb, "@last") for verb in SPEAKS),
    ("tell", "@last", "x"),
    ("allow", "@last", "a.b"),
    ("reject", "@last.1"),
)


@pytest.mark.parametrize("words", [*LOOKS, *ACTS], ids=" ".join)
def test_the_last_run_is_never_one_of_another_repository(
    seen: Place, tmp_path: Path, words: tuple[str, ...]
) -> None:
    make_repo(tmp_path / "other", {"a": "b\n"})
    said = seen.fb(*words, cwd=tmp_path / "other")
    assert said.code == 2 and "No runs in this repository yet" in said.err


@pytest.mark.parametrize(
    ("words", "code"), [(("show", "@last"), 0), (("log",), 0), *((words, 2) for words in ACTS)]
)
def test_outside_of_any_repository_the_last_run_can_only_be_looked_at(
    seen: Place, tmp_path: Path, words: tuple[str, ...], code: int
) -> None:
    before = len(seen.fb("log", "--json").lines)
    said = seen.fb(*words, cwd=tmp_path)
    assert said.code == code and ("Ask me" in said.out or "not in a git repository" in said.err)
    assert len(seen.fb("log", "--json").lines) == before


def test_show_tells_settings_proofs_rulings_and_where_the_work_is(seen: Place) -> None:
    run = succeeded(seen)
    told = seen.fb("show", run, "--json").json
    assert (told["run"], told["end"], told["changed"]) == (run, "success", ["calc.py"])
    assert told["events"] == len([e for e in seen.fb("log", run, "--json").lines if e["run"] == run])
    assert [proof["passed"] for proof in told["proofs"]] == [False, False, True, True]
    assert len(told["children"]) == 2 and told["settings"]["write"] == "loop"
    said = seen.fb("show", run).out
    for part in (told["branch"], told["certificate_file"], "python3 -m unittest -q", "$0.25 of $5.00"):
        assert part in said


def test_show_and_why_name_the_open_question(seen: Place) -> None:
    for words in (("show", "@last"), ("why", "@last")):
        assert "flyball answer" in seen.fb(*words).out
    assert "Really?" in seen.fb("show", "@last").out


def test_why_is_three_sentences(seen: Place) -> None:
    run = succeeded(seen)
    said = seen.fb("why", run)
    assert said.code == 0 and len(said.out.splitlines()) == 3 and "completed" in said.out
    told = seen.fb("why", run, "--json").json
    assert "\n".join(told["why"]) == said.out.strip() and told["stop_reason"]["code"] == "completed"


def test_log_tells_every_event_of_a_run_and_those_below_in_order(seen: Place) -> None:
    run = succeeded(seen)
    events = seen.fb("log", run, "--json").lines
    assert len({event["run"] for event in events}) == 3
    assert [event["at"] for event in events] == sorted(event["at"] for event in events)
    assert len(seen.fb("log", run).out.splitlines()) == len(events)
    followed = seen.fb("log", run, "--follow", "--json").lines
    assert followed == events


def test_log_of_a_run_below_is_its_own(seen: Place) -> None:
    child = seen.fb("show", succeeded(seen), "--json").json["children"][0]
    assert {event["run"] for event in seen.fb("log", child, "--json").lines} == {child}


def test_log_output_shows_what_agents_and_proofs_wrote(seen: Place) -> None:
    said = seen.fb("log", succeeded(seen), "--output").out
    assert "Turn the sign." in said and "AssertionError" in said


@pytest.mark.parametrize("verb", ["show", "why", "log", "watch", "tell", "pause", "cancel", "stop"])
def test_an_unknown_run_is_one_sentence_and_exit_2(seen: Place, verb: str) -> None:
    said = seen.fb(verb, "no-run", *(["x"] if verb == "tell" else []))
    assert (said.code, said.out) == (2, "") and said.err.count("\n") == 1 and "no-run" in said.err


def test_a_name_of_other_bytes_than_utf8_is_unknown(seen: Place) -> None:
    said = seen.fb("show", "no-run\udcff", env={})
    assert (said.code, said.err.count("\n")) == (2, 1) and "no-run" in said.err


def test_a_run_may_be_named_by_a_unique_beginning(seen: Place) -> None:
    run = succeeded(seen)
    assert seen.fb("show", run[:6], "--json").json["run"] == run


@pytest.mark.parametrize("module", ONE_OF_EACH)
def test_every_command_starts_in_a_python_of_its_own(seen: Place, module: str) -> None:
    """Whatever it imports, in whatever order: nothing was there before it."""
    words = command(ONE_OF_EACH[module], "--help")
    done = subprocess.run(words, cwd=seen.folder, env=seen.env, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"") and b"Usage: flyball" in done.stdout


# ---- on a terminal ---------------------------------------------------------------------------------------

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
MARKS = "✓✗●⏸?"


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("words", [("ls", "--children"), ("show", "@last")])
def test_a_terminal_of_any_width_is_not_overrun(seen: Place, words: tuple[str, ...], width: int) -> None:
    screen = on_terminal(seen, width, *words)
    lines = ESCAPES.sub("", screen).splitlines()
    paths = (str(seen.folder),)  # a path is not broken, so that it can be copied
    assert max(len(line) for line in lines if not any(path in line for path in paths)) <= width
    assert "\x1b[" in screen and any(mark in line for line in lines for mark in MARKS)


@pytest.mark.parametrize("words", [("ls",), ("show", "@last"), ("why", "@last"), ("log", "@last")])
def test_with_no_color_a_terminal_gets_what_a_pipe_gets(seen: Place, words: tuple[str, ...]) -> None:
    screen = on_terminal(seen, 200, *words, env={"NO_COLOR": "1"})
    assert "\x1b" not in screen and not any(mark in screen for mark in "✓✗●⏸")


def test_run_on_a_terminal_ends_with_a_calm_summary(seen: Place) -> None:
    agent = seen.script("calm", coder=[{"write": {"calc.py": FIXED}}])
    for env in ({}, {"NO_COLOR": "1"}):
        words = ("run", "Fix add", "--agent", agent, "--set", REAL_PROOF)
        screen = on_terminal(seen, 80, *words, env=env)
        summary = ESCAPES.sub("", screen).split("completed:")[-1]
        run = seen.fb("ls", "--json").json[0]["run"]
        assert f"flyball land {run}" in summary and "calc.py" in summary
        assert ("\x1b[" in screen) is (not env)


# ---- stats -----------------------------------------------------------------------------------------------


def test_stats_add_up_the_runs_of_this_repository(seen: Place, tmp_path: Path) -> None:
    known = seen.fb("stats", "--json").json
    costs = {row["outcome"]: (row["tasks"], row["cost_usd"]) for row in known["cost_per_outcome"]}
    runs = len(seen.fb("ls", "--json").json)
    assert costs == {"completed": (runs - 1, 0.25), "open": (1, 0.0)}
    assert known["actions_per_task"]["turns"]["max"] == 4 and known["execution_s"]["median"] > 0
    assert known["questions"] == {"asked": 1, "open": 1}
    text = seen.fb("stats").out
    assert "verify → complete" in text and "$0.25" in text
    metrics = seen.fb("stats", "--prometheus").out
    assert 'flyball_cost_usd_total{outcome="completed"} 0.25' in metrics.splitlines()
    make_repo(tmp_path / "other", {"a": "b\n"})
    assert seen.fb("stats", "--json", cwd=tmp_path / "other").json["tasks"] == 0
    assert "no runs to count" in seen.fb("stats", cwd=tmp_path / "other").out
    assert seen.fb("stats", "--all", "--json", cwd=tmp_path / "other").json["tasks"] == runs


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--since", "soon"), "'soon' is not a time. Use a duration such as 7d"),
        (("--since", "99999-01-01"), "is not a time"),
        (("--json", "--prometheus"), "Choose one"),
    ],
)
def test_what_stats_does_not_understand_is_one_sentence(
    seen: Place, words: tuple[str, ...], complaint: str
) -> None:
    said = seen.fb("stats", *words)
    assert (said.code, said.out, len(said.err.splitlines())) == (2, "", 1) and complaint in said.err


@pytest.mark.parametrize(
    ("when", "some"), [("1h", 1), ("yesterday", 1), ("2020-01-31", 1), ("2999-01-01", 0)]
)
def test_stats_since_a_moment(seen: Place, when: str, some: bool) -> None:
    assert bool(seen.fb("stats", "--since", when, "--json").json["tasks"]) == bool(some)


# ---- brief -----------------------------------------------------------------------------------------------


def test_the_brief_says_what_waits_what_was_done_and_what_it_cost(seen: Place) -> None:
    run = succeeded(seen)
    text = seen.fb("brief").out
    waits, done = text.index("## Waiting for you (1)"), text.index("## Done")
    assert text.startswith("# ") and waits < done < text.index("## Cost")
    assert "**Ask me**" in text[waits:done] and "`flyball answer" in text[waits:done]
    assert "$0.25" in text[done:] and "on branch `flyball/" in text[done:]
    known = seen.fb("brief", "--json", "--all").json
    assert known["waiting"][0]["question"] and known["cost_usd"] == 0.25
    assert "completed" in {task["outcome"] for task in known["tasks"]} and run


def test_a_brief_of_nothing_still_says_what_waits(seen: Place, tmp_path: Path) -> None:
    text = seen.fb("brief", "--since", "2999-01-01").out
    assert "## Waiting for you (1)" in text and "Nothing was completed." in text
    make_repo(tmp_path / "other", {"a": "b\n"})
    empty = seen.fb("brief", cwd=tmp_path / "other").out
    assert "## Waiting for you\n\nNothing." in empty and "0 turns, $0.00." in empty
    said = seen.fb("brief", "--since", "soon")
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)


def test_what_nobody_measured_is_said_at_the_start_and_shown_as_unknown(tmp_path: Path) -> None:
    place = Place(tmp_path)
    bounds = ("--set", "proof.commands=[]", "--set", "limits.turns=1")
    ran = place.fb("run", "Look", "--machine", "loop", "--agent", "command:echo hello", *bounds)
    assert "The cost of command:echo hello may not be known to Flyball" in " ".join(ran.out.split())
    shown = place.fb("show", "@last").out
    assert re.search(r"cost +– of \$5.00", shown) and re.search(r"tokens +– of 2,000,000", shown)
    place.clear()
