"""Torch's thread count for one stretch of work in one thread."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Run the body with `count` torch threads, and leave every other thread's count as it was.

    Torch keeps the count per thread and a default for threads that are new to it; both are put back.
    Changing and restoring takes a fraction of a microsecond.
    """
    before = torch.get_num_threads()
    if before == count:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
