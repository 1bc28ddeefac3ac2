"""Shows the code under test an ordinary program instead of a test run.

In such a room the project's source finds no test runner among its modules, arguments, callers and variables; the tests
and the runner see everything as it is. Code whose result depends on being tested then fails its tests. It works by
the import statement: source files get their own view of `sys` and of the modules that look at the stack.
"""

import _thread
import builtins
import io
import os
import sys
import types
import warnings

MAINS = ("unittest.__main__", "doctest", "pytest.__main__")
RUNNERS = (
    "_pytest",
    "pytest",
    "unittest",
    "doctest",
    "sitecustomize",
)  # what their modules put somewhere is not shown
VARIABLES = (
    "PYTEST_CURRENT_TEST",
    "PYTEST_VERSION",
    "PYTEST_ADDOPTS",
    "CI",
    "MAKELEVEL",
    "MAKEFLAGS",
    "MFLAGS",
)


class Room:
    """What the source of one project may see."""

    def __init__(self, root, source, argv):
        self.root = os.path.join(root, "")
        self.source = frozenset(os.path.join(root, path) for path in source)
        self.argv = argv
        self.given = None  # the process's own arguments, as they were at the start
        self.known = set(sys.modules)  # modules of every Python, and those that the source has imported
        self.main = types.ModuleType("__main__")
        self.filters = list(warnings.filters)
        self.frame = _frame_of(self.main, argv[0])
        self.views = {}
        self.streams = {}
        self.alone = False  # a test runs here without its runner
        self.broken, self.breaks = {}, False  # test files with wrong assertions; whether they are loaded
        self.closed = set()  # code of tests
        self.read = {True: set(), False: set()}  # files of the project besides source: by source, by tests
        if argv[0] != "-c":
            self.main.__file__ = argv[0]

    def is_source(self, file):
        return bool(file) and file in self.source

    def staged(self):
        """Whether a test runner or a test script is at work in this process."""
        main = sys.modules.get("__main__")
        file = os.path.abspath(getattr(main, "__file__", None) or "")
        if self.is_source(file):
            return False
        name = getattr(getattr(main, "__spec__", None), "name", None)
        runs = name in MAINS or "_pytest.config" in sys.modules or file.startswith(self.root)
        return runs or self.alone

    # ---- what is shown ----

    def arguments(self):
        changed = self.given is None or sys.argv is not self.given[0] or sys.argv[1:] != self.given[1]
        return sys.argv if changed else list(self.argv)

    def modules(self):
        """Those of every Python, and of the source only what source itself has imported: a helper that the tests
        alone import would tell it that they run."""
        own = {str(sys._getframe(2).f_globals.get("__name__")), *self.known}
        tops = {name.partition(".")[0] for name in own}
        shown = {name: module for name, module in sys.modules.items() if self._shows(name, module, tops)}
        return _Modules(shown, __main__=self.main)

    def _shows(self, name, module, tops):
        is_used = name.partition(".")[0] in tops and self.is_source(getattr(module, "__file__", None))
        return name in self.known or is_used

    def path(self):
        shown = (one for one in sys.path if one.rpartition(os.sep)[2] not in ("tests", "test", "probes"))
        return _Part(shown, sys.path)

    def stream(self, name):
        """A stream of the process, without the class that a runner gave it: source still writes to the same place."""
        real = getattr(sys, name)
        if not _is_runners(real):
            return real
        if name == "stdin" or not hasattr(real, "buffer"):
            return getattr(sys, "__%s__" % name)
        if self.streams.get(name, (None,))[0] is not real:
            encoding = getattr(real, "encoding", None) or "utf-8"
            plain = io.TextIOWrapper(
                _Shared(real.buffer, "<%s>" % name), encoding, newline="", write_through=True
            )
            self.streams[name] = real, plain
        return self.streams[name][1]

    def asks(self):
        """Whether source asks: its file is the first one of the project among the callers."""
        frame = sys._getframe(1)
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(self.root):
                return self.is_source(file)
            frame = frame.f_back
        return False

    def watch(self, event, args):
        """Source does not look at its own process from outside, nor into the tests."""
        if event == "open" and self.alone and isinstance(args[0], str) and "r" in str(args[1]):
            path = os.path.abspath(args[0])
            if path.startswith(self.root) and not self.is_source(path):
                self.read[self.asks()].add(path)
        if event in ("open", "os.listdir", "os.scandir") and isinstance(args[0], str):
            if args[0].startswith(("/proc", "/dev/fd")) and self.asks() and self.staged():
                raise PermissionError(13, "Permission denied", args[0])

    def looked(self):
        """Whether source has read the code of a test, or a file that a test compares with."""
        return bool(self.read[True] & (self.closed | self.read[False]))

    def getframe(self, depth=0):
        """A frame of the program, which calls source; for those of source too, since a true one leads to its tests."""
        caller, own = sys._getframe(1), 0
        while caller is not None and self.is_source(caller.f_code.co_filename):
            caller, own = caller.f_back, own + 1
        frame = self.frame
        for _ in range(depth - max(own, 1)):
            frame = frame.f_back
            if frame is None:
                raise ValueError("call stack is not deep enough")
        return frame

    def view(self, name):
        """The module as source sees it; None where it sees the module itself."""
        if name == "__main__":
            return self.main
        if name not in self.views:
            shown = _SHOWN.get(name)
            self.views[name] = _view(self, sys.modules[name], shown(self)) if shown else None
        return self.views[name]


