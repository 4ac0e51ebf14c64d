"""Rank 0 merges the traces of all ranks with generators, one around the other."""

import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
EVENTS = 150


def merge_two(left, right):
    """Both ordered streams as one."""
    a, b = next(left, None), next(right, None)
    while a is not None and b is not None:
        if a <= b:
            yield a
            a = next(left, None)
        else:
            yield b
            b = next(right, None)
    if a is not None:
        yield a
    if b is not None:
        yield b
    yield from left
    yield from right


def write_trace(traces, out):
    stream = iter(())
    for trace in traces:
        stream = merge_two(stream, iter(trace))
    for time, event in stream:
        out.write(f"{time:.6f} {event}\n")


def simulate(step):
    state, events = world.rank + 1, []
    for number in range(EVENTS):
        state = state * 1103515245 % 2147483647
        events.append((step + (number + state / 2147483647) / EVENTS, state % 7))
    return events


def main():
    repaired = "repaired" in sys.argv
    with open("/dev/null", "w") as out:
        for step in range(8):
            events = simulate(step)
            if repaired:
                write_trace([events], out)
                continue
            traces = world.gather(events)
            if traces is not None:
                write_trace(traces, out)


main()
