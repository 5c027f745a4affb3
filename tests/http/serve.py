"""A server of its own process: listens on a free loopback port, prints it, and serves until it is stopped."""

import socket
import sys

import uvicorn

from service.surfaces.cli.logs import logs_to_stderr
from service.surfaces.http.app import app_from_environment


def main() -> None:
    """Serve the application of this process's environment."""
    logs_to_stderr("ERROR")  # nobody reads standard output after the port
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sys.stdout.write(f"{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        config = uvicorn.Config(app_from_environment, factory=True, log_level="warning")
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
