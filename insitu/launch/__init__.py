"""Starting ranks, jobs and processes."""
