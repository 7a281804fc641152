"""Plain Apptainer and a Docker engine, each with the trust, mirror and packages of this host."""

from __future__ import annotations

import http.server
import json
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml
from table import LUMICONTAINER, seconds

from lumicontainer.core.catalog import open_catalog
from lumicontainer.host.machine import clean_environment
from lumicontainer.host.site import Site, read_site, stage_site

START_DOCKER = Path(__file__).parents[1] / "docker/start.sh"
BASE, IMAGE = "lumicontainer-bench-base", "lumicontainer-bench"
TOP = "bench-top"


@dataclass(frozen=True)
class Rendered:
    """Hold a recipe that ``lumicontainer render`` turns into what the others build.

    ``recipes`` is its folder: the recipe has one more layer on top there, beside the user's own.
    """

    recipe: str
    recipes: Path

    def write(self, own: Path | None) -> None:
        """Write the recipe, of the user's folder or a shipped one, with the layer on top."""
        shutil.rmtree(self.recipes, ignore_errors=True)
        if own:
            shutil.copytree(own, self.recipes)
        recipe = yaml.safe_load(open_catalog(own).recipe(self.recipe).text)
        recipe["layers"].append(TOP)
        self.top.parent.mkdir(parents=True)
        (self.top.parent / "layer.yaml").write_text("summary: what the benchmark changes\n")
        text = yaml.safe_dump(recipe, sort_keys=False)
        (self.recipes / f"{self.recipe}.yaml").write_text(text)

    @property
    def top(self) -> Path:
        """Return the script of the layer on top."""
        return self.recipes / "layers" / TOP / "install.sh"

    def text(self, form: str) -> str:
        """Return the definition or the Dockerfile."""
        words = [*LUMICONTAINER, "render", self.recipe, "--recipes", str(self.recipes)]
        return subprocess.check_output([*words, "--format", form], text=True)

    def release(self) -> str:
        """Return the release of Debian that the base is made of."""
        match = re.search(r"(?m)^OSVersion: (\w+)$", self.text("def"))
        if match is None:
            raise SystemExit(f"error: {self.recipe} has no base by debootstrap: choose another")
        return match.group(1)


def site_for(rendered: Rendered, folder: Path, *, seen_as: str, host: str) -> Mapping[str, str]:
    """Write into ``folder`` what a build needs of this host; return the variables that say so.

    Inside, the folder is seen at ``seen_as``, and this host's own files begin with ``host``.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    site = read_site(rendered.release())
    stage_site(site, folder, seen_as)
    moved = {
        name: " ".join(_moved(word, site, host) for word in value.split())
        for name, value in site.environment.items()
    }
    trust = dict.fromkeys(("PIP_CERT", "SSL_CERT_FILE"), f"{seen_as}/ca.crt") if site.trust else {}
    return {**moved, **trust, "APT_CONFIG": f"{seen_as}/apt.conf"}


def _moved(word: str, site: Site, host: str) -> str:
    """Return where a build finds a folder that pip's configuration names; other words stay."""
    path = Path(unquote(urlsplit(word).path))
    if not any(path.is_relative_to(folder) for folder in site.folders):
        return word
    scheme = "file://" if word.startswith("file:") and host.startswith("/") else ""
    return f"{scheme}{host}{path}"


def build_plain(rendered: Rendered, folder: Path, log: Path) -> float:
    """Build the definition with Apptainer alone, as ``plain.sif``; return the seconds."""
    inside = "/mnt"  # It is in every Debian, and a bind needs a place that is there.
    variables = site_for(rendered, folder / "site", seen_as=inside, host=inside)
    binds = [f"{folder / 'site'}:{inside}"]
    for each in read_site(rendered.release()).folders:
        (folder / f"site{each}").mkdir(parents=True)
        binds.append(f"{each}:{inside}{each}")
    definition = folder / "plain.def"
    definition.write_text(rendered.text("def"))
    words = ["apptainer", "build", "--fakeroot", "--force"]
    for bind in binds:
        words += ["--bind", bind]
    handed = {f"APPTAINERENV_{name}": value for name, value in variables.items()}
    with log.open("w") as file:
        environment = {**engine_environment(folder), **handed}
        command = [*words, folder / "plain.sif", definition]
        return seconds(command, env=environment, stdout=file, stderr=file)


def plain_words(image: Path, command: Sequence[str]) -> list[str]:
    """Return the command that runs a command in an image with Apptainer alone."""
    return ["apptainer", "-s", "exec", "--userns", str(image), *command]


def change_plain(image: Path, folder: Path, script: str) -> float:
    """Run a script on an image with Apptainer alone, which makes a new one; return the seconds."""
    definition = folder / "change.def"
    definition.write_text(f"Bootstrap: localimage\nFrom: {image}\n\n%post\n{script}\n")
    words = ["apptainer", "build", "--fakeroot", "--force", folder / "changed.sif", definition]
    errors = subprocess.DEVNULL
    return seconds(words, env=engine_environment(folder), stderr=errors)


