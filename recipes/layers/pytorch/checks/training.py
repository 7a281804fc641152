# /// check
# summary: ranks of DistributedDataParallel train as one process does
# level: full
# runs: ranks
# timeout_seconds: 180
# needs: {tasks: 2}
# hint: rebuild the layer pytorch; if a rank is named, check its node and its GPU
# ///

import _training as training
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

device = training.device()
dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
data = training.load(device)
network = DistributedDataParallel(training.model(rank, device))
steps = training.optimizer(network)
losses = []
for images, labels in training.batches(data, ranks, rank):
    steps.zero_grad()
    loss = cross_entropy(network(images), labels)
    loss.backward()
    steps.step()
    losses.append(loss.item())
training.conclude_and_leave(network.module, losses, data)
