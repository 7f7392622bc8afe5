"""Compute over two processes: `python examples/two_processes.py ps` and, elsewhere, `... worker`.

Only the line with `protocol` differs from a program for gRPC. It prints 238. The server
serves until it is killed.
"""

from __future__ import annotations

import sys

import tensorflow as tf

from tmflow import runtime

tf1 = tf.compat.v1
CLUSTER = {"ps": ["127.0.0.1:24680"], "worker": ["127.0.0.1:24681"]}


def main(job: str) -> None:
    """Serve as the job `ps`; compute as the job `worker`."""
    cluster = tf1.train.ClusterSpec(CLUSTER)
    server = tf1.train.Server(cluster, job_name=job, task_index=0, protocol=runtime.protocol("df"))
    if job == "ps":
        server.join()
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            rows = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        with tf.device("/job:worker/task:0"):
            total = tf.reduce_sum(rows @ tf.constant([[6.0, 8.0], [2.0, 4.0], [5.0, 9.0]]))
        with tf1.Session(server.target) as session:
            print(f"{session.run(total):g}")


if __name__ == "__main__":
    main(*sys.argv[1:])
