"""A real OTLP/HTTP receiver on loopback: it decodes the protobuf and keeps what it was sent."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    def __init__(self, status: int = 200) -> None:
        self.status, self.requests = status, 0
        self.spans: list[Any] = []
        self.metrics: list[Any] = []
        self.services: set[str] = set()
        self.url = ""

    def take(self, path: str, body: bytes) -> None:
        self.requests += 1
        if self.status != 200:
            return
        if path == "/v1/traces":
            request = ExportTraceServiceRequest.FromString(body)
            for resource in request.resource_spans:
                self.services |= {
                    a.value.string_value for a in resource.resource.attributes if a.key == "service.name"
                }
                self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        else:
            assert path == "/v1/metrics", path
            request = ExportMetricsServiceRequest.FromString(body)
            for resource in request.resource_metrics:
                self.metrics += [metric for scope in resource.scope_metrics for metric in scope.metrics]


@contextmanager
def collector(status: int = 200) -> Generator[Collector]:
    kept = Collector(status)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept.take(
                self.path, gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body
            )
            self.send_response(kept.status)
            self.end_headers()

        def log_message(self, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    kept.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield kept
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def facts(span: Any) -> dict[str, Any]:
    """The attributes of a span, plain."""
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}
