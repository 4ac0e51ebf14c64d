"""A timer at 1 kHz whose handler allocates and calls MPI, in the middle of everything."""

import signal, time
from mpi4py import MPI

ticks = []


def handle(number, frame):
    ticks.append([0] * 50)
    MPI.COMM_SELF.Iprobe()


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


for which, number in ((signal.ITIMER_PROF, signal.SIGPROF), (signal.ITIMER_REAL, signal.SIGALRM)):
    signal.signal(number, handle)
    signal.setitimer(which, 0.001, 0.001)
end = time.monotonic() + 0.4
calls = 0
while time.monotonic() < end:
    fib(12)
    exec(compile(f"def f{calls}(): return [0] * 100\nf{calls}()", "<generated>", "exec"))
    MPI.COMM_SELF.allreduce(1)
    calls += 1
for which in (signal.ITIMER_PROF, signal.ITIMER_REAL):
    signal.setitimer(which, 0)
print(len(ticks) > 20, calls > 5, flush=True)
