"""What a type checker must know of the package. lint.python_types reads this program; nothing runs it.

In strict mode, mypy calls a comment that ignores an error wrong if there is no such error.
"""
from __future__ import annotations

import calibd


async def open_streams(client: calibd.AsyncClient) -> calibd.AsyncStream:
    await client.stream("model", 3, on_full="drop", close_timeout=1.0, max_buffer_bytes=1 << 20)
    await client.stream("model", on_full="wait")  # type: ignore[arg-type]
    await client.stream("model", buffer=5)  # type: ignore[call-arg]
    await client.observe("model", [0.5, 0.5], id="a")
    await client.observe("model", [0.5, 0.5], prediction_id="a")  # type: ignore[call-arg]
    stream: calibd.AsyncStream = await client.stream("model", idempotency_key="run")
    await stream.send([[0.5, 0.5]], ids=["a"])
    await stream.send([[0.5, 0.5]], id="a")  # type: ignore[call-arg]
    return stream


def watch_requests(monitor: calibd.Monitor) -> int:
    monitor.observe([0.5, 0.5], 1, id="a")
    monitor.observe([0.5, 0.5], 1, ids=["a"])  # type: ignore[call-arg]
    counts: calibd.StreamCounts = monitor.close()
    return counts.rows
