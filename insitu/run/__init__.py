"""A measured run, from its command line to its summary; `python -m insitu.run`."""
