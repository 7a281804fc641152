"""Hints for words of other programs: Apptainer, Docker, conda, pip, Slurm and torchrun.

One table for all places in which a user writes such a word. It is read only for a wrong word, so it
never makes a valid word invalid.
"""

import re
import shlex
from collections.abc import Mapping

VERB = "verb"
RECIPE = "recipe"
IMAGE = "image"
VOLUME = "value of Docker's -v"
KEY = "key of a recipe"
NAME = "name of a layer"
PARAMETER = "parameter"
PROGRAM = "command in an image"
ARGUMENT = "verb and its argument"
MISTAKE = "message of argparse"
FILE = "file to import"
BASE_IMAGE = "base image"
_BIND = "export SINGULARITY_BIND={word}, and name the image"
_PRUNE = "lumicontainer cache prune removes what was not used lately"
_RUN = "lumicontainer run IMAGE -- COMMAND"
_EXTEND = "lumicontainer extend IMAGE PACKAGE -o mine.sqsh"
_IMPORT = "lumicontainer import {word}"
_FILES = "an image is one file: use ls, cp, rm or rsync"
_NO_DAEMON = "a container ends with its command: use ps and kill, or squeue and scancel"
_BASE_IMAGE = "lumicontainer init mine --base-image docker://{word}"
_BASE = "lumicontainer init mine --base-image {word}"
_IN_IMAGE = "lumicontainer run IMAGE -- lumi-entry train.py"
_INDEX = "write it into a file for -r, or export "
_INSPECT = "singularity inspect IMAGE prints what the engine knows"
_REQUIRE = "write --require gpu, or another of gpu, network, nodes, ranks, mpi"
_PACKAGES = "name them in a layer: lumicontainer init mine makes one to start from"
_IN_LAYER = "write it into a layer: lumicontainer init mine makes one to start from"
_ENGINE = "leave it out, or use the engine: singularity exec, with what lumicontainer binds prints"
_LAUNCH = "write it after the image: -- lumi-entry --launcher torchrun --nproc N train.py"
_SCRIPT = "write it into the script: lumicontainer job IMAGE -- COMMAND >job.sh"
_STEPS = "leave it out: a step sees the files of its layer; --set and --secret pass values"