def _frame_of(main, name):
    """The frame of a function that a plain program called."""
    frames, done = [], _thread.allocate_lock()
    program = compile("def main():\n    note()\n\n\nmain()\n", "<string>" if name == "-c" else name, "exec")

    def note():
        frames.append(sys._getframe(1))
        done.release()

    vars(main).update(note=note, __builtins__=builtins)
    done.acquire()
    _thread.start_new_thread(types.FunctionType(program, vars(main)), ())
    done.acquire()
    vars(main).pop("note")
    return frames[0]


class _Part(list):
    """A part of a list of the process, such as sys.path. What is added or removed is so in the whole list as well."""

    def __init__(self, shown, whole):
        list.__init__(self, shown)
        self.whole = whole

    def insert(self, at, value):
        self.whole.insert(at, value)
        list.insert(self, at, value)

    def append(self, value):
        self.whole.append(value)
        list.append(self, value)

    def remove(self, value):
        if value in self.whole:
            self.whole.remove(value)
        list.remove(self, value)


class _Modules(dict):
    """A part of sys.modules. What is written goes to sys.modules as well."""

    def __setitem__(self, name, module):
        sys.modules[name] = module
        dict.__setitem__(self, name, module)

    def __delitem__(self, name):
        sys.modules.pop(name, None)
        dict.__delitem__(self, name)

    def pop(self, name, *default):
        sys.modules.pop(name, None)
        return dict.pop(self, name, *default)

    def setdefault(self, name, default=None):
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, *others, **more):
        for name, module in dict(*others, **more).items():
            self[name] = module


def _view(room, real, shown):
    """A module like `real`, with some names shown differently while tests are at work."""

    class View(types.ModuleType):
        def __getattr__(self, name):
            if name in shown and room.staged():
                return shown[name]()
            return getattr(real, name)

        def __setattr__(self, name, value):
            setattr(real, name, value)

        def __delattr__(self, name):
            delattr(real, name)

        def __dir__(self):
            return dir(real)

    View.__name__ = View.__qualname__ = "module"
    view = View(real.__name__, real.__doc__)
    for name in ("__spec__", "__loader__", "__package__"):
        vars(view)[name] = getattr(real, name, None)
    return view


class _Shared(io.RawIOBase):
    """Bytes for a stream that is not ours to close."""

    def __init__(self, buffer, name):
        self.shared, self.name, self.mode = buffer, name, "w"

    def fileno(self):
        return self.shared.fileno()

    def writable(self):
        return True

    def write(self, data):
        self.shared.write(bytes(data))
        self.shared.flush()
        return len(data)


def _is_runners(value):
    """Whether a test runner put it there."""
    module = getattr(value, "__module__", None) or type(value).__module__
    return str(module).partition(".")[0] in RUNNERS or type(value).__module__.partition(".")[0] in RUNNERS


def _hook(module, name):
    """A hook of Python, or the one that stands there without a runner."""

    def shown():
        value = getattr(module, name)
        return getattr(module, "__%s__" % name, value) if _is_runners(value) else value

    return shown


