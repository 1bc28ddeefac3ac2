"""Runs a project's tests for mechanic, in the project's own Python, in a forked child for each job.

It is started by its file and needs only the standard library (Python 3.8 or newer) and the project's own runner.
Jobs come as JSON lines on standard input; the reply is a JSON line each. The parent imports no file of the project,
so every child starts clean, and a child that hangs is killed with its whole process group.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import json
import os
import re
import resource
import select
import signal
import sys
import threading
import time
import traceback
import types
import unittest
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import Generator

    Place = tuple[str, int]

ERROR_MOST = 300
AGAIN_S = 0.5  # where one test hung, others probably hang too
HUNG_MOST = 8
END = b'{"end": true}'
FRAME = re.compile(r'File "([^"]+)", line (\d+)')
QUIET = {
    "xdist": "-n0",
    "pytest_cov": "--no-cov",
    "pytest_randomly": "-pno:randomly",
    "pytest_timeout": "--timeout=0",
}


class OutOfTime(BaseException):
    """A test took too long. Not an Exception: the code under test must not catch it."""


# ---- the parent ------------------------------------------------------------------------------------------------


def main() -> None:
    setup: dict[str, Any] = json.loads(sys.argv[1])
    jobs, replies = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    own = Path(__file__).resolve().parent
    sys.path[:] = [path for path in sys.path if Path(path).resolve() != own]
    if setup["here_on_path"]:
        sys.path.insert(0, str(Path.cwd()))
    parent = Parent(setup, jobs, replies)
    problem = preload(setup["runner"])
    parent.reply({"ready": not problem, "error": problem})
    try:
        (run_pytest if setup["runner"] == "pytest" else run_unittest)(setup, parent)
    except BaseException:
        os.write(2, traceback.format_exc().encode("utf-8", "replace"))
    finally:
        os._exit(0)


def preload(name: str) -> str:
    try:
        importlib.import_module(name)
    except BaseException as problem:  # whatever a foreign module raises on import
        return f"{type(problem).__name__}: {problem}"
    return ""


class Parent:
    """Takes one job after the other and forks a child for each."""

    def __init__(self, setup: dict[str, Any], jobs: TextIO, replies: TextIO) -> None:
        self.setup, self.jobs, self.replies = setup, jobs, replies

    def reply(self, value: dict[str, Any]) -> None:
        self.replies.write(json.dumps(value) + "\n")
        self.replies.flush()

    def child(self) -> Report:
        """Returns in the child only, with the job that it is to do; the parent stays here until there are no more."""
        for line in self.jobs:
            job = json.loads(line)
            for name in job["preload"]:
                preload(name)
            reading, writing = os.pipe()
            pid = os.fork()
            if not pid:
                os.close(reading)
                os.setsid()
                for kind in job["bounds"]:
                    resource.setrlimit(getattr(resource, kind), (job["bounds"][kind], job["bounds"][kind]))
                return Report(self.setup, job, writing)
            os.close(writing)
            self.reply(_attend(pid, reading, time.monotonic() + job["wall_s"]))
        os._exit(0)


def _attend(pid: int, reading: int, deadline: float) -> dict[str, Any]:
    """The rows that the child wrote, and whether it came to its end."""
    data, ended = _read_rows(reading, deadline)
    os.close(reading)
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except OSError:
            continue  # it has not come to setsid, or is gone
    os.waitpid(pid, 0)
    lines = data.split(b"\n")[:-1]
    return {"rows": [json.loads(line) for line in lines if line != END], "ended": ended}


def _read_rows(reading: int, deadline: float) -> tuple[bytes, str]:
    """`done` after the last row, `died` if the pipe closes before it, `timeout` at the deadline."""
    data = b""
    while True:
        remaining = deadline - time.monotonic()
        if remaining <= 0 or not select.select([reading], [], [], remaining)[0]:
            return data, "timeout"
        chunk = os.read(reading, 1 << 16)
        data += chunk
        if not chunk or data.endswith(END + b"\n"):
            return data, "done" if chunk else "died"


# ---- the child -------------------------------------------------------------------------------------------------


def load_from_copy(report: Report) -> None:
    """An editable install leads to the checkout itself: its modules are read from the copy instead."""
    loader: Any = importlib.machinery.SourceFileLoader
    usual = loader.get_code

    def get_code(self: Any, fullname: str) -> Any:
        path: str = self.get_filename(fullname)
        name = report.name_of(path)
        copy = Path(report.copy, name)
        if not name or os.path.realpath(path) == str(copy) or not copy.is_file():
            return usual(self, fullname)
        return compile(copy.read_bytes(), path, "exec", dont_inherit=True)

    loader.get_code = get_code


class Report:
    """What the tests of one job did: an outcome each, with the project's lines that ran, where that is asked for."""

    def __init__(self, setup: dict[str, Any], job: dict[str, Any], pipe: int) -> None:
        self.pipe, self.limits = pipe, job
        self.traced, self.first = bool(job.get("trace")), bool(job.get("first"))
        self.only: set[str] | None = None if job.get("only") is None else set(job["only"])
        self.files: set[str] = set(job.get("files") or ())
        self.copy, self.root = os.path.realpath(setup["copy"]), os.path.realpath(setup["root"])
        self.names: dict[str, str] = {}
        self.lines: set[Place] = set()
        self.test = self.outcome = self.error = self.file = ""
        self.places: list[Place] = []
        self.began = (0.0, 0.0)
        self.armed = self.loading = False
        self.hung = 0
        for number in (signal.SIGALRM, signal.SIGPROF):
            signal.signal(number, self._out_of_time)

    def write(self, row: dict[str, Any]) -> None:
        data = (json.dumps(row) + "\n").encode()
        while data:
            data = data[os.write(self.pipe, data) :]

    def begin(self, test: str, file: str, loading: bool = False) -> None:
        """`loading` is what comes before a test: importing its file, or setting up its class."""
        self.loading = loading
        self.test, self.outcome, self.error, self.places = test, "passed", "", []
        self.file = self.name_of(file)
        self.began = (time.monotonic(), time.process_time())
        self.lines = set()
        self.watch(loading)

    def watch(self, loading: bool) -> None:
        """Time is limited from here on; by CPU time for loops, by the clock for waiting."""
        limits = self.limits.get("cpu_by_test", {})
        usual = self.limits["cpu_s"] if not self.hung else min(AGAIN_S, self.limits["cpu_s"])
        cpu = self.limits["load_s"] if loading else limits.get(self.test, usual)
        wall = self.limits["load_s" if loading else "test_wall_s"]
        self.armed = True
        signal.setitimer(signal.ITIMER_PROF, cpu, 0.2)
        signal.setitimer(signal.ITIMER_REAL, wall, 0.2)
        if self.traced:
            threading.settrace(self._enter)
            sys.settrace(self._enter)

    def unwatch(self) -> None:
        self.armed = False
        sys.settrace(None)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)

    def fail(self, problem: BaseException | None) -> None:
        self.outcome, self.places = "failed", _places(problem)
        self.error = (
            "" if problem is None else f"{type(problem).__name__}: {problem}".partition("\n")[0][:ERROR_MOST]
        )

    def end(self) -> None:
        self.unwatch()
        row: dict[str, Any] = {"test": self.test, "file": self.file, "outcome": self.outcome}
        row["wall"], row["cpu"] = time.monotonic() - self.began[0], time.process_time() - self.began[1]
        row["loading"] = self.loading
        if self.outcome == "failed":
            row["error"], row["places"] = self.error, [p for p in map(self._named, self.places) if p[0]]
        if self.traced:
            row["lines"] = sorted(p for p in map(self._named, self.lines) if p[0])
        self.write(row)
        self.hung += self.error.startswith("OutOfTime")
        if (self.first and self.outcome == "failed") or self.hung >= HUNG_MOST:
            self.finish()

    def finish(self) -> None:
        """The last row; nothing else that the process might want to do is waited for."""
        if self.limits.get("modules"):
            self.write({"modules": self.foreign_modules()})
        self.write({"end": True})
        os._exit(0)

    def _named(self, place: Place) -> Place:
        return self.name_of(place[0]), place[1]

    def name_of(self, path: str) -> str:
        """The path inside the project; "" for files of others."""
        if path not in self.names:
            self.names[path] = self._name_of(path)
        return self.names[path]

    def _name_of(self, path: str) -> str:
        real = "" if path.startswith("<") else os.path.realpath(path)
        for top in (self.copy, self.root):
            if real.startswith(top + os.sep):
                name = os.path.relpath(real, top)
                return "" if "site-packages" in Path(name).parts else name
        return ""

    def _out_of_time(self, number: int, frame: Any) -> None:
        if self.armed:
            raise OutOfTime("the test took too long")

    def _enter(self, frame: types.FrameType, event: str, arg: Any) -> Any:
        if not self.name_of(frame.f_code.co_filename):
            return None
        return self._line(frame, event, arg)

    def _line(self, frame: types.FrameType, event: str, arg: Any) -> Any:
        self.lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line

    def foreign_modules(self) -> list[str]:
        """Loaded modules that are not the project's: the parent may load them once for all."""
        files = [(name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items())]
        return [name for name, file in files if file and not self.name_of(file) and name != "__main__"]


