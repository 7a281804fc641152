"""Train PPO for one round of steps in an environment of Gymnasium."""

from changed import changing
from stable_baselines3 import PPO
from stable_baselines3.common.logger import configure

model = PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=16, n_epochs=1, device="cpu")
model.set_logger(configure(None, []))
with changing(model.policy.parameters()) as losses:
    model.learn(32)
    losses.append(model.logger.name_to_value["train/loss"])
