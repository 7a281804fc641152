"""Train a small decoder of x-transformers one step."""

import torch
from changed import train_step
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

layers = Decoder(dim=32, depth=2, heads=2, rotary_pos_emb=True)
model = AutoregressiveWrapper(TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=layers))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
train_step(model, optimizer, lambda: model(torch.randint(64, (2, 16))))
