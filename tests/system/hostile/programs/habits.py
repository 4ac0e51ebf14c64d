"""Habits of programs that look at, replace or count parts of the interpreter, one per word."""

import os
import sys


def leaf(x):
    return x + 1


def middle(n):
    return sum(leaf(i) for i in range(n))


def show(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def counts_itself():
    import gc
    import threading

    show("threads", len(os.listdir("/proc/self/task")), threading.active_count())
    show("files", len(os.listdir("/proc/self/fd")))
    show("children", open("/proc/thread-self/children").read().split())
    show(gc.callbacks, gc.isenabled(), gc.get_debug(), gc.get_freeze_count())
    show(len(sys._current_frames()))
    show(sorted(n for n in vars(__import__("builtins")) if "insitu" in n))


def allocations():
    import gc

    def loop():
        total = 0
        for _ in range(100):
            total += middle(10)
        return total

    for _ in range(20):
        loop()
    gc.collect()
    gc.disable()
    counts = []
    for _ in range(4):
        before, objects = sys.getallocatedblocks(), gc.get_count()[0]
        loop()
        counts.append((sys.getallocatedblocks() - before, gc.get_count()[0] - objects))
    show(counts[-1], sys.getrefcount(leaf), sys.getsizeof(leaf.__code__))


def traced_memory():
    import tracemalloc

    tracemalloc.start(10)
    for _ in range(10):
        middle(10)
    first = tracemalloc.take_snapshot()
    for _ in range(100):
        middle(10)
    names = {}
    exec("\n".join(f"def f{i}(x): return x" for i in range(300)), names)
    for i in range(300):
        names[f"f{i}"](i)
    kept = [bytearray(5000) for _ in range(10)]
    second = tracemalloc.take_snapshot()
    diffs = second.compare_to(first, "filename")
    show(
        sorted(
            (os.path.basename(d.traceback[0].filename), d.size_diff > 40000)
            for d in diffs
            if abs(d.size_diff) > 2000
        ),
        len(kept),
    )


def collections():
    import gc

    gc.collect()
    seen = []
    gc.callbacks.append(lambda phase, info: seen.append((phase, info["generation"])))
    kept = [[i] for i in range(5000)]
    middle(100)
    gc.callbacks.pop()
    show(seen.count(("start", 0)), len(kept), [s["uncollectable"] for s in gc.get_stats()])


def depths():
    """How deep each kind of recursion may go, found by trying."""
    import copy
    import json
    import pickle
    import re
    import threading

    def nested(n):
        value = []
        for _ in range(n):
            value = [value]
        return value

    def deepest(function, least=10, most=60000):
        while most - least > 1:
            n = (least + most) // 2
            try:
                function(n)
                least = n
            except (RecursionError, MemoryError):
                most = n
        return least

    def down(n):
        return n and down(n - 1)

    class Attribute:
        def __getattr__(self, name):
            return 0 if name == "a0" else getattr(self, "a" + str(int(name[1:]) - 1))

    def mapped(n):
        return n and list(map(mapped, [n - 1]))

    def compared(n):
        return n and sorted([2, 1], key=lambda x: len(compared(n - 1) or []) if x == 1 else 0)

    for function in (
        down,
        lambda n: json.dumps(nested(n)),
        lambda n: repr(nested(n)),
        lambda n: copy.deepcopy(nested(n)),
        lambda n: pickle.dumps(nested(n)),
        lambda n: getattr(Attribute(), f"a{n}"),
        mapped,
        compared,
    ):
        show(deepest(function, most=1100))
    out = []
    threading.stack_size(64 << 20)
    thread = threading.Thread(target=lambda: out.append(deepest(down, most=2000)))
    thread.start()
    thread.join()
    show(out)


def errors():
    """The text of errors that pass through many kinds of frames."""
    import traceback

    def generator():
        yield leaf(1)
        raise KeyError("in generator")

    class Manager:
        def __enter__(self):
            return leaf(2)

        def __exit__(self, *words):
            raise ValueError("in exit") from words[1]

    def run():
        with Manager():
            list(generator())

    try:
        run()
    except ValueError as error:
        text = traceback.format_exc()
        frames, tb = 0, error.__traceback__
        while tb:
            frames, tb = frames + 1, tb.tb_next
        show(frames, text.replace(os.path.dirname(__file__), ""))
    show("".join(traceback.format_stack()).replace(os.path.dirname(__file__), ""))
    if sys.version_info >= (3, 11):
        group = ExceptionGroup("group", [ValueError(1), ExceptionGroup("inner", [KeyError(2)])])
        group.add_note("a note")
        raise group


def closed_generators():
    import gc
    import threading

    log = []

    def numbers(n):
        try:
            for i in range(n):
                log.append((yield leaf(i)))
        except GeneratorExit:
            log.append("closed")
            raise
        finally:
            log.append(middle(2))

    first = numbers(5)
    next(first)
    first.send("a")
    del first
    holder = {}
    holder["self"], holder["generator"] = holder, numbers(3)
    next(holder["generator"])
    del holder
    gc.collect()
    moved = numbers(4)
    next(moved)
    thread = threading.Thread(target=lambda: moved.send("from thread"))
    thread.start()
    thread.join()
    try:
        moved.throw(KeyError("thrown"))
    except KeyError as error:
        log.append(repr(error))
    show(log)


def replaced_code():
    """A function whose code is replaced while it runs and between calls."""

    def first(x):
        return x + 1

    def second(x):
        return x + 2

    total = 0
    for i in range(2000):
        first.__code__, second.__code__ = second.__code__, first.__code__
        total += first(i)
    for i in range(2000):
        first.__code__ = first.__code__.replace(co_name=f"first{i % 7}", co_firstlineno=i + 1)
        total += first(i)

    names = {}
    exec("def itself(n):\n    itself.__code__ = other\n    return n and itself(n - 1)", names)
    names["other"] = (lambda n: n * 2).__code__
    itself = names["itself"]
    show(total, itself(5), itself(5), first.__name__)


def all_events():
    if sys.version_info < (3, 12):
        return show("no tools")
    from collections import Counter

    m = sys.monitoring
    m.use_tool_id(m.DEBUGGER_ID, "mine")
    seen = Counter()
    mask = 0
    wanted = {middle.__code__, leaf.__code__}
    for name in dir(m.events):
        number = getattr(m.events, name)
        if not isinstance(number, int) or not number or name in ("BRANCH",):
            continue

        def note(code, *words, name=name):
            if code in wanted:
                seen[name] += 1

        m.register_callback(m.DEBUGGER_ID, number, note)
        if name not in ("C_RETURN", "C_RAISE"):
            mask |= number
    m.set_events(m.DEBUGGER_ID, mask)
    middle(30)
    try:
        middle("x")
    except TypeError:
        pass
    m.set_events(m.DEBUGGER_ID, 0)
    m.set_local_events(m.DEBUGGER_ID, leaf.__code__, m.events.LINE | m.events.PY_RETURN)
    middle(30)
    m.set_local_events(m.DEBUGGER_ID, leaf.__code__, 0)
    m.free_tool_id(m.DEBUGGER_ID)
    show(sorted(seen.items()))


def opcodes():
    seen = []

    def trace(frame, event, argument):
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if frame.f_code.co_filename == __file__:
            seen.append((event, frame.f_lasti))
        return trace

    sys.settrace(trace)
    middle(20)
    sys.settrace(None)
    show(len(seen), sum(at for _, at in seen))


def jumps():
    """A tracer that moves the line, as debuggers do."""
    log = []

    def moved():
        log.append(1)
        log.append(2)
        log.append(3)
        return leaf(4)

    def trace(frame, event, argument):
        if frame.f_code is moved.__code__ and event == "line":
            if frame.f_lineno == moved.__code__.co_firstlineno + 2 and len(log) == 1:
                frame.f_lineno += 1
        return trace

    sys.settrace(trace)
    log.append(moved())
    sys.settrace(None)
    show(log)


def stack_trampoline():
    if sys.version_info < (3, 12):
        return show("no trampoline")
    try:
        sys.activate_stack_trampoline("perf")
    except ValueError as error:
        show(error)
    show(sys.is_stack_trampoline_active(), middle(100))
    names = {}
    exec("\n".join(f"def f{i}(x): return x" for i in range(300)), names)
    show(sum(names[f"f{i}"](i) for i in range(300)))
    sys.deactivate_stack_trampoline()
    show(middle(100))
    try:
        os.remove(f"/tmp/perf-{os.getpid()}.map")
    except FileNotFoundError:
        show("no map")


def forbids():
    """An audit hook that forbids everything, then leaves."""
    names = set()

    def hook(event, words):
        names.add(event)
        raise RuntimeError(event)

    middle(100)
    sys.addaudithook(hook)
    middle(100000)
    os.write(1, f"{sorted(names)}\n".encode())


def local_streams():
    """Standard streams are replaced by objects of the program, closed, or None."""
    import io

    class Loud(io.TextIOBase):
        def write(self, text):
            os.write(1, text.upper().encode())
            return len(text)

    sys.stdout = sys.__stdout__ = Loud()
    sys.stderr.close()
    sys.stderr = None
    sys.stdin = None
    print("replaced", middle(3))
    sys.exit("nobody reads this")


def faults_later():
    import faulthandler
    import time

    file = open("dump", "w")
    faulthandler.dump_traceback_later(0.2, repeat=False, file=file)
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        middle(100)
    faulthandler.cancel_dump_traceback_later()
    file.close()
    lines = open("dump").read().splitlines()
    show(
        lines[0].startswith("Timeout"),
        {line.split(" in ")[1] for line in lines if " in " in line}
        <= {"leaf", "middle", "<genexpr>", "faults_later", "<module>"},
        len([l for l in lines if l.startswith("Thread")]),
    )


def crashes():
    import ctypes
    import faulthandler
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable()
    middle(3)
    if "--mpi" in sys.argv and MPI.COMM_WORLD.rank:
        MPI.COMM_WORLD.Barrier()  # the launcher ends it; what two ranks print would be mixed
    ctypes.string_at(0)


def interpreters():
    if sys.version_info >= (3, 13):
        import _interpreters as subs
    else:
        import _xxsubinterpreters as subs
    for _ in range(5):
        one = subs.create()
        code = "import os, sys\ndef f(n): return n and f(n-1)\nos.write(1, f'{f(50)} {len(sys.argv) > 0} {sys.getprofile()}\\n'.encode())"
        (subs.exec if hasattr(subs, "exec") else subs.run_string)(one, code)
        subs.destroy(one)
    show(middle(3))


def daemon_threads():
    import threading
    import time

    def run():
        while True:
            middle(50)

    def sleep():
        try:
            time.sleep(100)
        finally:
            show("never")

    for target in (run, run, sleep):
        threading.Thread(target=target, daemon=True).start()
    time.sleep(0.2)
    show("leaves")


def thread_waves():
    import threading

    done = []
    locals_of = threading.local()

    def work(n):
        locals_of.n = n
        done.append(middle(n % 5) * 0 + locals_of.n)

    for wave in range(3):
        threads = [threading.Thread(target=work, args=(n,), name=f"t{n}") for n in range(400)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    show(len(done), threading.active_count(), sum(done))


def exit_order():
    import atexit
    import logging
    import threading
    import weakref

    class Thing:
        def __del__(self):
            show("deleted", leaf(1), sys is not None)

    atexit.register(show, "registered first")
    atexit.register(lambda: 1 / 0)
    atexit.register(lambda: sys.exit(7))
    atexit.register(
        lambda: (
            threading.Thread(target=middle, args=(3,)).start()
            if sys.version_info < (3, 12)
            else None
        )
    )
    sys.modules["made_up"] = Thing()
    weakref.finalize(sys.modules["made_up"], show, "finalized")
    logging.getLogger().addHandler(logging.StreamHandler(sys.stdout))
    logging.warning("logged %d", middle(2))
    sys.exit(3)


def forks():
    import threading

    codes = []

    def work(n):
        pid = os.fork()
        if pid == 0:
            middle(20)
            sys.exit(n) if n % 2 else os._exit(n)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    import warnings

    warnings.simplefilter("ignore")
    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        show("no child is left")
    show(sorted(codes))


def waits_for_any():
    """A handler of SIGCHLD that waits for any child, as supervisors do."""
    import signal
    import time

    reaped = []

    def reap(*words):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            reaped.append(os.waitstatus_to_exitcode(status))

    signal.signal(signal.SIGCHLD, reap)
    for n in range(10):
        if os.fork() == 0:
            os._exit(n)
    end = time.monotonic() + 10
    while len(reaped) < 10 and time.monotonic() < end:
        middle(10)
    time.sleep(0.3)
    show(sorted(reaped))


def every_signal():
    import signal
    import time

    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    end = time.thread_time() + 0.7
    while time.thread_time() < end:
        middle(50)
    show("pending", signal.sigpending(), signal.sigtimedwait(signal.valid_signals(), 0))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
    seen = []
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP) and not 32 <= number < 34:
            signal.signal(number, lambda number, frame: seen.append(number))
    end = time.thread_time() + 0.7
    while time.thread_time() < end:
        middle(50)
    show("seen", seen)


def static_storage():
    """Libraries with thread-local storage that must fit into what the loader keeps free."""
    import ctypes
    import subprocess

    for n in range(12):
        source = f'static __thread char area[120] __attribute__((tls_model("initial-exec")));\nint get{n}(void) {{ return area[{n}]++; }}\n'
        open(f"s{n}.c", "w").write(source)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", f"s{n}.so", f"s{n}.c"], check=True)
    loaded = 0
    for n in range(12):
        try:
            loaded += getattr(ctypes.CDLL(f"./s{n}.so"), f"get{n}")() == 0
        except OSError as error:
            show(str(error).rpartition(":")[2])
    show("loaded", loaded)


def titles():
    """Renames the process in the kernel's eyes, and clears what it inherited."""
    import ctypes

    c = ctypes.CDLL(None)
    c.prctl(15, b"renamed", 0, 0, 0)
    show(open("/proc/self/comm").read().strip(), len(open("/proc/self/cmdline").read().split("\0")))
    os.environ.clear()
    show(os.environb, os.popen("env | grep -c INSITU").read().strip())


def warnings_as_errors():
    import warnings

    warnings.simplefilter("error")
    warnings.filterwarnings("error", category=ResourceWarning)
    import asyncio
    import unittest

    class Case(unittest.TestCase):
        def test(self):
            self.assertEqual(asyncio.run(self.value()), 3)

        async def value(self):
            return middle(3)

    with open(os.devnull, "w") as stream:
        result = unittest.TextTestRunner(stream=stream).run(
            unittest.defaultTestLoader.loadTestsFromTestCase(Case)
        )
    show(result.wasSuccessful(), result.testsRun)


def own_names():
    """Modules of the program that have the names of ours and of our libraries."""
    for name in (
        "zmq",
        "msgpack",
        "insitu",
        "collectors",
        "rank",
        "table",
        "bootstrap",
        "numpy",
        "start_in_rank",
    ):
        with open(f"{name}.py", "w") as file:
            file.write(f"value = {name!r}\n")
    sys.path.insert(0, os.getcwd())
    import bootstrap
    import collectors
    import insitu
    import msgpack
    import rank
    import table
    import zmq

    show(
        bootstrap.value,
        collectors.value,
        insitu.value,
        msgpack.value,
        rank.value,
        table.value,
        zmq.value,
    )
    import subprocess

    subprocess.run([sys.executable, "-c", "import insitu; print(insitu.value)"], check=True)


def pickles():
    import multiprocessing
    import pickle

    global Point

    class Point:
        def __init__(self, x):
            self.x = leaf(x)

    Point.__qualname__ = "Point"
    again = pickle.loads(pickle.dumps(Point(2)))
    code = __import__("marshal").loads(__import__("marshal").dumps(middle.__code__))
    show(
        again.x,
        code == middle.__code__,
        hash(code) == hash(middle.__code__),
        sys.modules["__main__"].__file__ == __file__,
    )
    with multiprocessing.get_context("forkserver").Pool(2) as pool:
        show(pool.map(leaf, range(5)))


def documented():
    import doctest
    import types

    module = types.ModuleType("documented")
    module.__doc__ = ">>> 1 + 1\n2\n>>> {}[1]\nTraceback (most recent call last):\nKeyError: 1\n>>> print(sorted(globals()))\n['__builtins__', '__doc__', '__loader__', '__name__', '__package__', '__spec__']\n"
    show(doctest.testmod(module))


def wrapped_builtins():
    """Programs that replace built-in functions that hooks might use."""
    import builtins
    import threading
    import time

    real = builtins.open, builtins.__import__, time.perf_counter, os.getpid

    def refuse(*words, **named):
        raise AssertionError("called")

    builtins.open = builtins.len = builtins.print = builtins.getattr = builtins.isinstance = refuse
    time.perf_counter = os.getpid = os.stat = os.path.exists = refuse
    threading.get_ident = threading.current_thread = refuse
    names = {}
    total = middle(1000)
    builtins.open, builtins.__import__, time.perf_counter, os.getpid = real
    show(total, names)
    os._exit(4)


def numbers():
    """Deltas of what the kernel counts for this process, around a loop of calls."""
    import resource

    for _ in range(50):
        middle(100)
    before = resource.getrusage(resource.RUSAGE_SELF), len(open("/proc/self/maps").readlines())
    total = sum(middle(100) for _ in range(50))
    after = resource.getrusage(resource.RUSAGE_SELF), len(open("/proc/self/maps").readlines())
    show(
        total,
        after[0].ru_inblock - before[0].ru_inblock,
        after[0].ru_nvcsw - before[0].ru_nvcsw < 5,
        after[1] - before[1],
    )
    show("children", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)


def spawns():
    comm = MPI.COMM_SELF.Spawn(sys.executable, args=["-c", CHILD], maxprocs=1)
    show("spawned", comm.recv(source=0), middle(3))
    comm.Disconnect()


CHILD = """
import os, sys
from mpi4py import MPI
parent = MPI.Comm.Get_parent()
def f(n): return n and f(n - 1)
parent.send((f(20), sorted(k for k in os.environ if k.startswith("INSITU_") and k != "INSITU_TABLES"), sys.getprofile()), dest=0)
parent.Disconnect()
"""


def operations():
    """Callbacks from MPI that raise: MPI goes on, or ends as without us."""

    def add(a, b, kind):
        middle(2)
        for i in range(len(bytes(a)) // 4):
            pass
        b[:] = a

    op = MPI.Op.Create(add, commute=True)
    import array

    one, total = array.array("i", [3]), array.array("i", [0])
    for _ in range(20):
        MPI.COMM_WORLD.Allreduce([one, MPI.INT], [total, MPI.INT], op=op)
    op.Free()
    log = []

    def deleted(comm, key, value):
        log.append((value, leaf(1)))

    key = MPI.Comm.Create_keyval(delete_fn=deleted)
    copy = MPI.COMM_WORLD.Dup()
    copy.Set_attr(key, "attribute")
    copy.Free()
    MPI.Comm.Free_keyval(key)
    state = []
    request = MPI.Grequest.Start(
        lambda status, *w: state.append("query"),
        lambda *w: state.append("free"),
        lambda done, *w: state.append("cancel"),
    )
    request.Complete()
    request.Wait()
    show(total, log, state)


if __name__ == "__main__":
    os.mkdir(f"of{os.getpid()}")  # ranks share the folder
    os.chdir(f"of{os.getpid()}")
    word = sys.argv[1].replace("-", "_")
    if "--mpi" in sys.argv:
        from mpi4py import MPI
    globals()[word]()
    show("end", middle(10))
