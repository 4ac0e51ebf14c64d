# The same as `python3 bootstrap.py demo`, `… test`, `… full`, `… bench`, `… chaos` and `… sanitize`; ARGS are passed on.
PYTHON ?= python3

.PHONY: demo test full bench chaos sanitize
demo test full bench chaos sanitize:
	$(PYTHON) bootstrap.py $@ $(ARGS)
