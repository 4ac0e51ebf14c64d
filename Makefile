# The same as `python3 bootstrap.py demo`, `… test`, `… full`, `… bench`, `… evaluate`, `… chaos`, `… sanitize` and `… mutate`; ARGS are passed on.
PYTHON ?= python3

.PHONY: demo test full bench evaluate chaos sanitize mutate
demo test full bench evaluate chaos sanitize mutate:
	$(PYTHON) bootstrap.py $@ $(ARGS)
