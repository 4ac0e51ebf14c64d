"""The messages between agents, relays and the aggregator, and their bytes."""
