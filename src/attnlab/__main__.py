"""`python -m attnlab` is `attnlab`."""

from attnlab.cli import main

main()
