"""The table [classes] of campaign.toml."""

import pytest

from insitu.campaign.config import load_config
from insitu.errors import CampaignError
from insitu.modeling.classes.rules import ClassSettings


def settings(folder, text):
    (folder / "campaign.toml").write_text(text, encoding="utf-8")
    return load_config(str(folder)).classes


def test_the_default_uses_all_evidence_and_no_rules(tmp_path):
    assert settings(tmp_path, "") == ClassSettings("joint", 0.1, ())


@pytest.mark.parametrize("text", ['classes = "paper"', '[classes]\nway = "paper"'])
def test_the_method_of_the_paper_is_chosen_by_name(tmp_path, text):
    assert settings(tmp_path, text) == ClassSettings("paper", 0.1, ())


def test_rules_are_read_in_their_order(tmp_path):
    classes = settings(
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

    assert classes.threshold == 0.2
    first, second = classes.rules
    assert (first.callpath, first.metric, first.threshold) == ("*flux", "time", None)
    assert [rule.name for rule in first.classes] == ["corner"]
    assert (second.callpath, second.metric, second.threshold) == ("*", "*", 1.0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("classes = 3", "classes must be a table or a string"),
        ('classes = "best"', 'way must be "joint" or "paper", not \'best\''),
        ("[classes]\nmode = 'paper'", "unknown key 'mode'; valid are way, threshold, rules"),
        ("[classes]\nthreshold = 0.2", "[classes] threshold requires way"),
        (
            "[classes]\nway = 'paper'\nthreshold = 0",
            "threshold must be a relative distance above 0",
        ),
        ("[classes]\nrules = 3", "must be tables headed [[classes.rules]]"),
        ("[[classes.rules]]", "must have either ranks or threshold"),
        ("[[classes.rules]]\nrank = ['a: p == 1']", "unknown key 'rank'"),
        ("[[classes.rules]]\nranks = 'a: p == 1'", "ranks must be a list of rules"),
        ("[[classes.rules]]\nranks = ['a: p = 1']", "rule 'a': cannot read 'p = 1'"),
        ("[[classes.rules]]\nranks = ['a']", "write NAME: EXPRESSION"),
        ("[[classes.rules]]\nthreshold = true", "threshold must be a relative distance above 0"),
        ("[[classes.rules]]\nthreshold = 1\ncallpath = 2", "callpath and metric must be patterns"),
    ],
)
def test_an_invalid_value_is_refused_with_a_valid_one(tmp_path, text, reason):
    with pytest.raises(CampaignError, match=r"campaign\.toml: ") as caught:
        settings(tmp_path, text)

    assert reason in str(caught.value)
