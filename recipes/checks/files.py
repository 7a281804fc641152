# /// check
# summary: "the image's files are safe to hand on: no secret, no setuid program, nothing that
#   anybody may write to or that only root can read, and nothing left of the build, its host or
#   its site"
# imports: [lumi_inside.image.installed, lumi_inside.image.due]
# reads: [/var/lib/dpkg/info/*, /usr/share/ca-certificates/*, /etc/ssl/certs/*,
#   /etc/apt/sources.list, /usr/share/doc/apt/examples/*, /.singularity.d/base-modes.txt]
# each_path: true
# hint: check what the layer's install.sh leaves, and rebuild the layer
# ///

import os
import re
import stat
from fnmatch import fnmatch, translate
from pathlib import Path

from lumi_inside.checking import HIDDEN, HOST_PATHS, failed, note, note_undeclared, resolved
from lumi_inside.image.due import ALL, DUE
from lumi_inside.image.extensible import is_own
from lumi_inside.image.installed import MOUNTED, PACKAGES

MOST = 10
"""Paths that are named for one reason."""
LARGEST = 1 << 20
"""Bytes of a file that is looked through: keys and passwords lie in small ones."""

LEFT = {
    "what apt fetched is left": ("/var/lib/apt/lists/*", "/var/cache/apt/*"),
    "a log of the build is left": ("/var/log/apt/*", "/var/log/dpkg.log", "/var/log/bootstrap.log"),
    "a cache is left": ("/root/.cache/*", "/home/*/.cache/*", "/root/.npm/*", "/root/.cargo/*"),
    "a folder of the build is left": (
        "/opt/lumicontainer/.stage*",
        "/opt/lumicontainer/.wheels*",
        "/debootstrap*",
        "/tmp/*",
        "/var/tmp/*",
    ),
    "a configuration of the site's pip is left": (
        "/etc/pip.conf",
        "/etc/xdg/pip/*",
        "/opt/venv/pip.conf",
        "/root/.pip/*",
        "/root/.config/pip/*",
    ),
    "a certificate of the host is left": ("/usr/local/share/ca-certificates/*",),
    "a secret is left": (
        "/run/secrets/*",
        "/etc/apt/auth.conf",
        "/etc/apt/auth.conf.d/*",
        "*/.netrc",
        "*/.git-credentials",
        "*/.npmrc",
        "*/.pypirc",
        "*/.ssh/*",
        "*/.aws/credentials",
        "*/.docker/config.json",
        "*/id_rsa",
        "*/id_dsa",
        "*/id_ecdsa",
        "*/id_ed25519",
        "*/.huggingface/token",
        "*/huggingface/token",
    ),
}
"""Paths that may not be there, by what they are; folders and empty files may."""
SECRETS = {
    "a private key": rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/=:,\s-]{40}",
    "a key of Amazon's": rb"AKIA(?<=\bAKIA)(?![A-Z0-9]*EXAMPLE)[A-Z0-9]{16}\b",
    "a token of GitHub's": rb"gh(?<=\bgh)[pousr]_[A-Za-z0-9]{36}",
    "a fine-grained token of GitHub's": rb"github_pat_(?<=\bgithub_pat_)[A-Za-z0-9_]{60,}",
    "a token of GitLab's": rb"glpat-(?<=\bglpat-)[A-Za-z0-9_-]{20}",
    "a token of Hugging Face's": rb"hf_(?<=\bhf_)[A-Za-z0-9]{34}\b",
    "a token of PyPI's": rb"pypi-AgE(?<=\bpypi-AgE)[A-Za-z0-9_-]{50,}",
    "an address with a password": (
        rb"http(?<=\bhttp)s?://[^\s/:@'\"<>{}$\[]+:[^\s/:@'\"<>{}$\[]+@[a-z0-9]"
    ),
}
"""Each begins with plain text, so that Python finds it ten times faster; the start of a word is
looked for behind it."""
PROXY = re.compile(rb"(?im)^\s*Acquire::\w+::Proxy\b|^\s*Acquire::https?::(?:CA|Verify)")
CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.S)
CERTIFICATES = "/etc/ssl/certs"
PUBLISHED = "/usr/share/ca-certificates"
COPIED = (Path("/usr/share/doc/apt/examples/sources.list"), Path("/etc/apt/sources.list"))
CONTENTS = {what: re.compile(pattern) for what, pattern in SECRETS.items()}
ANY_LEFT = re.compile("|".join(translate(each) for patterns in LEFT.values() for each in patterns))
READABLE = ("/opt/", "/usr/")
OFTEN_MOUNTED = {"/tmp", "/var/tmp", "/root", "/home"}
"""Where engines mount something, so that what the image has there is not seen."""
BASE_MODES = Path("/.singularity.d/base-modes.txt")
"""The paths of a base image, one a line, whose modes its makers chose."""


class Found:
    """Collect what is wrong, by what it is."""

    def __init__(self):
        self.paths = {}

    def add(self, what, path):
        self.paths.setdefault(what, []).append(path)

    def words(self):
        for what, paths in self.paths.items():
            more = f" and {len(paths) - MOST} more" if len(paths) > MOST else ""
            yield f"{what}: {', '.join(paths[:MOST])}{more}"


