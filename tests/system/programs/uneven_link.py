"""A link between two network namespaces that is slower in one direction.

    python uneven_link.py NAMESPACE ADDRESS SECONDS NAMESPACE ADDRESS SECONDS

Each namespace gets an interface `uneven` with its address; a frame that leaves it arrives that many
seconds later. Ends when its standard input does.
"""

import fcntl
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
FRAME_BYTES = 2048
SPIN_S = 2e-4  # select is not more exact than this


def open_interface(namespace: str, address: str) -> int:
    """A descriptor from which the frames that leave the namespace are read."""
    interface = os.open("/dev/net/tun", os.O_RDWR)
    name = f"uneven{interface}_{os.getpid() % 10000}"
    fcntl.ioctl(interface, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    subprocess.run(["ip", "link", "set", name, "netns", namespace], check=True)
    inside = ["ip", "-n", namespace]
    subprocess.run([*inside, "link", "set", name, "name", "uneven"], check=True)
    subprocess.run([*inside, "address", "add", address, "dev", "uneven"], check=True)
    subprocess.run([*inside, "link", "set", "uneven", "up"], check=True)
    return interface


def main(words: list[str]) -> None:
    """Forward frames until standard input ends."""
    first, second = (open_interface(words[k], words[k + 1]) for k in (0, 3))
    other = {first: second, second: first}
    delay_s = {first: float(words[2]), second: float(words[5])}
    on_the_way: dict[int, deque[tuple[float, bytes]]] = {first: deque(), second: deque()}
    print("ready", flush=True)

    while True:
        due = min((queue[0][0] for queue in on_the_way.values() if queue), default=None)
        wait_s = None if due is None else due - time.monotonic()
        if wait_s is not None and wait_s < SPIN_S:
            wait_s = 0.0
        readable, _, _ = select.select([first, second, sys.stdin], [], [], wait_s)
        if sys.stdin in readable:
            return
        for interface in readable:
            frame = os.read(interface, FRAME_BYTES)
            on_the_way[interface].append((time.monotonic() + delay_s[interface], frame))
        for interface, queue in on_the_way.items():
            while queue and queue[0][0] <= time.monotonic():
                os.write(other[interface], queue.popleft()[1])


if __name__ == "__main__":
    main(sys.argv[1:])
