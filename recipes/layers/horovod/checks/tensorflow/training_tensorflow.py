# /// check
# summary: ranks of Horovod train a model of Keras as NumPy does with the images of all ranks
# level: full
# runs: ranks
# timeout_seconds: 180
# needs: {tasks: 2, mpi: true}
# hint: rebuild the layers mpich and horovod
# ///

import horovod.tensorflow.keras as hvd
import tensorflow as tf
from horovod.tensorflow import allgather_object, broadcast_variables
from lumi_inside.checking import failed, shared

linear = shared("tensorflow/_linear.py")

hvd.init()
rank, ranks = hvd.rank(), hvd.size()
if ranks == 1:
    failed("MPI has one rank: the ranks did not find each other")
images, labels = linear.load()
share = len(images) // ranks
images, labels = images[: share * ranks], labels[: share * ranks]

# Ranks that start apart and end together were synchronized by Horovod.
begin = tf.keras.initializers.RandomNormal(seed=rank)
layer = tf.keras.layers.Dense(linear.KINDS, use_bias=False, kernel_initializer=begin)
model = tf.keras.Sequential([layer])
model.build((None, linear.FEATURES))
broadcast_variables(model.variables, root_rank=0)
(start,) = model.get_weights()
model.compile(
    hvd.DistributedOptimizer(tf.keras.optimizers.SGD(linear.RATE)),
    tf.keras.losses.CategoricalCrossentropy(from_logits=True),
)
# One batch an epoch: a step of all ranks sees all images.
trained = model.fit(images[rank::ranks], labels[rank::ranks], share, epochs=linear.STEPS, verbose=0)
(weights,) = model.get_weights()
sums = allgather_object(weights.tobytes())
other = [str(each) for each in range(ranks) if sums[each] != sums[0]]
if other:
    failed(f"weights differ from rank 0's on rank {', '.join(other)}: ranks do not agree")
linear.conclude(start, weights, trained.history["loss"], (images, labels))
hvd.shutdown()
