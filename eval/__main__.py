"""`python -m eval`: the group as a program of its own, with the same exit statuses."""

from typing import Final

import click

from eval.cli import group
from service.surfaces.cli.program import one_line_errors, tell_defect


class _Program(click.CommandCollection):
    def invoke(self, ctx: click.Context) -> object:
        with one_line_errors():
            return super().invoke(ctx)


PROGRAM: Final = _Program("python -m eval", sources=[group], help=group.help, epilog=group.epilog)

if __name__ == "__main__":
    import sys

    sys.excepthook = tell_defect
    PROGRAM()
