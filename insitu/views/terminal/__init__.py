"""The screens of `insitu watch` in a terminal."""
