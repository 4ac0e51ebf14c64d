"""What the views of a campaign cost: 500 call paths on 64 ranks, a new board each second.

    python tests/benchmarks/watch.py [--callpaths 500] [--seconds 30] [--columns 150 --lines 40]

A campaign with six runs of 2 to 64 ranks is made and modelled; then boards of a run at 128 ranks
are published each second, every call path with other numbers than before, and `insitu watch` shows
them in its own pseudo-terminal. Prints its processor time, its memory, and what it writes.
"""

import argparse
import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import zmq

from insitu.analysis.board import LiveRun, make_board
from insitu.analysis.forecast import LivePath, make_forecast
from insitu.campaign.load import load_experiment
from insitu.campaign.store import open_store
from insitu.entities import (
    TIME,
    TIME_EXCLUSIVE,
    VISITS,
    CallPath,
    Configuration,
    RunKey,
    RunRecord,
    RunState,
)
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import RunTable
from insitu.modeling.pipeline import remodel

SCALES = (2, 4, 8, 16, 32, 64)
FIRST_S = 20.0  # time to start and to read the models
ROOT = Path(__file__).resolve().parents[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--callpaths", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--columns", type=int, default=150)
    parser.add_argument("--lines", type=int, default=40)
    parser.add_argument("--keys", default="", help="pressed before it is measured, as p or '\\r'")
    options = parser.parse_args()
    with published(options.callpaths) as path:
        measure(path, options)


@contextmanager
def published(callpaths: int) -> Iterator[str]:
    """A campaign whose boards come each second while the block lasts; its directory."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "load.insitu")
        models = campaign(path, callpaths)
        done = threading.Event()
        publisher = threading.Thread(target=publish, args=(path, models, done))
        publisher.start()
        try:
            yield path
        finally:
            done.set()
            publisher.join()


def campaign(path, count):
    """Runs with times that follow simple laws, all of them modelled."""
    rng = np.random.default_rng(1)
    paths = tuple(CallPath(("main", f"phase{i % 20}", f"function{i}")) for i in range(count))
    with open_store(path, create=True) as store:
        for p in SCALES:
            noise = rng.normal(1, 0.02, (count, p))
            growth = (p ** rng.choice([0.0, 0.5, 1.0], count))[:, None]
            times = rng.uniform(0.01, 1.0, count)[:, None] * growth * noise
            values = {"visits": np.full((count, p), 1000.0), "time": times, "time_exclusive": times}
            key = RunKey.of({"p": p})
            record = RunRecord(f"{p}", key, RunState.COMPLETE, 1.0, 2.0, Configuration(), (0,) * p)
            store.add_run(record, RunTable(paths, (VISITS, TIME, TIME_EXCLUSIVE), values))
        models = remodel(load_experiment(store))
        store.put_models(models)
    return models


def publish(path: str, models: ModelSet, done: threading.Event):
    """A board each second, as an aggregator does."""
    with open_store(path) as store:
        runs = store.runs()
    names = sorted({str(series.key.callpath) for series in models.models})
    live = LiveRun("live", RunKey.of({"p": 128}), RunState.MEASURING, 128, 0, 128)
    foreseen = {"live": make_forecast(models, live.key)}
    with zmq.Context() as context, context.socket(zmq.PUB) as socket:
        endpoint = f"ipc://{path}/boards"
        socket.bind(endpoint)
        address = {"instance": "1", "boards": endpoint, "curve": "", "pid": os.getpid()}
        with open(os.path.join(path, "aggregator.json"), "w", encoding="utf-8") as file:
            json.dump(address, file)
        step, size = 0, 0
        while not done.is_set():
            step += 1
            paths = [
                LivePath(name, 1.0 * step, 0.002 * step + i, 0.002 * step + i)
                for i, name in enumerate(names)
            ]
            board = make_board(runs, models, [replace(live, callpaths=paths)], foreseen)
            frame = json.dumps(board.to_dict()).encode()
            socket.send(frame)
            size = len(frame)
            done.wait(1.0)
        print(f"boards: {size / 1000:.0f} kB")


def measure(path, options):
    master, slave = pty.openpty()
    fcntl.ioctl(
        slave, termios.TIOCSWINSZ, struct.pack("HHHH", options.lines, options.columns, 0, 0)
    )
    environment = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "insitu", "watch", path]
    process = subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, env=environment)
    written = [0]
    threading.Thread(target=drain, args=(master, written), daemon=True).start()
    time.sleep(FIRST_S)
    for key in options.keys.encode().decode("unicode_escape"):
        os.write(master, key.encode())
        time.sleep(2)
    seen = psutil.Process(process.pid)
    before, bytes_before, begun = seen.cpu_times(), written[0], time.monotonic()
    time.sleep(options.seconds)
    after, elapsed = seen.cpu_times(), time.monotonic() - begun
    spent = after.user + after.system - before.user - before.system
    print(
        f"{options.callpaths} call paths, {options.columns} x {options.lines}: "
        f"{spent / elapsed:.1%} of a core, {seen.memory_info().rss / 1e6:.0f} MB, "
        f"{(written[0] - bytes_before) / elapsed / 1000:.1f} kB/s written; "
        f"{before.user + before.system:.1f} s to start"
    )
    os.write(master, b"q")
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()


def drain(master, written):
    while True:
        try:
            written[0] += len(os.read(master, 65536))
        except OSError:
            return


if __name__ == "__main__":
    main()
