"""Runs single tests without their runner, in fresh Pythons that have loaded nothing else.

What a runner does to its process (modules, memory, hooks, callers, arguments) can tell code that it is tested. So a few
helpers are started before the runner is loaded, each with hashes of its own. A helper forks for every test, imports
the test's module under a plain name, with a stand-in for pytest, and calls the test: an assertion that fails there
although the test passed under its runner says something, and so does a process that ends before the test does. A
helper writes what it saw into a sealed report of its own, which no code under test has in its memory.
"""

import ast
import importlib.machinery
import json
import os
import pickle
import signal
import sys
import time
import types

HELPERS = 3
PASSED, FAILED, UNKNOWN = b"p", b"f", b"u"
RUNNERS = ("pytest", "py.test", "unittest")
ASSERTION = AssertionError
PROGRAM = "from main import main; main()"
PIPES = "PYTHONALONE"
stand_in = None  # the module of this name: sitecustomize loads it
SHOWN = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "VIRTUAL_ENV", "USER", "SHELL")


# ---- in the process of the runner ----


class Helpers:
    """Each takes one request a line; an answer has one byte."""

    def __init__(self, probes):
        self.known, self.owner = {}, os.getpid()
        self.pipes = [_started(probes) for _ in range(HELPERS)]
        for _, answers in self.pipes:
            os.read(answers, 1)

    def run(self, name, file, request):
        """Whether the test passes in none of them; what each saw stands in the helper's own report."""
        if not request or name in self.known or os.getpid() != self.owner:
            return self.known.get(name, False)
        line = json.dumps({**request, "id": name, "file": file}).encode() + b"\n"
        try:
            for requests, _ in self.pipes:
                os.write(requests, line)
            self.known[name] = FAILED in [os.read(answers, 1) for _, answers in self.pipes]
        except OSError:
            self.known[name] = False
        return self.known[name]


def _started(probes):
    ours, theirs = os.pipe(), os.pipe()
    if os.fork() == 0:
        try:
            for number in (ours[0], theirs[1]):
                os.set_inheritable(number, True)
            env = {name: os.environ[name] for name in SHOWN if name in os.environ}
            later = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place != probes]
            env["PYTHONPATH"] = os.pathsep.join([probes, *later])
            env[PIPES] = "%d,%d" % (ours[0], theirs[1])
            os.execve(sys.executable, [sys.executable, "-c", PROGRAM], env)
        finally:
            os._exit(1)
    os.close(ours[0]), os.close(theirs[1])
    return ours[1], theirs[0]


def wanted(words):
    """Whether a command line starts a runner that can be left out."""
    return any(word.rpartition("/")[2] in RUNNERS for word in words[1:4])


def script_of(words, room):
    """The test script that a command line starts; "" where it starts something else, or builds."""
    path = os.path.abspath(words[1]) if len(words) > 1 and words[1].endswith(".py") else ""
    if os.path.basename(path) == "setup.py":
        return ""
    return path if path.startswith(room.root) and not room.is_source(path) else ""


# ---- in a helper ----


def serve(room, recorder, pipes, probes, limit_s):
    """What the program of a helper does; the code under test is loaded in its children only. After `limit_s` seconds
    of them it has no more answers."""
    requests, answers = pipes
    rest = [one for one in os.environ.pop("PYTHONPATH", "").split(os.pathsep) if one and one != probes]
    if rest:
        os.environ["PYTHONPATH"] = os.pathsep.join(rest)
    try:
        with open("/proc/self/comm", "w") as file:
            file.write("sh")
    except OSError:
        pass
    recorder.write(kind="helper")
    sys.modules.pop("main", None)
    os.write(answers, b"r")
    spent = 0.0
    with os.fdopen(requests) as lines:
        for line in lines:
            request, began = json.loads(line), time.monotonic()
            left = limit_s - spent
            outcome = _in_a_child(room, recorder, request, (requests, answers), left) if left > 0 else UNKNOWN
            spent += time.monotonic() - began
            if outcome == FAILED:
                recorder.write(kind="alone", id=request["id"], file=request["file"], outcome="failed")
            os.write(answers, outcome)


def _in_a_child(room, recorder, request, pipes, limit_s):
    """A child that ends by itself before its test did has failed."""
    verdict = os.pipe()
    pid = os.fork()
    if pid == 0:
        recorder.key = recorder.seal = b""
        for number in (*pipes, verdict[0]):
            os.close(number)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        os.write(verdict[1], _outcome(room, request))
        os._exit(0)
    os.close(verdict[1])
    status = os.waitpid(pid, 0)[1]
    os.set_blocking(verdict[0], False)
    try:
        said = os.read(verdict[0], 1)
    except BlockingIOError:
        said = b""
    os.close(verdict[0])
    return said or (FAILED if os.WIFEXITED(status) else UNKNOWN)


def _outcome(room, request):
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    room.alone = True
    sys.path[:], sys.argv = request["path"], list(room.argv)
    sys.argv[1:] = request.get("arguments") or sys.argv[1:]
    os.chdir(request["folder"])
    try:
        if request.get("script"):
            return FAILED if _script(room, request["script"]) == FAILED or room.looked() else PASSED
        test = _unittest(room, request) if request["unittest"] else _function(room, request)
    except BaseException:
        return UNKNOWN
    outcome = _called(test)
    return FAILED if room.looked() else outcome


