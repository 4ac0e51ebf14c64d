"""The names of the files and folders in a campaign directory.

Only constants: agents, aggregators and commands import this module before anything else.
"""

# What the user writes or reads.
CAMPAIGN_FILE = "campaign.toml"
DEPENDENCIES_FILE = "dependencies.json"  # known dependencies of the program on its parameters
EXPECTATIONS_FILE = "expectations.toml"
DATABASE = "campaign.db"

# Logs and journals.
LOGS = "logs"
ATTEMPTS_LOG = "logs/attempts.jsonl"
RUNS_LOG = "logs/runs.log"
SERVER_LOG = "logs/serve.log"

# Discovery of the aggregator. The address file holds the campaign's token: its mode is 0600.
AGGREGATOR_ADDRESS = "aggregator.json"
AGGREGATOR_LOCK = "aggregator.lock"
AGGREGATOR_EXPECTED = "aggregator.coming"  # exists while a launcher starts or awaits an aggregator
AGGREGATOR_JOURNAL = "aggregator.journal"
RUNS_LOCK = "runs.lock"
RELAYS = "relays"  # one address file and one lock per relay

# Secrets: a folder of mode 0700, with files of mode 0600.
KEYS = "keys"
TOKEN = "token"
SERVER_KEY = "server"  # server.key, server.key_secret
CLIENT_KEY = "client"
ALLOWED_CLIENTS = "clients"  # public keys that the aggregator admits

SPOOL = "spool"  # tables of nodes that no socket leaves
