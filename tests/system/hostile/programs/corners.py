"""Rare corners of the interpreter, one per word of the command line."""

import os
import sys


def leaf(x):
    return x + 1


def middle(n):
    return sum(leaf(i) for i in range(n))


def own_profile():
    counts = {}

    def profile(frame, event, argument):
        if frame.f_code.co_filename == __file__:
            counts[event] = counts.get(event, 0) + 1

    sys.setprofile(profile)
    middle(20)
    sys.setprofile(None)
    print(sorted(counts.items()))


def own_trace():
    lines = []

    def trace(frame, event, argument):
        if frame.f_code.co_filename == __file__:
            lines.append((event, frame.f_lineno))
            return trace

    sys.settrace(trace)
    middle(5)
    sys.settrace(None)
    print(len(lines), lines[:4])


def thread_tools():
    import threading

    seen = []
    threading.settrace(lambda *words: seen.append(words[1]))
    threading.setprofile(lambda *words: seen.append(words[1]))
    thread = threading.Thread(target=middle, args=(10,))
    thread.start()
    thread.join()
    print(len(seen), sorted(set(seen)), threading.gettrace() is not None)


def monitoring():
    if sys.version_info < (3, 12):
        return
    tools, events = sys.monitoring, sys.monitoring.events
    seen = []
    tools.use_tool_id(2, "mine")
    tools.register_callback(2, events.PY_START, lambda code, at: seen.append(code.co_name))
    tools.register_callback(2, events.LINE, lambda code, line: tools.DISABLE)
    tools.set_events(2, events.PY_START | events.LINE)
    middle(7)
    tools.restart_events()
    middle(7)
    tools.set_events(2, 0)
    tools.free_tool_id(2)
    print(seen.count("leaf"), seen.count("middle"))


def collector():
    import gc

    phases = []
    gc.callbacks.append(lambda phase, info: (middle(3), phases.append(phase)))
    gc.collect()
    gc.collect()
    print(phases, len(gc.callbacks), gc.isenabled(), gc.get_threshold())
    gc.freeze()
    gc.disable()
    middle(10)


def import_hooks():
    import importlib.abc
    import importlib.machinery
    import importlib.util

    class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
        def find_spec(self, name, path, target=None):
            print("asked for", name)
            if name == "made_up":
                return importlib.util.spec_from_loader(name, self)

        def create_module(self, spec):
            return None

        def exec_module(self, module):
            module.value = middle(4)

    sys.meta_path.insert(0, Finder())
    import colorsys
    import made_up

    print(made_up.value, colorsys.__name__)
    sys.meta_path[:] = sys.meta_path[1:2]
    sys.path[:] = []
    sys.path_hooks.clear()


def audits():
    names = []
    ours = []

    def hook(event, words):
        names.append(event)
        if event in ("open", "os.fork", "socket.connect", "os.putenv") and is_over:
            os.write(1, f"{event} {words[0]}\n".encode())

    is_over = False
    sys.addaudithook(hook)
    middle(50)
    open(os.devnull).close()
    print(names, ours)
    is_over = True


def refuses():
    """A sandbox: no file is opened any more."""

    def hook(event, words):
        if event == "open":
            raise RuntimeError("refused")

    sys.addaudithook(hook)
    middle(50)
    try:
        open(os.devnull)
    except RuntimeError as error:
        print(error)


def replaced():
    """Functions of os and time are replaced, as mocks and fake file systems do, and stay so."""
    import time

    def nothing(*words, **named):
        raise AssertionError("a replaced function was called")

    for module, names in ((os, "open close write getpid nice"), (time, "sleep monotonic time")):
        for name in names.split():
            setattr(module, name, nothing)
    middle(30)
    print("replaced")


def cleared():
    os.environ.clear()
    modules = dict(sys.modules)
    for name in list(sys.modules):
        if name not in ("sys", "builtins", "__main__", "os"):
            del sys.modules[name]
    print(middle(10), len(os.environ))
    sys.modules.update(modules)


def faults():
    import faulthandler
    import signal

    faulthandler.enable(all_threads=True)
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, file=sys.stdout)
    os.kill(os.getpid(), signal.SIGUSR1)
    faulthandler.dump_traceback_later(60)
    middle(10)
    faulthandler.cancel_dump_traceback_later()


