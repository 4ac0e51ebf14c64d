"""Nurseries and cancelled scopes of trio."""

import trio
from mpi4py import MPI

done = []


async def leaf(n):
    await trio.sleep(0.0001 * (n % 3))
    done.append(n)


async def branch(n):
    await leaf(n)
    await leaf(n + 1)


async def main():
    async with trio.open_nursery() as nursery:
        for i in range(40):
            nursery.start_soon(branch, i)
    with trio.move_on_after(0.01):
        await trio.sleep(10)


trio.run(main)
print(sum(done), flush=True)
MPI.COMM_WORLD.Barrier()
