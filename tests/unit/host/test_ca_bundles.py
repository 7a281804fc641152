"""A container finds the CA bundles that the host's variables name, wherever these lie."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lumicontainer.errors import HostError
from lumicontainer.host.ca_bundles import FOLDER, VARIABLES, trust_of
from lumicontainer.host.site import read_site

from ...namespaces import ordinary


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tmp_path / "site.pem"
    path.write_text("the site's own\n")
    return path


@pytest.mark.parametrize("name", VARIABLES)
def test_the_file_of_each_variable_is_bound_read_only(bundle: Path, name: str) -> None:
    trust = trust_of({name: str(bundle)})
    assert [str(each) for each in trust.mounts] == [f"{bundle}:{FOLDER}/ca-1.pem:ro"]
    assert trust.variables == {name: f"{FOLDER}/ca-1.pem"}


def test_variables_of_one_file_share_it_and_others_do_not(bundle: Path) -> None:
    link, other = bundle.with_name("link.pem"), bundle.with_name("other.crt")
    link.symlink_to(bundle)
    other.touch()
    named = {"SSL_CERT_FILE": bundle, "PIP_CERT": link, "NODE_EXTRA_CA_CERTS": other}
    trust = trust_of({name: str(path) for name, path in named.items()})
    assert [each.source for each in trust.mounts] == [str(bundle), str(other)]
    shared, own = f"{FOLDER}/ca-1.pem", f"{FOLDER}/ca-2.crt"
    assert trust.variables == dict(zip(named, (shared, shared, own), strict=True))


def test_what_no_engine_can_bind_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a,b.pem").touch()
    for value in ("", "/nowhere/ca.pem", str(tmp_path), str(tmp_path / "a,b.pem")):
        assert trust_of({"REQUESTS_CA_BUNDLE": value}) == ((), {})


@pytest.mark.slow
def test_a_bundle_that_cannot_be_looked_up_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"/{'a' * 300}.pem"
    monkeypatch.setenv("SSL_CERT_FILE", path)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("PIP_CERT", raising=False)
    for ask in (lambda: trust_of(os.environ), lambda: read_site("")):
        with pytest.raises(HostError, match="cannot read the CA bundle of SSL_CERT_FILE") as error:
            ask()
        (problem,) = error.value.problems
        assert (problem.where, problem.why) == (path, "File name too long")


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["folder", "file"])
def test_a_bundle_that_the_user_may_not_read_is_reported(bundle: Path, closed: str) -> None:
    (bundle if closed == "file" else bundle.parent).chmod(0)
    program = (
        "import os; from lumicontainer.errors import HostError\n"
        "from lumicontainer.host.ca_bundles import trust_of\n"
        "try: trust_of(os.environ)\n"
        "except HostError as error: print(error)\n"
    )
    command = [*ordinary(), sys.executable, "-c", program]
    env = {**os.environ, "SSL_CERT_FILE": str(bundle)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    bundle.parent.chmod(0o700)
    assert "cannot read the CA bundle of SSL_CERT_FILE" in done.stdout, done.stderr
    assert "why: Permission denied" in done.stdout


@pytest.mark.parametrize("place", [".pip/pip.conf", ".config/pip/pip.conf", "elsewhere"])
def test_the_bundle_of_pips_configuration_counts(bundle: Path, tmp_path: Path, place: str) -> None:
    file = tmp_path / "home" / place
    file.parent.mkdir(parents=True)
    file.write_text(f"[global]\ncert = {bundle}\n")
    env = {"HOME": str(tmp_path / "home")}
    env |= {"PIP_CONFIG_FILE": str(file)} if place == "elsewhere" else {}
    assert trust_of(env).variables == {"PIP_CERT": f"{FOLDER}/ca-1.pem"}
    other = bundle.with_name("other.crt")
    other.touch()
    assert trust_of({**env, "PIP_CERT": str(other)}).variables == {"PIP_CERT": f"{FOLDER}/ca-1.crt"}


@pytest.mark.parametrize("text", ["[global\ncert", "cert = x", "[global]\n\xff = 1", ""])
def test_a_configuration_of_pip_that_is_broken_is_left_to_pip(tmp_path: Path, text: str) -> None:
    (tmp_path / ".pip").mkdir()
    (tmp_path / ".pip/pip.conf").write_text(text, encoding="latin-1")
    assert trust_of({"HOME": str(tmp_path)}) == ((), {})


@pytest.mark.parametrize("prefix", ["APPTAINERENV_", "SINGULARITYENV_"])
def test_what_the_user_gives_the_container_wins(bundle: Path, prefix: str) -> None:
    variables = {"PIP_CERT": str(bundle), f"{prefix}PIP_CERT": "/etc/ssl/certs/ca-certificates.crt"}
    assert trust_of(variables) == ((), {})
