"""HUMAN-4: an agent that speaks for a person is refused, whatever way it takes, and the try can be seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from tests.e2e.helpers import ACCEPTS, Place

from flyball.agents import process, sandbox
from flyball.authority import person
from flyball.cli import COMMANDS, PERSONAL, cli
from flyball.domain.messages import Answer, Tell, decode, encode, for_who_works
from flyball.errors import ConfigError
from flyball.journal import Message
from flyball.journal.database import Driver
from flyball.journal.sqlite import SqliteJournal

IMPOSTOR = Path(__file__).with_name("impostor.py")
ASKS = {"planner": [{"say": "plan"}], "coder": [{"ask": "Which table?"}, {"write": {"a.txt": "x"}}]}


def asking(place: Place) -> dict[str, Any]:
    """Somebody else's run, which waits for a person."""
    assert (
        place.fb("run", "Ask", "--agent", place.script("asks", **ASKS), "--set", "proof.commands=[]").code
        == 3
    )
    (one,) = place.fb("inbox", "--json").json
    return one


def impostor(place: Place, one: dict[str, Any], box: str, *ways: str) -> dict[str, str]:
    """A second run whose agent tries these ways, or all; what came of each."""
    (place.repo / "impostor.py").write_text(IMPOSTOR.read_text())
    place.git("add", "impostor.py")
    place.git("commit", "-qm", "An agent")
    words = " ".join((str(place.state), one["run"], one["question"], *ways))
    others = place.script("others", planner=[{"say": "plan"}], critic=ACCEPTS)
    coder = f"coder=command:{sys.executable} -P impostor.py {words}"
    sets = ("--set", "proof.commands=[]", "--set", f"guard.sandbox={box}")
    done = place.fb("run", "Try", "--agent", others, "--agent", coder, *sets)
    assert done.code == 0, done.out + done.err
    lines = [entry.get("result", {}).get("message", "") for entry in place.fb("log", "@last", "--json").lines]
    rows = [json.loads(row) for line in lines for row in line.splitlines() if row.startswith('{"way"')]
    return {row["way"]: row["fate"] for row in rows}


def refused(place: Place, run: str) -> list[str]:
    entries = place.fb("log", run, "--json").lines
    return [entry["reason"] for entry in entries if entry["is"] == "LetterRefused"]


def test_without_a_sandbox_every_way_is_refused_and_each_try_is_seen(place: Place) -> None:
    one = asking(place)
    assert place.fb("tell", one["run"], "hello").code == 0
    fates = impostor(place, one, "none")
    assert len(fates) == 8
    for way in ("by_cli", "by_clean_environment", "by_daemon", "by_import"):
        assert "only a person may do that" in fates[way], (way, fates[way])
    assert "only a person may do that" in fates["by_namespace"] or "unshare" in fates["by_namespace"]
    seen = [reason.partition(":")[0] for reason in refused(place, "@last")]
    kinds = [f"an agent tried '{verb}' for a person" for verb in ("answer", "cancel", "stop")]
    assert seen[:3] == kinds and len(set(seen)) == len(seen), "of each kind of try one record is enough"
    assert place.fb("inbox", "--json").json[0]["answered"] is False
    assert place.fb("show", "@last", "--json").json["answers_out_of_reach"] is False
    assert place.fb("answer", one["question"], "The second").code == 0
    assert place.fb("resume", one["run"]).code == 0
    assert [reason.partition(":")[0] for reason in refused(place, one["run"])] == [
        "it is not signed",
        "its signature is wrong",
        "it was used before",
    ]
    answers = [entry for entry in place.fb("log", one["run"], "--json").lines if entry["is"] == "Answered"]
    assert [entry["text"] for entry in answers] == ["The second"]


@pytest.mark.parametrize("box", ["bwrap", "landlock"])
def test_in_a_sandbox_every_way_ends_at_a_wall(place: Place, box: str) -> None:
    if sandbox.probe(box).kind != box:
        pytest.skip(f"{box} does not work here")
    one = asking(place)
    fates = impostor(place, one, box, "by_cli", "by_daemon", "by_import", "by_message")
    assert len(fates) == 4
    assert [way for way in ("by_cli", "by_daemon", "by_import") if fates[way].startswith("0 ")] == []
    assert place.fb("inbox", "--json").json[0]["answered"] is False
    journal = SqliteJournal(place.state / "journal.db")
    assert journal.mail(one["run"]) == [], "what was posted went to a file of the sandbox's own"
    journal.close()
    assert place.fb("show", "@last", "--json").json["answers_out_of_reach"] is True


