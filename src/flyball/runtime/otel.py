"""Sends traces and metrics to an OpenTelemetry collector over OTLP/HTTP. Needs the extra `flyball[otel]`.

A collector that is slow, full or down costs spans, never a run: they wait in a bounded queue, and a thread sends
them. The library is loaded by name, since it is only there with the extra.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from flyball import __version__
from flyball.domain import events as e
from flyball.errors import UserError
from flyball.journal import Entry, Journal
from flyball.views.metrics import Family
from flyball.views.spans import RunSpans, Span

QUEUE_MOST = 10_000
BATCH = 500
TIMEOUT_S = 5.0
FLUSH_S = 3.0
EXPORTER = "opentelemetry.exporter.otlp.proto.http"
MISSING = "OpenTelemetry is not installed. Install it with: pip install 'flyball[otel]'"


def _load(name: str) -> Any:
    try:
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(logging.NullHandler())
        logger.propagate = False  # what it could not send is counted or said here, not on the terminal
        return import_module(name)
    except ImportError:
        raise UserError(MISSING) from None


def endpoint(url: str, signal: str) -> str:
    """The address for traces or metrics below a collector's base address."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise UserError(f"'{url}' is not the address of a collector. Use for example http://localhost:4318.")
    return f"{url.rstrip('/')}/v1/{signal}"


# ---- traces ----------------------------------------------------------------------------------------------


def span_sender(url: str = "") -> Callable[[Sequence[Span]], bool]:
    """Sends spans to this collector, else to that of the OTEL_… variables; False: it did not take them."""
    module = _load(f"{EXPORTER}.trace_exporter")
    address = endpoint(url, "traces") if url else None
    exporter = module.OTLPSpanExporter(endpoint=address, timeout=TIMEOUT_S)
    success = _load("opentelemetry.sdk.trace.export").SpanExportResult.SUCCESS
    return lambda spans: exporter.export([_readable(span) for span in spans]) is success


def _readable(span: Span) -> Any:
    trace, sdk = _load("opentelemetry.trace"), _load("opentelemetry.sdk.trace")
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    context = trace.SpanContext(span.trace, span.id, is_remote=False, trace_flags=flags)
    parent = (
        trace.SpanContext(span.trace, span.parent, is_remote=False, trace_flags=flags)
        if span.parent
        else None
    )
    error = {"error.type": span.error} if span.error else {}
    code = trace.StatusCode.ERROR if span.error else trace.StatusCode.OK
    return sdk.ReadableSpan(
        name=span.name,
        context=context,
        parent=parent,
        resource=_resource(),
        attributes={**span.attributes, **error},
        events=[sdk.Event(one.name, one.attributes, one.at * 1000) for one in span.events],
        status=trace.Status(code, span.error or None),
        start_time=span.start * 1000,
        end_time=max(span.end, span.start) * 1000,
        instrumentation_scope=_scope(),
    )


def _resource() -> Any:
    return _load("opentelemetry.sdk.resources").Resource.create(
        {"service.name": "flyball", "service.version": __version__}
    )


def _scope() -> Any:
    return _load("opentelemetry.sdk.util.instrumentation").InstrumentationScope("flyball", __version__)


class LiveTraces:
    """Sends the spans of runs while they are driven."""

    def __init__(self, journal: Journal, send: Callable[[Sequence[Span]], bool]) -> None:
        self._journal, self._send = journal, send
        self._runs: dict[str, RunSpans] = {}
        self._queue: queue.Queue[Span | None] = queue.Queue(QUEUE_MOST)
        self.lost = 0  # spans that the queue had no room for or the collector did not take
        self._thread = threading.Thread(target=self._deliver, name="flyball-otel", daemon=True)
        self._thread.start()

    def note(self, entries: Iterable[Entry]) -> None:
        """Called after each commit, on the thread that owns the journal. No error here may reach the run."""
        for entry in entries:
            try:
                self._note(entry)
            except Exception:
                self.lost += 1

    def _note(self, entry: Entry) -> None:
        if entry.run not in self._runs:
            self._runs[entry.run] = self._so_far(entry)
        for span in self._runs[entry.run].of(e.decode(entry.body)):
            self._put(span)
        if entry.kind == e.Ended.__name__:
            del self._runs[entry.run]

    def _so_far(self, entry: Entry) -> RunSpans:
        """A run that is resumed: what it did before was sent by the process before."""
        spans = RunSpans()
        if entry.seq > 1:
            for earlier in self._journal.read(entry.run):
                if earlier.seq >= entry.seq:
                    break
                spans.of(e.decode(earlier.body))
        return spans

    def _put(self, span: Span) -> None:
        try:
            self._queue.put_nowait(span)
        except queue.Full:
            self.lost += 1

    def _deliver(self) -> None:
        while True:
            first = self._queue.get()
            batch = [first] if first else []
            while first and len(batch) < BATCH:
                try:
                    first = self._queue.get_nowait()
                except queue.Empty:
                    break
                batch += [first] if first else []
            if batch and not _quietly(self._send, batch):
                self.lost += len(batch)
            if first is None:
                return

    def close(self) -> None:
        """Send what is left, for a moment at most."""
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(None)
        self._thread.join(FLUSH_S)


def _quietly(send: Callable[[Sequence[Span]], bool], batch: Sequence[Span]) -> bool:
    try:
        return send(batch)
    except Exception:  # whatever the library raises, the run continues
        return False


def live_traces(journal: Journal) -> LiveTraces | None:
    """To the collector that the standard OTEL_… variables name; None where the extra is not installed."""
    try:
        return LiveTraces(journal, span_sender())
    except Exception:  # an invalid address, or the extra is missing: the run continues without traces
        return None


# ---- metrics ---------------------------------------------------------------------------------------------


def send_metrics(url: str, families: Sequence[Family]) -> bool:
    """Send the metric families to a collector; False: it did not take them."""
    module, export = _load(f"{EXPORTER}.metric_exporter"), _load("opentelemetry.sdk.metrics.export")
    exporter = module.OTLPMetricExporter(endpoint=endpoint(url, "metrics"), timeout=TIMEOUT_S)
    metrics = [_metric(export, family, time.time_ns()) for family in families if family.samples]
    scope = export.ScopeMetrics(scope=_scope(), metrics=metrics, schema_url="")
    resource = export.ResourceMetrics(resource=_resource(), scope_metrics=[scope], schema_url="")
    data = export.MetricsData(resource_metrics=[resource])
    return exporter.export(data) is export.MetricExportResult.SUCCESS


def _metric(export: Any, family: Family, now_ns: int) -> Any:
    points = [
        export.NumberDataPoint(attributes=labels, start_time_unix_nano=0, time_unix_nano=now_ns, value=value)
        for labels, value in family.samples
    ]
    if family.kind == "gauge":
        data = export.Gauge(data_points=points)
    else:
        cumulative = export.AggregationTemporality.CUMULATIVE
        data = export.Sum(data_points=points, aggregation_temporality=cumulative, is_monotonic=True)
    name = family.name.replace("flyball_", "flyball.", 1)
    return export.Metric(name=name, description=family.about, unit="", data=data)
