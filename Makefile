# The same as `python3 bootstrap.py demo`, `… test`, `… full`, `… bench`, `… evaluate`, `… chaos` and `… sanitize`; ARGS are passed on.
PYTHON ?= python3

.PHONY: demo test full bench evaluate chaos sanitize
demo test full bench evaluate chaos sanitize:
	$(PYTHON) bootstrap.py $@ $(ARGS)
