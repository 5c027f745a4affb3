"""One answer on its way out."""

from time import perf_counter

from litestar.types import Message, Send


class Passage:
    """An answer whose headers are completed and whose status and time are noted.

    The answer to a HEAD is that to a GET without its body: `is_bare`.
    """

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._request_id = request_id
        self._began = perf_counter()
        self.is_bare = False
        self.status = 500  # an answer that never began
        self.reason: str | None = None
        self.has_begun = False  # the application works on the request
        self.has_answer = False  # at least its status is on its way

    @property
    def seconds(self) -> float:
        """The time since the request came."""
        return perf_counter() - self._began

    async def send(self, message: Message) -> None:
        """Pass a message on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.has_answer = True
            message["headers"] = [
                *map(_allowing_head, message["headers"]),
                (b"x-request-id", self._request_id.encode()),
                (b"server-timing", f"total;dur={self.seconds * 1000:.2f}".encode()),
                (b"x-content-type-options", b"nosniff"),
            ]
        elif message["type"] == "http.response.body" and self.is_bare:
            message["body"] = b""
        await self._send(message)


def _allowing_head(header: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """Whoever lists GET among the methods of a path means HEAD too."""
    name, value = header
    methods = [method.strip() for method in value.split(b",")] if name.lower() == b"allow" else []
    return (name, value + b", HEAD") if b"GET" in methods and b"HEAD" not in methods else header