def _of_sys(room):
    hooks = {name: _hook(sys, name) for name in ("excepthook", "unraisablehook", "displayhook")}
    streams = {name: lambda name=name: room.stream(name) for name in ("stdin", "stdout", "stderr")}
    return {
        **hooks,
        **streams,
        "meta_path": lambda: _Part((one for one in sys.meta_path if not _is_runners(one)), sys.meta_path),
        "argv": room.arguments,
        "orig_argv": lambda: ["python3", *room.argv],
        "modules": room.modules,
        "path": room.path,
        "_getframe": lambda: room.getframe,
        "_current_frames": lambda: lambda: {0: room.frame},
    }


def _of_inspect(room):
    import inspect

    return {
        "stack": lambda: lambda context=1: inspect.getouterframes(room.frame, context),
        "currentframe": lambda: lambda: room.frame,
    }


def _of_traceback(room):
    import traceback

    def with_frame(name):
        return lambda: lambda f=None, *rest, **more: getattr(traceback, name)(f or room.frame, *rest, **more)

    return {name: with_frame(name) for name in ("extract_stack", "format_stack", "print_stack", "walk_stack")}


def _of_gc(_room):
    return {"get_objects": lambda: lambda *_, **__: [], "get_referrers": lambda: lambda *_: []}


def _of_warnings(room):
    return {"filters": lambda: room.filters}


def _of_threading(_room):
    import threading

    return {"excepthook": _hook(threading, "excepthook")}


def _of_faulthandler(_room):
    return {"is_enabled": lambda: lambda: False}


def _of_importlib(room):
    import importlib

    def import_module(name, package=None):
        module = importlib.import_module(name, package)
        return room.view(name) or module

    return {"import_module": lambda: import_module}


_SHOWN = {
    "sys": _of_sys,
    "inspect": _of_inspect,
    "traceback": _of_traceback,
    "gc": _of_gc,
    "warnings": _of_warnings,
    "threading": _of_threading,
    "faulthandler": _of_faulthandler,
    "importlib": _of_importlib,
}


def install(root, source, argv):
    """From now on. `source` are the paths of the code under test below `root`."""
    room = Room(root, source, argv)
    whole = builtins.__import__

    def imported(name, *rest, **more):
        module = whole(name, *rest, **more)
        if room.given is None and hasattr(sys, "argv"):
            room.given = sys.argv, sys.argv[1:]
        where = (rest[0] if rest else more.get("globals")) or sys._getframe(1).f_globals
        if not (rest[3:] or [more.get("level")])[0] and room.is_source(where.get("__file__")):
            room.known.add(name)
            if name in _SHOWN or (name == "__main__" and room.staged()):
                return room.view(name)
        return module

    if hasattr(
        imported.__code__, "replace"
    ):  # whoever looks for the file that imports it passes over Python's own
        imported.__code__ = imported.__code__.replace(co_filename="<frozen importlib._bootstrap>")
    builtins.__import__ = imported
    sys.__displayhook__ = _display_plain
    if hasattr(sys, "addaudithook"):
        sys.addaudithook(room.watch)
    return room


_display = sys.__displayhook__


def _display_plain(value):
    """A number, text or collection that shows itself as another one of its kind is shown as what it is."""
    for base in (int, float, complex, str, list, tuple, dict):
        if isinstance(value, base) and type(value).__repr__ is not base.__repr__:
            import ast

            try:
                shown = ast.literal_eval(repr(value))
                lies = type(shown) is base and shown != ast.literal_eval(base.__repr__(value))
            except (ValueError, SyntaxError):
                lies = False
            if lies:
                sys.stdout.write(base.__repr__(value) + "\n")
                return
    _display(value)


def hide(room):
    """What a runner has put into the environment and the root logger, when it has read and made it."""
    import logging

    for name in VARIABLES:
        os.environ.pop(name, None)

    class Handlers(list):
        def seen(self):
            hides = room.is_source(sys._getframe(2).f_code.co_filename)
            return [one for one in list.__iter__(self) if not (hides and _is_runners(one))]

        def __iter__(self):
            return iter(self.seen())

        def __len__(self):
            return len(self.seen())

    logging.root.handlers = Handlers(logging.root.handlers)
