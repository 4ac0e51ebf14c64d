"""The names of the files in a campaign directory."""

AGGREGATOR_ADDRESS = "aggregator.json"
