"""Certificates for tests, made by openssl: CAs, and certificates that they have issued.

    certificates.py FOLDER

writes ca.pem and, issued by it, server.pem for this machine and client.pem; and foreign.pem, another CA,
with its client stranger.pem. The keys are beside them, such as server.key.
"""
import datetime
import pathlib
import subprocess
import sys


class Authority:
    """A CA with a key of its own. certificate: its file."""

    def __init__(self, folder, name):
        self._folder = pathlib.Path(folder)
        self._key, self.certificate = self._folder / f"{name}.key", self._folder / f"{name}.pem"
        _openssl("req", "-x509", *_NEW_KEY, "-keyout", self._key, "-out", self.certificate, "-days", "30",
                 "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE")

    def issue(self, name, *, names=(), usage=None, days=30, seconds=None):
        """The files (certificate, key) of a new certificate.

        names: subject alternative names in the form of openssl, such as "DNS:localhost". usage: of its
        key, such as "clientAuth". days: until its end, which is in the past if they are negative.
        seconds: until its end, instead of days.
        """
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        request, extensions = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        lines = ["basicConstraints=CA:FALSE"]
        if names:
            lines.append(f"subjectAltName={','.join(names)}")
        if usage:
            lines.append(f"extendedKeyUsage={usage}")
        extensions.write_text("\n".join(lines) + "\n")
        _openssl("req", *_NEW_KEY, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        now = datetime.datetime.now(datetime.timezone.utc)
        life = datetime.timedelta(days=days) if seconds is None else datetime.timedelta(seconds=seconds)
        # Only `openssl ca` takes the time of the end.
        database = self._folder / f"{name}.index"
        database.write_text("")
        config = self._folder / f"{name}.cnf"
        config.write_text(f"[ca]\ndefault_ca=one\n[one]\ndatabase={database}\nnew_certs_dir={self._folder}\n"
                          "rand_serial=yes\ndefault_md=sha256\npolicy=any\n[any]\ncommonName=supplied\n")
        _openssl("ca", "-batch", "-notext", "-config", config, "-cert", self.certificate, "-keyfile",
                 self._key, "-in", request, "-out", certificate, "-extfile", extensions,
                 "-startdate", _time(min(now, now + life) - datetime.timedelta(days=1)),
                 "-enddate", _time(now + life))
        return certificate, key


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def _time(moment):
    return moment.strftime("%Y%m%d%H%M%SZ")


def _openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


if __name__ == "__main__":
    ca, foreign = Authority(sys.argv[1], "ca"), Authority(sys.argv[1], "foreign")
    ca.issue("server", names=["DNS:localhost", "IP:127.0.0.1"])
    ca.issue("client", names=["URI:spiffe://calibd.test/client"])
    foreign.issue("stranger", names=["URI:spiffe://calibd.test/client"])
