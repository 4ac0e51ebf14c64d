"""python -m insitu: the insitu command."""

from insitu.module_path import leave_current_folder

if __name__ == "__main__":
    leave_current_folder()
    from insitu.cli import main

    main()
