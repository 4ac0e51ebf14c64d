"""How many threads of OpenBLAS insitu's own processes have."""

from collections.abc import MutableMapping


def use_one_blas_thread(environment: MutableMapping[str, str]) -> None:
    """Let OpenBLAS have one thread in a process, unless the user chose a number.

    It would start a thread for each core as numpy is loaded, and another as scipy is, and each
    would poll for work for 0.1 s, on the cores of the ranks or of everybody's login node. The
    matrices of models are too small to share.

    Args:
        environment: of a process that has not yet loaded numpy, and that starts no program of the
            user: it would inherit the choice.
    """
    environment.setdefault("OPENBLAS_NUM_THREADS", "1")
