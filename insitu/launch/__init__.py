"""Starting the ranks of a program."""
