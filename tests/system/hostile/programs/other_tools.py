"""Other tools in the same interpreter: tracers, profilers, tracemalloc, faulthandler."""

import cProfile, faulthandler, io, pstats, sys, threading, tracemalloc
from mpi4py import MPI


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


events = []
sys.settrace(lambda frame, event, arg: events.append(event))
fib(5)
sys.settrace(None)
print(len(events))
sys.setprofile(lambda frame, event, arg: events.append(event))
fib(5)
sys.setprofile(None)
print(len(events))
profile = cProfile.Profile()
profile.runcall(fib, 10)
stream = io.StringIO()
pstats.Stats(profile, stream=stream).print_stats("fib")
print(
    [line for line in stream.getvalue().splitlines() if "function calls" in line][0].split(" in ")[
        0
    ]
)
tracemalloc.start()
kept = [bytes(1000) for _ in range(100)]
print(tracemalloc.get_traced_memory()[0] > 100000)
tracemalloc.stop()
faulthandler.dump_traceback_later(60)
faulthandler.cancel_dump_traceback_later()
if sys.version_info >= (3, 12):
    m = sys.monitoring
    print([m.get_tool(i) for i in (0, 1, 2, 5)])
    m.use_tool_id(m.PROFILER_ID, "own")
    seen = []
    m.register_callback(
        m.PROFILER_ID, m.events.PY_START, lambda code, at: seen.append(code.co_name)
    )
    m.set_events(m.PROFILER_ID, m.events.PY_START)
    fib(4)
    m.set_events(m.PROFILER_ID, 0)
    m.free_tool_id(m.PROFILER_ID)
    print(seen.count("fib"))
print("fib", fib(8), flush=True)
MPI.COMM_WORLD.Barrier()
