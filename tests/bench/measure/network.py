"""A network and its training, described once for every contestant."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Network:
    """An autoencoder I - hidden ... - I, and how it is trained. Weights start as Xavier's, biases as zero."""

    hidden: tuple[int, ...]
    activation: str = "tanh"
    loss: str = "softmax"
    temperature: float | None = None  # cosine logits, divided by this
    output_bias: bool = True
    scaling: str | None = "l2"
    denoising: float = 0.5
    dropout: float = 0.0
    sparsity: tuple[float, float] | None = None  # mean and weight of the penalty on hidden units
    batch_norm: bool = False  # of hidden layers
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    batch_size: int = 512
    precision: str = "float32"

    def definition(self) -> dict[str, object]:
        """The network as `dsstne.fit` takes it."""
        layers: list[dict[str, object]] = [
            {"name": "input", "kind": "input", "scaling": self.scaling or "none", "denoising": self.denoising}
        ]
        for number, size in enumerate(self.hidden, 1):
            layer: dict[str, object] = {"name": f"hidden{number}", "kind": "hidden", "size": size}
            layer["activation"] = self.activation
            if self.sparsity is not None:
                layer["sparsity"] = dict(zip(("mean", "weight"), self.sparsity, strict=True))
            if self.batch_norm:
                layer["batch_norm"] = True
            layers.append({**layer, "dropout": self.dropout})
        output: dict[str, object] = {"name": "output", "kind": "output", "bias": self.output_bias}
        if self.temperature is not None:
            output["temperature"] = self.temperature
        return {"layers": [*layers, output], "loss": self.loss}

    def operations(self, items: int, stored_logits: bool = False) -> int:
        """Floating-point operations of the dense layers in a step, forward and backward, without the sparse input.

        Soft-max over logits that are never stored makes them twice: 8 operations a weight and example, and not 6.
        """
        pairs = list(zip(self.hidden, (*self.hidden[1:], items), strict=True))
        counts = [6] * len(pairs)
        if self.loss == "softmax" and not stored_logits:
            counts[-1] = 8
        return self.batch_size * sum(n * inputs * outputs for n, (inputs, outputs) in zip(counts, pairs, strict=True))