def test_every_verb_that_speaks_for_a_person_goes_through_the_one_door(place: Place) -> None:
    one = asking(place)
    env = {**place.env, "FLYBALL_RUN": one["run"]}

    def said(*words: str) -> str:
        return str(CliRunner().invoke(cli, words, env=env).exception)

    alone = dict.fromkeys(("init", "trust", "up", "down", "hold", "release", "uninstall", "serve"), ())
    more = {
        **alone,
        "trigger": ("ci", "--text", "x"),
        "tell": (one["run"], "x"),
        "allow": (one["run"], "example.org"),
    }
    for verb in PERSONAL:
        assert verb in COMMANDS
        assert "only a person" in said(verb, *more.get(verb, (one["run"],))), verb
    assert "only a person" in said("run", "x", "--trust")
    assert "only a person" in said("task", "add", "x")
    for words in (("approve", "--help"), ("tell", one["run"], "-h"), ("inbox",), ("log", one["run"])):
        assert said(*words) == "None"


@pytest.mark.parametrize(
    "words",
    [
        *(("trust", "--repo", "-h"), ("init", "--repo", "--help"), ("tell", "@last", "--", "-h")),
        *(("answer", "q.1", "--", "--help"), ("run", "--trust", "--repo", "-h", "x")),
        *(("run", "--trust", "--set", "--help", "x"), ("retry", "--set", "-h", "@last")),
    ],
    ids=" ".join,
)
def test_a_word_that_looks_like_asking_for_help_opens_no_door(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """The process counts as an agent's here: it is in another PID namespace than the one who drives."""
    driver = Driver(tmp_path, "other")
    (tmp_path / "drivers" / "other.lock").write_text("pid:[1]")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, words, env={"FLYBALL_STATE_DIR": str(tmp_path)})
    driver.close()
    assert "only a person" in str(done.exception)


def test_a_run_of_another_house_makes_nobody_an_agent_here(tmp_path: Path) -> None:
    """Flyball's own tests answer questions inside a run of an outer Flyball."""
    marked = {"FLYBALL_RUN": "22222222"}
    assert person.agent_above(tmp_path, marked, lambda _: False) is None
    found = person.agent_above(tmp_path, marked, lambda run: run == "22222222")
    assert found == person.Agent("22222222", "its environment is that of run 22222222")


def test_another_pid_namespace_than_the_drivers_is_no_persons(tmp_path: Path) -> None:
    driver = Driver(tmp_path, "other")
    assert person.agent_above(tmp_path, {}, lambda _: False) is None
    (tmp_path / "drivers" / "other.lock").write_text("pid:[1]")
    found = person.agent_above(tmp_path, {}, lambda _: False)
    driver.close()
    assert found is not None and "PID namespace" in found.how
    assert person.agent_above(tmp_path, {}, lambda _: False) is None, "nobody drives any more"


def test_what_a_keeper_adopts_is_still_below_it(tmp_path: Path) -> None:
    """A daemon of two forks has the keeper for its parent, so it is known by it, whatever its environment."""
    state = tmp_path / "state"
    act = state / "acts" / "r1-1"
    inner = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        time.sleep(0.3)\n"
        "        from pathlib import Path\n"
        "        from flyball.authority import person\n"
        "        found = person.agent_above(Path(sys.argv[1]), {}, lambda _: False)\n"
        "        os.write(1, (found.how if found else 'a person').encode())\n"
        "    os._exit(0)\n"
        "time.sleep(20)\n"
    )
    spec = process.Spec(argv=(sys.executable, "-c", inner, str(state)), cwd=str(tmp_path), env={})
    process.begin(act, spec)
    heard: list[bytes] = []
    stop = process.Stop()

    def hear(data: bytes) -> None:
        heard.append(data)
        stop.set(now=True)

    process.attend(act, on_output=hear, stop=stop)
    stop.close()
    assert b"".join(heard) == b"its process descends from the keeper of act r1-1"


# ---- seals -------------------------------------------------------------------------------------------------


@pytest.fixture
def seals(tmp_path: Path) -> person.Seals:
    return person.Seals(tmp_path)


def message(body: bytes, number: int = 1, run: str = "r1") -> Message:
    return Message(id=number, run=run, at=0, body=body, taken=False)


def test_a_seal_is_for_one_run_these_words_and_one_message(seals: person.Seals) -> None:
    body = seals.sealed("r1", encode(Answer(question="r1.1", verb="approve", data={"b": 1, "a": 2})))
    changed = body.replace(b'"approve"', b'"reject"')
    assert changed != body
    assert seals.fault(message(body)) == ""
    assert seals.fault(message(body, run="r2")).startswith("its signature is wrong")
    assert seals.fault(message(changed)).startswith("its signature is wrong")
    assert seals.fault(message(body), use=True) == ""
    assert seals.fault(message(body), use=True) == "", "after a crash the same message is taken again"
    assert seals.fault(message(body, 2), use=True).startswith("it was used before")


