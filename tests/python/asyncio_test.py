"""The client for asyncio does what the client does, and the event loop runs meanwhile."""
import asyncio
import inspect

import pytest

import calibd

from conftest import calibrated


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_names_are_those_of_the_client():
    assert public(calibd.AsyncClient) == public(calibd.Client)
    for name in public(calibd.Client) - {"watch", "close"}:
        assert (inspect.signature(getattr(calibd.AsyncClient, name))
                == inspect.signature(getattr(calibd.Client, name)))
    assert public(calibd.AsyncStream) < public(calibd.ObservationStream)


def test_methods_are_awaited(server):
    predictions, labels = calibrated(1000)

    async def work():
        async with calibd.AsyncClient(server.grpc) as client:
            await client.create_model("asynchronous", 3)
            async with await client.stream("asynchronous") as stream:
                await stream.send(predictions, labels)
                await stream.flush()
                assert stream.counts.accepted_rows == 1000
            answers = await asyncio.gather(*(
                client.observe("asynchronous", predictions[i], int(labels[i])) for i in range(50)))
            assert [answer.accepted_rows for answer in answers] == [1] * 50
            async for answer in client.watch("asynchronous"):
                assert answer.observations == 1050
                break
            with pytest.raises(calibd.NotFound):
                await client.calibration("unknown")
            with pytest.raises(KeyError):
                async with await client.stream("asynchronous") as stream:
                    await stream.send(predictions, labels)
                    raise KeyError
            return (await client.calibration("asynchronous")).observations

    assert asyncio.run(work()) == 2050


def test_the_event_loop_runs_while_calls_wait_and_cancelled_calls_end(own_server):
    async def work():
        async with calibd.AsyncClient(own_server.grpc) as client:
            await client.create_model("stopped", 3)
            changes = client.watch("stopped")
            await anext(changes)
            monitor = calibd.Monitor("stopped", own_server.grpc, close_timeout=60)
            with own_server.frozen():
                calls = [asyncio.ensure_future(call) for call in (
                    client.get_model("stopped"), client.stream("stopped"), anext(changes))]
                monitor.observe([0.2, 0.3, 0.5], 2)
                done, _ = await asyncio.wait(calls, timeout=0.1)
                assert not done
                for call in calls:
                    call.cancel()
                ended = await asyncio.gather(*calls, return_exceptions=True)
                assert [type(error) for error in ended] == [asyncio.CancelledError] * 3
            return await asyncio.to_thread(monitor.close)

    assert asyncio.run(work()).accepted_rows == 1
