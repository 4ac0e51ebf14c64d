"""Training steps of a small network with PyTorch; with `profile`, counted by its own profiler."""

import sys
import time

import torch


def train(model, optimizer, batch):
    """One step."""
    loss = (model(batch) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def run(steps):
    """Some steps, and one copy to the host."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64)
    ).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(128, 256).cuda()
    for _ in range(steps):
        train(model, optimizer, batch)
    return model[0].weight.sum().item()


def count(steps):
    """Kernels, copies and memsets of `run`, and their seconds, as PyTorch's profiler sees them."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        run(steps)
        torch.cuda.synchronize()
    events = [e for e in profiler.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    return len(events), sum(e.device_time_total for e in events) * 1e-6


if __name__ == "__main__":
    number = int(sys.argv[1])
    if sys.argv[2:] == ["profile"]:
        print("profiled", *count(number))
    else:
        began = time.perf_counter()
        print("sum", run(number), "elapsed", time.perf_counter() - began)
