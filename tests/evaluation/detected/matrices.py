"""numpy without loops: products, broadcasting, fancy indices, in-place and library calls.

params: n=24,48,72 m=10,20,30 r=3,6,9
command: {n} {m} {r}
main: n * m
main->product: n * m * r
main->contract: n * m
main->outer: n * m
main->smooth: n * r
main->scatter: m
main->transform: n
main->solve: r
main->reduce: n * m
main->stack: m * r
main->mask: n * m
"""

import sys

import numpy as np


def product(a, r):
    b = np.ones((a.shape[1], r))
    return a @ b


def contract(a):
    return np.einsum("ij,ij->i", a, a)


def outer(n, m):
    return np.arange(n)[:, None] * np.arange(m)[None, :]


def smooth(n, r):
    u = np.zeros(n)
    for _ in range(r):
        u[1:-1] = 0.5 * (u[2:] + u[:-2])
    return u


def scatter(m):
    found = np.zeros(7)
    np.add.at(found, np.arange(m) % 7, 1.0)
    return found


def transform(n):
    return np.fft.rfft(np.ones(n)).real


def solve(r):
    return np.linalg.solve(np.eye(r) * 2, np.ones(r))


def reduce(a):
    return a.sum(axis=0).max() + np.linalg.norm(a)


def stack(m, r):
    return np.concatenate([np.ones(m) for _ in range(r)])


def mask(a):
    b = a.copy()
    b[b > 0.5] *= 2
    return np.where(b > 1, b, 0)


def main():
    n, m, r = map(int, sys.argv[1:])
    a = np.ones((n, m))
    product(a, r)
    contract(a)
    outer(n, m)
    smooth(n, r)
    scatter(m)
    transform(n)
    solve(r)
    reduce(a)
    stack(m, r)
    mask(a)


main()
