"""Who can read a campaign, and who could have written it, whose commands would then be executed."""

import grp
import os
import pwd
import stat

from insitu.campaign.layout import CAMPAIGN_FILE, DATABASE
from insitu.errors import CampaignError

ROOT = 0  # can write everything anyway


def find_foreign_writer(path: str) -> str:
    """Say who else could have written a file or directory; "" if nobody could, or it is absent.

    A group that consists of the current user alone is nobody else: many systems give every user
    such a group, and write permission for it.
    """
    try:
        status = os.stat(path)
    except OSError:
        return ""

    if status.st_uid not in (ROOT, os.getuid()):
        return f"belongs to {_user_name(status.st_uid)}"
    if status.st_mode & stat.S_IWOTH:
        return "can be written by everybody"
    if status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid):
        return f"can be written by the group {_group_name(status.st_gid)}"
    return ""


def describe_foreign_writer(campaign: str) -> str:
    """The first file of a campaign that somebody else could have written, as a sentence, or ""."""
    for name in ("", CAMPAIGN_FILE, DATABASE):
        path = os.path.join(campaign, name) if name else campaign
        who = find_foreign_writer(path)
        if who:
            return f"{path} {who}"
    return ""


def check_readable(campaign: str) -> None:
    """Check that the current user may read a campaign; campaigns are made for their owner alone.

    Raises:
        CampaignError: the directory or the database is there, and only its owner can read it.
    """
    if not os.path.isdir(campaign):
        return
    database = os.path.join(campaign, DATABASE)
    for path, mode in ((campaign, os.R_OK | os.X_OK), (database, os.R_OK)):
        if os.path.exists(path) and not os.access(path, mode, effective_ids=True):
            raise CampaignError(
                f"{path}: only its owner, {_user_name(os.stat(path).st_uid)}, can read it, who lets"
                f" others read by: chmod a+rx {campaign}; chmod a+r {campaign}/campaign.*"
            )


def check_own(*paths: str) -> None:
    """Check that nobody else could have written these files, before what they contain is executed.

    Raises:
        CampaignError: somebody else could.
    """
    for path in paths:
        who = find_foreign_writer(path)
        if who:
            raise CampaignError(
                f"{path}: {who}, so commands from it are not executed; copy the campaign to a"
                " directory that only you can write, or correct its owner and mode"
            )


def _user_name(uid: int) -> str:
    try:
        return f"the user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"the user with id {uid}"


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return f"with id {gid}"


def _is_own_group(gid: int) -> bool:
    """Whether a group has the name of the current user, and no other members."""
    try:
        user, group = pwd.getpwuid(os.getuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    is_primary = gid == user.pw_gid and group.gr_name == user.pw_name
    return is_primary and set(group.gr_mem) <= {user.pw_name}