Rows = tuple[tuple[str, str], ...]
_STARTING: Rows = (
    ("-B|--bind|-v|--volume|--mount", "export SINGULARITY_BIND={value}"),
    ("--nv|--rocm|--gpus|--device", "leave it out: the platform decides how images see the GPUs"),
    ("-e|--env|--env-file", "export the variable: the container gets this shell's environment"),
    ("-C|--cleanenv|--contain|--containall|--no-home", _ENGINE),
    ("-w|--writable|--writable-tmpfs|--fakeroot", f"images are read-only; {_EXTEND}"),
    ("--overlay", "mount what lumicontainer extend wrote: --with FILE"),
    ("-W|--pwd|--workdir|--cwd", "cd to that folder: the container starts in the same one"),
    ("--rm|-i|-t|-it|-ti|--interactive|--tty|--init", "leave it out: a container is one process"),
    ("-d|--detach|--name|--restart", "leave it out: the command runs in this shell"),
    ("-p|--publish|--net|--network", "leave it out: a container has the network of this host"),
    ("-u|--user|--privileged|--security-opt|--cap-add", "leave it out: you stay yourself"),
    ("--ipc|--pid|--shm-size|--ulimit|-m|--memory|--cpus", "leave it out: the host's limits hold"),
    ("--entrypoint|--app", "name the command after the image: -- COMMAND"),
    ("--userns|--no-mount|--hostname|--dns|--apply-cgroups", _ENGINE),
    (
        "--nproc[-_]per[-_]node|--nproc|--nnodes|--np|-np|-n",
        _LAUNCH,
    ),
)
_TABLE: Mapping[str, Rows] = {
    VERB: (
        ("exec(ute)?|start|instance", _RUN),
        ("create|new", "lumicontainer init NAME, or lumicontainer import FILE"),
        ("version", "lumicontainer --version"),
        ("install|add|pip|conda|mamba|uv|overlay|update|upgrade", _EXTEND),
        ("uninstall|remove", "leave it out of the layer's packages, and build again"),
        ("env|environment", "lumicontainer import environment.yml"),
        ("from", "lumicontainer init NAME --base-image docker://IMAGE"),
        ("tag|save|load|export|cp|rm|rmi|delete|images|sif", _FILES),
        ("ps|stop|kill|logs|attach|restart|wait|stats", _NO_DAEMON),
        ("activate|enter|sh|bash", "lumicontainer shell IMAGE"),
        ("search|ls|layers|recipes|platforms|profiles", "lumicontainer list"),
        ("info|status|setup", "lumicontainer doctor; lumicontainer inspect IMAGE"),
        ("config|set", "lumicontainer show RECIPE prints every value"),
        ("test|tests", "lumicontainer verify IMAGE"),
        ("sign|key|capability|checksum", "lumicontainer inspect IMAGE --check"),
        ("history|def|definition", "lumicontainer inspect IMAGE --definition"),
        ("freeze|packages", "lumicontainer inspect IMAGE --packages"),
        ("prune|clean", "lumicontainer cache prune"),
        ("validate", "lumicontainer check RECIPE"),
        ("pack|make|compile|convert|commit", "lumicontainer build RECIPE"),
        ("sbatch|submit|slurm|salloc", "lumicontainer job IMAGE -- COMMAND >job.sh; sbatch job.sh"),
        ("train|launch|python3?|torchrun|deepspeed|accelerate|srun|mpirun|mpiexec", _IN_IMAGE),
        ("lumi-entry|lumi-verify", "lumicontainer run IMAGE -- {word}"),
        ("jupyter|notebook", "lumicontainer kernel IMAGE"),
        ("login|logout|remote", "docker login: builds read what it stores"),
        ("run-help", "lumicontainer inspect IMAGE"),
        ("bind|mount", "lumicontainer binds IMAGE"),
    ),
    "run": _STARTING,
    "shell": _STARTING,
    "kernel": _STARTING,
    "binds": _STARTING,
    "inspect": (
        ("-d|--deffile", "write --definition"),
        (
            "--labels|-l|--all|-r|--runscript|-H|--helpfile|-e|--environment",
            _INSPECT,
        ),
    ),
    "verify": (
        (
            "--(gpu|mpi|network|nodes|ranks)s?",
            _REQUIRE,
        ),
        *_STARTING,
    ),
    "render": (("-o|--output", "redirect it: lumicontainer render RECIPE >{value}"),),
    "lock": (("-U|--upgrade|--update", "leave it out: lock asks for the newest versions"),),
    "build": (
        ("-t|--tag", "lumicontainer build RECIPE --output {value}.sif, or --output docker:{value}"),
        ("-f|--file", "lumicontainer import {value}"),
        ("--build-arg|--build-args", "set a parameter of a layer: --set LAYER.PARAMETER=VALUE"),
        ("--no-cache|--pull|--force|-F|--disable-cache|--update|--upgrade", "write --rebuild"),
        ("--fakeroot|--remote|--userns|--notest", "leave it out; --runtime chooses how steps run"),
        ("-s|--sandbox", "leave it out: an image is one file; lumicontainer shell IMAGE"),
        ("-B|--bind|-v|--volume|--mount|--nv|--rocm|--env", _STEPS),
        ("-n|--name|-p|--prefix", "name the file of the image: --output FILE"),
        ("--target|--squash|--push|--load|--builder", "leave it out; --output docker:NAME loads"),
        ("-A|-t|--partition|--cpus-per-task|-c", "write --on PARTITION --time TIME --account NAME"),
        ("-r|--requirement", "lumicontainer import {value}"),
    ),
    "job": (
        ("-N", "write --nodes {value}"),
        ("-n|--ntasks|-np", "write --nodes N --ntasks-per-node N"),
        ("--tasks-per-node", "write --ntasks-per-node {value}"),
        ("-p|--queue", "write --partition {value}"),
        ("-A|--project", "write --account {value}"),
        ("-t", "write --time {value}"),
        ("-G", "write --gpus {value}"),
        (
            "--gpus-per-node|--gpus-per-task|--gres",
            "write --nodes N --gpus N, the GPUs of all nodes",
        ),
        ("--mem-per-gpu|--mem-per-cpu", "write --mem SIZE, the memory of a node"),
        ("-d", "write --dependency {value}"),
        ("-a", "write --array {value}"),
        ("-o|-e|--error", "write --output {value}"),
        ("-c|--cpus-per-task|--exclusive", "leave it out: the cores follow from --gpus"),
        ("-J|--job-name|--mail-type|-q|--qos", _SCRIPT),
        ("-B|--bind|-v|--volume|--mount", "export SINGULARITY_BIND={value} in the job script"),
    ),
    "extend": (
        ("--user|--target|--prefix|-U|--upgrade", "leave it out: -o FILE names the new file"),
        ("-e", "write --editable {value}"),
        ("-f|--file", "write -r {value}"),
        ("-c|--channel", "leave it out: packages come from the index of pip"),
        ("-i|--index-url|--pypi-url", f"{_INDEX}PIP_INDEX_URL={{value}}"),
        ("--extra-index-url", f"{_INDEX}PIP_EXTRA_INDEX_URL={{value}}"),
        ("--find-links", f"{_INDEX}PIP_FIND_LINKS={{value}}"),
        ("--no-deps|--force-reinstall", "leave it out: --allow-change NAME replaces a package"),
    ),
    "import": (("-f|--file|-r|--requirement", "lumicontainer import {value}"),),
    RECIPE: (
        (r"(docker|oras|library|shub|docker-archive|docker-daemon|oci)://.*", _BASE),
        (r"(.*/)?(Dockerfile|Containerfile)(\..*)?|.*\.(Dockerfile|dockerfile)", _IMPORT),
        (r".*\.(def|recipe|singularity)|(.*/)?Singularity(\..*)?", _IMPORT),
        (r".*\.(txt|in|toml|lock)|(.*/)?requirements[^/]*|(.*/)?Pipfile", _IMPORT),
        (r"(.*/)?(env|conda)[^/]*\.yml", _IMPORT),
        (r".*\.(sif|img|simg|sqsh)", "name the recipe; --output {word} names the image"),
        (r".*\.(whl|tar|tgz|gz|zip|py|sh)", _IN_LAYER),
        (r"(.*/)?\.{1,2}/?", "name a file: lumicontainer import {word}/Dockerfile"),
        (r"[\w./-]+:[\w.-]+", _BASE_IMAGE),
    ),
    IMAGE: (
        (r"(docker|oras|library|shub|docker-archive|docker-daemon|oci)://.*", _BASE),
        (r"[^:]+:(?!//)[./~].*", _BIND),
        (r"[\w./-]+:[\w.-]+", _BASE_IMAGE),
        (r".*\.(def|recipe|txt|yml)|(.*/)?Dockerfile", _IMPORT),
        (r".*\.yaml", "lumicontainer build {word}"),
        (r".*\.sqsh", "name the image, and mount this by --with {word}"),
    ),
    VOLUME: ((".*", _BIND),),
    KEY: (
        ("packages|pip|conda|apt|requirements|python", _PACKAGES),
        ("channels|name|dependencies", "lumicontainer import FILE reads an environment of conda"),
        ("environment|env|run|script|post|install|setup|entrypoint|cmd|copy|files", _IN_LAYER),
        ("from|image|bootstrap", "write 'base: debian', or use init --base-image"),
        ("version|versions", 'write it with its layer: - pytorch: {{version: "2.9.1"}}'),
        ("gpu|platform|accelerator", "leave it out: build --platform NAME"),
        ("format", "leave it out"),
    ),
    NAME: (
        (r"(docker|oras|library|shub)://.*", _BASE),
        (r"[a-z][\w./-]*:[\w.-]+", _BASE_IMAGE),
        (
            r"(?P<name>[\w.-]+?)\s*(==|>=|~=|=| )\s*(?P<version>[\w.]+)",
            """write '- {name}: {{version: "{version}"}}'""",
        ),
        (r"[A-Za-z0-9.+-]+", "did you mean '{lower}'?"),
    ),
    ARGUMENT: (
        ("shell: .*", "lumicontainer run IMAGE -- COMMAND"),
        ("list: .*", "leave it out: list prints recipes, profiles, layers and platforms"),
    ),
    MISTAKE: (
        (".*-o/--output --into is required", "add -o mine.sqsh; run --with mine.sqsh mounts it"),
        (r"argument ACTION: invalid choice: '(clean|clear|rm|remove|purge)'.*", _PRUNE),
    ),
    BASE_IMAGE: ((r"[a-z0-9][\w./-]*:\w[\w.-]*", "write --base-image docker://{word}"),),
    FILE: (
        (r"(docker|oras|library|shub)://.*", _BASE),
        (r"https?://.*", "download it: curl -LO {word}"),
        (r"(.*/)?\.{1,2}/?", "name a file in it: lumicontainer import {word}/Dockerfile"),
    ),
    PROGRAM: (
        (r"pip3? install --user", _EXTEND),
        (r"(conda|mamba|micromamba) install (?!-).*", _EXTEND),
        (r"(sudo )?(apt|apt-get|dnf|yum|zypper) (install|update|-y).*", _PACKAGES),
    ),
    PARAMETER: (
        (
            r"deepspeed\.(DS_BUILD_)?OPS|deepspeed\.ops",
            "name each op: --set deepspeed.DS_BUILD_FUSED_ADAM=true",
        ),
        (
            r".*\.(ver|versions|tag|release|commit)",
            "the parameter is 'version': --set LAYER.version=2.9.1",
        ),
    ),
}


def habit_hint(place: str, word: str, value: str = "") -> str:
    """Return the hint for a word of another program; empty if none is known.

    ``place`` is a kind of word, or a verb, whose option the word is. ``value`` follows an option.
    """
    for pattern, hint in _TABLE.get(place, ()):
        if match := re.fullmatch(pattern, word):
            known = {"word": shlex.quote(word), "value": shlex.quote(value or "VALUE")}
            return hint.format(**known, lower=word.lower(), **match.groupdict())
    return ""


def typed_word(path: object) -> str:
    """Return a path as the user wrote it: a URL has two slashes, of which a path keeps one."""
    return re.sub(r"^([a-z-]+):/(?=[^/])", r"\1://", str(path))
