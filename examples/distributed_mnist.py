"""Train with a parameter server and two workers, each in a process of its own.

`python examples/distributed_mnist.py ps 0`, `... worker 0` and `... worker 1`, in any order. Only the line with
`protocol` differs from a program for gRPC. Each worker prints the accuracy after its steps. The server
serves until it is killed.
"""

from __future__ import annotations

import sys

import tensorflow as tf

from tmflow import datasets, runtime

tf1 = tf.compat.v1
CLUSTER = {"ps": ["127.0.0.1:24690"], "worker": ["127.0.0.1:24691", "127.0.0.1:24692"]}
STEPS, BATCH = 500, 100


def main(job: str, index: str) -> None:
    """Hold the variables as the job `ps`; train as the job `worker`."""
    cluster = tf1.train.ClusterSpec(CLUSTER)
    server = tf1.train.Server(cluster, job_name=job, task_index=int(index), protocol=runtime.protocol("df"))
    if job == "ps":
        server.join()
    mnist, workers = datasets.load("mnist"), len(CLUSTER["worker"])
    with tf.Graph().as_default():
        with tf1.device(tf1.train.replica_device_setter(cluster=cluster, worker_device=f"/job:worker/task:{index}")):
            x, y = tf1.placeholder(tf.float32, [None, 784]), tf1.placeholder(tf.float32, [None, 10])
            logits = x @ tf1.Variable(tf.zeros([784, 10])) + tf1.Variable(tf.zeros([10]))
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits))
            step = tf1.train.GradientDescentOptimizer(0.5).minimize(loss)
            accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), tf.argmax(y, 1)), tf.float32))
        # Worker 0 initialises the variables, and the other waits for it. Neither needs the other's process.
        config = tf1.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{index}"])
        with tf1.train.MonitoredTrainingSession(server.target, is_chief=index == "0", config=config) as session:
            for number in range(int(index), STEPS * workers, workers):  # each worker has batches of its own
                start = number * BATCH
                batch = [i % len(mnist.train_images) for i in range(start, start + BATCH)]
                session.run(step, {x: mnist.train_images[batch], y: mnist.train_labels[batch]})
            print(f"accuracy {session.run(accuracy, {x: mnist.test_images, y: mnist.test_labels}):.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
