"""What a rank of MPI may do to its own process in Python, one way per word of the command line."""

import os
import sys


def leaf(x):
    return x + 1


def middle(n):
    return sum(leaf(i) for i in range(n))


def show(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())  # one line: ranks share the file


def timers_and_messages():
    """A handler that calls MPI interrupts MPI calls."""
    import signal

    hits = 0

    def handler(*words):
        nonlocal hits
        hits += 1 + middle(2) * 0
        comm.Iprobe()

    signal.signal(signal.SIGALRM, handler)
    signal.signal(signal.SIGPROF, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
    total = 0
    while comm.allreduce(hits, op=MPI.MIN) < 50:
        total += middle(50)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.setitimer(signal.ITIMER_PROF, 0)
    show("interrupted", hits >= 50, total > 0)


def pools(method):
    import multiprocessing

    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        values = pool.map(leaf, range(20))
    queue = context.Queue()
    process = context.Process(target=put, args=(queue,))
    process.start()
    item = queue.get()
    process.join()
    show(method, comm.allreduce(sum(values)) == 210 * comm.size, item, process.exitcode)


def put(queue):
    queue.put(middle(10))


def small_threads():
    import threading

    results = []

    def work(mine):
        results.append(mine.allreduce(leaf(1)) if mine else middle(5))

    threading.stack_size(256 << 10)  # MPICH 4.0 needs more than 128 KiB
    threads = [threading.Thread(target=work, args=(copy,)) for copy in [comm.Dup(), comm.Dup()]]
    threading.stack_size((52 if sys.version_info >= (3, 14) else 32) << 10)  # the least
    threads += [threading.Thread(target=work, args=(None,)) for _ in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    show("threads", sorted(results) == sorted([2 * comm.size] * 2 + [15] * 9))


def greenlets():
    import greenlet

    def worker(n):
        total = 0
        for _ in range(5):
            total += comm.allreduce(leaf(n))
            main.switch()
        show("greenlet", n, total // comm.size)

    main = greenlet.getcurrent()
    workers = [greenlet.greenlet(worker) for _ in range(3)]
    for n, each in enumerate(workers):
        each.switch(n)
    while any(not each.dead for each in workers):
        for each in workers:
            if not each.dead:
                each.switch()


def leaves_folder():
    import shutil
    import tempfile

    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.umask(0o777)
    shutil.rmtree(folder)
    try:
        os.getcwd()
    except FileNotFoundError as error:
        show("cwd", type(error).__name__)
    names = {}
    exec("\n".join(f"def f{i}(x): return x" for i in range(3000)), names)
    show(comm.allreduce(sum(names[f"f{i}"](i) for i in range(3000))) // comm.size)


def removes_temporary_files():
    import shutil
    import tempfile

    own = tempfile.gettempdir()
    comm.Barrier()
    if comm.rank == 0:
        for entry in os.scandir(own):
            shutil.rmtree(entry.path, ignore_errors=True)
    comm.Barrier()
    show("removed", middle(100), comm.allreduce(1) == comm.size)


def ignores_children():
    import signal
    import subprocess

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    show("child", subprocess.run([sys.executable, "-c", "raise SystemExit(3)"]).returncode)
    pid = os.fork()
    if pid == 0:
        middle(5)
        os._exit(4)
    try:
        show("wait", os.waitpid(pid, 0))
    except ChildProcessError as error:
        show("wait", type(error).__name__)


def finalizes_twice():
    MPI.Finalize()
    try:
        MPI.Finalize()
        show("finalized twice")
    except Exception as error:
        show("error", type(error).__name__)
    show(MPI.Is_finalized(), middle(10))


def calls_after_finalize():
    MPI.Finalize()
    middle(10)
    comm.Barrier()


def hooks():
    import cProfile
    import pstats
    import threading

    lines = []

    def trace(frame, event, argument):
        if frame.f_code.co_filename == __file__:
            lines.append(event)
        return trace

    def profile(frame, event, argument):
        lines.append(event)

    threading.setprofile(profile)
    sys.settrace(trace)
    value = comm.allreduce(middle(5))
    sys.settrace(None)
    sys.setprofile(profile)
    value += comm.allreduce(middle(5))
    sys.setprofile(None)
    calls = cProfile.Profile()
    calls.runcall(lambda: comm.allreduce(middle(7)))
    counts = sorted((key[2], count[0]) for key, count in pstats.Stats(calls).stats.items())
    show(value // comm.size, len(lines), counts)


def monitoring_tools():
    if sys.version_info < (3, 12):
        return show("no monitoring")
    tools, events, seen = sys.monitoring, sys.monitoring.events, []
    for number in (tools.DEBUGGER_ID, tools.COVERAGE_ID, tools.PROFILER_ID, tools.OPTIMIZER_ID):
        tools.use_tool_id(number, f"tool {number}")
        tools.register_callback(number, events.PY_RETURN, lambda *words: seen.append(words[-1]))
        tools.set_events(number, events.PY_RETURN)
    middle(6)
    for number in (tools.DEBUGGER_ID, tools.COVERAGE_ID, tools.PROFILER_ID, tools.OPTIMIZER_ID):
        tools.set_events(number, 0)
        tools.free_tool_id(number)
    show(seen.count(6), comm.allreduce(1) == comm.size)


def filter_kills():
    """The kernel ends this process at a system call that opens, maps, forks or signals."""
    import ctypes
    import struct

    forbidden = (2, 257, 56, 57, 58, 435, 62, 13, 38, 222)  # of x86_64: open … timer_create

    def code(kind, true, false, value):
        return struct.pack("HBBI", kind, true, false, value)

    program = code(0x20, 0, 0, 0)
    for n, number in enumerate(forbidden):
        program += code(0x15, len(forbidden) - n, 0, number)
    program += code(0x06, 0, 0, 0x7FFF0000) + code(0x06, 0, 0, 0x80000000)
    buffer = ctypes.create_string_buffer(program)
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    c = ctypes.CDLL(None, use_errno=True)
    names = {}
    exec("\n".join(f"def f{i}(x): return x" for i in range(4000)), names)
    comm.Barrier()
    MPI.Finalize()
    c.prctl(38, 1, 0, 0, 0)
    show("filter", c.prctl(22, 2, header))
    show(sum(names[f"f{i}"](i) for i in range(4000)), middle(100000))
    os._exit(6)


def not_dumpable():
    import ctypes

    c = ctypes.CDLL(None)
    c.prctl(4, 0, 0, 0, 0)
    show("dumpable", c.prctl(3, 0, 0, 0, 0), comm.allreduce(middle(10)) // comm.size)


def drops_rights():
    comm.Barrier()
    MPI.Finalize()
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    names = {}
    exec("\n".join(f"def f{i}(x): return x" for i in range(3000)), names)
    show("dropped", os.getuid(), sum(names[f"f{i}"](i) for i in range(3000)))


def starts_processes():
    import subprocess

    vforked = subprocess.run(["/bin/echo", "vforked"], capture_output=True).stdout
    own = subprocess.run(["/bin/sh", "-c", "exit $((1 + 1))"], preexec_fn=os.setpgrp).returncode
    pid = os.posix_spawnp("sh", ["sh", "-c", "exit 9"], {}, setsigmask=[2], setsigdef=[13])
    spawned = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = "import os, sys; print(sorted(sys.modules)[:3], sorted(os.environ))"
    empty = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, env={}).stdout
    show(vforked, own, spawned, empty, os.popen("echo shell").read(), os.system("exit 2"))


def leaves_children():
    """Children that outlive the rank, with and without its streams."""
    pid = os.fork()
    if pid == 0:
        import time

        time.sleep(0.3)
        middle(10)
        show("the child ends last")
        os._exit(0)
    show("parent", middle(3))


def ends_in_thread():
    import threading

    comm.Barrier()
    MPI.Finalize()
    threading.Thread(target=lambda: (middle(3), os._exit(7))).start()
    while True:
        middle(100)


def kills_itself():
    import signal

    comm.Barrier()
    MPI.Finalize()
    if os.fork() == 0:
        os.kill(os.getppid(), signal.SIGKILL)
        os._exit(0)
    while True:
        middle(100)


def exit_order():
    import atexit
    import signal
    import threading
    import weakref

    class Late:
        def __del__(self):
            show("deleted", MPI.Is_finalized(), leaf(1))

    global late
    late = Late()
    atexit.register(lambda: show("first registered", MPI.Is_finalized(), middle(3)))
    atexit.register(lambda: show("second registered", comm.allreduce(1) == comm.size))
    weakref.finalize(late, show, "finalize")
    threading.Thread(target=lambda: show("thread", middle(2))).start()
    comm.Barrier()
    sys.exit("leaves" if comm.rank == 0 else 0)


def closed_streams():
    for number in (0, 1, 2):
        os.close(number)
    file = os.open("closed", os.O_CREAT | os.O_WRONLY)
    middle(10)
    comm.Barrier()
    os._exit(10 + file)


def broken_output():
    """Standard output is a pipe that nobody reads."""
    ends = os.pipe()
    os.close(ends[0])
    os.dup2(ends[1], 1)
    comm.Barrier()
    leave_with_output()


def full_output():
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
    leave_with_output()


def leave_with_output():
    comm.Barrier()
    MPI.Finalize()
    print("lost", middle(10))  # an error when it is flushed at the end: status 120


def alarm_ends():
    import signal

    comm.Barrier()
    signal.alarm(1)
    while True:
        middle(100)


def frozen_collector():
    import gc

    gc.freeze()
    gc.disable()
    counts = [gc.get_freeze_count() > 0, gc.isenabled(), len(gc.callbacks)]
    pid = os.fork()
    if pid == 0:
        gc.collect()
        os._exit(middle(3))
    show(counts, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), comm.allreduce(1) == comm.size)


def refuses():
    """An audit hook that refuses what a measurement might do at the end of the process."""
    show("before", comm.allreduce(1) == comm.size)

    def hook(event, words):
        if event.startswith(("open", "os.", "sys._getframe", "ctypes", "mmap", "socket", "fcntl")):
            raise RuntimeError(f"refused: {event}")

    sys.addaudithook(hook)
    middle(10)


def errors_in_threads():
    import threading

    threading.excepthook = lambda words: show("hook", words.exc_type.__name__)
    sys.unraisablehook = lambda words: show("unraisable", words.exc_type.__name__)

    class Bad:
        def __del__(self):
            raise KeyError(middle(3))

    thread = threading.Thread(target=lambda: 1 / leaf(-1))
    thread.start()
    thread.join()
    Bad()
    show(comm.allreduce(1) == comm.size)


def depth_limits():
    """How deep recursion may go is the program's own."""

    def down(n):
        nonlocal deepest
        deepest = n
        down(n + 1)

    for limit in (200, 1000, 3000):
        deepest = 0
        sys.setrecursionlimit(limit)
        try:
            down(0)
        except RecursionError as error:
            show(limit, deepest, str(error)[:40])
    sys.setrecursionlimit(1000)
    nested = []
    for _ in range(200):
        nested = [nested]
    show(len(repr(nested)))


def calls_from_c():
    """Threads that C has made, and sorting in C, call back into Python."""
    import ctypes

    c = ctypes.CDLL(None)
    compare = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int)
    )
    values = (ctypes.c_int * 50)(*(leaf(i * 37 % 50) for i in range(50)))
    c.qsort(values, 50, 4, compare(lambda a, b: leaf(a[0]) - leaf(b[0])))
    done = []
    start = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda word: done.append(middle(4)))
    for _ in range(20):
        thread = ctypes.c_ulong()
        c.pthread_create(ctypes.byref(thread), None, start, None)
        c.pthread_join(thread, None)
    show(list(values) == sorted(values), done.count(10))


def errors_of_mpi():
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    try:
        comm.send(1, dest=1000)
    except MPI.Exception as error:
        show(error.Get_error_class() == MPI.ERR_RANK, middle(3))
    comm.Set_errhandler(MPI.ERRORS_ARE_FATAL)


def ends_job():
    comm.Barrier()
    if comm.rank == comm.size - 1:
        middle(10)
        comm.Abort(3)
    while True:
        middle(100)


def asynchronous_errors():
    import ctypes
    import threading

    caught = []

    def work():
        try:
            while True:
                middle(10)
        except KeyError:
            caught.append(True)

    for _ in range(20):
        thread = threading.Thread(target=work)
        thread.start()
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(KeyError)
        )
        thread.join()
    show(len(caught), comm.allreduce(1) == comm.size)


