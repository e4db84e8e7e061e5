"""Connections from addresses of their own, so that a server on this machine tells its callers apart. Linux has all of 127.0.0.0/8."""

import asyncio
import contextlib

FIRST_HOST = 10
BYTES = 1 << 16


async def _copy(reader, writer):
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(BYTES):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def relay(server, caller):
    """The address at which what connects reaches the server (`HOST:PORT`) as 127.0.0.10, 127.0.0.11, ..., by caller."""
    host, port = server.rsplit(":", 1)

    async def connect(reader, writer):
        source = (f"127.0.0.{FIRST_HOST + caller}", 0)
        server_reader, server_writer = await asyncio.open_connection(host, int(port), local_addr=source)
        await asyncio.gather(_copy(reader, server_writer), _copy(server_reader, writer))

    listening = await asyncio.start_server(connect, "127.0.0.1", 0)
    try:
        yield "%s:%d" % listening.sockets[0].getsockname()
    finally:
        listening.close()
