"""The settings, which have a section for each rank, are copied in each step."""

import copy
import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
repaired = "repaired" in sys.argv


def read_settings():
    sections = [rank] if repaired else range(size)
    return {
        f"rank{section}": {"cells": [section, section + 1], "flags": {"wall": False, "io": [1, 2]}}
        for section in sections
    }


def freeze(settings):
    """A copy that the step may change."""
    return copy.deepcopy(settings)


def step_with(settings, field):
    settings[f"rank{rank}"]["flags"]["wall"] = True
    for _ in range(8):
        field[1:-1] = 0.5 * (field[:-2] + field[2:])
    world.Barrier()


def main():
    settings = read_settings()
    field = np.random.default_rng(rank).random(30000)
    for _ in range(40):
        step_with(freeze(settings), field)


main()
