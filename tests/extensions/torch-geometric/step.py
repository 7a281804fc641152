"""Train a graph network one step on a ring of nodes."""

import torch
from changed import train_step
from torch_geometric.data import Data
from torch_geometric.nn import GCN

nodes = torch.arange(12)
ring = Data(x=torch.randn(12, 4), edge_index=torch.stack([nodes, nodes.roll(1)]), y=nodes % 2)
model = GCN(in_channels=4, hidden_channels=8, num_layers=2, out_channels=2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
cross_entropy = torch.nn.functional.cross_entropy
train_step(model, optimizer, lambda: cross_entropy(model(ring.x, ring.edge_index), ring.y))
