"""The page of a campaign in a browser."""
