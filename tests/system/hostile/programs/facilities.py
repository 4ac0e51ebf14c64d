"""What Python programs ask of other libraries and of rare modules, named by the first argument."""

import os
import sys


def leaf(x):
    return x + 1


def middle(n):
    return sum(leaf(i) for i in range(n))


def show(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def sum_all(value=1):
    return MPI.COMM_WORLD.allreduce(value) if MPI else value


def uvloops():
    import asyncio
    import signal

    import uvloop

    async def serve(reader, writer):
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()

    async def main():
        loop = asyncio.get_running_loop()
        seen = []
        loop.add_signal_handler(signal.SIGUSR1, lambda: seen.append(middle(2)))
        server = await asyncio.start_unix_server(serve, "socket")
        async with server:
            for i in range(20):
                reader, writer = await asyncio.open_unix_connection("socket")
                writer.write(b"text %d\n" % i)
                answer = await reader.readline()
                writer.close()
            os.kill(os.getpid(), signal.SIGUSR1)
            child = await asyncio.create_subprocess_exec(
                "sh", "-c", "cat; exit 3", stdin=-1, stdout=-1
            )
            out, _ = await child.communicate(b"to child")
            total = await loop.run_in_executor(None, middle, 50)
            await asyncio.sleep(0.05)
        show(answer, out, child.returncode, total, seen, sum_all())

    uvloop.install() if sys.version_info < (3, 12) else None
    if sys.version_info < (3, 12):
        asyncio.run(main())
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main())


def eventlets():
    import eventlet
    import queue
    import socket
    import threading
    import time

    results = queue.Queue()

    def work(n):
        for _ in range(5):
            time.sleep(0.001)
            leaf(n)
        results.put(n)
        return n

    pool = eventlet.GreenPool(20)
    total = sum(pool.imap(work, range(50)))
    threads = [threading.Thread(target=work, args=(i,)) for i in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pair = socket.socketpair()
    eventlet.spawn(pair[0].sendall, b"x" * 1000)
    show(total, results.qsize(), len(pair[1].recv(1000)), sum_all())


def child_watchers():
    import asyncio
    import signal
    import warnings

    warnings.simplefilter("ignore")

    async def main():
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, stopped.append, 1)
        children = [
            await asyncio.create_subprocess_shell(f"sleep 0.0{i}; exit {i}") for i in range(5)
        ]
        codes = await asyncio.gather(*(child.wait() for child in children))
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.to_thread(middle, 5)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(asyncio.to_thread(middle, i)) for i in range(5)]
        try:
            async with asyncio.timeout(0.05):
                await asyncio.Event().wait()
        except TimeoutError:
            show("time-out")
        show(
            codes,
            [task.result() for task in tasks],
            sum_all(),
            asyncio.all_tasks(loop) == {asyncio.current_task()},
        )

    stopped = []
    asyncio.run(main(), debug=True)
    show(stopped)


def put_item(shared, key):
    shared[key] = middle(key)


def managers():
    import multiprocessing
    from multiprocessing import managers, shared_memory

    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        shared = manager.dict()
        processes = [context.Process(target=put_item, args=(shared, i)) for i in range(2)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        show(dict(sorted(shared.items())), [process.exitcode for process in processes])
    block = shared_memory.SharedMemory(create=True, size=1000)
    other = shared_memory.SharedMemory(block.name)
    other.buf[3] = 7
    show(block.buf[3], sum_all())
    other.close()
    block.close()
    block.unlink()
    with managers.SharedMemoryManager() as shared:
        items = shared.ShareableList([1, "a", 2.5])
        show(items[1])
    left = shared_memory.SharedMemory(create=True, size=100)  # the tracker removes it, and says so
    left.close()


def foreign_threads():
    """Threads of C that call Python while it ends."""
    import ctypes
    import time

    libc = ctypes.CDLL(None)
    seen = []

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    def run(argument):
        seen.append(leaf(argument or 0))
        return None

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    def outlive(argument):
        while True:
            time.sleep(0.001)
            leaf(1)

    for i in range(20):
        thread = ctypes.c_ulong()
        libc.pthread_create(ctypes.byref(thread), None, run, ctypes.c_void_p(i))
        libc.pthread_join(thread, None)
    for _ in range(2):
        thread = ctypes.c_ulong()
        libc.pthread_create(ctypes.byref(thread), None, outlive, None)
        libc.pthread_detach(thread)
    globals()["kept"] = outlive
    time.sleep(0.02)
    show(sorted(seen), sum_all())


def native_tracers():
    """Trace and profile functions in C, which ctypes makes."""
    import ctypes
    import threading

    kind = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p
    )
    events = {}

    @kind
    def note(own, frame, what, argument):
        events[what] = events.get(what, 0) + 1
        return 0

    def work():
        for i in range(10):
            middle(i)
        try:
            raise ValueError
        except ValueError:
            pass

    for name in ("PyEval_SetProfile", "PyEval_SetTrace"):
        function = getattr(ctypes.pythonapi, name)
        function.argtypes = [ctypes.c_void_p, ctypes.py_object]
        function(ctypes.cast(note, ctypes.c_void_p), None)
        work()
        function(None, None)
        show(name, sorted(events.items()))
        events.clear()
    if sys.version_info >= (3, 12):
        threading.setprofile_all_threads(lambda *words: events.update(p=events.get("p", 0) + 1))
        work()
        threading.setprofile_all_threads(None)
        show(events)


