# /// check
# summary: exactly the ops whose DS_BUILD_ flags are set are compiled in, and each can be loaded
# imports: [torch, torch._dynamo, transformers.modeling_utils, deepspeed]
# hint: rebuild the layer deepspeed, or set the flags to what is wanted
# ///

import contextlib
import importlib
import sys

from lumi_inside.checking import parameters

# DeepSpeed talks on stdout while it is imported.
with contextlib.redirect_stdout(sys.stderr):
    from deepspeed.git_version_info import installed_ops
    from deepspeed.ops.op_builder.all_ops import ALL_OPS

flags = parameters("deepspeed").items()
wanted = {name for name, value in flags if name.startswith("DS_BUILD_") and value}
installed = {ALL_OPS[name].BUILD_VAR: ALL_OPS[name] for name, yes in installed_ops.items() if yes}
print("installed:", *sorted(installed))

missing = sorted(wanted - installed.keys())
if missing:
    sys.exit(f"set in the recipe, but not compiled in: {', '.join(missing)}")
surplus = sorted(installed.keys() - wanted)
if surplus:
    sys.exit(f"compiled in, but not set in the recipe: {', '.join(surplus)}")

for flag, builder in installed.items():
    try:
        importlib.import_module(builder.absolute_name())
    except ImportError as error:
        sys.exit(f"{flag} is compiled in, but its op cannot be loaded: {error}")
