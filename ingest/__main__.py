"""`headrace`, and `python -m ingest`."""

from ingest.cli.app import main

if __name__ == "__main__":
    main()
