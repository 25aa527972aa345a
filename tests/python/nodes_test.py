"""Several calibds on one database: a client that names all of them finds the one that has the store."""
import os
import threading

import pytest

import calibd
from calibd_server import CalibdServer
from certificates import Authority
from postgres_server import PostgresServer, programs
from wait_for import wait_for

from conftest import BANDWIDTH
from kills_test import AwaitedCalls, AwaitedStream, SingleRows

pytestmark = pytest.mark.skipif(programs() is None, reason="this machine has no PostgreSQL")


@pytest.fixture
def nodes():
    """The owner of a store, and a standby."""
    binary = os.environ["CALIBD_BINARY"]
    with PostgresServer(binary) as database:
        arguments = ("--store", "postgres", "--postgres", database.connection)
        with CalibdServer(binary, *arguments) as owner, \
                CalibdServer(binary, *arguments, serves=False) as standby:
            yield [owner, standby]


def address_of(nodes):
    return "ipv4:" + ",".join(node.grpc for node in nodes)


def test_a_standby_has_the_owner_answer(nodes):
    owner, standby = nodes
    with calibd.Client(owner.grpc) as client:
        client.create_model("named", 3)
    with calibd.Client(standby.grpc) as client:
        def answers():
            try:
                return client.calibration("named").observations == 0
            except calibd.errors.Unavailable:
                return False
        assert wait_for(answers)
    # The standby comes first.
    with calibd.Client(address_of([standby, owner])) as client:
        assert client.calibration("named").observations == 0


def test_a_standby_vouches_for_the_caller_over_tls(tmp_path):
    binary = os.environ["CALIBD_BINARY"]
    authority = Authority(tmp_path, "authority")
    certificate, key = authority.issue("server", names=["DNS:localhost", "IP:127.0.0.1"])
    own, other = (calibd.Tls(authority.certificate,
                             *authority.issue(name, names=[f"URI:spiffe://calibd.test/{name}"]))
                  for name in ("own", "other"))
    access = tmp_path / "access.toml"
    access.write_text('[[principal]]\nname = "own"\ncertificates = ["spiffe://calibd.test/own"]\n'
                      'grants = ["operator models/*"]\n'
                      '[[principal]]\nname = "other"\ncertificates = ["spiffe://calibd.test/other"]\n'
                      'grants = ["reader models/other"]\n')
    access.chmod(0o600)
    with PostgresServer(binary) as database:
        arguments = ("--store", "postgres", "--postgres", database.connection, "--access-file", access,
                     "--tls-certificate", certificate, "--tls-key", key, "--tls-client-ca",
                     authority.certificate, "--tls-peer-ca", authority.certificate)
        with CalibdServer(binary, *arguments), CalibdServer(binary, *arguments, serves=False) as standby:
            with calibd.Client(standby.grpc, tls=own) as client:
                def creates():
                    try:
                        return client.create_model("named", 3).name == "models/named"
                    except calibd.errors.Unavailable:
                        return False
                assert wait_for(creates)
                assert client.calibration("named").observations == 0
            # The owner decides by the rights of the caller, not by those of the standby.
            with calibd.Client(standby.grpc, tls=other) as client:
                with pytest.raises(calibd.errors.NotFound):
                    client.calibration("named")


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_every_row_counts_once_when_another_one_takes_over(nodes, end):
    address = address_of(nodes[::-1])
    client = calibd.Client(address)
    stop = threading.Event()
    producers = []
    for kind in (SingleRows, AwaitedStream, AwaitedCalls):
        client.create_model(kind.__name__, 3, bandwidth=BANDWIDTH)
        producers.append(kind(address, kind.__name__, stop))
    threads = [threading.Thread(target=producer.run) for producer in producers]
    for thread in threads:
        thread.start()
    try:
        assert wait_for(lambda: all(hasattr(producer, "accepted") for producer in producers))
        for owner, standby in (nodes, nodes[::-1]):
            before = [producer.accepted() for producer in producers]
            assert wait_for(lambda: all(producer.accepted() > accepted
                                        for producer, accepted in zip(producers, before)), 300)
            getattr(owner, end)()
            standby.await_serving()
            owner.launch()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    for producer in producers:
        counts = producer.counts
        answer = client.calibration(producer.model)
        assert answer.observations == counts.accepted_rows == counts.rows == producer.sent
        # They are the same rows, not only as many.
        assert answer.scores.log_loss == pytest.approx(producer.losses().mean(), rel=1e-9)
