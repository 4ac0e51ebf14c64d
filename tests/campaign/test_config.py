import os

import pytest

from insitu.campaign.config import Config, load_config
from insitu.errors import CampaignError


@pytest.fixture
def campaign(tmp_path: os.PathLike[str]) -> str:
    path = os.path.join(tmp_path, "heat.insitu")
    os.mkdir(path)
    return path


def say(campaign: str, text: str) -> None:
    with open(os.path.join(campaign, "campaign.toml"), "w", encoding="utf-8") as file:
        file.write(text)


def test_a_campaign_without_the_file_is_called_like_its_directory(campaign: str):
    assert load_config(campaign) == Config("heat")


def test_name_and_units_are_read(campaign: str):
    say(campaign, 'name = "Heat on a plate"\n[parameters]\nn = "cells"\n')

    config = load_config(campaign)

    assert config.name == "Heat on a plate"
    assert (config.axis("n"), config.axis("p")) == ("n [cells]", "p")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("name = ", "not TOML"),
        ("nmae = 'x'", "unknown key 'nmae'; there are name, parameters, classes"),
        ("name = 3", "name is not a text"),
        ("parameters = 3", "a unit per name"),
        ("[parameters]\nn = 3", "a unit per name"),
    ],
)
def test_what_has_no_meaning_is_refused(campaign: str, text: str, reason: str):
    say(campaign, text)

    with pytest.raises(CampaignError, match=r"campaign\.toml: ") as caught:
        load_config(campaign)

    assert reason in str(caught.value)
