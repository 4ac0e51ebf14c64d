"""Coroutines that take turns: each function counts as often as it is called."""

import asyncio
from mpi4py import MPI


async def leaf(n):
    await asyncio.sleep(0.0001 * (n % 3))
    return n


async def branch(n):
    return await leaf(n) + await leaf(n + 1)


async def stream(n):
    for i in range(n):
        await asyncio.sleep(0)
        yield i


async def main():
    total = sum(await asyncio.gather(*[branch(i) for i in range(40)]))
    async for i in stream(20):
        total += i
    try:
        await asyncio.wait_for(leaf(10**6), 0.01)
    except asyncio.TimeoutError:
        total += 1
    return total


print(asyncio.run(main()), flush=True)
MPI.COMM_WORLD.Barrier()