def memory():
    import tracemalloc

    tracemalloc.start(5)
    kept = [bytes(1000 + leaf(i)) for i in range(100)]
    snapshot = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, __file__)])
    sizes = [trace.size for trace in snapshot.traces if trace.size > 1000]
    print(len(sizes), sum(sizes), len(kept))


def bytecode():
    import dis
    import hashlib
    import io
    import re

    for _ in range(100):
        middle(10)
    text = io.StringIO()
    dis.dis(middle, file=text)
    shown = re.sub("0x[0-9a-f]+", "", text.getvalue())
    digest = hashlib.sha256(middle.__code__.co_code + shown.encode())
    print(digest.hexdigest(), middle.__code__.co_code == bytes(middle.__code__.co_code))


def wakeups():
    import select
    import signal

    ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(ends[1])
    signal.signal(signal.SIGALRM, lambda *words: middle(2))
    signal.signal(signal.SIGPROF, lambda *words: middle(2))
    signal.setitimer(signal.ITIMER_REAL, 0.005)
    signal.setitimer(signal.ITIMER_PROF, 0.005)
    got = b""
    while len(set(got)) < 2:
        middle(1000)
        if select.select([ends[0]], [], [], 0)[0]:
            got += os.read(ends[0], 100)
    signal.setitimer(signal.ITIMER_PROF, 0)
    print(sorted(set(got)), ends)


def terminal():
    import pty

    child, file = pty.fork()
    if child == 0:
        os.write(1, f"child {middle(3)}".encode())
        os._exit(3)
    print(os.read(file, 100), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def spawned():
    import subprocess

    ends = os.pipe()
    code = f"import os; os.write({ends[1]}, b'x'); print(len(os.listdir('/proc/self/fd')))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        pass_fds=[ends[1]],
        preexec_fn=lambda: os.setsid(),
        capture_output=True,
    )
    pid = os.posix_spawn("/bin/echo", ["echo", "spawned"], os.environ)
    print(done, os.read(ends[0], 5), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def shutdown():
    import atexit
    import threading
    import weakref

    class Last:
        def __del__(self):
            print("deleted", leaf(1))

    global last
    last = Last()
    atexit.register(lambda: print("atexit", middle(2)))
    weakref.finalize(last, print, "finalized")
    threading._register_atexit(lambda: print("threads", middle(2)))
    sys.excepthook = lambda *words: print("hook", words[0].__name__)
    raise ValueError("at the end")


def descriptors():
    files = [open(os.devnull) for _ in range(3)]
    numbers = [file.fileno() for file in files]
    for file in files:
        file.close()
    os.closerange(3, 4096)
    middle(100)
    file = open(os.devnull)
    print(len(set(numbers)), file.fileno())


def recursion():
    import threading

    def down(n):
        return 0 if n == 0 else 1 + down(n - 1)

    sys.setrecursionlimit(10**6)
    threading.stack_size(512 << 20)
    out = []
    thread = threading.Thread(target=lambda: out.append(down(50_000)))
    thread.start()
    thread.join()
    print(out, down(5000))


def limits():
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    names = {}
    exec("\n".join(f"def f{i}(x): return x" for i in range(3000)), names)
    print(sum(names[f"f{i}"](i) for i in range(3000)))


def tasks():
    import asyncio
    import contextvars

    variable = contextvars.ContextVar("variable", default=0)

    async def work(n):
        variable.set(n)
        await asyncio.sleep(0)
        async with asyncio.timeout(5) if sys.version_info >= (3, 11) else None:
            await asyncio.sleep(0)
        return variable.get() + middle(n)

    async def main():
        task = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        task.cancel()
        values = await asyncio.gather(*(work(i) for i in range(10)), task, return_exceptions=True)
        process = await asyncio.create_subprocess_exec("echo", "child")
        return values[:-1], type(values[-1]).__name__, await process.wait()

    print(asyncio.run(main(), debug=True))


def debugger():
    import io
    import pdb

    commands = io.StringIO("next\nstep\nwhere\nreturn\ncontinue\n")
    out = io.StringIO()
    pdb.Pdb(stdin=commands, stdout=out).runcall(middle, 3)
    print(len(out.getvalue().splitlines()), "leaf" in out.getvalue())


def profilers():
    import cProfile
    import profile
    import pstats
    import trace

    fast = cProfile.Profile()
    fast.runcall(middle, 10)
    print(sorted((key[2], calls[0]) for key, calls in pstats.Stats(fast).stats.items()))
    slow = profile.Profile(bias=0)
    slow.runcall(middle, 5)
    slow.create_stats()
    print(sorted(calls[0] for key, calls in slow.stats.items()))
    lines = trace.Trace(count=True, trace=False)
    lines.runfunc(middle, 4)
    print(sorted(n for key, n in lines.results().counts.items() if key[0] == __file__))


def forks_in_threads():
    import threading
    import warnings

    warnings.simplefilter("ignore")  # its text has the process id
    codes = []

    def work(n):
        for _ in range(5):
            pid = os.fork()
            if pid == 0:
                middle(10)
                os._exit(n)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sorted(codes))


