"""All ranks insert their results into one SQLite database, each row in a transaction.

Repaired: each rank collects its rows, and rank 0 inserts their sums.
"""

import os
import sqlite3
import sys
import tempfile

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
REPAIRED = "repaired" in sys.argv


class ResultLog:
    def __init__(self, path):
        self.connection = sqlite3.connect(path, timeout=60, isolation_level=None)
        self.connection.execute("pragma synchronous = off")

    def insert(self, step, value):
        self.connection.execute("begin immediate")
        self.connection.execute("insert into results values (?, ?, ?)", (comm.rank, step, value))
        self.connection.execute("commit")


def create(path):
    connection = sqlite3.connect(path)
    connection.execute("create table results (rank integer, step integer, value real)")
    connection.commit()
    connection.close()


def compute(values):
    for _ in range(20):
        values[:] = np.sqrt(values + 0.1)
    return float(values[0])


def main():
    path = None
    if comm.rank == 0:
        path = os.path.join(tempfile.mkdtemp(), "results.db")
        create(path)
    path = comm.bcast(path)
    log = ResultLog(path)
    values = np.random.default_rng(comm.rank).random(10000)
    for step in range(40):
        value = compute(values)
        if not REPAIRED:
            log.insert(step, value)
        total = comm.reduce(value)
        if REPAIRED and comm.rank == 0:
            log.insert(step, total)


main()
