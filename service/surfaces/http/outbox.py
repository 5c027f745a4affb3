"""Result lines on their way to a client that may still be sending, and so not reading."""

import asyncio
from tempfile import SpooledTemporaryFile
from typing import Final

IN_MEMORY: Final = 1024 * 1024  # bytes held before the rest goes to a temporary file
PIECE: Final = 64 * 1024  # bytes sent at once


class Outbox:
    """A queue of bytes in bounded memory. One side puts and closes, the other takes."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed by `discard`
        self._written = 0
        self._read = 0
        self._closed = False
        self._news = asyncio.Event()

    def put(self, data: bytes) -> None:
        """Append; never waits for the reader."""
        self._file.seek(self._written)
        self._written += self._file.write(data)
        self._news.set()

    def close(self) -> None:
        """Nothing more will come."""
        self._closed = True
        self._news.set()

    async def take(self) -> bytes:
        """The next bytes as soon as there are any; empty when everything has been taken and nothing will come."""
        while self._read == self._written and not self._closed:
            self._news.clear()
            await self._news.wait()
        self._file.seek(self._read)
        data = self._file.read(PIECE)
        self._read += len(data)
        if self._read == self._written:  # a reader that keeps up keeps the queue small
            self._file.seek(0)
            self._file.truncate()
            self._read = self._written = 0
        return data

    def discard(self) -> None:
        """Give the temporary file back."""
        self._file.close()
