"""The program of a helper (see alone.py): runs single tests without their runner, each in a child of its own."""

import ast
import importlib.machinery
import json
import os
import pickle
import re
import signal
import sys
import tempfile
import time
import traceback
import types

PASSED, FAILED, UNKNOWN = b"p", b"f", b"u"
ASSERTION = AssertionError
PRINTED_MOST = 1 << 20  # bytes of one example
REQUESTS, ANSWERS = 60, 61  # descriptors of a child that has loaded a module
stand_in = None  # the module of this name: sitecustomize loads it


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
    spent, loaded = 0.0, {}
    with os.fdopen(requests) as lines:
        for line in lines:
            request, began = json.loads(line), time.monotonic()
            remaining = limit_s - spent
            outcome = _answer(room, recorder, request, loaded, remaining) if remaining > 0 else UNKNOWN
            spent += time.monotonic() - began
            if outcome == FAILED:
                kind = "bitten" if request["broken"] else "alone"
                recorder.write(kind=kind, id=request["id"], file=request["file"], outcome="failed")
            os.write(answers, outcome)


def _answer(room, recorder, request, loaded, limit_s):
    """By a child that has loaded what this test needs; tests of one module share it."""
    fixtures = sorted({one.get("module", "") for one in request["fixtures"]})
    key = json.dumps(
        [request.get(name) for name in ("script", "module", "before", "broken", "path")]
        + fixtures
        + ["examples" in request]
    )
    if key not in loaded:
        loaded[key] = _Loaded(room, recorder, request, limit_s)
    outcome, goes_on = loaded[key].run(request, limit_s)
    if not goes_on:
        del loaded[key]
    return outcome


class _Loaded:
    """A child that has loaded the module of some tests, and forks for each of them. One that ends by itself before its
    test did has failed."""

    def __init__(self, room, recorder, request, limit_s):
        ours, theirs = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            recorder.key = recorder.seal = b""
            null = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(null, number)
            os.dup2(ours[0], REQUESTS), os.dup2(theirs[1], ANSWERS)
            os.closerange(3, REQUESTS)
            _serve_module(room, request, limit_s)
            os._exit(0)
        os.close(ours[0]), os.close(theirs[1])
        self.requests, self.answers = ours[1], theirs[0]

    def run(self, request, limit_s):
        """(outcome, whether it can take another test)"""
        try:
            os.write(self.requests, json.dumps({**request, "limit_s": limit_s}).encode() + b"\n")
            answer = os.read(self.answers, 2)
        except OSError:
            answer = b""
        if answer[1:] == b"+":
            return answer[:1], True
        os.close(self.requests), os.close(self.answers)
        status = os.waitpid(self.pid, 0)[1]
        return answer[:1] or (FAILED if os.WIFEXITED(status) else UNKNOWN), False


def _serve_module(room, request, limit_s):
    _stop_after(limit_s)
    room.alone = True
    sys.path[:], sys.argv = request["path"], list(room.argv)
    sys.argv[1:] = request.get("arguments") if request.get("script") else sys.argv[1:]
    os.chdir(request["folder"])
    try:
        test_of = _test_maker(room, request)
    except BaseException:
        test_of = None
    shared = len(sys._current_frames()) == 1  # a fork takes no threads with it
    if shared:
        _stop_after(0)
    with os.fdopen(REQUESTS) as lines:
        for line in lines:
            job = json.loads(line)
            if test_of is None:
                outcome = UNKNOWN
            else:
                outcome = _in_a_child(room, job, test_of) if shared else _outcome(room, job, test_of)
            os.write(ANSWERS, outcome + (b"+" if shared else b"."))
            if not shared:
                return


def _stop_after(seconds):
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _in_a_child(room, request, test_of):
    verdict = os.pipe()
    pid = os.fork()
    if pid == 0:
        for number in (REQUESTS, ANSWERS, verdict[0]):
            os.close(number)
        _stop_after(request["limit_s"])
        os.write(verdict[1], _outcome(room, request, test_of))
        os._exit(0)
    os.close(verdict[1])
    status = os.waitpid(pid, 0)[1]
    os.set_blocking(verdict[0], False)
    try:
        reply = os.read(verdict[0], 1)
    except BlockingIOError:
        reply = b""
    os.close(verdict[0])
    return reply or (FAILED if os.WIFEXITED(status) else UNKNOWN)


def _outcome(room, request, test_of):
    try:
        test = test_of(request)
    except BaseException:
        return UNKNOWN
    outcome = _called(test)
    if request["broken"]:
        return PASSED if outcome == PASSED else FAILED
    return FAILED if room.looked() else outcome


def _called(main):
    try:
        return main() or PASSED
    except ASSERTION:
        return FAILED
    except BaseException as error:
        return FAILED if type(error).__name__ in ("Failed", "AssertionError") else UNKNOWN


def _test_maker(room, request):
    if request.get("script"):
        return lambda job: lambda: _script(room, job["script"])
    room.breaks = request["broken"]
    if "examples" in request:
        return _texts(room, request)
    return _unittest(room, request) if request["unittest"] else _functions(room, request)


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


