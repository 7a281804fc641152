# /// check
# summary: Horovod has MPI and its TensorFlow extension, and averages
# timeout_seconds: 180
# hint: rebuild the layer horovod, after tensorflow and mpich
# ///

import sys

import tensorflow as tf

try:
    import horovod.tensorflow as hvd
except (ImportError, tf.errors.NotFoundError) as error:
    sys.exit(f"Horovod's TensorFlow extension cannot be loaded: {error}")

if not hvd.mpi_built():
    sys.exit("Horovod is built without MPI")

hvd.init()
mean = hvd.allreduce(tf.fill((3,), 2.0)).numpy().tolist()
print(f"MPI, {hvd.size()} rank, average {mean}")
if mean != [2.0, 2.0, 2.0]:
    sys.exit(f"Horovod averages [2, 2, 2] over one rank to {mean}")