def engine_environment(folder: Path) -> dict[str, str]:
    """Return an environment in which Apptainer keeps what it needs meanwhile in ``folder``."""
    names = ("APPTAINER_TMPDIR", "APPTAINER_CACHEDIR")
    return clean_environment() | dict.fromkeys(names, str(folder))


def start_engine() -> dict[str, str]:
    """Start the Docker engine of the tests, and return the variables by which docker finds it."""
    started = subprocess.check_output([START_DOCKER], text=True)
    return dict(re.findall(r"(?m)^export (\w+)=(.+)$", started))


class Docker:
    """Build a recipe with its own Docker engine, and turn the result into an image file."""

    def __init__(self, rendered: Rendered, folder: Path, log: Path) -> None:
        self.rendered, self.folder, self.log = rendered, folder, log
        log.unlink(missing_ok=True)
        # Debian's engine comes without buildx, which later clients want for BuildKit.
        self.environment = {**engine_environment(folder), **start_engine(), "DOCKER_BUILDKIT": "0"}
        info = ["docker", "info", "--format", "{{.Driver}}"]
        self.driver = subprocess.check_output(info, env=self.environment, text=True).strip()

    def import_base(self, port: int) -> float:
        """Put the base, which elsewhere would be pulled, into the engine; return the seconds."""
        host = f"http://127.0.0.1:{port}"
        folder = self.folder / "site"
        variables = site_for(self.rendered, folder, seen_as="/site", host=host)
        release = self.rendered.release()
        hook = f"copy-in {shlex.quote(str(folder))} /"
        words = ["mmdebstrap", "--variant=minbase", f"--customize-hook={hook}", release, "-"]
        into = ["docker", "import"]
        for name, value in variables.items():
            into += ["--change", f"ENV {name}={json.dumps(value)}"]
        pipe = f"{shlex.join([*words, read_site(release).mirror])} | {shlex.join(into)} - {BASE}"
        return self._seconds(["bash", "-o", "pipefail", "-c", pipe])

    def import_image(self, image: Path) -> None:
        """Put the files of an image file into the engine, as the base of ``change``."""
        tar = ["tar", "-C", "/", "--one-file-system", "--ignore-failed-read", "-c", "."]
        path = subprocess.check_output(plain_words(image, ["printenv", "PATH"]), text=True).strip()
        into = ["docker", "import", "--change", f"ENV PATH={path}", "-", BASE]
        pipe = f"{shlex.join(plain_words(image, tar))} | {shlex.join(into)}"
        self._seconds(["bash", "-o", "pipefail", "-c", pipe])

    def change(self, tag: str, script: str) -> float:
        """Run a script on the base as a new last layer; return the seconds."""
        words = ["docker", "build", "--network=host", "--tag", f"{IMAGE}:{tag}", "-"]
        return self._seconds(words, f"FROM {BASE}\nRUN {script}\n")

    def run(self, command: Sequence[str]) -> float:
        """Run a command in the imported image; return the seconds."""
        return self._seconds(["docker", "run", "--rm", "--network=host", BASE, *command])

    def build(self, tag: str, *options: str) -> float:
        """Build the Dockerfile; return the seconds."""
        words = ["docker", "build", "--network=host", "--build-arg", f"BASE={BASE}", *options]
        dockerfile = self.rendered.text("dockerfile")
        return self._seconds([*words, "--tag", f"{IMAGE}:{tag}", "-"], dockerfile)

    def convert(self, tag: str) -> float:
        """Make an image file of what was built; return the seconds."""
        words = ["apptainer", "build", "--fakeroot", "--force", self.folder / "docker.sif"]
        return self._seconds([*words, f"docker-daemon:{IMAGE}:{tag}"])

    def remove(self) -> None:
        """Remove the images, and the layers that were built for no other."""
        words = ["docker", "images", "--format", "{{.Repository}}:{{.Tag}}"]
        listed = subprocess.check_output(words, env=self.environment, text=True).split()
        own = [name for name in listed if name.rpartition(":")[0] in (BASE, IMAGE)]
        if own:
            self._seconds(["docker", "image", "rm", *own])

    def _seconds(self, command: list[object], stdin: str | None = None) -> float:
        with self.log.open("a") as file:
            options = {"env": self.environment, "stdout": file, "stderr": file}
            return seconds(command, input=stdin, text=True, **options)


class _Folders(http.server.SimpleHTTPRequestHandler):
    """Serve the folders of this host that pip's configuration names, and nothing else."""

    def __init__(self, *words: object, folders: tuple[Path, ...]) -> None:
        self.folders = folders
        super().__init__(*words, directory="/")

    def send_head(self):
        path = Path(self.translate_path(self.path))
        if any(path.is_relative_to(folder) for folder in self.folders):
            return super().send_head()
        self.send_error(404)
        return None

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def folders_served(rendered: Rendered) -> Iterator[int]:
    """Serve pip's folders, which a Docker build cannot bind, on loopback; give the port."""
    handler = partial(_Folders, folders=read_site(rendered.release()).folders)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
