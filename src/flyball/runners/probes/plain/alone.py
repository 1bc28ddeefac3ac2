"""Runs single tests without their runner, in a Python that has loaded nothing else.

What a runner does to its process (modules, memory, hooks, processor time) can tell code that it is tested. So a helper
is forked before the runner is loaded. It forks again for every test, imports the test's module there and calls the
test: only an assertion that fails there although the test passed under its runner says something.
"""

import json
import os
import pickle
import signal
import sys

LIMIT_S = 20
PASSED, FAILED, UNKNOWN = b"p", b"f", b"u"
RUNNERS = ("pytest", "py.test", "unittest")


class Helper:
    """Takes one request a line; an answer has one byte."""

    def __init__(self, room):
        self.room, self.known = room, {}
        ours, theirs = os.pipe(), os.pipe()
        self.pid, self.owner = os.fork(), os.getpid()
        if self.pid == 0:
            os.close(ours[1]), os.close(theirs[0])
            try:
                _serve(room, os.fdopen(ours[0], "r"), theirs[1])
            finally:
                os._exit(0)
        os.close(ours[0]), os.close(theirs[1])
        self.requests, self.answers = ours[1], theirs[0]

    def fails(self, name, request):
        """Whether an assertion of this test fails without its runner."""
        if request and name not in self.known and os.getpid() == self.owner:
            try:
                os.write(self.requests, json.dumps(request).encode() + b"\n")
                self.known[name] = os.read(self.answers, 1) == FAILED
            except OSError:
                self.known[name] = False
        return self.known.get(name, False)


def wanted(words):
    """Whether a command line starts a runner that can be left out."""
    return any(word.rpartition("/")[2] in RUNNERS for word in words[1:4])


def _serve(room, requests, answers):
    for line in requests:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(LIMIT_S)
            code = 2
            try:
                code = _run(room, json.loads(line))
            finally:
                os._exit(code)
        status = os.waitpid(pid, 0)[1]
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 2
        os.write(answers, (PASSED, FAILED, UNKNOWN)[min(code, 2)])


def _run(room, request):
    """0: it passed; 1: an assertion failed; 2: it cannot be run alone."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    room.alone = True
    sys.path[:], sys.argv = request["path"], list(room.argv)
    os.chdir(request["folder"])
    for name in request["before"]:
        __import__(name)
    __import__(request["module"])
    place = sys.modules[request["module"]]
    names = request["names"]
    for name in names[:-1]:
        place = getattr(place, name)
    if request["unittest"]:
        return _unittest(place(names[-1]))
    test = getattr(place() if len(names) > 1 else place, names[-1])
    try:
        test(**pickle.loads(bytes.fromhex(request["given"])))
    except AssertionError:
        return 1
    except BaseException as error:
        return 1 if type(error).__name__ == "Failed" else 2
    return 0


def _unittest(test):
    import unittest

    result = unittest.TestResult()
    unittest.TestSuite([test]).run(result)
    return 1 if result.failures else 2 if result.errors or result.skipped else 0


# ---- what to ask ----

_DIRECT = "get_direct_param_fixture_func"  # how pytest names what gives a test the values of its own table


def of_pytest(item, config):
    """The request for an item that needs nothing of pytest; None where it has fixtures."""
    import inspect

    given = dict(getattr(getattr(item, "callspec", None), "params", {}))
    test = getattr(item, "function", None)
    fixtures = item._fixtureinfo.name2fixturedefs
    made = [one for name in given for one in fixtures.get(name, ()) if one.func.__name__ != _DIRECT]
    if test is None or set(item.fixturenames) - set(given) or made or inspect.iscoroutinefunction(test):
        return None
    if hasattr(item.cls, "failureException"):  # of unittest
        return None
    try:
        arguments = pickle.dumps(given).hex()
    except Exception:
        return None
    plugins = config.pluginmanager.get_plugins()
    before = [one.__name__ for one in plugins if str(getattr(one, "__file__", "")).endswith("conftest.py")]
    names = item.getmodpath(stopatmodule=True, includemodule=False).partition("[")[0].split(".")
    return _request(item.module.__name__, names, before, given=arguments)


def of_unittest(test):
    names = [*type(test).__qualname__.split("."), test._testMethodName]
    return _request(type(test).__module__, names, (), unittest=True)


def _request(module, names, before, given="", unittest=False):
    facts = {"module": module, "names": names, "before": list(before), "given": given, "unittest": unittest}
    return {**facts, "path": sys.path, "folder": os.getcwd()}
