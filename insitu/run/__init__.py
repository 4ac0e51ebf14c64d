"""One measured run, from its command line to its report; `python -m insitu.run`."""
