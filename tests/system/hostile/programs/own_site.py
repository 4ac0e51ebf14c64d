"""A sitecustomize of the user, a warning filter, and a test run that turns warnings into errors."""

import os, sys, warnings
from mpi4py import MPI

print(
    getattr(sys, "own_site", False),
    os.environ.get("PYTHONPATH", "").split("/")[-1],
    warnings.filters[0][0],
    flush=True,
)
MPI.COMM_WORLD.Barrier()
