"""What people look at while a campaign runs."""
