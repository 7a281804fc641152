"""Train an exact Gaussian process one step."""

import gpytorch
import torch
from changed import train_step


class Model(gpytorch.models.ExactGP):
    """Model a curve with a smooth kernel."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


points = torch.linspace(0, 1, 20)
curve = torch.sin(6 * points)
model = Model(points, curve).train()
objective = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
train_step(model, optimizer, lambda: -objective(model(points), curve))
