"""A web server that reloads itself when a file changes, and is then stopped."""

import os, signal, subprocess, sys, time, urllib.request, socket
from pathlib import Path

folder = Path(sys.argv[1]) / f"web-{os.getpid()}"
folder.mkdir()
APP = "async def app(scope, receive, send):\n    if scope['type'] != 'http': return\n    await send(dict(type='http.response.start', status=200, headers=[]))\n    await send(dict(type='http.response.body', body=b'{}'))\n"
(folder / "site_app.py").write_text(APP.format("first"))
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
server = subprocess.Popen(
    [
        sys.executable,
        "-m",
        "uvicorn",
        "site_app:app",
        "--reload",
        "--port",
        str(port),
        "--log-level",
        "critical",
    ],
    cwd=folder,
)


def get():
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=2).read().decode()
    except OSError:
        return ""


def until(text):
    end = time.monotonic() + 40
    while get() != text and time.monotonic() < end:
        time.sleep(0.1)
    print(get(), flush=True)


until("first")
time.sleep(1.1)
(folder / "site_app.py").write_text(APP.format("second"))
until("second")
server.send_signal(signal.SIGTERM)
print(server.wait(20), flush=True)
