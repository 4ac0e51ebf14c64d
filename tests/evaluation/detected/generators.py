"""Generators that feed each other, and who asks them.

params: n=40,80,120 m=6,12,18 k=3,6,9
command: {n} {m} {k}
main: n * k
main->numbers: n * k
main->total: n
main->total->numbers: n
main->windows: m * k
main->windows->numbers: m * k
main->batches: n
main->batches->numbers: n
main->pairs: n * m
main->pairs->numbers: n * m
"""

import itertools
import sys


def numbers(n):
    for i in range(n):
        yield i * 7 % 13


def total(n):
    return sum(x for x in numbers(n))


def windows(m, k):
    return [list(itertools.islice(numbers(m), i, m)) for i in range(k)]


def batches(n):
    found = []
    for x in numbers(n):
        found.append(x)
    return len(found)


def pairs(n, m):
    return max(a + b for a in numbers(n) for b in numbers(m))


def main():
    n, m, k = map(int, sys.argv[1:])
    for _ in range(k):
        for _ in numbers(n):
            pass
    total(n)
    windows(m, k)
    batches(n)
    pairs(n, m)


main()
