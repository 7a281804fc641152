"""Train a small GPT-2 one step on text that tiktoken has split and datasets holds."""

import datasets
import tiktoken
import torch
import tqdm
import wandb
from changed import changing
from transformers import GPT2Config, GPT2LMHeadModel

# The real vocabularies are downloads.
letters = {bytes([each]): each for each in range(256)}
encoding = tiktoken.Encoding("bytes", pat_str=r".", mergeable_ranks=letters, special_tokens={})
text = datasets.Dataset.from_dict({"text": ["to be or not to be, that is the question"]})
tokens = text.map(lambda row: {"tokens": encoding.encode(row["text"])})[0]["tokens"]
batch = torch.tensor([tokens])
model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_layer=2, n_head=2, n_embd=32))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
wandb.init(mode="offline", dir="/tmp")
with changing(model.parameters()) as losses:
    for _ in tqdm.trange(1):
        loss = model(batch, labels=batch).loss
        loss.backward()
        optimizer.step()
        wandb.log({"loss": loss.item()})
        losses.append(loss.item())
wandb.finish()
