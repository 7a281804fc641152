"""Remove the libraries of bitsandbytes that PyTorch here cannot load, and their lines in RECORD."""

import re
import sys
from importlib.metadata import distribution, version

LIBRARY = re.compile(r"bitsandbytes/libbitsandbytes_(\w+)\.so")

torch = version("torch")
of_rocm = re.fullmatch(r".*\+rocm(\d+)\.(\d+).*", torch)
kept = {"cpu", "rocm" + "".join(of_rocm.groups())} if of_rocm else {"cpu"}
package = distribution("bitsandbytes")
libraries = {}
for each in package.files or ():
    if match := LIBRARY.fullmatch(str(each)):
        libraries[match[1]] = each
if missing := sorted(kept - libraries.keys()):
    sys.exit(
        f"error: bitsandbytes {package.version} has no library for {' and '.join(missing)}\n"
        f"    why: PyTorch is {torch}, and it has: {', '.join(sorted(libraries))}\n"
        "   hint: choose a version of bitsandbytes that has one"
    )
removed = {str(file) for name, file in libraries.items() if name not in kept}
for name in removed:
    package.locate_file(name).unlink()
record = package.locate_file(next(file for file in package.files if file.name == "RECORD"))
lines = record.read_text(encoding="utf-8").splitlines(keepends=True)
left = [line for line in lines if line.partition(",")[0] not in removed]
record.write_text("".join(left), encoding="utf-8")
print("kept:", *sorted(kept))