def _functions(room, request):
    with _Plain(room):
        module = _loaded_as_asked(request)
        makers = {one["module"]: _module(one) for one in request["fixtures"] if "module" in one}

    def test_of(asked):
        owner, names = module, asked["names"]
        for name in names[:-1]:
            owner = getattr(owner, name)
        owner = owner() if len(names) > 1 else owner
        test = getattr(owner, names[-1])
        values = pickle.loads(bytes.fromhex(asked["given"]))
        built = {}
        for one in asked["fixtures"]:
            own = one["name"] in stand_in.OWN
            place = owner if own or one["of_class"] else makers[one["module"]]
            maker = stand_in.OWN[one["name"]] if own else getattr(place, one["function"])
            built[one["name"]] = _made(one, maker, {**values, **built})
        arguments = {name: built[name] if name in built else values[name] for name in asked["arguments"]}

        def main():
            test(**arguments)

        return main

    return test_of


def _loaded_as_asked(request):
    sys.modules["pytest"] = stand_in.pytest()
    for name in (*request["before"], request["module"]):
        __import__(name)
    return sys.modules[request["module"]]


def _module(fixture):
    __import__(fixture["module"])
    return sys.modules[fixture["module"]]


def _unittest(room, request):
    import unittest

    kept = _Kept(unittest.case, unittest.result, unittest.suite)
    with _Plain(room):
        module = _loaded_as_asked(request)
    kept.put_back()

    def test_of(asked):
        owner = module
        for name in asked["names"][:-1]:
            owner = getattr(owner, name)
        test = owner(asked["names"][-1])
        for name in ("_setupAsyncioRunner", "_setupAsyncioLoop"):
            if hasattr(test, name):
                setattr(test, name, _without_debug(getattr(test, name), test))

        def main():
            result = unittest.TestResult()
            getattr(module, "setUpModule", int)()
            unittest.TestSuite([test]).run(result)
            return FAILED if result.failures else UNKNOWN if result.errors or result.skipped else PASSED

        return main

    return test_of


def _without_debug(set_up, test):
    """The loop of an asynchronous test, as a program has it."""

    def plain():
        set_up()
        runner = getattr(test, "_asyncioRunner", None)
        (runner.get_loop() if runner else test._asyncioTestLoop).set_debug(False)

    return plain


# ---- examples in docstrings and texts ----


def _texts(room, request):
    name, shown = request["module"], {"__name__": "__main__"}
    with _Plain(room):
        if name != "__main__":
            __import__(name)
            shown = vars(sys.modules[name])

    return lambda asked: lambda: _examples(room, asked["examples"], dict(shown))


def _examples(room, examples, shown):
    """Each is typed in, so to speak, and what it prints is compared with what the text says."""
    display, output = sys.__displayhook__, tempfile.TemporaryFile()
    os.dup2(output.fileno(), 1)
    for source, want, message, flags in examples:
        sys.displayhook, start, error = display, os.fstat(1).st_size, None
        try:
            if "SKIP" not in flags:
                exec(compile(source, room.root + "main.py", "single", dont_inherit=True), shown)  # noqa: S102
        except Exception as problem:
            error = traceback.format_exception_only(type(problem), problem)[-1]
        sys.stdout.flush()
        if error is not None and message is None:
            return UNKNOWN
        printed = os.pread(output.fileno(), PRINTED_MOST, start).decode(sys.stdout.encoding, "replace")
        pair = (message, error) if error is not None else (want, printed)
        if "SKIP" not in flags and not _is_as_written(*pair, flags):
            return FAILED
    return PASSED


def _is_as_written(want, got, flags):
    """As doctest compares them."""
    if "IGNORE_EXCEPTION_DETAIL" in flags:
        want, got = (one.partition(":")[0].strip().rpartition(".")[2] for one in (want, got))
    if "DONT_ACCEPT_BLANKLINE" not in flags:
        want = re.sub(r"(?m)^<BLANKLINE>\s*?$", "", want)
        got = re.sub(r"(?m)^[^\S\n]+$", "", got)
    if "NORMALIZE_WHITESPACE" in flags:
        want, got = " ".join(want.split()), " ".join(got.split())
    numbers = {"True\n": "1\n", "False\n": "0\n"}
    if want == got or numbers.get(got) == want:
        return True
    parts = [re.escape(part) for part in want.split("...")]
    return "ELLIPSIS" in flags and re.fullmatch(".*".join(parts), got, re.DOTALL) is not None


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
            wrong = room.broken.get(path) if room.breaks else None
            return _disguised(room, path, loader.get_data(path) if wrong is None else wrong.encode())

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


def _made(one, maker, known):
    asked = types.SimpleNamespace(param=known.get(one["name"]))
    value = maker(**{name: asked if name == "request" else known[name] for name in one["arguments"]})
    return next(value) if isinstance(value, types.GeneratorType) else value
