"""Train LoRA adapters of a small Llama one step with Accelerate."""

import torch
from accelerate import Accelerator
from changed import changing
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=2,
)
model = get_peft_model(LlamaForCausalLM(config), LoraConfig(target_modules=["q_proj", "v_proj"]))
frozen = [each.detach().clone() for each in model.parameters() if not each.requires_grad]
accelerator = Accelerator(cpu=True)
optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=0.1)
model, optimizer = accelerator.prepare(model, optimizer)
batch = torch.randint(64, (2, 16))
with changing(model.parameters()) as losses:
    loss = model(input_ids=batch, labels=batch).loss
    accelerator.backward(loss)
    optimizer.step()
    losses.append(loss.item())
now = [each for each in model.parameters() if not each.requires_grad]
assert all(torch.equal(old, new) for old, new in zip(frozen, now, strict=True))
