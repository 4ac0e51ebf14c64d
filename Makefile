# The same as `python3 bootstrap.py demo`, `… test`, `… bench` and `… chaos`; ARGS are passed on.
PYTHON ?= python3

.PHONY: demo test bench chaos
demo test bench chaos:
	$(PYTHON) bootstrap.py $@ $(ARGS)
