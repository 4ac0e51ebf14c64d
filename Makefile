# The same as `python3 bootstrap.py demo`, `… test` and `… bench`; ARGS are passed on.
PYTHON ?= python3

.PHONY: demo test bench
demo test bench:
	$(PYTHON) bootstrap.py $@ $(ARGS)
