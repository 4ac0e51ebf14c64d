"""Coroutines and generators that are sent to.

params: n=30,60,90 k=4,8,12
command: {n} {k}
main: k
main->work: n * k
main->collect: n
main->collect->averager: n
"""

import asyncio
import sys


def work(n):
    done = 0
    for _ in range(n):
        done += 1
    return done


async def task(n):
    await asyncio.sleep(0)
    return work(n)


async def both(n, k):
    return await asyncio.gather(*(task(n) for _ in range(k)))


def averager():
    total = 0.0
    while True:
        total += yield total


def collect(n):
    to = averager()
    next(to)
    for i in range(n):
        to.send(i)


def main():
    n, k = map(int, sys.argv[1:])
    asyncio.run(both(n, k))
    collect(n)


main()
