"""Stands in for FlashAttention's: it records the environment, and stops where upstream's would."""

import json
import os
from pathlib import Path

import ninja  # noqa: F401 - upstream's build needs it
import packaging  # noqa: F401 - as above
import psutil  # noqa: F401 - as above
import torch
from setuptools import setup
from wheel.bdist_wheel import bdist_wheel  # noqa: F401 - as above

archs = os.environ.get("GPU_ARCHS", "native").split(";")
triton = os.environ.get("FLASH_ATTENTION_TRITON_AMD_ENABLE", "FALSE") == "TRUE"
if "native" in archs and not torch.cuda.is_available():
    raise SystemExit("no GPU to ask for its architecture")
if not triton and not Path("csrc/composable_kernel/example/ck_tile/01_fmha/generate.py").exists():
    raise SystemExit("csrc/composable_kernel is missing")
record = Path(os.environ["STAND_IN_RECORD"]) / "flash-attention.json"
record.write_text(json.dumps(dict(os.environ)))

setup(name="flash_attn", version="2.8.0.post2", packages=["flash_attn"])
