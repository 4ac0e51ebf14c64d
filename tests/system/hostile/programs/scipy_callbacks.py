"""Solvers that call functions of the program; pandas, dask and joblib."""

import numpy as np, pandas as pd, scipy.integrate, scipy.optimize
from mpi4py import MPI

calls = [0]


def rosen(x):
    calls[0] += 1
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


result = scipy.optimize.minimize(rosen, [0.0, 0.0], method="Nelder-Mead")


def decay(t, y):
    return -y


solution = scipy.integrate.solve_ivp(decay, (0, 1), [1.0])
print(round(result.fun, 6), calls[0], solution.nfev, flush=True)


def double(v):
    return 2 * v


print(pd.Series(range(10)).apply(double).sum(), flush=True)
try:
    import dask

    print(
        dask.delayed(sum)([dask.delayed(double)(i) for i in range(10)]).compute(
            scheduler="threads"
        ),
        flush=True,
    )
    from joblib import Parallel, delayed

    print(Parallel(n_jobs=2, backend="threading")(delayed(double)(i) for i in range(4)), flush=True)
except ImportError:
    pass
MPI.COMM_WORLD.Barrier()
