"""Collectives of torch.distributed over gloo, backward passes, data loaders."""

import os
import torch
import torch.distributed as dist
from mpi4py import MPI

comm = MPI.COMM_WORLD
torch.set_num_threads(1)
torch.manual_seed(0)
dist.init_process_group(
    "gloo",
    init_method=f"file://{os.getcwd()}/store-{comm.bcast(os.getpid())}",
    rank=comm.rank,
    world_size=comm.size,
)
x = torch.ones(4) * comm.rank
dist.all_reduce(x)
model = torch.nn.Linear(4, 2)


def step():
    loss = model(torch.ones(3, 4)).sum()
    loss.backward()
    return loss


print(x.tolist(), [round(step().item(), 4) for _ in range(3)], flush=True)
data = torch.utils.data.DataLoader(list(range(8)), batch_size=4, num_workers=1)
print([batch.tolist() for batch in data], flush=True)
dist.destroy_process_group()
