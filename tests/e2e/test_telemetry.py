"""OpenTelemetry, against a real OTLP receiver on loopback: the spans of a run, live and exported, and metrics."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from collector import Collector, collector, facts
from tests.e2e.helpers import FIXED, REAL_PROOF, STILL_BROKEN, Place

Situation = tuple[Place, Collector]
SECRET = "Turn the sign of the secret sauce."


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Generator[Situation]:
    """A build run with loop runs below it, driven with a collector; its planner stops it once for an answer."""
    place = Place(tmp_path_factory.mktemp("traced"))
    done = {"finish": {"indicators": ["all done", "task complete"]}, "say": SECRET}
    spent = {"usage": {"cost_usd": 0.25, "input_tokens": 100, "output_tokens": 20}}
    calls = {"actions": [{"tool": "Read", "input": {"path": "calc.py"}, "result": "x"}]}
    worker = [
        {"write": {"calc.py": STILL_BROKEN}, **done, **spent, **calls},
        {"write": {"calc.py": FIXED}, **done},
    ]
    agent = place.script(worker=worker, planner=[{"ask": "Which?"}, {"say": "Go"}])
    with collector() as kept:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": kept.url}
        words = ("run", "Fix add", "--agent", agent, "--set", REAL_PROOF, "--set", "run.write=loop")
        assert place.fb(*words, env=env).code == 3
        run = place.last()["run"]
        assert place.fb("answer", f"{run}.1", "The first").code == 0
        assert place.fb("resume", run, env=env).code == 0
        yield place, kept
    place.clear()


def kinds(spans: list[Any]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for span in spans:
        groups.setdefault(facts(span)["flyball.span"], []).append(span)
    return groups


def test_a_run_is_one_trace_of_nested_spans_over_a_restart(traced: Situation) -> None:
    spans = traced[1].spans
    assert {span.trace_id for span in spans} == {spans[0].trace_id} and traced[1].services == {"flyball"}
    ids = {span.span_id: span for span in spans}
    assert len(ids) == len(spans), "no span was sent twice"
    roots = [span for span in spans if not span.parent_span_id]
    assert [facts(root)["flyball.machine"] for root in roots] == ["build"]
    assert all(span.parent_span_id in ids for span in spans if span not in roots)
    for span in spans:
        parent = ids.get(span.parent_span_id, span)
        assert parent.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano


def test_every_kind_of_span_is_there(traced: Situation) -> None:
    groups = kinds(traced[1].spans)
    assert set(groups) >= {"run", "turn", "act", "guard"}
    assert sorted(facts(run)["flyball.machine"] for run in groups["run"]) == ["build", "loop", "loop"]
    assert {span.name for span in groups["act"]} >= {
        "prepare",
        "proof baseline",
        "proof gate",
        "commit",
        "run:loop write",
    }
    assert len(groups["guard"]) == len(groups["turn"])
    assert [event.name for root in groups["run"] for event in root.events].count("stopped") >= 1


def test_a_turn_has_the_genai_names(traced: Situation) -> None:
    worker = [span for span in traced[1].spans if span.name == "invoke_agent worker"]
    known = facts(worker[0])
    assert (known["gen_ai.operation.name"], known["gen_ai.agent.name"]) == ("invoke_agent", "worker")
    assert (known["gen_ai.usage.input_tokens"], known["gen_ai.usage.output_tokens"]) == (100, 20)
    assert (known["gen_ai.provider.name"], known["flyball.cost_usd"]) == ("script", 0.25)


def test_nothing_that_anyone_wrote_is_in_a_span(traced: Situation) -> None:
    sent = b"".join(span.SerializeToString() for span in traced[1].spans)
    assert b"secret sauce" not in sent and b"Fix add" not in sent and b"Which?" not in sent


def test_an_export_sends_the_very_spans_that_were_sent_live(traced: Situation) -> None:
    place, live = traced
    with collector() as later:
        said = place.fb("export", "@last", "--otlp", later.url)
        assert (said.code, said.out) == (0, "") and f"Sent {len(live.spans)} spans of 3 runs." in said.err
    assert sorted(s.SerializeToString() for s in later.spans) == sorted(
        s.SerializeToString() for s in live.spans
    )


def test_metrics_are_sent_too(traced: Situation) -> None:
    with collector() as kept:
        assert traced[0].fb("stats", "--otlp", kept.url).code == 0
    sums = {metric.name: metric for metric in kept.metrics}
    (cost,) = sums["flyball.cost_usd"].sum.data_points
    assert cost.as_double == 0.25 and sums["flyball.cost_usd"].sum.is_monotonic
    assert sums["flyball.runs_now"].gauge.data_points[0].as_double == 3


@pytest.mark.sampled(1)
@pytest.mark.parametrize("words", [("export", "@last"), ("stats",)])
@pytest.mark.parametrize("url", ["localhost:4318", "ftp://x", "http://", "http://[", "http://127.0.0.1:1"])
def test_a_collector_that_is_none_is_one_sentence(
    traced: Situation, words: tuple[str, ...], url: str
) -> None:
    said = traced[0].fb(*words, "--otlp", url)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1) and url in said.err


@pytest.mark.sampled(0)
def test_a_collector_that_is_gone_does_not_stop_a_run(traced: Situation) -> None:
    place = traced[0]
    agent = place.script("quick", coder=[{"write": {"calc.py": FIXED}}])
    words = (
        "run",
        "Fix add",
        "--agent",
        agent,
        "--set",
        'proof.commands=["true"]',
        "--set",
        "proof.bite=never",
    )
    said = place.fb(*words, env={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
    assert said.code in (0, 3) and "Traceback" not in said.err and "opentelemetry" not in said.err.lower()


def test_without_the_extra_it_says_how_to_install_it(traced: Situation, tmp_path: Path) -> None:
    (tmp_path / "opentelemetry").mkdir()
    (tmp_path / "opentelemetry" / "__init__.py").write_text("raise ImportError('not here')\n")
    said = traced[0].fb(
        "export", "@last", "--otlp", "http://localhost:4318", env={"PYTHONPATH": str(tmp_path)}
    )
    assert said.code == 2 and "pip install 'flyball[otel]'" in said.err and said.err.count("\n") == 1
