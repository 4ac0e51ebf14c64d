"""A relay: between the agents of some nodes and the aggregator."""
