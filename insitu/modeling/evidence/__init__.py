"""The default modeler: the posterior over hypotheses, from series to models."""
