import os

import pytest

from insitu.campaign.config import Config, load_config
from insitu.errors import CampaignError


@pytest.fixture
def campaign(tmp_path: os.PathLike[str]) -> str:
    path = os.path.join(tmp_path, "heat.insitu")
    os.mkdir(path)
    return path


def write_settings(campaign: str, text: str) -> None:
    with open(os.path.join(campaign, "campaign.toml"), "w", encoding="utf-8") as file:
        file.write(text)


def test_a_campaign_without_the_file_is_named_after_its_directory(campaign: str):
    assert load_config(campaign) == Config("heat")


def test_name_and_units_are_read(campaign: str):
    write_settings(campaign, 'name = "Heat on a plate"\n[parameters]\nn = "cells"\n')

    config = load_config(campaign)

    assert config.name == "Heat on a plate"
    assert (config.axis("n"), config.axis("p")) == ("n [cells]", "p")


def test_the_target_is_read(campaign: str):
    write_settings(campaign, 'target = "p=65536, n=256"')

    assert load_config(campaign).target == {"p": 65536.0, "n": 256.0}


def test_what_a_campaign_shall_predict_is_its_target_unless_it_has_another(campaign: str):
    write_settings(campaign, '[run]\npredict = "p=64, n=256"')
    assert load_config(campaign).target == {"p": 64.0, "n": 256.0}

    write_settings(campaign, 'target = "p=8"\n[run]\npredict = "p=64, n=256"')
    assert load_config(campaign).target == {"p": 8.0}


def test_what_the_diagnosis_assumes_is_read(campaign: str):
    write_settings(campaign, 'machine = "memory=2e9"\nscaling = "strong"')

    config = load_config(campaign)

    assert (config.machine, config.scaling) == ("memory=2e9", "strong")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("name = ", "not valid TOML"),
        ("nmae = 'x'", "unknown key 'nmae'; valid are name, target, machine, scaling, parameters"),
        ("name = 3", "name must be a string"),
        ("target = 65536", "target must be a string"),
        ("target = 'p'", "target: 'p' is not NAME=VALUE"),
        ("target = 'p=0'", "target: values must be above 0"),
        ("[run]\npredict = 'p=0'", "predict: values must be above 0"),
        ("machine = 2e9", "machine must be a string"),
        ("scaling = 'both'", "scaling must be 'weak' or 'strong'"),
        ("scaling = ['weak']", "scaling must be 'weak' or 'strong'"),
        ("parameters = 3", "must hold units by name"),
        ("[parameters]\nn = 3", "must hold units by name"),
    ],
)
def test_invalid_settings_are_refused(campaign: str, text: str, reason: str):
    write_settings(campaign, text)

    with pytest.raises(CampaignError, match=r"campaign\.toml: ") as caught:
        load_config(campaign)

    assert reason in str(caught.value)
