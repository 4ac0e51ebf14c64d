"""Every second step each rank assigns the tasks of all ranks anew, to the least loaded rank.

Repaired: each rank balances with its neighbour in the ring.
"""

import heapq
import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
REPAIRED = "repaired" in sys.argv
TASKS = 60


class Balancer:
    def __init__(self, comm):
        self.comm = comm
        self.owned = np.arange(TASKS) + TASKS * comm.rank

    def rebalance(self, costs):
        everything = np.empty(TASKS * self.comm.size)
        self.comm.Allgather(costs, everything)
        self.owned = np.array(self.assign(everything)[self.comm.rank])

    def assign(self, costs):
        loads = [(0.0, rank) for rank in range(self.comm.size)]
        tasks = [[] for _ in loads]
        for task in np.argsort(-costs):
            load, rank = heapq.heappop(loads)
            tasks[rank].append(int(task))
            heapq.heappush(loads, (load + float(costs[task]), rank))
        return tasks

    def diffuse(self, costs):
        mine, theirs = np.array([costs.sum()]), np.empty(1)
        left, right = (self.comm.rank - 1) % self.comm.size, (self.comm.rank + 1) % self.comm.size
        self.comm.Sendrecv(mine, right, 1, theirs, left, 1)


def compute(state):
    for _ in range(40):
        state[:] = np.sqrt(state * state + 0.01)
    return state


def main():
    balancer = Balancer(comm)
    state = np.random.default_rng(comm.rank).random(20000)
    costs = np.random.default_rng(comm.rank + 100).random(TASKS)
    for step in range(50):
        compute(state)
        if step % 2 == 0:
            (balancer.diffuse if REPAIRED else balancer.rebalance)(costs)
            costs = np.roll(costs, 1)
        comm.allreduce(float(state[0]))


main()
