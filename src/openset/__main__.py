"""`python -m openset`: the command line, for torchrun and for scripts not on PATH."""

from openset.cli import main

if __name__ == "__main__":
    main()
