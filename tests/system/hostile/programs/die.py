"""End as argv[1] says."""

import atexit, ctypes, os, signal, sys, threading

atexit.register(print, "atexit", flush=True)
print("alive", flush=True)


def end(how):
    if how.startswith("SIG"):
        os.kill(os.getpid(), getattr(signal, how))
    elif how == "raise":
        raise RuntimeError("end")
    elif how == "interrupt":
        raise KeyboardInterrupt
    elif how == "c-exit":
        ctypes.CDLL(None).exit(9)
    elif how == "abort":
        os.abort()
    elif how == "thread":
        threading.Thread(target=sys.exit, args=(3,)).start()
    elif how == "daemon":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    elif how == "broken":

        class Bad:
            def __del__(self):
                raise ValueError("del")

        sys.modules["bad"] = Bad()
    elif how == "text":
        sys.exit("no convergence")
    else:
        os._exit(int(how))


end(sys.argv[1])
