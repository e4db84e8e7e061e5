"""Authorities and certificates for a test, made by the openssl program."""

import pathlib
import subprocess

CONFIGURATION = """
[ca]
default_ca = test
[test]
database = index
serial = serial
new_certs_dir = .
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
[issued]
subjectAltName = {names}
extendedKeyUsage = serverAuth,clientAuth
"""
LOCAL = "DNS:localhost,IP:127.0.0.1"
EC_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


class Certificate:
    """PEM files."""

    def __init__(self, certificate: pathlib.Path, key: pathlib.Path):
        self.certificate = certificate
        self.key = key


class Authority:
    """Lives in a folder of its own. `pem` is its certificate."""

    def __init__(self, folder: pathlib.Path, name: str):
        self.folder = folder / name
        self.folder.mkdir(parents=True)
        (self.folder / "configuration").write_text(CONFIGURATION.format(names=LOCAL))
        (self.folder / "index").touch()
        (self.folder / "serial").write_text("01\n")
        self.pem = self.folder / "authority.pem"
        self._openssl("req", "-x509", *EC_KEY, "-keyout", "authority.key", "-out", self.pem, "-days", "2",
                      "-subj", f"/CN={name}")

    def issue(self, name: str, end="20991231235959Z", names=LOCAL) -> Certificate:
        """Valid from 2020 to `end`, for localhost and 127.0.0.1 unless it has other names."""
        (self.folder / "configuration").write_text(CONFIGURATION.format(names=names))
        issued = Certificate(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        self._openssl("req", "-new", *EC_KEY, "-keyout", issued.key, "-out", "request", "-subj", f"/CN={name}")
        self._openssl("ca", "-batch", "-config", "configuration", "-cert", self.pem, "-keyfile", "authority.key",
                      "-in", "request", "-out", issued.certificate, "-notext", "-startdate", "20200101000000Z",
                      "-enddate", end, "-extensions", "issued")
        return issued

    def issue_expired(self, name: str) -> Certificate:
        return self.issue(name, end="20200102000000Z")

    def _openssl(self, *arguments):
        done = subprocess.run(["openssl", *arguments], cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
