# /// check
# summary: ranks of DeepSpeed (ZeRO 1) train as one process does
# level: full
# runs: ranks
# timeout_seconds: 240
# needs: {tasks: 2}
# hint: rebuild the layer deepspeed; if a rank is named, check its node and its GPU
# ///

import logging
import os

import torch.distributed as dist
from lumi_inside.checking import shared
from torch.nn.functional import cross_entropy

training = shared("pytorch/_training.py")

device = training.device()
# The layer sets it to GPUs, and ranks that would share one compute on the CPU.
os.environ["DS_ACCELERATOR"] = device.type
import deepspeed  # noqa: E402 - it reads the variable

deepspeed.utils.logger.setLevel(logging.WARNING)
deepspeed.init_distributed("nccl" if device.type == "cuda" else "gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
data = training.load(device)
network = training.model(rank, device)
engine, *_ = deepspeed.initialize(
    model=network,
    optimizer=training.optimizer(network),
    config={
        "train_micro_batch_size_per_gpu": training.share(ranks),
        "zero_optimization": {"stage": 1},
        "zero_allow_untested_optimizer": True,
    },
)
losses = []
for images, labels in training.batches(data, ranks, rank):
    loss = cross_entropy(engine(images), labels)
    engine.backward(loss)
    engine.step()
    losses.append(loss.item())
training.conclude_and_leave(engine.module, losses, data)
