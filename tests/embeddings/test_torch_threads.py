"""Pinned torch threads."""

import threading

import torch

from embeddings.torch_threads import torch_threads


def test_the_count_holds_inside_and_is_put_back() -> None:
    """Inside the body the count is as asked; afterwards this thread and new threads have the old one."""
    before = torch.get_num_threads()
    other = before + 1
    with torch_threads(other):
        assert torch.get_num_threads() == other
    assert torch.get_num_threads() == before
    fresh: list[int] = []
    thread = threading.Thread(target=lambda: fresh.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert fresh == [before]


def test_other_threads_are_left_alone() -> None:
    """A thread that used torch before keeps its count while another one is pinned."""
    before = torch.get_num_threads()
    seen: list[int] = []
    pinned, done = threading.Event(), threading.Event()

    def bystander() -> None:
        torch.get_num_threads()
        pinned.wait(5)
        seen.append(torch.get_num_threads())
        done.set()

    thread = threading.Thread(target=bystander)
    thread.start()
    with torch_threads(before + 1):
        pinned.set()
        done.wait(5)
    thread.join()
    assert seen == [before]