def _places(problem: BaseException | None) -> list[Place]:
    """Where the exception passed through, innermost last; a syntax error names its own line."""
    if problem is None:
        return []
    frames = [(f.filename, f.lineno or 0) for f in traceback.extract_tb(problem.__traceback__)]
    if isinstance(problem, SyntaxError) and problem.filename:
        frames.append((problem.filename, problem.lineno or 1))
    places = [(file, int(line)) for file, line in FRAME.findall(str(problem))]
    return frames + places


# ---- pytest ----------------------------------------------------------------------------------------------------


def run_pytest(setup: dict[str, Any], parent: Parent) -> None:
    """Children are forked from a pytest that is set up already, unless its conftest files import the project."""
    import pytest

    extra = [flag for name, flag in QUIET.items() if importlib.util.find_spec(name)] if setup["quiet"] else []
    usual = [
        "--assert=plain",
        "--tb=no",
        "-pno:cacheprovider",
        "--continue-on-collection-errors",
        "--maxfail=0",
    ]
    args = [*setup["args"], *extra, *usual]
    if _sets_up_alone(pytest, setup, args):
        pytest.main(args, plugins=_plugins(pytest, parent))
    pytest.main(args, plugins=_plugins(pytest, parent, parent.child()))


def _sets_up_alone(pytest: Any, setup: dict[str, Any], args: list[str]) -> bool:
    """Tried in a child: whether pytest can be set up without loading a module of the project."""

    class Probe:
        def pytest_collection(self) -> None:
            report = Report(setup, {}, 1)
            files = [getattr(module, "__file__", None) or "<>" for module in list(sys.modules.values())]
            own = [file for file in files if report.name_of(file) and Path(file).name != "conftest.py"]
            os._exit(0 if not own else 1)

    pid = os.fork()
    if not pid:
        try:
            pytest.main(args, plugins=[Probe()])
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