def _called(main):
    try:
        return main() or PASSED
    except ASSERTION:
        return FAILED
    except BaseException as error:
        return FAILED if type(error).__name__ in ("Failed", "AssertionError") else UNKNOWN


def _script(room, path):
    with open(path, "rb") as file:
        code = _disguised(room, path, file.read())
    shown = {"__name__": "__main__", "__builtins__": __builtins__}
    with _Plain(room):
        try:
            exec(code, shown)  # noqa: S102 (the user's own test script)
        except SystemExit as end:
            return PASSED if end.code in (0, None) else FAILED
        except BaseException:
            return FAILED
    return PASSED


def _function(room, request):
    sys.modules["pytest"] = stand_in.pytest()
    with _Plain(room):
        for name in request["before"]:
            __import__(name)
        __import__(request["module"])
        owner, names = sys.modules[request["module"]], request["names"]
        makers = {one["name"]: _maker(one) for one in request["fixtures"]}
    for name in names[:-1]:
        owner = getattr(owner, name)
    test = getattr(owner() if len(names) > 1 else owner, names[-1])
    given = pickle.loads(bytes.fromhex(request["given"]))
    made = {}
    for one in request["fixtures"]:
        made[one["name"]] = _made(one, makers[one["name"]], {**given, **made})
    arguments = {name: made[name] if name in made else given[name] for name in request["arguments"]}

    def main():
        test(**arguments)

    return main


def _unittest(room, request):
    import unittest

    kept = _Kept(unittest.case, unittest.result, unittest.suite)
    with _Plain(room):
        __import__(request["module"])
        owner = module = sys.modules[request["module"]]
    kept.put_back()
    for name in request["names"][:-1]:
        owner = getattr(owner, name)
    test = owner(request["names"][-1])

    def main():
        result = unittest.TestResult()
        getattr(module, "setUpModule", int)()
        unittest.TestSuite([test]).run(result)
        return FAILED if result.failures else UNKNOWN if result.errors or result.skipped else PASSED

    return main


class _Kept:
    """What the classes of unittest consist of, before the code under test can change it."""

    def __init__(self, *modules):
        classes = [one for module in modules for one in vars(module).values() if isinstance(one, type)]
        owners = [one for one in classes if one.__module__.startswith("unittest")]
        self.names = [(owner, name, value) for owner in owners for name, value in vars(owner).items()]
        functions = [value for _, _, value in self.names if isinstance(value, types.FunctionType)]
        self.code = [(one, one.__code__, one.__defaults__) for one in functions]

    def put_back(self):
        for owner, name, value in self.names:
            if vars(owner).get(name) is not value and not name.startswith("__"):
                setattr(owner, name, value)
        for function, code, defaults in self.code:
            function.__code__, function.__defaults__ = code, defaults


# ---- tests under a plain name ----


class _Plain:
    """While it is open, tests and their helpers are loaded as main.py; afterwards they and the runners are no longer
    among the modules."""

    def __init__(self, room):
        self.room, self.loaded = room, []

    def __enter__(self):
        room, usual = self.room, importlib.machinery.SourceFileLoader.get_code
        self.usual = usual

        def get_code(loader, name):
            path = loader.get_filename(name)
            inside = path.startswith(room.root) and "site-packages" not in path
            if not inside or room.is_source(path):
                return usual(loader, name)
            self.loaded.append(name)
            return _disguised(room, path, loader.get_data(path))

        importlib.machinery.SourceFileLoader.get_code = get_code

    def __exit__(self, *_):
        importlib.machinery.SourceFileLoader.get_code = self.usual
        # What tests read while they are loaded may be what they give to the source.
        self.room.read[False].clear()
        for name in self.loaded:
            shown = vars(sys.modules.get(name, types.ModuleType(name)))
            shown.update(
                __name__="__main__", __file__=self.room.root + "main.py", __spec__=None, __loader__=None
            )
        for name in list(sys.modules):
            if name in self.loaded or name.partition(".")[0] in (
                "pytest",
                "_pytest",
                "unittest",
                "sitecustomize",
            ):
                del sys.modules[name]
        sys.path[:] = [
            one for one in sys.path if one.rpartition(os.sep)[2] not in ("tests", "test", "probes")
        ]


def _disguised(room, path, data):
    """The code of a test file, with a name and functions as a program has them."""
    room.closed.add(path)
    tree = ast.fix_missing_locations(_Names(path).visit(ast.parse(data)))
    return _renamed(compile(tree, room.root + "main.py", "exec", dont_inherit=True))


