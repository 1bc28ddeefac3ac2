"""`flyball serve` as a command, and its pages in a real browser."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.helpers import FIXED, Place, eventually
from tests.web.browser import DESK, PHONE, Browser, program

CI = {"write": {".github/workflows/ci.yml": "on: push\n", "calc.py": FIXED}}
TEXT = "document.body.innerText"
PRESS = "[...document.querySelectorAll('button')].find(one => one.value == '{verb}').click()"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.clear()


def served(place: Place, *more: str) -> tuple[subprocess.Popen[str], str]:
    """The command at work, and its first link."""
    started = place.start("serve", "--port", "0", *more)
    assert started.stdout
    return started, started.stdout.readline().split()[1]


def test_a_second_page_or_a_port_in_use_is_one_sentence(place: Place) -> None:
    started, link = served(place)
    second = place.fb("serve", "--port", "0")
    assert (second.code, second.out) == (2, "") and second.err.count("\n") == 1
    assert link.split("/")[2] in second.err and "already running" in second.err
    started.send_signal(signal.SIGTERM)
    assert started.wait(20) == 0 and started.stdout and started.stdout.read().endswith("Stopped.\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        third = place.fb("serve", "--port", str(taken.getsockname()[1]))
    assert third.code == 2 and "in use by another program" in third.err and third.err.count("\n") == 1
    assert "0 to 65535" in place.fb("serve", "--port", "70000").err.replace("<=x<=", " to ")


def test_killed_it_can_be_started_again_at_once(place: Place) -> None:
    started, link = served(place)
    started.kill()
    started.wait()
    port = link.split(":")[2].partition("/")[0]
    again = place.start("serve", "--port", port)
    assert again.stdout and port in again.stdout.readline()
    again.send_signal(signal.SIGINT)
    assert again.wait(20) == 0


@pytest.fixture
def browser() -> Iterator[Browser]:
    if not program():
        pytest.skip("no Chromium here: `make web` installs it")
    made = Browser()
    yield made
    made.close()


def test_a_person_signs_in_reads_and_answers(place: Place, browser: Browser) -> None:
    place.loop(CI, task="Add a workflow <b>now</b>")
    run = place.last()["run"]
    _, link = served(place)
    browser.open(link)
    assert browser.until(
        f"{TEXT}.includes('Waiting for you') && {TEXT}.includes('Add a workflow <b>now</b>')"
    )
    browser.follow("document.querySelector('main .rows a').click()")
    assert browser.until("location.pathname.endsWith('/inbox') && location.hash") == f"#q-{run}.1"
    assert browser.until(f"{TEXT}.includes('on: push')")
    browser.follow(PRESS.replace("{verb}", "approve"))
    assert browser.until(f"{TEXT}.includes('Answer saved: approve.')")
    assert browser.complaints() == []
    (asked,) = place.fb("inbox", "--json").json
    assert (asked["pending"]["verb"], asked["pending"]["how"]) == ("approve", "page")
    place.fb("resume", run)
    entries = place.fb("log", run, "--json").lines
    assert [(one["verb"], one["how"]) for one in entries if one["is"] == "Answered"] == [("approve", "page")]


def test_a_page_shows_what_is_new_by_itself_but_never_moves_a_form(place: Place, browser: Browser) -> None:
    _, link = served(place)
    browser.open(link)
    assert browser.until(f"{TEXT}.includes('Nothing is running.')")
    place.loop({"ask": "Which table?"}, task="First")
    assert browser.until(f"{TEXT}.includes('First')")
    browser.open(browser.run("document.baseURI") + "inbox")
    browser.run("document.querySelector('textarea').value = 'half a sent'")
    place.loop({"ask": "Which column?"}, task="Second")
    assert browser.until("!document.getElementById('news').hidden")
    assert browser.run("document.querySelector('textarea').value") == "half a sent"
    assert "Second" not in browser.run("document.querySelector('main').innerText")
    browser.follow("document.querySelector('#news button').click()")
    assert browser.until(f"{TEXT}.includes('Second')") and browser.complaints() == []


def test_every_page_fits_a_phone_and_a_desk_in_light_and_dark(place: Place, browser: Browser) -> None:
    long = "a" * 300
    place.loop({"write": {f"{long[:200]}.py": long}}, {"ask": long}, task=long)
    run = place.last()["run"]
    _, link = served(place)
    browser.open(link)
    assert browser.until(f"{TEXT}.includes('Overview')")
    base = browser.run("document.baseURI")
    for path in (
        "",
        "inbox",
        "runs",
        "stats",
        f"run/{run}",
        f"run/{run}/diff",
        f"run/{run}/certificate",
        "run/none",
    ):
        browser.open(base + path)
        for size in (PHONE, DESK):
            pictures = {browser.look(size, dark) for dark in (False, True)}
            assert len(pictures) == 2, f"{path}: dark looks like light"
            wide = browser.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide == 0, f"{path} is {wide} pixels too wide at {size}"
        complaints = [one for one in browser.complaints() if "404" not in one]
        assert complaints == [], path


def test_a_browser_is_told_when_the_page_is_gone(place: Place, browser: Browser) -> None:
    started, link = served(place)
    browser.open(link)
    assert browser.until(f"{TEXT}.includes('Overview')")
    started.send_signal(signal.SIGTERM)
    started.wait(20)
    assert eventually(lambda: browser.run("!document.getElementById('lost').hidden"))
