# /// check
# summary: TensorFlow trains as NumPy does, in a graph
# timeout_seconds: 180
# hint: rebuild the layer tensorflow
# ///

import numpy as np
import tensorflow as tf
from lumi_inside.checking import shared

linear = shared("tensorflow/_linear.py")
data = images, labels = linear.load()
weights = tf.Variable(tf.zeros((linear.FEATURES, linear.KINDS)))
start = weights.numpy()


@tf.function
def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels, images @ weights))
    weights.assign_sub(linear.RATE * tape.gradient(loss, weights))
    return loss


losses = [float(step()) for _ in range(linear.STEPS)]
linear.conclude(start, np.asarray(weights), losses, data)
