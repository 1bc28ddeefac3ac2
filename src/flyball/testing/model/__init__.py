"""A model server that plays a script instead of thinking, so that real coding agents run offline.

One process on loopback speaks four wire formats, streaming or not:

    anthropic   POST /v1/messages                       (+ /v1/messages/count_tokens)
    responses   POST /v1/responses                      (OpenAI Responses)
    chat        POST /v1/chat/completions               (OpenAI Chat Completions)
    gemini      POST /v1beta/models/<m>:generateContent (+ :streamGenerateContent, :countTokens)

    with ScriptedModel({"steps": [{"reply": "hello"}]}) as model:
        subprocess.run([...], env={**os.environ, "ANTHROPIC_BASE_URL": model.url})
        assert model.state()["played"] == 1

Several scripts at once: a base URL may carry a channel, `/@NAME/v1/messages`, which plays the script loaded as NAME.
The scripts are described in `script.py`. `GET /__state`, `GET /__log`, `PUT /__script` and `POST /__reset` control it.
"""

from flyball.testing.model.model_script import FAULTS, ScriptError, load_script
from flyball.testing.model.model_server import ScriptedModel

__all__ = ["FAULTS", "ScriptError", "ScriptedModel", "load_script"]
