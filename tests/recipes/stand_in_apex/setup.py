"""Stands in for Apex's: it writes down its arguments and environment."""

import json
import os
import sys
from pathlib import Path

import torch  # noqa: F401 - upstream's build needs it
from setuptools import setup

record = Path(os.environ["STAND_IN_RECORD"]) / "apex.json"
options = [word for word in sys.argv if word in ("--cpp_ext", "--cuda_ext")]
for word in options:
    sys.argv.remove(word)
if "bdist_wheel" in sys.argv:
    record.write_text(json.dumps({"options": options, "environment": dict(os.environ)}))

setup(name="apex", version="1.9.0", packages=["apex"])
