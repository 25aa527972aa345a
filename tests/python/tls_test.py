"""Connections with TLS: who is believed, and what the errors say."""
import os
import pathlib
import pickle
import types

import pytest
from calibd_server import CalibdServer
from certificates import Authority

import calibd

VARIABLES = {"CALIBD_CLIENT_TLS_CA": "ca", "CALIBD_CLIENT_TLS_CERTIFICATE": "certificate",
             "CALIBD_CLIENT_TLS_KEY": "key"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """CAs, and the certificates of a server and of a client, with their files for calibd."""
    folder = tmp_path_factory.mktemp("certificates")
    authority, foreign = Authority(folder, "authority"), Authority(folder, "foreign")
    certificate, key = authority.issue("server", names=["DNS:localhost", "IP:127.0.0.1"])
    own = authority.issue("own", names=["URI:spiffe://calibd.test/own"])
    return types.SimpleNamespace(
        authority=authority, foreign=foreign,
        arguments=["--tls-certificate", certificate, "--tls-key", key,
                   "--tls-client-ca", authority.certificate],
        own={"ca": authority.certificate, "certificate": own[0], "key": own[1]})


@pytest.fixture(scope="module")
def tls_server(files):
    with CalibdServer(os.environ["CALIBD_BINARY"], *files.arguments) as running:
        yield running


def test_calls_streams_and_copies_use_tls(files, tls_server, monkeypatch):
    with calibd.Client(tls_server.grpc, tls=calibd.Tls(**files.own)) as client:
        client.create_model("digits", 2, bandwidth=0.3)
        copy = pickle.loads(pickle.dumps(client))
        assert [model.name for model in copy.list_models()] == ["models/digits"]
        with client.stream("digits") as stream:
            stream.send([[0.4, 0.6]], [1])
    for name, field in VARIABLES.items():
        monkeypatch.setenv(name, str(files.own[field]))
    with calibd.Client(tls_server.grpc) as client:
        assert client.calibration("digits").observations == 1


def test_files_are_read_again(files, tls_server):
    own = files.authority.issue("renewed", names=["URI:spiffe://calibd.test/own"])
    with calibd.Client(tls_server.grpc, timeout=5, tls=calibd.Tls(
            files.authority.certificate, own[0], own[1])) as client:
        client.list_models()
        # The next call shows the new certificate, which the server does not accept.
        files.foreign.issue("renewed", names=["URI:spiffe://calibd.test/own"])
        with pytest.raises(calibd.Unavailable):
            client.list_models()


@pytest.mark.parametrize("changes, remedy", [
    ({"certificate": None, "key": None}, "does not accept the certificate of this client"),
    ({"server_name": "other.example"}, "is not for this host"),
    ({"ca": "foreign"}, "is not accepted: none of the CAs"),
    (None, "only one side uses TLS"),
])
def test_errors_say_what_to_do(files, tls_server, changes, remedy):
    tls = None
    if changes is not None:
        given = files.own | changes
        if given["ca"] == "foreign":
            given["ca"] = files.foreign.certificate
        tls = calibd.Tls(**given)
    with calibd.Client(tls_server.grpc, timeout=3, tls=tls) as client:
        with pytest.raises(calibd.Unavailable) as caught:
            client.list_models()
    assert remedy in caught.value.remedy


def test_a_server_without_tls_is_named(files, server):
    with calibd.Client(server.grpc, timeout=3, tls=calibd.Tls(**files.own)) as client:
        with pytest.raises(calibd.Unavailable) as caught:
            client.list_models()
    # It depends on whether the server's first frame came before it closed the connection.
    assert "does not use TLS" in caught.value.remedy or "only one side uses TLS" in caught.value.remedy


def test_wrong_files_are_named(files, server, monkeypatch):
    def refused(**changes):
        with pytest.raises(calibd.InvalidArgument) as caught:
            calibd.Client(server.grpc, tls=calibd.Tls(**(files.own | changes)))
        return str(caught.value)

    assert "tls.key is missing" in refused(key=None)
    assert "tls.ca is /no/file, which cannot be read" in refused(ca="/no/file")
    assert "has no certificate in PEM" in refused(ca=pathlib.Path(__file__))
    assert "has no private key in PEM" in refused(key=files.own["ca"])
    with pytest.raises(calibd.InvalidArgument, match="tls is 'ca.pem'"):
        calibd.Client(server.grpc, tls="ca.pem")
    monkeypatch.setenv("CALIBD_CLIENT_TLS_KEY", "key.pem")
    with pytest.raises(calibd.InvalidArgument, match="CALIBD_CLIENT_TLS_KEY is set without"):
        calibd.Client(server.grpc)


def test_a_token_is_sent_in_plain_text_to_loopback_only(files, monkeypatch):
    secret = "calibd_secret"
    for target in ("calibd.example.com:8460", "127.0.0.1.example.com:8460", "192.0.2.1:8460",
                   "[2001:db8::1]:1", "dns:///calibd.example.com:8460", "ipv4:127.0.0.1:1,192.0.2.1:1",
                   "ipv6:[::1]:1,[::2]:1"):
        for kind in (calibd.Client, lambda *given, **more: calibd.Monitor("m", *given, **more)):
            with pytest.raises(calibd.InvalidArgument, match="token is not sent to ") as caught:
                kind(target, token=secret)
            assert secret not in str(caught.value)
        calibd.Client(target, token=secret, tls=calibd.Tls(**files.own)).close()
    for target in ("127.0.0.1:1", "127.8.9.10:1", "localhost:1", "[::1]:1", "unix:/nowhere",
                   "dns:///localhost:1", "ipv6:[::1]:1"):
        calibd.Client(target, token=secret).close()
    monkeypatch.setenv("CALIBD_TOKEN_FILE", "/no/file")
    with pytest.raises(calibd.InvalidArgument, match="token is not sent to "):
        calibd.Client("192.0.2.1:8460")
