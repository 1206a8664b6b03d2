"""`python -m siag` is `siag`."""

from siag.cli import main

main()
