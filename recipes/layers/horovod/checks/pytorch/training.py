# /// check
# summary: ranks of Horovod train as one process does
# level: full
# runs: ranks
# timeout_seconds: 180
# needs: {tasks: 2, mpi: true}
# hint: rebuild the layers mpich and horovod; if a rank is named, check its node
# ///

import horovod.torch as hvd
from lumi_inside.checking import failed, shared
from torch.nn.functional import cross_entropy

training = shared("pytorch/_training.py")

hvd.init()
if hvd.size() == 1:
    failed("MPI has one rank: the ranks did not find each other")
device = training.device()
data = training.load(device)
network = training.model(hvd.rank(), device)
steps = hvd.DistributedOptimizer(
    training.optimizer(network), named_parameters=network.named_parameters()
)
hvd.broadcast_parameters(network.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(steps, root_rank=0)
losses = []
for images, labels in training.batches(data, hvd.size(), hvd.rank()):
    steps.zero_grad()
    loss = cross_entropy(network(images), labels)
    loss.backward()
    steps.step()
    losses.append(loss.item())
training.conclude(network, losses, data, ranks=hvd.size(), gather=hvd.allgather_object)
hvd.shutdown()
