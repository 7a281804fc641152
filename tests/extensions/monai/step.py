"""Train a small U-Net of MONAI one step to find a cube in a volume that nibabel holds."""

import nibabel
import numpy
import torch
from changed import train_step
from monai.losses import DiceLoss
from monai.networks.nets import UNet

volume = numpy.zeros((16, 16, 16), dtype=numpy.float32)
volume[4:12, 4:12, 4:12] = 1
image = nibabel.Nifti1Image(volume, numpy.eye(4))
batch = torch.from_numpy(image.get_fdata(dtype=numpy.float32))[None, None]
model = UNet(spatial_dims=3, in_channels=1, out_channels=1, channels=(4, 8), strides=(2,))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
train_step(model, optimizer, lambda: DiceLoss(sigmoid=True)(model(batch), batch))