def replaced_main():
    import types

    module = types.ModuleType("__main__")
    module.__dict__.update(globals())
    sys.modules["__main__"] = module
    show(middle(10), sum_all())
    space = {"__builtins__": {}, "leaf": leaf}
    exec("def f(x): return leaf(x)\ny = f(3)", space)
    bare = {}
    exec(compile("def g(x):\n    return x * 2\nz = g(4)", "a\udcffb", "exec"), bare)
    odd = {"__name__": 5, "__file__": None}
    exec("def h(x): return x\nw = [h(i) for i in range(3)]", odd)

    class Strict(dict):
        def __missing__(self, key):
            raise KeyError(key)

    exec("def k(): return 5\nv = k()", globals(), Strict())
    show(space["y"], bare["z"], odd["w"])
    sys.modules["__main__"] = None
    show(middle(4))
    for name in list(module.__dict__):
        if name not in ("show", "os", "__builtins__"):
            module.__dict__.pop(name)


def databases():
    import sqlite3
    import warnings

    warnings.simplefilter("ignore")

    base = sqlite3.connect("data.db", isolation_level=None)
    base.execute("pragma journal_mode=wal")
    log = []
    base.create_function("twice", 1, lambda x: leaf(x) * 2)
    base.create_collation("odd", lambda a, b: (a > b) - (a < b))
    base.set_trace_callback(log.append)
    base.set_progress_handler(lambda: 0, 10)
    base.set_authorizer(lambda *words: sqlite3.SQLITE_OK)

    class Total:
        def __init__(self):
            self.total = 0

        def step(self, value):
            self.total += leaf(value)

        def finalize(self):
            return self.total

    base.create_aggregate("total_of", 1, Total)
    base.execute("create table t (x integer, y text)")
    base.executemany("insert into t values (?, ?)", ((i, str(i)) for i in range(200)))
    show(base.execute("select total_of(twice(x)) from t").fetchone(), sum_all())
    show(base.execute("select y from t order by y collate odd limit 3").fetchall())
    child = os.fork()
    if not child:
        os._exit(middle(3))
    show(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(log))
    with sqlite3.connect(":memory:") as copy:
        base.backup(copy)
        show(len(copy.serialize()) if hasattr(copy, "serialize") else 0)
    base.set_progress_handler(lambda: 1, 10)
    try:
        base.execute("select count(*) from t a, t b, t c").fetchone()
    except sqlite3.OperationalError as error:
        show(error)


def square(x):
    return middle(x) * x


def lokies():
    from joblib import Parallel, delayed

    show(Parallel(n_jobs=2, backend="loky")(delayed(square)(i) for i in range(6)), sum_all())
    show(Parallel(n_jobs=2, backend="threading")(delayed(lambda i: leaf(i))(i) for i in range(6)))
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True)


def counted_calls():
    """Profilers of the standard library count each call as often as it was made."""
    import cProfile
    import io
    import profile
    import pstats

    for kind in (cProfile.Profile, profile.Profile):
        tool = kind()
        tool.runcall(lambda: [middle(i) for i in range(20)])
        out = io.StringIO()
        pstats.Stats(tool, stream=out).sort_stats("name").print_stats()
        show(
            *[
                (line.split()[0], line.split("(")[-1])
                for line in out.getvalue().splitlines()
                if "facilities" in line
            ]
        )
        show(*[line.split()[0] for line in out.getvalue().splitlines() if "function calls" in line])


