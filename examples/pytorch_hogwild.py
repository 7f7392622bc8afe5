"""A PyTorch model: its own SGD in one thread, and two threads with a lock, no lock (Hogwild), and `auto`.

Needs PyTorch and scikit-learn, which tmflow does not: pip install torch scikit-learn, then
python examples/pytorch_hogwild.py

Each way trains once: run it several times before you believe a difference.
"""

import threading
import time

import torch
from sklearn.datasets import load_digits
from torch import nn

from tmflow.arrays import SharedParameters

EPOCHS, BATCH, THREADS, LEARNING_RATE = 20, 8, 2, 0.1

images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
training, test = (images[:1500], labels[:1500]), (images[1500:], labels[1500:])
torch.set_num_threads(1)  # of a product: the threads of the training use the processors


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))


def batches(number, threads):
    """The batches of a thread, in the order of the epoch."""
    for epoch in range(EPOCHS):
        order = torch.randperm(1500, generator=torch.Generator().manual_seed(epoch))
        yield from order.split(BATCH)[number::threads]


def loss_of(model, batch):
    return nn.functional.cross_entropy(model(training[0][batch]), training[1][batch])


def train(model):
    """Train in one thread with PyTorch's own optimizer."""
    optimizer = torch.optim.SGD(model.parameters(), LEARNING_RATE)
    for batch in batches(0, 1):
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()


def work(model, shared, number, threads):
    """Compute gradients of the shared parameters, as Hogwild does, and apply them under the strategy."""
    parameters = dict(model.named_parameters())
    for batch in batches(number, threads):
        gradients = torch.autograd.grad(loss_of(model, batch), list(parameters.values()))
        shared.apply({name: one.numpy() for name, one in zip(parameters, gradients, strict=True)}, LEARNING_RATE)


def train_together(model, strategy, threads):
    shared = SharedParameters({name: one.detach() for name, one in model.named_parameters()}, strategy=strategy)
    workers = [threading.Thread(target=work, args=(model, shared, number, threads)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def report(name, trained_by, *arguments):
    model = network()
    began = time.monotonic()
    trained_by(model, *arguments)
    seconds = time.monotonic() - began
    accuracy = (model(test[0]).argmax(dim=1) == test[1]).float().mean()
    print(f"{name:<42} {seconds:6.2f} s   accuracy {100 * float(accuracy):.1f} %")


torch.optim.SGD(network().parameters())  # the first one loads modules for a second or two
SharedParameters({"weights": torch.zeros(1)}).close()  # the first use compiles
report("PyTorch's SGD, 1 thread", train)
report("1 thread", train_together, "auto", 1)
report(f"{THREADS} threads, strategy auto", train_together, "auto", THREADS)
report(f"{THREADS} threads, a plain lock", train_together, "lock", THREADS)
report(f"{THREADS} threads, no lock (Hogwild)", train_together, "nolock", THREADS)
