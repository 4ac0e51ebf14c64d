"""Queues, heaps, dynamic programming, early exits.

params: n=40,80,120 e=3,6,9 q=10,20,30
command: {n} {e} {q}
main->graph: n * e
main->breadth: n * e
main->nearest: n * e
main->distance: n * q
main->first: n * q
main->halve: q
main->collatz: q
"""

import heapq
import sys
from collections import deque


def graph(n, e):
    return {i: [(i * 3 + k * k + 1) % n for k in range(e)] for i in range(n)}


def breadth(edges):
    seen, waiting = set(edges), deque(edges)
    while waiting:
        one = waiting.popleft()
        for other in edges[one]:
            seen.add(other)
    return len(seen)


def nearest(edges):
    best = {i: i for i in edges}
    heap = [(i, i) for i in edges]
    heapq.heapify(heap)
    while heap:
        cost, one = heapq.heappop(heap)
        for other in edges[one]:
            best[other] = min(best[other], cost + 1)
    return best


def distance(n, q):
    row = list(range(q + 1))
    for i in range(1, n + 1):
        before, row = row, [i] + [0] * q
        for j in range(1, q + 1):
            row[j] = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + ((i + j) % 3 > 0))
    return row[q]


def first(n, q):
    tried = 0
    for _ in range(q):
        for j in range(10 * n):
            tried += 1
            if j == n:
                break
        else:
            tried = 0
    return tried


def halve(q):
    steps = 0
    left = 2**q
    while left > 1:
        left //= 2
        steps += 1
    return steps


def collatz(q):
    match q % 2:
        case 0:
            return [x for x in range(q) if x % 2]
        case _:
            return [x + 1 for x in range(q)]


def main():
    n, e, q = map(int, sys.argv[1:])
    edges = graph(n, e)
    breadth(edges)
    nearest(edges)
    distance(n, q)
    first(n, q)
    halve(q)
    collatz(q)


main()
