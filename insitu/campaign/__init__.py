"""The files of a campaign."""
