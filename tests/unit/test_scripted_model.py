"""The scripted model: every dialect, every fault, and what a script may say."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request

import pytest

from flyball.testing.model import FAULTS, ScriptedModel, ScriptError

TOOL = {"name": "Bash", "input_schema": {}}
PATHS = {
    "/v1/messages": {"model": "m", "max_tokens": 9, "tools": [TOOL]},
    "/v1/responses": {"model": "m", "tools": [{"type": "function", "name": "exec_command"}]},
    "/v1/chat/completions": {"model": "m", "tools": [{"type": "function", "function": {"name": "bash"}}]},
    "/v1beta/models/m:streamGenerateContent?alt=sse": {
        "tools": [{"functionDeclarations": [{"name": "run_shell_command"}]}]
    },
}


def post(url, body, timeout=5):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), dict(error.headers)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [True, False])
def test_every_dialect_resolves_the_bash_alias(path, stream):
    script = {"steps": [{"reply": [{"text": "x"}, {"tool": "@bash", "input": {"command": "echo hi"}}]}]}
    with ScriptedModel(script) as model:
        if "stream" in path and not stream:
            path = path.replace("streamGenerateContent?alt=sse", "generateContent")
        status, text, _ = post(
            model.url + path, {**PATHS.get(path, {"tools": PATHS[list(PATHS)[3]]["tools"]}), "stream": stream}
        )
        assert status == 200
        assert any(name in text for name in ("Bash", "exec_command", '"bash"', "run_shell_command"))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("fault", sorted(FAULTS - {"hang", "http"}))
def test_every_fault_answers_in_every_dialect(path, fault):
    with ScriptedModel({"steps": [{"fault": fault}]}) as model:
        try:
            status, text, _ = post(model.url + path, {**PATHS[path], "stream": True})
        except (http.client.HTTPException, ConnectionError, urllib.error.URLError):
            assert fault == "drop"
        else:
            assert (
                fault != "drop"
                and text
                and (status >= 400) == (fault not in ("truncated", "garbage", "html", "stream_error"))
            )


def test_retry_after_times_and_cursor():
    with ScriptedModel(
        {"steps": [{"fault": "rate_limit", "retry_after": 7, "times": 2}, {"reply": "ok"}]}
    ) as model:
        answers = [post(model.url + "/v1/messages", PATHS["/v1/messages"]) for _ in range(3)]
        assert [a[0] for a in answers] == [429, 429, 200]
        assert answers[0][2]["retry-after"] == "7"
        assert model.state()["played"] == 3 and model.state()["exhausted"]


def test_side_requests_play_no_step():
    with ScriptedModel({"steps": [{"reply": "main"}]}) as model:
        assert "main" not in post(model.url + "/v1/messages", {"model": "m", "max_tokens": 9})[1]
        assert model.state()["side"] == 1 and model.state()["played"] == 0


def test_expectations_are_reported():
    with ScriptedModel({"steps": [{"expect": {"contains": "needle"}, "reply": "x"}]}) as model:
        assert post(model.url + "/v1/messages", PATHS["/v1/messages"])[0] == 400
        assert "needle" in model.state()["failures"][0]


def test_channels_are_separate_and_keys_are_scrubbed():
    with ScriptedModel({"steps": [{"reply": "one"}]}) as model:
        model.load({"steps": [{"reply": "two"}]}, "b")
        assert "one" in post(model.url + "/v1/messages", PATHS["/v1/messages"])[1]
        assert "two" in post(model.url_for("b") + "/v1/messages", PATHS["/v1/messages"])[1]
        assert model.state("b")["played"] == 1 == model.state()["played"]
        request = urllib.request.Request(
            model.url + "/v1/messages", json.dumps(PATHS["/v1/messages"]).encode(), {"x-api-key": "secret"}
        )
        urllib.request.urlopen(request).read()
        assert "secret" not in json.dumps(model.requests())


def test_hang_ends_when_the_client_leaves():
    with ScriptedModel({"steps": [{"fault": "hang"}]}) as model, pytest.raises(OSError):
        post(model.url + "/v1/messages", PATHS["/v1/messages"], timeout=0.5)


@pytest.mark.parametrize(
    "bad", [{}, {"steps": [{}]}, {"steps": [{"fault": "no"}]}, {"steps": [{"reply": "x", "oops": 1}]}]
)
def test_bad_scripts_are_refused(bad):
    with pytest.raises(ScriptError):
        ScriptedModel(bad if bad else {"name": "x"})
