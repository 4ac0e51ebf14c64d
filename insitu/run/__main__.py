"""`python -m insitu.run`."""

from insitu.module_path import leave_current_folder

leave_current_folder()

from insitu.run.command import main  # noqa: E402 - what is imported depends on the path

main()
