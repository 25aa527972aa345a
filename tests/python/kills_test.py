"""Every way of sending, while the server is killed twenty times: each row is counted once."""
import asyncio
import threading

import numpy as np
import pytest

import calibd
from wait_for import wait_for

from conftest import BANDWIDTH, calibrated

KILLS = 20
# Rows of a call that takes many.
MANY = 20
PREDICTIONS, LABELS = calibrated(1000)
LOSSES = -np.log(PREDICTIONS[np.arange(1000), LABELS])


class Producer:
    """Sends the rows of the data again and again, until it is stopped.

    sent: the number of rows that were given to calls which have returned.
    """

    def __init__(self, address, model, stop):
        self.address, self.model, self.stop = address, model, stop
        self.sent = 0
        self.counts = None

    def next_rows(self, count):
        return [i % 1000 for i in range(self.sent, self.sent + count)]

    def losses(self):
        return LOSSES[np.arange(self.sent) % 1000]

    def is_due(self):
        """Waits for a moment between two calls, and returns whether there is a next one."""
        return not self.stop.wait(0.005)


class SingleRows(Producer):
    def run(self):
        with calibd.Client(self.address).stream(self.model) as stream:
            self.accepted = lambda: stream.counts.accepted_rows
            while self.is_due():
                (i,) = self.next_rows(1)
                stream.observe(PREDICTIONS[i], int(LABELS[i]))
                self.sent += 1
        self.counts = stream.counts


class DroppedRows(Producer):
    def run(self):
        # The buffer has room for few calls, so an outage drops rows.
        with calibd.Monitor(self.model, self.address, max_buffer_bytes=20_000,
                            close_timeout=60) as monitor:
            self.accepted = lambda: monitor.counts.accepted_rows
            while self.is_due():
                rows = self.next_rows(MANY)
                monitor.send(PREDICTIONS[rows], LABELS[rows])
                self.sent += MANY
        self.counts = monitor.counts


class AwaitedStream(Producer):
    def run(self):
        asyncio.run(self.send())

    async def send(self):
        async with calibd.AsyncClient(self.address) as client:
            async with await client.stream(self.model) as stream:
                self.accepted = lambda: stream.counts.accepted_rows
                while self.is_due():
                    rows = self.next_rows(MANY)
                    await stream.send(PREDICTIONS[rows], LABELS[rows])
                    self.sent += MANY
            self.counts = stream.counts


class AwaitedCalls(Producer):
    def run(self):
        self.accepted = lambda: self.sent
        asyncio.run(self.send())

    async def send(self):
        async with calibd.AsyncClient(self.address, timeout=60) as client:
            while self.is_due():
                # A call returns when its row is durable. An answer that a kill has lost is asked for
                # again, and then says that the row was known.
                await asyncio.gather(*(client.observe(self.model, PREDICTIONS[i], int(LABELS[i]))
                                       for i in self.next_rows(MANY)))
                self.sent += MANY
        self.counts = calibd.StreamCounts(rows=self.sent, accepted_rows=self.sent)


def test_twenty_kills_lose_and_double_nothing_in_any_mode(own_server):
    client = calibd.Client(own_server.grpc)
    stop = threading.Event()
    producers = []
    for kind in (SingleRows, DroppedRows, AwaitedStream, AwaitedCalls):
        client.create_model(kind.__name__, 3, bandwidth=BANDWIDTH)
        producers.append(kind(own_server.grpc, kind.__name__, stop))
    threads = [threading.Thread(target=producer.run) for producer in producers]
    for thread in threads:
        thread.start()
    try:
        assert wait_for(lambda: all(hasattr(producer, "accepted") for producer in producers))
        for _ in range(KILLS):
            before = [producer.accepted() for producer in producers]
            assert wait_for(lambda: all(producer.accepted() > accepted
                                        for producer, accepted in zip(producers, before)), 300)
            own_server.kill()
            own_server.start()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    for producer in producers:
        counts = producer.counts
        answer = client.calibration(producer.model)
        assert counts.rows == producer.sent
        assert answer.observations == counts.accepted_rows == counts.rows - counts.dropped_rows
        assert answer.dropped_rows == counts.dropped_rows
        assert (counts.dropped_rows > 0) == isinstance(producer, DroppedRows)
        if not counts.dropped_rows:
            # They are the same rows, not only as many.
            assert answer.scores.log_loss == pytest.approx(producer.losses().mean(), rel=1e-9)