def fits(path, patterns):
    return any(fnmatch(path, pattern) for pattern in patterns)


def look(one, system, found, of_base):
    """Note what is wrong with a path; ``of_base`` gets the modes that a base's makers chose."""
    mode = one.mode
    if one.is_file() and mode & (stat.S_ISUID | stat.S_ISGID):
        found.add("a program becomes another user or group (setuid, setgid)", one.path)
    # The makers of a base image may have closed a folder, and its users have no way to open it.
    modes = of_base if one.path in base_modes else found
    open_ = mode & stat.S_IWOTH and (one.is_file() or one.is_folder())
    if open_ and not (one.is_folder() and mode & stat.S_ISVTX):
        modes.add("anybody may write to it", one.path)
    wanted = stat.S_IROTH | (stat.S_IXOTH if one.is_folder() else 0)
    plain = one.path.startswith(READABLE) and (one.is_file() or one.is_folder())
    # The distribution keeps a few of its own for itself, as the rules of polkit.
    if plain and wanted & ~mode and one.path not in system:
        modes.add("only some users can read it", one.path)
    if one.is_folder() or (one.is_file() and not one.size):
        return
    if ANY_LEFT.fullmatch(one.path) and not is_own(one.path):
        found.add(next(what for what, each in LEFT.items() if fits(one.path, each)), one.path)


def paths_of_base():
    """Return the paths of a base image whose modes its makers chose."""
    try:
        return set(os.fsdecode(BASE_MODES.read_bytes()).split("\n"))
    except OSError:  # This image is not on another one.
        return set()


def of_distribution():
    """Return the paths that the distribution's packages installed."""
    paths = set()
    for name in Path("/var/lib/dpkg/info").glob("*.list"):
        paths.update(name.read_text(encoding="utf-8").splitlines())
    # Debian's folders are links into /usr, and packages name files by either path.
    merged = ("/bin/", "/lib/", "/sbin/", "/lib64/")
    return paths | {f"/usr{path}" for path in paths if path.startswith(merged)}


def search(path, host, found):
    """Note what a file holds that it may not."""
    try:
        content = Path(path).read_bytes()
    except OSError:  # root's alone, and this is another user
        return
    for what, pattern in CONTENTS.items():
        if pattern.search(content):
            found.add(f"{what} is left", path)
            break
    if path.startswith("/etc/apt/") and PROXY.search(content):
        found.add("a proxy or authority of the site's apt is left", path)
    for folder in host:
        if folder in content:
            found.add(f"it names {folder.decode()}, a folder of the machine that built it", path)


def local_sources(found):
    """Note packages for which pip recorded a folder as the place where they came from."""
    for package in PACKAGES:
        where = package.text("direct_url.json")
        if '"file://' in where:
            address = re.search(r'"(file://[^"]*)"', where)[1]
            what = f"a folder of the build stands as the source of a package, {address}"
            found.add(what, package.name)


def authorities(found):
    """Note certificates that the host trusted and the distribution does not."""
    known = set()
    for path in Path(PUBLISHED).rglob("*.crt"):
        known.update(certificates(path))
    for path in sorted(Path(CERTIFICATES).glob("*")):
        if path.is_file() and not path.resolve().is_relative_to(PUBLISHED):
            strange = certificates(path) - known
            if strange:
                word = "certificates" if len(strange) > 1 else "certificate"
                found.add(f"{len(strange)} {word} of the host's is left", str(path))


def certificates(path):
    text = path.read_text(encoding="ascii", errors="replace")
    return {"".join(body.split()) for body in CERTIFICATE.findall(text)}


found, of_base = Found(), Found()
system = of_distribution()
base_modes = paths_of_base()
# What published packages hold is public.
public = system | {path for package in PACKAGES for path, _ in package.files}
host = [each.encode() for each in os.environ.get(HOST_PATHS, "").split(":") if each]
for one in DUE:
    look(one, system, found, of_base)
    plain = one.is_file() and 0 < one.size <= LARGEST and not one.path.endswith(".pyc")
    if plain and one.path not in public:
        search(one.path, host, found)
local_sources(found)
authorities(found)
example, sources = COPIED
# An image from a registry keeps what it says itself.
own = resolved()["base"]["agent"] == "debootstrap"
if own and example.exists() and sources.exists() and example.read_bytes() != sources.read_bytes():
    found.add("apt's sources are not the distribution's own", str(sources))
if found.paths:
    failed(*found.words())
if of_base.paths:
    note("of the base image", [*of_base.words()])
    print(*(f"of the base image: {words}" for words in of_base.words()), sep="\n")
note(HIDDEN, sorted(MOUNTED))
unseen = ", ".join(sorted(MOUNTED & OFTEN_MOUNTED)) or "none"
note_undeclared([])
count = f"{len(DUE)} paths" if ALL else f"{len(DUE)} new paths"
print(f"{count} are clean; not seen for what is mounted there: {unseen}")