def switches_often():
    import threading

    sys.setswitchinterval(1e-6)
    totals = []
    threads = [threading.Thread(target=lambda: totals.append(middle(20000))) for _ in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        comm.Iprobe()
    show(totals.count(200010000), sys.getswitchinterval())


def waits_for_signals():
    import signal
    import threading

    names = (signal.SIGURG, signal.SIGUSR1, signal.SIGRTMIN, signal.SIGPROF)
    signal.pthread_sigmask(signal.SIG_BLOCK, names)
    got = []
    for number in names:
        signal.pthread_kill(threading.get_ident(), number)
        got.append(int(signal.sigwaitinfo(names).si_signo))
    show(got, signal.sigtimedwait(names, 0), middle(3))


def temporary_modules():
    """Imports a module from a file that is then overwritten, reloaded and removed."""
    import importlib

    folder = f"modules{comm.rank}"
    os.mkdir(folder)
    sys.path.insert(0, folder)
    values = []
    for n in range(3):
        with open(f"{folder}/changing{n % 1}.py", "w") as file:
            file.write(f"def value():\n{chr(10) * n}    return {n}\n")
        importlib.invalidate_caches()
        module = importlib.import_module("changing0")
        if n:
            os.utime(f"{folder}/changing0.py", (n, n))
            module = importlib.reload(module)
        values.append(module.value())
    os.remove(f"{folder}/changing0.py")
    show(values, comm.allreduce(1) == comm.size)


if __name__ == "__main__":
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    globals()[sys.argv[1].replace("-", "_")](*sys.argv[2:])
    if not MPI.Is_finalized():
        show("end", middle(10), comm.allreduce(1) == comm.size)
