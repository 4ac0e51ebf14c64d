"""Little room and few rights for a rank of Python, named by the first word."""

import ctypes
import mmap
import os
import resource
import signal
import subprocess
import sys
import threading
import time


def work(value: int) -> int:
    return value + 1


def call_mpi() -> int:
    from mpi4py import MPI

    return MPI.COMM_WORLD.allreduce(work(0))


def count_failed_threads() -> int:
    failed = 0
    for value in range(3):
        try:
            thread = threading.Thread(target=work, args=(value,))
            thread.start()
            thread.join()
        except RuntimeError:
            failed += 1
    return failed


def limit(what: int, soft: int) -> tuple[int, int]:
    before = resource.getrlimit(what)
    resource.setrlimit(what, (soft, before[1]))
    return before


def data_limit() -> None:
    before = limit(resource.RLIMIT_DATA, 1 << 20)
    failed = 0
    try:
        bytearray(64 << 20)
    except MemoryError:
        failed += 1
    threads = count_failed_threads()
    values = [work(i) for i in range(1000)]
    resource.setrlimit(resource.RLIMIT_DATA, before)
    print(failed, threads, sum(values), flush=True)


def file_limit() -> None:
    before = limit(resource.RLIMIT_FSIZE, 4096)
    error = 0
    with open("limited", "wb", buffering=0) as file:
        try:
            for _ in range(3):
                file.write(b"x" * 4000)
        except OSError as caught:
            error = caught.errno
    values = [work(i) for i in range(1000)]
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    print(error, sum(values), count_failed_threads(), flush=True)


def process_limit() -> None:
    limit(resource.RLIMIT_NPROC, 0)
    os.setresuid(-1, 65534, -1)
    threads, failed = count_failed_threads(), 0
    try:
        subprocess.run(["true"], check=True)
    except OSError:
        failed = 1
    os.setresuid(-1, 0, -1)
    print(threads, failed, sum(work(i) for i in range(1000)), flush=True)


def no_descriptors() -> None:
    first = os.dup(0)
    limit(resource.RLIMIT_NOFILE, first + 3)
    files, error = [], 0
    try:
        while True:
            files.append(os.dup(0))
    except OSError as caught:
        error = caught.errno
    try:
        import wave  # noqa: F401
    except OSError as caught:
        error += caught.errno
    print(len(files), error, sum(work(i) for i in range(1000)), flush=True)


def closes_every_number() -> None:
    call_mpi()
    os.closerange(3, 1 << 20)
    ctypes.CDLL(None).syscall(436, 3, ctypes.c_uint(0xFFFFFFFF), 0)  # close_range
    print(os.open("/dev/null", os.O_RDONLY), sum(work(i) for i in range(100)), flush=True)
    os._exit(0)


def few_rights() -> None:
    library = ctypes.CDLL(None, use_errno=True)
    failed = library.prctl(4, 0, 0, 0, 0) | library.prctl(38, 1, 0, 0, 0)
    own = os.open("/proc/self/ns/uts", os.O_RDONLY)
    results = [library.unshare(0x04000000), library.setns(own, 0x04000000)]
    results.append(library.unshare(0x00000400 | 0x00000200))  # files, folders
    os.close(own)
    print(failed, results, library.prctl(3), count_failed_threads(), flush=True)


def counts_urgent() -> None:
    handled = []
    signal.signal(signal.SIGURG, lambda number, frame: handled.append(number))
    for _ in range(200):
        os.kill(os.getpid(), signal.SIGURG)
        sum(work(i) for i in range(2000))
    print(len(handled), flush=True)


def no_wait() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    failed = 0
    for _ in range(10):
        child = os.fork()
        if not child:
            os._exit(work(2))
        try:
            os.waitpid(child, 0)
        except ChildProcessError:
            failed += 1
    print(failed, os.system("exit 3"), flush=True)


def low_maps() -> None:
    library = ctypes.CDLL(None)
    library.mmap.restype = ctypes.c_void_p
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x100000
    mapped = 0
    for at in range(0x10000, 0x400000, 0x10000):
        address = library.mmap(ctypes.c_void_p(at), ctypes.c_size_t(4096), 3, flags, -1, 0)
        mapped += address == at
    print(mapped, count_failed_threads(), flush=True)


def exec_storm() -> None:
    codes = []

    def many() -> None:
        for _ in range(15):
            codes.append(subprocess.run(["/bin/true"], check=False).returncode)

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    sums = [call_mpi() for _ in range(100)]
    for thread in threads:
        thread.join()
    print(len(codes), sum(codes), sum(sums), flush=True)


if __name__ == "__main__":
    word = sys.argv[1].replace("-", "_")
    call_mpi()
    globals()[word]()
    print("end", call_mpi(), time.time() > 0, flush=True)
