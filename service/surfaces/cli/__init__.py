"""The command line: translates arguments into use cases and answers into text; decides nothing."""

from service.surfaces.cli.program import main

__all__ = ["main"]
