"""The cost of the page: 500 call paths on 64 ranks, a new board each second, shown in Chromium.

    python tests/benchmarks/page.py [--callpaths 500] [--seconds 30] [--viewers 1] [--view paths]

The boards are those of watch.py: the values of every call path change each second. Prints processor
time and memory of the server and of the tab: how long its main thread is busy, its scripts, its
heap. With --viewers 0 no browser is needed.
"""

import argparse
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.watch import published
from tests.support.page_server import served

CHROMIUM = "/usr/bin/chromium"
FIRST_S = 8.0  # time to start and to read the models


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--callpaths", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--viewers", type=int, default=1)
    parser.add_argument("--view", default="paths", help="paths, model, compare, outlook, runs")
    options = parser.parse_args()
    with published(options.callpaths) as path, served(path) as page:
        measure(page, options)


def measure(page, options) -> None:
    """Print what the server and the first tab took."""
    server = psutil.Process(page.pid)
    with ExitStack() as stack:
        tab = watched(stack, page, options) if options.viewers else None
        time.sleep(FIRST_S)
        before, counted, begun = server.cpu_times(), metrics(tab), time.monotonic()
        wait(tab, options.seconds)
        after, later, elapsed = server.cpu_times(), metrics(tab), time.monotonic() - begun
        spent = after.user + after.system - before.user - before.system
        print(
            f"{options.callpaths} call paths, {options.viewers} viewers of {options.view}: server "
            f"{spent / elapsed:.1%} of a core, {server.memory_info().rss / 1e6:.0f} MB"
        )
        if tab is not None:
            busy, script = (
                (later[name] - counted[name]) / elapsed
                for name in ("TaskDuration", "ScriptDuration")
            )
            print(
                f"tab: main thread busy {busy:.1%}, scripts {script:.1%}, heap "
                f"{later['JSHeapUsedSize'] / 1e6:.0f} MB, {later['Nodes']:.0f} nodes"
            )


def watched(stack: ExitStack, page, options):
    """Open the tabs and return the first. Each has its own window: hidden tabs are idle."""
    from playwright.sync_api import sync_playwright

    driver = stack.enter_context(sync_playwright())
    browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
    stack.callback(browser.close)
    tabs = []
    for _ in range(options.viewers):
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        opened = context.new_page()
        opened.goto(f"{page.address}#{options.view}?metric=time")
        opened.wait_for_selector("#state.live", timeout=60_000)
        tabs.append((opened, context.new_cdp_session(opened)))
    tabs[0][1].send("Performance.enable")
    return tabs[0]


def metrics(tab) -> dict[str, float]:
    """The counters of Chromium for a tab; empty without a tab."""
    if tab is None:
        return {}
    tab[1].send("HeapProfiler.collectGarbage")
    return {
        each["name"]: each["value"] for each in tab[1].send("Performance.getMetrics")["metrics"]
    }


def wait(tab, seconds: float) -> None:
    """Wait while the driver of the browser works."""
    if tab is None:
        time.sleep(seconds)
    else:
        tab[0].wait_for_timeout(1000 * seconds)


if __name__ == "__main__":
    main()
