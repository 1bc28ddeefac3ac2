"""How a reply and an error look on the wire: Anthropic, OpenAI Chat, OpenAI Responses, Gemini."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from flyball.testing.model import fault_replies
from flyball.testing.model.model_script import Json
from flyball.testing.model.requests import Call, Request

Event = tuple[str | None, Any]  # (name of the server-sent event, payload); a payload of text is sent as it is


class Dialect:
    """Base class. `parts` are dicts with exactly one of text, thinking, call."""

    name = ""

    def reply(self, rq: Request, parts: list[Json], usage: Json, stop: str | None) -> Json:
        raise NotImplementedError

    def events(self, rq: Request, parts: list[Json], usage: Json, stop: str | None) -> Iterator[Event]:
        raise NotImplementedError

    fault: Callable[[str, Json], fault_replies.Answer]

    def stream_error(self, step: Json) -> Event:
        return None, self.fault("overloaded", step)[1]


def _slices(text: str, size: int = 24) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)] or [""]


class Anthropic(Dialect):
    name = "anthropic"
    fault = staticmethod(fault_replies.anthropic)

    def _usage(self, usage: Json) -> Json:
        return {
            "input_tokens": usage["input"],
            "cache_creation_input_tokens": usage["cache_write"],
            "cache_read_input_tokens": usage["cached"],
            "output_tokens": usage["output"],
            "service_tier": "standard",
        }

    def _block(self, part: Json) -> Json:
        if "call" in part:
            call: Call = part["call"]
            return {"type": "tool_use", "id": call.id, "name": call.tool.name, "input": call.input}
        if "thinking" in part:
            return {"type": "thinking", "thinking": part["thinking"], "signature": "c2NyaXB0ZWQ="}
        return {"type": "text", "text": part["text"]}

    def _stop(self, parts: list[Json], stop: str | None) -> str:
        return stop or ("tool_use" if any("call" in p for p in parts) else "end_turn")

    def reply(self, rq: Request, parts: list[Json], usage: Json, stop: str | None) -> Json:
        return {
            "id": f"msg_scripted_{rq.serial:04d}",
            "type": "message",
            "role": "assistant",
            "model": rq.model,
            "content": [self._block(p) for p in parts],
            "stop_reason": self._stop(parts, stop),
            "stop_sequence": None,
            "usage": self._usage(usage),
        }

    def events(self, rq: Request, parts: list[Json], usage: Json, stop: str | None) -> Iterator[Event]:
        head = self.reply(rq, [], usage, stop)
        head.update(stop_reason=None, usage={**self._usage(usage), "output_tokens": 1})
        yield "message_start", {"type": "message_start", "message": head}
        for index, part in enumerate(parts):
            block = self._block(part)
            if block["type"] == "tool_use":
                empty: Json = {**block, "input": {}}
                deltas = [
                    {"type": "input_json_delta", "partial_json": s}
                    for s in _slices(json.dumps(block["input"]))
                ]
            elif block["type"] == "thinking":
                empty = {"type": "thinking", "thinking": "", "signature": ""}
                deltas = [{"type": "thinking_delta", "thinking": s} for s in _slices(block["thinking"])]
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            else:
                empty = {"type": "text", "text": ""}
                deltas = [{"type": "text_delta", "text": s} for s in _slices(block["text"])]
            yield (
                "content_block_start",
                {"type": "content_block_start", "index": index, "content_block": empty},
            )
            for delta in deltas:
                yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
            yield "content_block_stop", {"type": "content_block_stop", "index": index}
        yield (
            "message_delta",
            {
                "type": "message_delta",
                "delta": {"stop_reason": self._stop(parts, stop), "stop_sequence": None},
                "usage": self._usage(usage),
            },
        )
        yield "message_stop", {"type": "message_stop"}

    def stream_error(self, step: Json) -> Event:
        kind = step.get("error", "overloaded_error")
        return "error", {
            "type": "error",
            "error": {"type": kind, "message": step.get("message", "Overloaded")},
        }


class OpenAI(Dialect):
    fault = staticmethod(fault_replies.openai)


class Chat(OpenAI):
    name = "chat"

    def _usage(self, usage: Json) -> Json:
        prompt = usage["input"] + usage["cached"]
        return {
            "prompt_tokens": prompt,
            "completion_tokens": usage["output"],
            "total_tokens": prompt + usage["output"],
            "prompt_tokens_details": {"cached_tokens": usage["cached"]},
            "completion_tokens_details": {"reasoning_tokens": usage["reasoning"]},
        }

    def _call(self, index: int, call: Call) -> Json:
        return {
            "index": index,
            "id": call.id,
            "type": "function",
            "function": {"name": call.tool.name, "arguments": json.dumps(call.input)},
        }

    def _base(self, rq: Request, object_: str) -> Json:
        return {
            "id": f"chatcmpl-scripted-{rq.serial:04d}",
            "object": object_,
            "created": int(time.time()),
            "model": rq.model,
        }

    def _finish(self, parts: list[Json], stop: str | None) -> str:
        return stop or ("tool_calls" if any("call" in p for p in parts) else "stop")

    def reply(self, rq: Request, parts: list[Json], usage: Json, stop: str | None) -> Json:
        message: Json = {"role": "assistant", "content": "".join(p.get("text", "") for p in parts) or None}
        calls = [self._call(i, p["call"]) for i, p in enumerate(q for q in parts if "call" in q)]
        if calls:
            message["tool_calls"] = calls
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": self._finish(parts, stop),
            "logprobs": None,
        }
        return {**self._base(rq, "chat.completion"), "choices": [choice], "usage": self._usage(usage)}

    def events(self, rq: Request, parts: list[Json], usage: Json, stop: str | None) -> Iterator[Event]:
        base = self._base(rq, "chat.completion.chunk")

        def chunk(delta: Json, finish: str | None = None) -> Event:
            return None, {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

        yield chunk({"role": "assistant", "content": ""})
        index = 0
        for part in parts:
            if "call" in part:
                yield chunk({"tool_calls": [self._call(index, part["call"])]})
                index += 1
            else:
                key = "text" if "text" in part else "thinking"
                for piece in _slices(part[key]):
                    yield chunk({"content" if key == "text" else "reasoning_content": piece})
        yield chunk({}, self._finish(parts, stop))
        yield None, {**base, "choices": [], "usage": self._usage(usage)}
        yield None, "[DONE]"


class Responses(OpenAI):
    name = "responses"

    def _usage(self, usage: Json) -> Json:
        total_in = usage["input"] + usage["cached"]
        return {
            "input_tokens": total_in,
            "input_tokens_details": {"cached_tokens": usage["cached"]},
            "output_tokens": usage["output"],
            "output_tokens_details": {"reasoning_tokens": usage["reasoning"]},
            "total_tokens": total_in + usage["output"],
        }

    def _item(self, rq: Request, index: int, part: Json) -> Json:
        ident = f"scripted_{rq.serial:04d}_{index}"
        if "call" in part:
            call: Call = part["call"]
            if call.tool.kind == "custom":
                text = call.input if isinstance(call.input, str) else json.dumps(call.input)
                return {
                    "type": "custom_tool_call",
                    "id": f"ctc_{ident}",
                    "status": "completed",
                    "call_id": call.id,
                    "name": call.tool.name,
                    "input": text,
                }
            item = {
                "type": "function_call",
                "id": f"fc_{ident}",
                "status": "completed",
                "call_id": call.id,
                "name": call.tool.name,
                "arguments": json.dumps(call.input),
            }
            if call.tool.namespace:
                item["namespace"] = call.tool.namespace
            return item
        if "thinking" in part:
            return {
                "type": "reasoning",
                "id": f"rs_{ident}",
                "summary": [{"type": "summary_text", "text": part["thinking"]}],
            }
        content: list[Json] = [{"type": "output_text", "text": part["text"], "annotations": []}]
        return {
            "type": "message",
            "id": f"msg_{ident}",
            "status": "completed",
            "role": "assistant",
            "content": content,
        }

    def reply(self, rq: Request, parts: list[Json], usage: Json, stop: str | None) -> Json:
        return {
            "id": f"resp_scripted_{rq.serial:04d}",
            "object": "response",
            "created_at": int(time.time()),
            "status": "completed",
            "error": None,
            "incomplete_details": {"reason": stop} if stop else None,
            "model": rq.model,
            "output": [self._item(rq, i, p) for i, p in enumerate(parts)],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": self._usage(usage),
        }

    def events(self, rq: Request, parts: list[Json], usage: Json, stop: str | None) -> Iterator[Event]:
        serial = iter(range(1_000_000))

        def event(type_: str, **fields: Any) -> Event:
            return type_, {"type": type_, "sequence_number": next(serial), **fields}

        final = self.reply(rq, parts, usage, stop)
        opening: Json = {**final, "status": "in_progress", "output": [], "usage": None}
        yield event("response.created", response=opening)
        yield event("response.in_progress", response=opening)
        for index, item in enumerate(final["output"]):
            where = {"output_index": index, "item_id": item["id"]}
            if item["type"] == "message":
                text = item["content"][0]["text"]
                yield event(
                    "response.output_item.added",
                    output_index=index,
                    item={**item, "status": "in_progress", "content": []},
                )
                part: Json = {"type": "output_text", "text": "", "annotations": []}
                yield event("response.content_part.added", content_index=0, part=part, **where)
                for piece in _slices(text):
                    yield event("response.output_text.delta", content_index=0, delta=piece, **where)
                yield event("response.output_text.done", content_index=0, text=text, **where)
                yield event("response.content_part.done", content_index=0, part=item["content"][0], **where)
            elif item["type"] == "function_call":
                yield event(
                    "response.output_item.added",
                    output_index=index,
                    item={**item, "status": "in_progress", "arguments": ""},
                )
                yield event("response.function_call_arguments.delta", delta=item["arguments"], **where)
                yield event("response.function_call_arguments.done", arguments=item["arguments"], **where)
            else:
                yield event("response.output_item.added", output_index=index, item=item)
            yield event("response.output_item.done", output_index=index, item=item)
        yield event("response.completed", response=final)

    def stream_error(self, step: Json) -> Event:
        code = step.get("error", "server_is_overloaded")
        error = {"code": code, "message": step.get("message", "The server is overloaded")}
        return "response.failed", {
            "type": "response.failed",
            "sequence_number": 2,
            "response": {
                "id": "resp_scripted_failed",
                "object": "response",
                "status": "failed",
                "error": error,
                "output": [],
            },
        }


class Gemini(Dialect):
    name = "gemini"
    fault = staticmethod(fault_replies.gemini)

    def _usage(self, usage: Json) -> Json:
        prompt = usage["input"] + usage["cached"]
        return {
            "promptTokenCount": prompt,
            "candidatesTokenCount": usage["output"],
            "cachedContentTokenCount": usage["cached"],
            "thoughtsTokenCount": usage["reasoning"],
            "totalTokenCount": prompt + usage["output"],
        }

    def _part(self, part: Json) -> Json:
        if "call" in part:
            call: Call = part["call"]
            return {"functionCall": {"id": call.id, "name": call.tool.name, "args": call.input}}
        if "thinking" in part:
            return {"text": part["thinking"], "thought": True}
        return {"text": part["text"]}

    def _chunk(self, rq: Request, parts: list[Json], usage: Json, finish: str | None) -> Json:
        candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
        if finish:
            candidate["finishReason"] = finish
        return {
            "candidates": [candidate],
            "usageMetadata": self._usage(usage),
            "modelVersion": rq.model,
            "responseId": f"scripted-{rq.serial:04d}",
        }

    def reply(self, rq: Request, parts: list[Json], usage: Json, stop: str | None) -> Json:
        return self._chunk(rq, [self._part(p) for p in parts], usage, stop or "STOP")

    def events(self, rq: Request, parts: list[Json], usage: Json, stop: str | None) -> Iterator[Event]:
        for part in parts:
            pieces = [part]
            for key in ("text", "thinking"):
                if key in part:
                    pieces = [{key: piece} for piece in _slices(part[key])]
            for piece in pieces:
                yield None, self._chunk(rq, [self._part(piece)], usage, None)
        yield None, self._chunk(rq, [{"text": ""}], usage, stop or "STOP")


ANTHROPIC, CHAT, RESPONSES, GEMINI = Anthropic(), Chat(), Responses(), Gemini()