def positions():
    """Where messages come from."""
    import logging
    import warnings

    logging.basicConfig(
        stream=sys.stdout, format="%(filename)s:%(lineno)d %(funcName)s %(threadName)s %(message)s"
    )

    def helper():
        logging.warning("here")
        logging.warning("caller", stacklevel=2)
        logging.warning("stack", stack_info=True)
        warnings.warn("of the caller", stacklevel=2)
        warnings.warn("of everything", stacklevel=9)

    helper()
    frame, names = sys._getframe(), []
    while frame:
        names.append((frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    show(names)
    eval("helper()")
    sys.stdout.flush()
    list(map(lambda x: helper(), [1]))
    sum_all()


def own_settings():
    """mpi4py is told not to initialise and not to finalise; the program does."""
    import pickle

    import mpi4py

    mpi4py.rc(initialize=False, finalize=False, recv_mprobe=False, errors="exception")
    from mpi4py import MPI

    show(MPI.Is_initialized())
    MPI.Init_thread(MPI.THREAD_SERIALIZED)
    MPI.pickle.__init__(lambda value, *words: pickle.dumps(value, protocol=2), pickle.loads)
    comm = MPI.COMM_WORLD
    rank, size = comm.rank, comm.size
    show(comm.sendrecv([rank, "a" * 10], (rank + 1) % size, source=(rank - 1) % size))
    try:
        comm.send(1, 10**6)
    except MPI.Exception as error:
        show(error.Get_error_class() == MPI.ERR_RANK)
    op = MPI.Op.Create(lambda a, b, kind: leaf(0) and None, commute=True)
    op.Free()
    handler = (
        MPI.Comm.Create_errhandler(lambda comm, code: show("handler", leaf(0)))
        if hasattr(MPI.Comm, "Create_errhandler")
        else None
    )
    if handler:
        duplicate = comm.Dup()
        duplicate.Set_errhandler(handler)
        try:
            duplicate.send(1, 10**6)
        except MPI.Exception:
            pass
        duplicate.Free()
    show(
        comm.allreduce({rank}, op=MPI.Op.Create(lambda a, b, kind: None))
        if False
        else comm.allgather(rank)
    )
    MPI.Finalize()
    show(MPI.Is_finalized(), middle(3))


def exit_functions_run():
    """Functions of atexit are run early, or removed."""
    import atexit

    atexit.register(show, "registered", 1)
    child = os.fork()
    if not child:
        atexit._clear()
        show("in the child", middle(3))
        os._exit(4)
    show(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    if MPI:
        MPI.COMM_WORLD.barrier()
    atexit._run_exitfuncs()
    show("after", middle(4), MPI is None or MPI.Is_finalized())
    atexit.register(show, "again")
    atexit._clear()
    if MPI and not MPI.Is_finalized():
        MPI.Finalize()


def empties_sys():
    """What the interpreter finds modules and hooks with is gone."""
    import atexit

    atexit.register(show, "last", leaf(1))
    for name in ("path", "path_hooks", "meta_path", "argv"):
        getattr(sys, name).clear()
    sys.path_importer_cache.clear()
    sys.excepthook = sys.displayhook = sys.unraisablehook = None
    show(middle(5), sum_all())
    kept = dict(sys.modules)
    sys.modules.clear()
    show(middle(6))
    sys.modules.update(kept) if len(sys.argv) > 5 else None
    globals()["kept"] = kept


def captured():
    """Output of C is captured by pipes that threads read."""
    import ctypes

    from wurlitzer import pipes

    libc = ctypes.CDLL(None)
    for _ in range(5):
        with pipes() as (out, err):
            libc.puts(b"from C")
            os.system("echo from a child; echo error >&2")
            print("from Python", flush=True)
            middle(5)
            libc.fflush(None)
        show(repr(out.read()), repr(err.read()))
    sum_all()


def terminals():
    """A child with a terminal of its own, with jobs and signals of the terminal."""
    import pty
    import termios
    import time

    child, master = pty.fork()
    if not child:
        os.execvp(
            "sh",
            [
                "sh",
                "-c",
                "stty -echo; test -t 0 && echo terminal; trap 'echo interrupted; exit 5' INT; echo ready; read line",
            ],
        )
    text = b""
    while b"ready" not in text:
        text += os.read(master, 1000)
        leaf(1)
    termios.tcgetattr(master)
    time.sleep(0.05)
    os.write(master, b"\x03")
    while True:
        try:
            more = os.read(master, 1000)
        except OSError:
            break
        if not more:
            break
        text += more
    show(
        text.replace(b"\r\n", b"|").replace(b"^C", b""),
        os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]),
        sum_all(),
    )


def forking_servers():
    import http.client
    import http.server
    import socketserver
    import threading

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = str(middle(10)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words):
            leaf(1)

    class Server(socketserver.ForkingMixIn, http.server.HTTPServer):
        pass

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        answers = []
        for _ in range(10):
            link = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
            link.request("GET", "/")
            answers.append(link.getresponse().read())
            link.close()
        server.shutdown()
        thread.join()
    show(answers, sum_all())


def checked_types():
    from beartype import BeartypeConf
    from beartype.claw import beartype_packages

    with open("typed_module.py", "w") as file:
        file.write(
            "def typed(x: int) -> str:\n    return str(x)\n\ndef bad() -> int:\n    return 'a'\n"
        )
    sys.path.insert(0, os.getcwd())
    beartype_packages("typed_module", conf=BeartypeConf())
    import typed_module

    show([typed_module.typed(i) for i in range(5)], sum_all())
    for call in (lambda: typed_module.typed("a"), typed_module.bad):
        try:
            call()
        except Exception as error:
            show(type(error).__name__)


def built_callbacks():
    """An extension of cffi whose functions in C call back into Python, and from threads."""
    import cffi

    builder = cffi.FFI()
    builder.cdef('extern "Python" int back(int); int twice(int, int); int in_thread(int);')
    builder.set_source(
        "_built",
        """
        #include <pthread.h>
        static int back(int);
        static int twice(int n, int m) { int s = 0; for (int i = 0; i < n; i++) s += back(i) + m; return s; }
        static void *run(void *n) { return (void *)(long)back((int)(long)n); }
        static int in_thread(int n) { pthread_t t; void *r; pthread_create(&t, 0, run, (void *)(long)n); pthread_join(t, &r); return (int)(long)r; }
        """,
    )
    builder.compile(verbose=False)
    sys.path.insert(0, os.getcwd())
    from _built import ffi, lib

    @ffi.def_extern(onerror=lambda *words: 7)
    def back(n):
        if n == 50:
            raise ValueError("in a callback")
        return leaf(n)

    show(lib.twice(100, 2), lib.in_thread(5), sum_all())


def jitted():
    """Threads and callbacks of compiled functions."""
    import numba
    import numpy as np

    @numba.njit(parallel=True)
    def add(values):
        total = 0.0
        for i in numba.prange(len(values)):
            total += values[i]
        return total

    @numba.cfunc("float64(float64)")
    def third(x):
        return x / 3

    @numba.vectorize(["float64(float64)"])
    def more(x):
        return x + 1

    with numba.objmode() if False else open(os.devnull):
        show(add(np.ones(100000)), third.ctypes(9.0), more(np.arange(3.0)).tolist(), sum_all())


def waits_in_threads():
    """Threads of every kind that are still there when the main one ends."""
    import atexit
    import concurrent.futures
    import threading
    import time
    import weakref

    class Thing:
        pass

    thing = Thing()
    weakref.finalize(thing, show, "finalizer", middle(3))
    atexit.register(show, "atexit")
    threading._register_atexit(show, "threading atexit")
    pool = concurrent.futures.ThreadPoolExecutor(3)
    for i in range(6):
        pool.submit(lambda i=i: (time.sleep(0.01), leaf(i)))
    timer = threading.Timer(0.05, show, ["timer"])
    timer.start()

    def last():
        threading.main_thread().join()
        time.sleep(0.05)
        show("after main", middle(2))

    threading.Thread(target=last).start()
    threading.local().value = thing
    sum_all()


def from_the_stack():
    """Objects that know where they come from, and reference counts."""
    import gc
    import inspect

    gc.disable()

    def function(a, /, b=2, *, c=3):
        frame = inspect.currentframe()
        return len(inspect.stack()) - len(inspect.getouterframes(frame)), inspect.getargvalues(
            frame
        ).args

    show(function(1), sys.getrefcount(function))
    for _ in range(100):
        function(1)
    gc.collect()
    show(sys.getrefcount(function), sys.getrefcount(middle))
    show(
        inspect.getsource(function).count("\n"),
        inspect.signature(function),
        inspect.getgeneratorstate(i for i in "a"),
    )
    show(
        function.__code__.replace(co_name="f") == function.__code__,
        hash(function.__code__) == hash(function.__code__.replace()),
    )
    show(sum_all())


if __name__ == "__main__":
    MPI = None
    word = sys.argv[1].replace("-", "_")
    if "--mpi" in sys.argv and word not in ("own_settings", "eventlets"):
        from mpi4py import MPI
    folder = f"of{os.getpid()}"
    os.mkdir(folder)
    os.chdir(folder)
    if word == "eventlets":
        import warnings

        warnings.simplefilter("ignore")
        import eventlet

        eventlet.monkey_patch()
        if "--mpi" in sys.argv:
            from mpi4py import MPI
    globals()[word]()
    show("end", middle(10)) if "middle" in globals() else None
