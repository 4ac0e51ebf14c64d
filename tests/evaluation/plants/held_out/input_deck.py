"""Strong scaling of 480 elements; rank 0 alone parses an input of fixed length in each step."""

import sys

import numpy as np
from mpi4py import MPI

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
STEPS, ELEMENTS, LINES = 5, 480, 240


def element_matrix(index):
    matrix = np.full((24, 24), 1.0 + index % 7)
    for _ in range(20):
        matrix = matrix @ matrix
        matrix /= matrix.max()
    return matrix


def parse_line(line):
    words = line.split()
    return [sum(ord(letter) for letter in word) for word in words for _ in range(6)]


def read_loads(is_repaired):
    lines = [f"load {line} value {line * 3} at node {line % 11}" for line in range(LINES)]
    if is_repaired:
        loads = [parse_line(line)[0] for line in lines[RANK::SIZE]]
        return WORLD.allreduce(sum(loads))
    total = None
    if RANK == 0:
        total = sum(parse_line(line)[0] for line in lines)
    return WORLD.bcast(total)


def assemble():
    return sum(element_matrix(index)[0, 0] for index in range(RANK, ELEMENTS, SIZE))


def main():
    is_repaired = sys.argv[1:] == ["repaired"]
    for _ in range(STEPS):
        read_loads(is_repaired)
        WORLD.allreduce(assemble())


main()
