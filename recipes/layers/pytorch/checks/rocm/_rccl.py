"""Read the files of RCCL that a process mapped, and RCCL's log.

The log is written by NCCL_DEBUG=INFO. Its lines have two spellings, of aws-ofi-rccl and of
aws-ofi-nccl: LUMI-training-materials, docs/2day-20260422/205-Containers.md; aws-ofi-nccl,
src/nccl_ofi_rdma.cpp and src/nccl_ofi_sendrecv.cpp; HPE shs-ccl-docs, rccl/rccl_tuning_guide.md.
"""

import os
import re
import shutil
import tempfile

IMAGE = os.path.join(os.environ.get("ROCM_PATH", "/opt/rocm"), "lib")
"""Where the image's RCCL lies."""
PROVIDER = re.compile(r"NET/OFI Selected provider is (\w+)", re.IGNORECASE)
BAD = (
    (re.compile(r"NET/Socket|Using network Socket", re.IGNORECASE), "RCCL goes through sockets"),
    (
        re.compile(r"NET/Plugin\b.*(No plugin found|Could not find)", re.IGNORECASE),
        "RCCL finds no network plugin",
    ),
    (re.compile(r"NET/Plugin\b.*using internal", re.IGNORECASE), "RCCL takes no network plugin"),
)
CONNECTED = ("rings", "trees")


def logged():
    """Let RCCL write its log to a file of this process, and return the file.

    RCCL reads the variables when it is first used. Newer versions would connect only what is used.
    """
    path = os.path.join(tempfile.mkdtemp(prefix="lumi-rccl-"), "log")
    os.environ.update(NCCL_DEBUG="INFO", NCCL_DEBUG_FILE=path, NCCL_RUNTIME_CONNECT="0")
    os.environ.pop("NCCL_DEBUG_SUBSYS", None)
    return path


def said(path):
    """Return the text of RCCL's log, empty if there is no log; remove the log.

    The checks end without Python's own end, and a node's /tmp may lie in memory.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except FileNotFoundError:
        return ""
    finally:
        shutil.rmtree(os.path.dirname(path), ignore_errors=True)


def mapped(maps):
    """Return the files of RCCL and of its plugins that /proc/PID/maps names, without doubles."""
    files = {line.split(maxsplit=5)[-1] for line in maps.splitlines() if "/" in line}
    names = {path: os.path.basename(path) for path in files}
    library = sorted(path for path, name in names.items() if name.startswith("librccl.so"))
    plugins = sorted(
        path for path, name in names.items() if re.match(r"lib(rccl|nccl)-net.*\.so", name)
    )
    return library, plugins


def wrong_files(maps, folder=IMAGE):
    """Yield what is wrong with the RCCL that a process mapped; it must lie in ``folder``."""
    library, _ = mapped(maps)
    if not library:
        yield "the process has mapped no librccl.so: PyTorch holds its own RCCL, or none"
    if len(library) > 1:
        yield f"the process has mapped RCCL {len(library)} times: {', '.join(library)}"
    inside = os.path.join(os.path.realpath(folder), "")
    for path in library:
        if not os.path.realpath(path).startswith(inside):
            yield f"the process has mapped {path}, which is not the image's RCCL in {folder}"


def wrong_plugin(maps):
    """Yield what is wrong with the network plugin that a process mapped."""
    _, plugins = mapped(maps)
    if not plugins:
        yield "the process has mapped no network plugin (librccl-net*.so)"


def wrong_network(log):
    """Yield what RCCL's log says against its network; one that says nothing is wrong too."""
    providers = PROVIDER.findall(log)
    if not providers:
        yield "RCCL's log does not say that a provider of libfabric was selected"
    for provider in sorted({each.lower() for each in providers} - {"cxi"}):
        yield f"RCCL's plugin selected the provider {provider}, not cxi"
    for form, what in BAD:
        line = next((line for line in log.splitlines() if form.search(line)), "")
        if line:
            yield f"{what}: {line.strip()}"


def wrong_connections(log):
    """Yield what RCCL did not connect: rings without trees were a hang of LUMI's images.

    laifs-container-recipes issue 28.
    """
    for what in CONNECTED:
        if f"Connected all {what}" not in log:
            yield f"RCCL's log does not say 'Connected all {what}'"
