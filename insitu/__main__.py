"""python -m insitu: the insitu command."""

from insitu.cli import main

if __name__ == "__main__":
    main()
