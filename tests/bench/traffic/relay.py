"""Connections from addresses of their own, so that a server on this machine tells its callers apart. Linux has all of 127.0.0.0/8."""

import asyncio
import contextlib

FIRST_HOST = 10
BYTES = 1 << 16


async def _copy(reader, writer):
    with contextlib.closing(writer), contextlib.suppress(ConnectionError):
        while data := await reader.read(BYTES):
            writer.write(data)
            await writer.drain()


@contextlib.asynccontextmanager
async def relay(server, caller):
    """The address at which what connects reaches the server (`HOST:PORT`) as 127.0.0.10, 127.0.0.11, ..., by caller. A connection
    ends with that on its other side, where there is none at once, and at the latest with the relay."""
    host, port = server.rsplit(":", 1)
    connections = set()

    async def connect(reader, writer):
        connections.add(asyncio.current_task())
        source = (f"127.0.0.{FIRST_HOST + caller}", 0)
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            server_reader, server_writer = await asyncio.open_connection(host, int(port), local_addr=source)
            await asyncio.gather(_copy(reader, server_writer), _copy(server_reader, writer))

    listening = await asyncio.start_server(connect, "127.0.0.1", 0)
    try:
        yield "%s:%d" % listening.sockets[0].getsockname()
    finally:
        listening.close()
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