def exec_in_thread():
    import threading

    if os.environ.get("AGAIN"):
        print("again", middle(3))
        return
    os.environ["AGAIN"] = "1"
    words = [sys.executable, *sys.argv]
    thread = threading.Thread(target=lambda: os.execv(sys.executable, words))
    thread.start()
    thread.join()


def exit_in_thread():
    import threading

    thread = threading.Thread(target=lambda: sys.exit(5))
    thread.start()
    thread.join()


def swapped_hooks():
    import threading

    def hook(*words):
        return hook

    def work():
        for _ in range(50):
            sys.settrace(hook)
            middle(3)
            sys.settrace(None)
            sys.setprofile(hook)
            middle(3)
            sys.setprofile(None)

    print(sys.getprofile(), sys.gettrace())
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sys.getprofile(), sys.gettrace(), threading.getprofile(), threading.gettrace())


def frames():
    import inspect
    import traceback

    def inner():
        return [frame.function for frame in inspect.stack()], len(sys._current_frames())

    print(inner(), "".join(traceback.format_stack()).count("File"))


def code_changes():
    def first():
        return 1

    def second():
        return 2

    total = 0
    for i in range(2000):
        code = second.__code__
        first.__code__ = code.replace(co_name=f"name{i}") if i % 2 else code
        total += first()
    print(total)


def deep_generators():
    def chain(n):
        if n:
            yield from chain(n - 1)
        yield n

    print(sum(chain(200)))
    started = [chain(3) for _ in range(100)]
    for generator in started:
        next(generator)
    for generator in started:
        generator.close()
    thrown = chain(2)
    next(thrown)
    try:
        thrown.throw(KeyError("thrown"))
    except KeyError as error:
        print(repr(error))


def weak_code():
    import gc
    import weakref

    functions = []
    for i in range(3000):
        names = {}
        exec(compile(f"def f(): return {i}", f"<generated {i}>", "exec"), names)
        names["f"]()
        functions.append(weakref.ref(names["f"]))
        names.clear()
    gc.collect()
    print(sum(function() is not None for function in functions))


def exceptions():
    def bad(n):
        if n == 0:
            raise ValueError("bad")
        try:
            bad(n - 1)
        finally:
            leaf(n)

    depth = 0
    for _ in range(100):
        try:
            bad(30)
        except ValueError as error:
            step = error.__traceback__
        while step:
            depth += 1
            step = step.tb_next
    print(depth)


def closed_streams():
    os.close(0)
    os.close(2)
    file = open(os.devnull)
    print(file.fileno(), middle(5))
    sys.stderr = None


def time_outs():
    import signal

    class TimeOut(Exception):
        pass

    def leave(*words):
        raise TimeOut

    signal.signal(signal.SIGALRM, leave)
    caught = 0
    for _ in range(200):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0005)
            while True:
                middle(20)
        except TimeOut:
            caught += 1
    print(caught)


def process_pools():
    import concurrent.futures
    import multiprocessing

    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
            print(method, sum(pool.map(leaf, range(20))))


def callbacks():
    import ctypes

    back = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(middle)
    print(back(4), ctypes.CDLL(None).getpid() == os.getpid())


def import_twice():
    import importlib
    import json

    importlib.reload(json)
    del sys.modules["json"]
    import json

    print(json.dumps([1]), [name for name in sys.modules if "insitu" in name])


if __name__ == "__main__":
    globals()[sys.argv[1].replace("-", "_")]()
    print("end", middle(10), flush=True)
