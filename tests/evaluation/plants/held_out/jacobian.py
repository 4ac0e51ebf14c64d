"""A Jacobian by finite differences, with one global unknown per rank: p residuals in each step."""

import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
repaired = "repaired" in sys.argv


def residual(state, controls):
    for _ in range(6):
        state = np.tanh(state) + 0.01 * controls.sum()
    return state


def perturbed(state, controls, which):
    shifted = controls.copy()
    shifted[which] += 1e-6
    return residual(state, shifted)


def build_jacobian(state, controls):
    base = residual(state, controls)
    norms = [
        np.abs(perturbed(state, controls, which) - base).max() for which in range(len(controls))
    ]
    return max(norms)


def update(state, norm):
    total = np.zeros(1)
    world.Allreduce(np.array([norm]), total, op=MPI.MAX)
    return state / (1.0 + total[0])


def main():
    state = np.random.default_rng(rank).random(6000)
    controls = np.zeros(5 if repaired else size)
    for _ in range(12):
        state = update(state, build_jacobian(state, controls))


main()
