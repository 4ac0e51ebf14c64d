"""Generators that are exhausted, closed, dropped, thrown into, delegated to, and re-entered."""

from mpi4py import MPI

log = []


def count(n):
    try:
        for i in range(n):
            yield i
    finally:
        log.append(n)


def delegate(n):
    yield from count(n)


def echo():
    value = 0
    while True:
        try:
            value = yield value
        except KeyError:
            value = -1


print(sum(count(10)), sum(delegate(5)))
g = count(3)
next(g)
g.close()
g = count(4)
next(g)
del g
e = echo()
next(e)
print(e.send(5), e.throw(KeyError), e.send(7), log)
e.close()


def pairs():
    return list(zip(count(3), count(2)))


print([pairs() for _ in range(3)][0], log)


class Node:
    def __init__(self, kids):
        self.kids = kids

    def __iter__(self):
        yield self
        for kid in self.kids:
            yield from kid


print(sum(1 for _ in Node([Node([]), Node([Node([])])])), flush=True)
MPI.COMM_WORLD.Barrier()