class Reporter:
    """Who reports: nobody as long as this is the parent, then the child."""

    def __init__(self, child: Report | None = None) -> None:
        self.child = child

    @property
    def report(self) -> Report:
        assert self.child is not None
        return self.child


def _plugins(pytest: Any, parent: Parent, child: Report | None = None) -> list[Any]:
    seat = Reporter(child)
    return [_collecting(pytest, parent, seat), _running(pytest, seat)]


def _collecting(pytest: Any, parent: Parent, seat: Reporter) -> Any:
    class Collecting:
        @pytest.hookimpl(tryfirst=True)
        def pytest_collection(self, session: Any) -> None:
            if seat.child is None:
                seat.child = parent.child()
                session.config.pluginmanager.getplugin("capturemanager").read_global_capture()
            load_from_copy(seat.report)

        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(self, items: list[Any]) -> None:
            if seat.report.only is not None:
                items[:] = [item for item in items if item.nodeid in seat.report.only]

        @pytest.hookimpl(hookwrapper=True)
        def pytest_make_collect_report(self, collector: Any) -> Generator[None, Any, None]:
            seat.report.begin(collector.nodeid, str(getattr(collector, "fspath", "")), loading=True)
            outcome: Any = yield
            seat.report.unwatch()
            if outcome.get_result().failed:
                seat.report.end()

        if int(pytest.__version__.split(".")[0]) >= 7:

            def pytest_ignore_collect(self, collection_path: Any) -> Any:
                plain = collection_path.suffix == ".py" and collection_path.name != "__init__.py"
                files = seat.report.files
                return (
                    True
                    if files and plain and seat.report.name_of(str(collection_path)) not in files
                    else None
                )

    return Collecting()


