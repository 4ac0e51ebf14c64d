"""What few Python programs ask of the interpreter and of their process, named by the first word."""

import atexit
import ctypes
import os
import resource
import sys
import threading


def work(value: int) -> int:
    return value + 1


def call_mpi(what: str) -> None:
    from mpi4py import MPI

    print(what, MPI.COMM_WORLD.allreduce(work(0)), flush=True)


def mpi_at_exit() -> None:
    """Handlers call MPI, which mpi4py finalises after them."""
    atexit.register(call_mpi, "registered first")
    call_mpi("before the end")
    atexit.register(call_mpi, "registered last")


def fork_at_exit() -> None:
    child = os.fork()
    if not child:
        os._exit(work(4))
    print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def forks_at_exit() -> None:
    """Children of handlers of atexit, whose own handlers run or do not."""
    atexit.register(fork_at_exit)
    call_mpi("before the end")
    sys.stdout.flush()
    child = os.fork()
    if not child:
        print("of the child", work(1), flush=True)
        atexit._run_exitfuncs()
        os._exit(7)  # mpi4py would finalise the MPI of its parent
    print("first child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def no_memory() -> None:
    """Every allocation of a new mapping fails; then none."""
    call_mpi("before")
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * 4096, before[1]))
    failed = 0
    for _ in range(10):
        try:
            bytearray(64 << 20)
        except MemoryError:
            failed += 1
    try:
        threading.Thread(target=work, args=(1,)).start()
    except RuntimeError as error:
        failed += 1
        print(error)
    values = [work(i) for i in range(1000)]
    resource.setrlimit(resource.RLIMIT_AS, before)
    print(failed, sum(values))


def asynchronous() -> None:
    """Exceptions that other threads raise at any instruction of functions."""
    raised = 0

    def loop() -> None:
        nonlocal raised
        while raised < 50:
            try:
                while True:
                    work(1)
            except ValueError:
                raised += 1

    thread = threading.Thread(target=loop)
    thread.start()
    set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
    before = -1
    while thread.is_alive():
        if raised != before and raised < 50:
            before = raised
            set_exception(ctypes.c_ulong(thread.ident), ctypes.py_object(ValueError))
        thread.join(0.001)
    print("raised", raised >= 50)
    call_mpi("after")


def own_evaluator() -> None:
    """As TorchDynamo and debuggers: how the interpreter runs frames is set anew, and given back."""
    api = ctypes.pythonapi
    api.PyInterpreterState_Get.restype = ctypes.c_void_p
    interpreter = ctypes.c_void_p(api.PyInterpreterState_Get())
    get, put = api._PyInterpreterState_GetEvalFrameFunc, api._PyInterpreterState_SetEvalFrameFunc
    get.restype = ctypes.c_void_p
    default = ctypes.cast(api._PyEval_EvalFrameDefault, ctypes.c_void_p)
    before = ctypes.c_void_p(get(interpreter))
    for _ in range(100):
        work(1)
    put(interpreter, default)
    for _ in range(100):
        work(2)
    put(interpreter, before)
    for _ in range(100):
        work(3)
    call_mpi("after")


def odd_names() -> None:
    """Functions whose names and files contain any character."""
    names = (
        "a\nb",
        "a;b",
        "a->b",
        "a\0b",
        "\udcff",
        "x" * 5000,
        "é" * 300,
        "",
        " ",
        '"',
        "\\",
        "%s",
    )
    for name in names:
        code = work.__code__.replace(co_name=name, co_filename=f"/{name}.py")
        if sys.version_info >= (3, 11):
            code = code.replace(co_qualname=name)
        function = type(work)(code, {})
        print(ascii(name[:10]), sum(function(i) for i in range(10)))
    call_mpi("after")


def hooks_of_fork() -> None:
    """Functions before and after a fork, which call MPI and fork themselves."""
    depth = 0

    def before() -> None:
        nonlocal depth
        depth += 1
        if depth == 1:
            child = os.fork()
            if not child:
                os._exit(0)
            os.waitpid(child, 0)
        call_mpi(f"before {depth}")

    os.register_at_fork(
        before=before, after_in_parent=lambda: work(1), after_in_child=lambda: work(2)
    )
    child = os.fork()
    if not child:
        os._exit(work(2))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), depth, flush=True)


def closes_all() -> None:
    os.closerange(3, 65536)
    print(sum(work(i) for i in range(100)), sorted(os.listdir("/proc/self/fd")))


if __name__ == "__main__":
    word = sys.argv[1].replace("-", "_")
    globals()[word]()
    if word != "closes_all":
        call_mpi("end")
