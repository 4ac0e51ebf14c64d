"""Signals with handlers, blocked, ignored, waited for, and delivered to threads."""

import os, signal, threading, time
from mpi4py import MPI

got = []
signal.signal(signal.SIGUSR1, lambda *_: got.append("usr1"))
os.kill(os.getpid(), signal.SIGUSR1)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
os.kill(os.getpid(), signal.SIGUSR2)
print(got, signal.sigpending() == {signal.SIGUSR2}, signal.sigwait([signal.SIGUSR2]).name)
read, write = os.pipe()
os.set_blocking(write, False)
signal.set_wakeup_fd(write)
signal.raise_signal(signal.SIGUSR1)
signal.set_wakeup_fd(-1)
print(os.read(read, 10), got)
waiting = threading.Thread(target=time.sleep, args=(0.1,))
waiting.start()
signal.pthread_kill(waiting.ident, signal.SIGUSR1)
waiting.join()
print(
    got,
    [
        str(signal.getsignal(n))
        for n in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM)
    ],
)
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted", flush=True)
MPI.COMM_WORLD.Barrier()