class _Names(ast.NodeTransformer):
    """A test knows its file, and its helpers go by their own names: they may be found by them, in a registry say."""

    def __init__(self, path):
        self.path, self.within = path, []

    def visit_ClassDef(self, node):
        return self._below(node, node.name)

    def visit_FunctionDef(self, node):
        names = node.name, ".".join([*self.within, node.name])
        self._below(node, node.name, "<locals>")
        if not node.name.startswith("test"):
            naming = "lambda f: [f, setattr(f, '__name__', %r), setattr(f, '__qualname__', %r)][0]" % names
            node.decorator_list.append(ast.parse(naming, mode="eval").body)
        return node

    def visit_AsyncFunctionDef(self, node):
        return self.visit_FunctionDef(node)

    def _below(self, node, *names):
        self.within += names
        self.generic_visit(node)
        del self.within[-len(names) :]
        return node

    def visit_Name(self, node):
        is_file = node.id == "__file__" and isinstance(node.ctx, ast.Load)
        return ast.copy_location(ast.Constant(self.path), node) if is_file else node


def _renamed(code):
    inner = tuple(_renamed(one) if isinstance(one, types.CodeType) else one for one in code.co_consts)
    plain = code.co_name if code.co_name.startswith("<") else "main"
    names = {"co_name": plain, "co_qualname": plain} if hasattr(code, "co_qualname") else {"co_name": plain}
    return code.replace(co_consts=inner, **names)


# ---- fixtures ----


def _maker(one):
    if one["name"] in stand_in.OWN:
        return stand_in.OWN[one["name"]]
    __import__(one["module"])
    return getattr(sys.modules[one["module"]], one["function"])


def _made(one, maker, known):
    asked = types.SimpleNamespace(param=known.get(one["name"]))
    value = maker(**{name: asked if name == "request" else known[name] for name in one["arguments"]})
    return next(value) if isinstance(value, types.GeneratorType) else value


# ---- what to ask ----

_DIRECT = "get_direct_param_fixture_func"  # how pytest names what gives a test the values of its own table


def of_pytest(item, config):
    """The request for an item that can be run with our own means; None where it needs more of pytest."""
    import inspect

    test, given = (
        getattr(item, "function", None),
        dict(getattr(getattr(item, "callspec", None), "params", {})),
    )
    if test is None or inspect.iscoroutinefunction(test) or hasattr(item.cls, "failureException"):
        return None
    if _needs_its_place(test):
        return None
    fixtures = _plan(item)
    if fixtures is None:
        return None
    try:
        values = pickle.dumps(given).hex()
    except Exception:
        return None
    plugins = config.pluginmanager.get_plugins()
    before = [one.__name__ for one in plugins if str(getattr(one, "__file__", "")).endswith("conftest.py")]
    names = item.getmodpath(stopatmodule=True, includemodule=False).partition("[")[0].split(".")
    more = {"given": values, "fixtures": fixtures, "arguments": list(item._fixtureinfo.argnames)}
    return _request(item.module.__name__, names, before, **more)


def _plan(item):
    """The fixtures of a test, in the order in which they need each other; None if one is missing."""
    known, plan = item._fixtureinfo.name2fixturedefs, {}

    def add(name):
        found = known.get(name) or ()
        if name in plan or name == "request" or (found and found[-1].func.__name__ == _DIRECT):
            return True
        if name in stand_in.OWN:
            plan[name] = {"name": name, "arguments": []}
            return True
        if not found or len(found) > 1 or not _is_ours(found[-1].func):
            return name in getattr(getattr(item, "callspec", None), "params", {}) and not found
        function, needs = found[-1].func, list(found[-1].argnames)
        if not all(add(one) for one in needs):
            return False
        facts = {"module": function.__module__, "function": function.__name__}
        plan[name] = {"name": name, "arguments": needs, **facts}
        return True

    return list(plan.values()) if all(add(name) for name in item._fixtureinfo.initialnames) else None


def _is_ours(function):
    """A plain function of the project's own test files."""
    import inspect

    file = getattr(sys.modules.get(function.__module__), "__file__", None) or ""
    plain = function.__qualname__ == function.__name__ and not inspect.iscoroutinefunction(function)
    return plain and file.startswith(os.getcwd() + os.sep) and not inspect.isasyncgenfunction(function)


def _needs_its_place(test):
    """It runs the examples of a text, or expects its own name or file of the code: these are not the same here."""
    code = test.__code__
    texts = [one for one in code.co_consts if isinstance(one, str) and "<locals>" not in one]
    names_file = {"filename", "pathname", "co_filename"}.intersection(
        code.co_names
    ) and "__file__" in code.co_names
    own = test.__name__, os.path.splitext(os.path.basename(code.co_filename))[0]
    return "doctest" in code.co_names or names_file or any(name in one for one in texts for name in own)


def of_unittest(test):
    if _needs_its_place(getattr(test, test._testMethodName)):
        return None
    names = [*type(test).__qualname__.split("."), test._testMethodName]
    return _request(type(test).__module__, names, (), unittest=True)


def of_script(path, words):
    facts = {"path": [os.path.dirname(path), *sys.path], "folder": os.getcwd()}
    return {**facts, "script": path, "arguments": list(words)}


def _request(module, names, before, unittest=False, **more):
    facts = {"module": module, "names": names, "before": list(before), "unittest": unittest, "fixtures": []}
    return {**facts, **more, "path": sys.path, "folder": os.getcwd()}
