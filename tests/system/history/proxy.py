"""A TCP proxy between clients and a server that can lose what it carries."""

from __future__ import annotations

import asyncio
import enum
import threading


class Mode(enum.Enum):
    PASS = "pass"
    # Requests arrive, replies do not.
    DROP_REPLIES = "drop replies"
    # Nothing passes in either direction; connections stay open.
    SILENT = "silent"


class Proxy:
    """Carries connections to `target` (host:port, may change). Threads: any; its own loop thread does the work."""

    def __init__(self, target: str):
        self.target = target
        self.mode = Mode.PASS
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        self.address = "127.0.0.1:%d" % self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Ends every connection, both sides, without a goodbye."""
        self._call(self._abort_all)

    def close(self) -> None:
        self._call(self._server.close)
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, function) -> None:
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (function(), done.set()))
        assert done.wait(60)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0)

    def _abort_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self.target.rsplit(":", 1)
        try:
            up_reader, up_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.transport.abort()
            return
        pair = (writer, up_writer)
        self._writers.update(pair)
        try:
            await asyncio.gather(self._carry(reader, up_writer, replies=False),
                                 self._carry(up_reader, writer, replies=True))
        finally:
            for end in pair:
                end.transport.abort()
            self._writers.difference_update(pair)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, replies: bool) -> None:
        try:
            while data := await reader.read(65536):
                if self.mode is Mode.SILENT or (replies and self.mode is Mode.DROP_REPLIES):
                    continue
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        # One side is gone: so is the other.
        writer.transport.abort()
