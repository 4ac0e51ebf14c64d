"""A limit that readers of tables share, without the messages, which take a while to import."""

MAX_NAME_BYTES = 1_024
