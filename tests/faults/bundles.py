"""Make bundles of code for GPUs, in the forms that LLVM's bundler gives them, with no real code in
them.
"""

import struct
import subprocess
import zlib
from collections.abc import Sequence
from pathlib import Path

HOST = "host-x86_64-unknown-linux-gnu-"
PAGE = 4096


def bundle(*targets: str, code: bytes = b"\x7fELF and no more") -> bytes:
    """Return a bundle with an entry for each target, such as ``gfx90a:xnack+``."""
    triples = [HOST, *(f"hipv4-amdgcn-amd-amdhsa--{each}" for each in targets)]
    head = 32 + sum(24 + len(each) for each in triples)
    rows, at = b"", head
    for triple in triples:
        size = 0 if triple == HOST else len(code)
        rows += struct.pack("<QQQ", at, size, len(triple)) + triple.encode()
        at += size
    return (
        b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(triples)) + rows + code * len(targets)
    )


def compressed(plain: bytes, *, version: int = 2, method: str = "zstd") -> bytes:
    """Return a bundle as --offload-compress leaves it; the hash is not looked at."""
    if method == "zstd":
        packed = subprocess.run(["zstd", "-q", "-c"], input=plain, stdout=-1, check=True).stdout
    else:
        packed = zlib.compress(plain)
    number = {"zlib": 0, "zstd": 1}[method]
    sizes = {
        1: struct.pack("<IQ", len(plain), 0),
        2: struct.pack("<IIQ", 24 + len(packed), len(plain), 0),
        3: struct.pack("<QQQ", 32 + len(packed), len(plain), 0),
    }[version]
    return b"CCOB" + struct.pack("<HH", version, number) + sizes + packed


def section(*bundles: bytes) -> bytes:
    """Return bundles one behind the other, as the linker puts them."""
    return b"".join(each + bytes(-len(each) % PAGE) for each in bundles)


def library(path: Path, content: bytes, *, flags: Sequence[str] = ()) -> Path:
    """Make a shared library whose section .hip_fatbin holds ``content``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part, source = path.with_name("part"), path.with_name("source.cpp")
    part.write_bytes(content)
    source.write_text("int nothing() { return 0; }\n")
    subprocess.run(["g++", "-shared", "-fPIC", *flags, "-o", path, source], check=True)
    add = ["--add-section", f".hip_fatbin={part}", "--set-section-flags", ".hip_fatbin=alloc,data"]
    subprocess.run(["objcopy", *add, path], check=True, capture_output=True)
    part.unlink()
    source.unlink()
    return path
