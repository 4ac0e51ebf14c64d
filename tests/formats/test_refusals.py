"""Files of other tools that do not keep to their format, and formats that do not exist."""

import json
import struct
import zipfile
from pathlib import Path

import pytest

from insitu.campaign.load import load_experiment
from insitu.errors import UsageError
from insitu.formats import extrap_in
from insitu.formats.base import load_exporter, load_importer
from insitu.formats.extrap_files import INDEX
from insitu.formats.reading import make_unique
from insitu.modeling.base import ModelSet
from tests.support.campaigns import heat_campaign


def test_formats_that_do_not_exist_are_listed():
    with pytest.raises(UsageError, match="no format 'xls' to export; the formats are json, "):
        load_exporter("xls")
    with pytest.raises(UsageError, match="no format 'xls' to import; the formats are jsonl, "):
        load_importer("xls")


def test_a_repeated_name_gets_the_next_free_number():
    assert make_unique("main", set()) == "main"
    assert make_unique("main", {"main"}) == "main #2"
    assert make_unique("main", {"main", "main #2"}) == "main #3"


def test_a_rank_of_hatchet_that_no_machine_has_is_refused(tmp_path):
    data = {
        "graph": [{"0": {"data": {"name": "main"}, "children": []}}],
        "dataframe": [{"node": "0", "rank": -1, "time": 1.0}],
        "dataframe_indices": ["node", "rank"],
        "exclusive_metrics": [],
        "inclusive_metrics": ["time"],
        "metadata": {},
    }
    (tmp_path / "heat.p1.json").write_text(json.dumps(data))

    with pytest.raises(UsageError, match="rank -1 is out of range"):
        list(load_importer("hatchet").rows(str(tmp_path / "heat.p1.json")))


def test_empty_lines_of_talpas_are_no_values(tmp_path):
    line = '{"parameters":{"x":1};"metric":"flops";"callpath":"main";"value":2}'
    (tmp_path / "talpas.txt").write_text(f"{line}\n\n{line}\n")

    rows = list(load_importer("extra-p-text").rows(str(tmp_path / "talpas.txt")))

    assert [row["value"] for row in rows] == [2, 2]


@pytest.fixture
def experiment(tmp_path):
    """Write an experiment of Extra-P; a test replaces some of its files."""

    def write(replaced: dict[str, bytes]) -> str:
        path = tmp_path / "heat.extra-p"
        with heat_campaign(str(tmp_path / "a.insitu"), 1, (2, 4)) as store:
            exported = load_experiment(store)
        with open(path, "wb") as out:
            load_exporter("extra-p").write(exported, ModelSet(), out)
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        assert replaced.keys() <= members.keys(), members.keys()
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in (members | replaced).items():
                archive.writestr(name, data)
        return str(path)

    return write


@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        ({"values/0.vals": b"other"}, "values/0 does not begin as Extra-P writes it"),
        (
            {"values/0.indx": INDEX + struct.pack("<Q", 1 << 40)},
            "values/0.indx claims 1099511627776 arrays",
        ),
        ({"values/0.indx": INDEX}, "not an experiment of Extra-P 4"),
    ],
)
def test_damaged_values_of_an_experiment_are_named(experiment, replaced, message):
    path = experiment(replaced)

    with pytest.raises(UsageError) as refusal:
        list(load_importer("extra-p").rows(path))

    assert message in str(refusal.value)
    assert Path(path).name in str(refusal.value)


def test_a_member_that_becomes_too_large_is_refused(experiment, monkeypatch):
    monkeypatch.setattr(extrap_in, "MEMBER_BYTES_LIMIT", 100)

    with pytest.raises(UsageError, match=r"experiment\.json is larger than 0 MiB"):
        list(load_importer("extra-p").rows(experiment({})))