def _running(pytest: Any, seat: Reporter) -> Any:
    class Running:
        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtestloop(self) -> Generator[None, Any, None]:
            yield
            seat.report.finish()  # pytest's own summing up is for people

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
            problem = call.excinfo.value if call.excinfo else None
            if problem is not None and seat.report.first and _plainly_failed(pytest, item, problem):
                seat.report.fail(problem)  # before pytest describes the failure, which takes long
                seat.report.end()

        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_protocol(self, item: Any) -> Generator[None, Any, None]:
            seat.report.begin(item.nodeid, str(item.fspath))
            yield
            seat.report.end()

        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed and seat.report.outcome != "failed":
                seat.report.fail(None)
            elif report.skipped and seat.report.outcome == "passed":
                seat.report.outcome = "skipped"

        def pytest_exception_interact(self, call: Any) -> None:
            seat.report.fail(call.excinfo.value)

    return Running()


def _plainly_failed(pytest: Any, item: Any, problem: BaseException) -> bool:
    expected = (pytest.skip.Exception, pytest.xfail.Exception, unittest.SkipTest)
    return not isinstance(problem, expected) and item.get_closest_marker("xfail") is None


# ---- unittest --------------------------------------------------------------------------------------------------


def run_unittest(setup: dict[str, Any], parent: Parent) -> None:
    report = parent.child()
    load_from_copy(report)

    class Runner:
        def run(self, suite: Any) -> unittest.TestResult:
            report.unwatch()
            tests = [test for test in _tests(suite) if report.only is None or test.id() in report.only]
            result = _Result(report)
            unittest.TestSuite(tests).run(result)
            return result

    report.begin("import", "", loading=True)
    program = cast(Any, unittest.main)
    program(module=None, argv=["python -m unittest", *setup["args"]], testRunner=Runner(), exit=False)
    report.finish()


def _tests(suite: Any) -> list[Any]:
    if not isinstance(suite, unittest.BaseTestSuite):
        return [suite]
    return [test for part in cast(Any, suite) for test in _tests(part)]


class _Result(unittest.TestResult):
    def __init__(self, report: Report) -> None:
        super().__init__()
        self.report = report

    def startTest(self, test: Any) -> None:  # noqa: N802
        super().startTest(test)
        module = sys.modules.get(type(test).__module__)
        unread = type(test).__name__ == "_FailedTest"
        self.report.begin(test.id(), getattr(module, "__file__", None) or "", loading=unread)

    def stopTest(self, test: Any) -> None:  # noqa: N802
        super().stopTest(test)
        self.report.end()

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        super().addError(test, err)
        if test.id() != self.report.test:  # setUpClass, setUpModule
            self.report.begin(test.id(), "", loading=True)
            self._note(err)
            self.report.end()
        self._note(err)

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        super().addFailure(test, err)
        self._note(err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._note(err)

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        super().addSkip(test, reason)
        self.report.outcome = "skipped"

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802
        super().addUnexpectedSuccess(test)
        self.report.fail(None)

    def _note(self, err: Any) -> None:
        self.report.fail(err[1])


if __name__ == "__main__":
    main()
