"""Train a small diffusion model one step to predict noise."""

import torch
from changed import train_step
from diffusers import DDPMScheduler, UNet2DModel

model = UNet2DModel(
    sample_size=16,
    in_channels=1,
    out_channels=1,
    layers_per_block=1,
    block_out_channels=(8, 16),
    norm_num_groups=4,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
)
scheduler, optimizer = DDPMScheduler(), torch.optim.AdamW(model.parameters(), lr=1e-3)
images, noise, times = torch.rand(2, 1, 16, 16), torch.randn(2, 1, 16, 16), torch.tensor([10, 500])
noisy = scheduler.add_noise(images, noise, times)
mse_loss = torch.nn.functional.mse_loss
train_step(model, optimizer, lambda: mse_loss(model(noisy, times).sample, noise))
