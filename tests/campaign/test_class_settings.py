"""What campaign.toml says about behaviour classes."""

import pytest

from insitu.campaign.config import load_config
from insitu.errors import CampaignError
from insitu.modeling.classes.rules import ClassSettings


def settings(folder, text):
    (folder / "campaign.toml").write_text(text, encoding="utf-8")
    return load_config(str(folder)).classes


def test_nothing_said_is_all_evidence_without_rules(tmp_path):
    assert settings(tmp_path, "") == ClassSettings("joint", 0.1, ())


@pytest.mark.parametrize("text", ['classes = "paper"', '[classes]\nway = "paper"'])
def test_the_way_of_the_paper_is_chosen_by_name(tmp_path, text):
    assert settings(tmp_path, text) == ClassSettings("paper", 0.1, ())


def test_rules_are_read_in_their_order(tmp_path):
    found = settings(
        tmp_path,
        """
        [classes]
        way = "paper"
        threshold = 0.2
        [[classes.rules]]
        callpath = "*flux"
        metric = "time"
        ranks = ["corner: x in (0, nx-1) and y in (0, ny-1)"]
        [[classes.rules]]
        threshold = 1
        """,
    )

    assert found.threshold == 0.2
    first, second = found.rules
    assert (first.callpath, first.metric, first.threshold) == ("*flux", "time", None)
    assert [one.name for one in first.classes] == ["corner"]
    assert (second.callpath, second.metric, second.threshold) == ("*", "*", 1.0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("classes = 3", "classes is a table, or a way"),
        ('classes = "best"', 'way is "joint" or "paper", not \'best\''),
        ("[classes]\nmode = 'paper'", "unknown key 'mode'; there are way, threshold, rules"),
        ("[classes]\nthreshold = 0.2", "[classes] threshold is the distance of way"),
        ("[classes]\nway = 'paper'\nthreshold = 0", "threshold is a relative distance above 0"),
        ("[classes]\nrules = 3", "begin with [[classes.rules]]"),
        ("[[classes.rules]]", "says either ranks or threshold"),
        ("[[classes.rules]]\nrank = ['a: p == 1']", "unknown key 'rank'"),
        ("[[classes.rules]]\nranks = 'a: p == 1'", "ranks is a list of rules"),
        ("[[classes.rules]]\nranks = ['a: p = 1']", "rule 'a': cannot read 'p = 1'"),
        ("[[classes.rules]]\nranks = ['a']", "write NAME: EXPRESSION"),
        ("[[classes.rules]]\nthreshold = true", "threshold is a relative distance above 0"),
        ("[[classes.rules]]\nthreshold = 1\ncallpath = 2", "callpath and metric are patterns"),
    ],
)
def test_what_has_no_meaning_is_refused_with_what_would(tmp_path, text, reason):
    with pytest.raises(CampaignError, match=r"campaign\.toml: ") as caught:
        settings(tmp_path, text)

    assert reason in str(caught.value)