@pytest.mark.parametrize("body", [b"", b"\xff{", b"[]", b'{"is": "Tell", "text": "x"}', b'{"nonce": "../x"}'])
def test_a_message_without_a_seal_does_not_count(seals: person.Seals, body: bytes) -> None:
    assert seals.fault(message(body), use=True).startswith("it is not signed")


@pytest.mark.parametrize("deep", [900, 100_000])
def test_a_message_nested_too_deeply_is_refused_whoever_sealed_it(seals: person.Seals, deep: int) -> None:
    body = b'{"is":"Answer","question":"q","verb":"v","data":{"a":%s}}' % (b"[" * deep + b"]" * deep)
    marked = body[:-1] + b',"nonce":"%s","seal":"x"}' % (b"0" * 32)
    assert for_who_works(body) is False
    assert seals.fault(message(body), use=True).startswith("it is not signed")
    assert seals.fault(message(marked), use=True)
    with pytest.raises(msgspec.MsgspecError):
        decode(b'{"is":"Tell","text":"x","more":%s}' % (b"[" * 100_000 + b"]" * 100_000))


def test_a_seal_that_cannot_be_marked_as_used_refuses_the_message_in_a_sentence(seals: person.Seals) -> None:
    body = seals.sealed("r1", encode(Tell(text="x")))
    (seals.state_dir / person.USED).write_text("in the way")
    assert seals.fault(message(body), use=True).startswith("it cannot be marked as used: ")
    (seals.state_dir / person.USED).unlink()
    assert seals.fault(message(body), use=True) == ""


def test_a_mark_that_was_never_finished_belongs_to_no_message(seals: person.Seals) -> None:
    """What a full disk leaves lets nobody use a seal twice."""
    body = seals.sealed("r1", encode(Tell(text="x")))
    place = seals.state_dir / person.USED / "r1" / json.loads(body)["nonce"]
    place.parent.mkdir(parents=True)
    place.touch()
    assert [seals.fault(message(body, n), use=True)[:18] for n in (1, 2)] == ["it was used before"] * 2


def test_the_seals_of_a_run_that_is_over_are_forgotten(seals: person.Seals) -> None:
    for run in ("r1", "r2"):
        body = seals.sealed(run, encode(Tell(text="x")))
        assert seals.fault(message(body, run=run), use=True) == ""
    seals.sweep(lambda run: run == "r1")
    assert [folder.name for folder in (seals.state_dir / person.USED).iterdir()] == ["r2"]


def test_the_key_is_the_users_alone(seals: person.Seals) -> None:
    seals.sealed("r1", encode(Tell(text="x")))
    key = seals.state_dir / person.KEY
    assert key.stat().st_mode & 0o777 == 0o600 and len(key.read_bytes()) == 32
    key.chmod(0o644)
    with pytest.raises(ConfigError, match="can be read by other users"):
        seals.sealed("r1", encode(Tell(text="x")))


def test_two_who_make_the_key_at_once_have_the_same(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from flyball.authority.person import Seals;"
        "from flyball.domain.messages import Tell, encode;"
        "sys.stdin.read(); sys.stdout.buffer.write(Seals(Path(sys.argv[1])).sealed('r', encode(Tell(text='x'))))"
    )
    argv = [sys.executable, "-c", code, str(tmp_path)]
    pipe = subprocess.PIPE
    several = [subprocess.Popen(argv, stdin=pipe, stdout=pipe, env=dict(os.environ)) for _ in range(3)]
    bodies = [one.communicate(b"go")[0] for one in several]
    seals = person.Seals(tmp_path)
    assert [seals.fault(message(body, n, "r")) for n, body in enumerate(bodies)] == ["", "", ""]


def test_of_every_command_it_is_known_whether_it_speaks_for_a_person() -> None:
    """These are known not to."""
    others = {
        *("demo", "run", "watch", "ls", "show", "why", "log", "inbox", "replay", "diff", "verify", "check"),
        *(
            "export",
            "machines",
            "guard",
            "hook",
            "prove",
            "simulate",
            "selftest",
            "agents",
            "config",
            "completion",
            "task",  # its verbs ask for themselves
            "stats",
            "brief",
            "du",
            "doctor",
            "mcp",  # starts runs and looks; it takes no answers
            "prune",  # only --yes removes anything, and asks for itself
        ),
    }
    unsaid = set(COMMANDS) - set(PERSONAL) - others
    assert not unsaid, (
        f"does {unsaid} speak for a person? Then it belongs into flyball.cli.PERSONAL, else here"
    )
