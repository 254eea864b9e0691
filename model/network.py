"""What training and evaluation ask of every network, and how its weights start.

A network takes its dropout masks from a generator that is passed in and its weights from a seed, by
name: parts of one name and shape start equal in every model.
"""

from abc import ABC, abstractmethod
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from model.data.batches import Batch, TrainingBatch
from model.randomness import torch_generator

INITIAL_SPREAD = 0.02


class Network(nn.Module, ABC):
    """Scores items for sequences of events; a higher score is better.

    Attributes:
        item_embedding: row i is item i, row 0 padding; it is zero and stays zero.
        tells_windows_apart: a `PackedBatch` gives each of its windows what it would get alone.
    """

    tells_windows_apart = False
    item_embedding: nn.Parameter

    @abstractmethod
    def loss(
        self, batch: TrainingBatch, dropout: torch.Generator | None = None
    ) -> Float[Tensor, ""]:
        """Return the mean loss over the positions with a label; the batch must have one."""

    @abstractmethod
    def state(self, batch: Batch) -> Float[Tensor, "batch hidden"]:
        """Return what scoring needs to know of each sequence; its last place is the target's."""

    @abstractmethod
    def candidate_scores(
        self, state: Float[Tensor, "batch hidden"], candidates: Int64[Tensor, "batch candidates"]
    ) -> Float[Tensor, "batch candidates"]:
        """Score each row's own candidates."""

    @abstractmethod
    def all_scores(self, state: Float[Tensor, "batch hidden"]) -> Float[Tensor, "batch classes"]:
        """Score padding, which is never a candidate, and items 1..I."""

    def freeze_padding(self) -> None:
        """Zero the gradient of the padding row, so that it stays zero."""
        if self.item_embedding.grad is not None:
            self.item_embedding.grad[0] = 0


class Sampled(nn.Module, ABC):
    """Scores items like a `Network`, with factors that are drawn, not fitted by gradient.

    Attributes:
        item_embedding: row i is item i, row 0 padding; it is zero and stays zero.
    """

    item_embedding: nn.Parameter

    @abstractmethod
    def sweep(self, rng: np.random.Generator) -> float:
        """Draw everything once, which is an epoch, and return the training error."""

    @abstractmethod
    def state(self, batch: Batch) -> Float[Tensor, "batch hidden"]:
        """Return what scoring needs to know of each sequence; its last place is the target's."""

    @abstractmethod
    def candidate_scores(
        self, state: Float[Tensor, "batch hidden"], candidates: Int64[Tensor, "batch candidates"]
    ) -> Float[Tensor, "batch candidates"]:
        """Score each row's own candidates."""

    @abstractmethod
    def all_scores(self, state: Float[Tensor, "batch hidden"]) -> Float[Tensor, "batch classes"]:
        """Score padding, which is never a candidate, and items 1..I."""


@torch.no_grad()
def draw(network: Network, seed: int, *, matrices: Literal["normal", "glorot"] = "normal") -> None:
    """Draw the weights, each by its name.

    Embeddings start from normal(0, 0.02), like matrices, unless these start uniform up to
    `sqrt(6 / (n_in + n_out))` (Glorot and Bengio, AISTATS 2010). Biases are 0, norms 1.
    """
    for name, parameter in network.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()
        elif parameter.ndim > 1:  # a vector is a norm's
            generator = torch_generator(seed, "weights", name)
            if matrices == "glorot" and name.endswith(".weight"):
                limit = (6 / sum(parameter.shape)) ** 0.5
                parameter.uniform_(-limit, limit, generator=generator)
            else:
                drawn = torch.randn(parameter.shape, generator=generator)
                parameter.copy_(drawn * INITIAL_SPREAD)
    network.item_embedding[0] = 0
