"""The tables of campaign.db, format by format.

Format history (append only; a released step never changes):

    1  2026-11  runs with every rank's values, models, classes, findings
    2  2026-11  checksums of runs, models and classes
    3  2026-11  compressed models; each distinct classification of ranks once
    4  2026-11  the mean of each behaviour class in each run
    5  2026-11  models as MessagePack
"""

APPLICATION_ID = 0x494E5349  # "INSI": lets file(1) and insitu recognise the file

_FORMAT_1 = """
CREATE TABLE campaign (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE run (
    ordinal       INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    parameters    TEXT NOT NULL,           -- JSON [[name, value], ...] in the order of RunKey
    repetition    INTEGER NOT NULL,
    state         TEXT NOT NULL,
    started_at    REAL NOT NULL,           -- seconds since 1970
    ended_at      REAL NOT NULL,
    configuration TEXT NOT NULL,           -- JSON object of strings
    exit_status   TEXT NOT NULL,           -- JSON list, one per rank
    missing       TEXT NOT NULL,           -- JSON list of ranks
    findings      TEXT NOT NULL,           -- JSON [[code, text, where], ...]
    size          INTEGER NOT NULL,        -- columns of its vectors
    callpaths     BLOB NOT NULL,           -- u4 little-endian: the rows of its table
    metrics       TEXT NOT NULL            -- JSON list of metric ids
);
CREATE INDEX run_at ON run (parameters, repetition);
CREATE TABLE callpath (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE metric (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, unit TEXT NOT NULL, kind TEXT NOT NULL,
    UNIQUE (name, unit, kind)
);
CREATE TABLE vec (                         -- every rank's value; rows without any are left out
    run      INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    callpath INTEGER NOT NULL REFERENCES callpath,
    metric   INTEGER NOT NULL REFERENCES metric,
    n        INTEGER NOT NULL,             -- ranks that have a value
    dtype    TEXT NOT NULL,
    codec    TEXT NOT NULL,
    min REAL, median REAL, mean REAL, max REAL,
    blob     BLOB NOT NULL,
    PRIMARY KEY (callpath, metric, run)
);
CREATE INDEX vec_of_run ON vec (run);
CREATE TABLE model (
    callpath TEXT NOT NULL, metric TEXT NOT NULL, class TEXT NOT NULL,
    unit TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,  -- JSON of Model.to_dict
    PRIMARY KEY (callpath, metric, class)
);
CREATE TABLE cluster (
    callpath TEXT NOT NULL, metric TEXT NOT NULL, parameters TEXT NOT NULL,
    repetition INTEGER NOT NULL,
    names TEXT NOT NULL, labels BLOB NOT NULL,  -- i4 little-endian, one per rank, zlib
    PRIMARY KEY (callpath, metric, parameters, repetition)
);
CREATE TABLE finding (code TEXT NOT NULL, text TEXT NOT NULL, place TEXT NOT NULL);
"""

_FORMAT_2 = """
CREATE TABLE checksum (                    -- see checksums.py; runs of format 1 have none
    run     INTEGER PRIMARY KEY,           -- ordinal
    record  BLOB NOT NULL,                 -- of the row in `run`
    vectors BLOB NOT NULL                  -- of its rows in `vec` and their names
);
ALTER TABLE model ADD COLUMN checksum BLOB;
ALTER TABLE cluster ADD COLUMN checksum BLOB;
"""

# From here on, `model.body` is compressed; see model_tables.py, which reads the text of earlier
# formats too, and the rows in `cluster`. Both remain until the models are fitted again.
_FORMAT_3 = """
CREATE TABLE classification (
    id       INTEGER PRIMARY KEY,
    names    TEXT NOT NULL,                -- JSON list: the behaviour class of each label
    labels   BLOB NOT NULL,                -- i4 little-endian, one per rank, zlib
    checksum BLOB NOT NULL
);
CREATE TABLE classified (
    callpath TEXT NOT NULL, metric TEXT NOT NULL,
    ids      BLOB NOT NULL,                -- u4 little-endian, zlib: for each run in
    checksum BLOB NOT NULL,                -- "modelled coordinates" its classification, 0 for none
    PRIMARY KEY (callpath, metric)
) WITHOUT ROWID;
DELETE FROM campaign WHERE name = 'modelled checksum';
"""

# Derived from the runs; see class_mean_tables.py. `campaign` has the row "class basis" beside them.
_FORMAT_4 = """
CREATE TABLE class_series (                -- which values the blobs in class_mean have
    metric TEXT PRIMARY KEY, unit TEXT NOT NULL, kind TEXT NOT NULL,
    keys BLOB NOT NULL,                    -- JSON [[call path, class], ...], zlib
    checksum BLOB NOT NULL
);
CREATE TABLE class_mean (
    run      TEXT NOT NULL,                -- key and checksum of its values
    metric   TEXT NOT NULL,
    means    BLOB NOT NULL,                -- f8 little-endian
    checksum BLOB NOT NULL,
    UNIQUE (run, metric)
);
"""

# The tables stay; new rows of `model` are read by this format only, see model_bodies.py.
_FORMAT_5 = ""

# The same as before: models take fewer bytes.
_FORMAT_6 = ""

STEPS = (
    _FORMAT_1,
    _FORMAT_2,
    _FORMAT_3,
    _FORMAT_4,
    _FORMAT_5,
    _FORMAT_6,
)  # STEPS[k] upgrades a file from format k to format k + 1
FORMAT = len(STEPS)
