"""One turn of a real command line against a scripted model on loopback: does Flyball still understand it?"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from msgspec import Struct

from flyball.acts.live_turn import Dialogue
from flyball.agents import process
from flyball.agents.adapter import AgentResult, Answer, Talks, TurnRequest, adapter
from flyball.reading.streams import Transcript
from flyball.testing.model import ScriptedModel
from flyball.testing.vendors import Vendor

WALL_S = 90.0
FILE = "probe.txt"
SCRIPT = {
    "usage": {"input": 1000, "output": 100},
    "steps": [
        {"reply": [{"text": "Writing."}, {"tool": "@bash", "input": {"command": f"echo probe > {FILE}"}}]},
        {"reply": "Done."},
    ],
}


class Probe(Struct, frozen=True, kw_only=True):
    """The result. `unknown`: kinds of event that Flyball does not know, with their number."""

    result: AgentResult
    wrote: bool  # the tool call was carried out
    asked: int  # tool calls that were asked about over the protocol
    requests: int
    unknown: dict[str, int] = {}

    @property
    def understood(self) -> bool:
        usage = self.result.usage
        return self.result.verdict == "ok" and self.wrote and usage.tokens > 0 and bool(self.result.session)


def probe(vendor: Vendor) -> Probe:
    with tempfile.TemporaryDirectory(prefix="flyball-probe-") as folder, ScriptedModel(SCRIPT) as model:
        return _probed(vendor, Path(folder), model)


def _probed(vendor: Vendor, folder: Path, model: ScriptedModel) -> Probe:
    work, home, act = folder / "work", folder / "home", folder / "act"
    for place in (work, home, act):
        place.mkdir()
    for name, text in vendor.files(model.url).items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    request = _request(folder.name, work, act / "prompt")
    agent, questions = adapter(vendor.agent), list[str]()
    launch = agent.launch(request)
    own = {"HOME": str(home), "PATH": os.environ.get("PATH", ""), "TMPDIR": str(folder)}
    process.begin(
        act,
        process.Spec(
            argv=launch.argv,
            cwd=str(work),
            env={**own, **vendor.env(model.url), **launch.env},
            stdin_file=launch.stdin_file,
            stdin_held=launch.talks,
            wall_s=WALL_S,
        ),
    )
    exit_ = _attended(agent, request, act, questions)
    out, err = (data.decode("utf-8", "replace") for data in (process.read_out(act), process.read_err(act)))
    transcript = Transcript()
    for line in out.splitlines():
        transcript.take(line)
    return Probe(
        result=agent.read(out, err, exit_),
        wrote=(work / FILE).exists(),
        asked=len(questions),
        requests=model.state()["played"],
        unknown=transcript.facts.unknown,
    )


def _request(key: str, work: Path, prompt: Path) -> TurnRequest:
    """Called confined: it does only what the script says, and Codex's own sandbox fails in a temporary folder."""
    text = f"Write {FILE}."
    prompt.write_text(text)
    return TurnRequest(prompt=text, prompt_file=prompt, role="coder", key=key, cwd=str(work), confined=True)


def _attended(agent: object, request: TurnRequest, act: Path, questions: list[str]) -> process.Exit:
    def allow(tool: str, _given: object, _call: str) -> Answer:
        questions.append(tool)
        return Answer(True)

    dialogue = Dialogue(act, agent.converse(request, allow)) if isinstance(agent, Talks) else None
    if dialogue is None:
        return process.attend(act)
    rest = b""

    def hear(data: bytes) -> None:
        nonlocal rest
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            dialogue.receive(line.decode("utf-8", "replace"))

    dialogue.open()
    try:
        return process.attend(act, on_output=hear)
    finally:
        dialogue.close()
