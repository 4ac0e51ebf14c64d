# The same as `python3 bootstrap.py demo`, `… test`, `… bench`, `… chaos` and `… sanitize`; ARGS are passed on.
PYTHON ?= python3

.PHONY: demo test bench chaos sanitize
demo test bench chaos sanitize:
	$(PYTHON) bootstrap.py $@ $(ARGS)
