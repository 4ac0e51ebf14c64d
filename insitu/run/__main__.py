"""`python -m insitu.run`."""

from insitu.run.command import main

main()
