"""Network files as DSSTNE's own program writes them, by the C library that it uses (netCDF4)."""

import netCDF4
import numpy as np

import dsstne

u4, f4, u8 = np.uint32, np.float32, np.uint64

NETWORK = {
    "version": f4(0.9),
    "name": "AE",
    "kind": u4(0),
    "errorFunction": u4(2),
    "maxout_k": np.int32(2),
    "decay": f4(0),
    "LRN_k": f4(2),
    "LRN_n": np.int32(5),
    "LRN_alpha": f4(1e-4),
    "LRN_beta": f4(0.75),
    "bSparsenessPenalty": u4(0),
    "sparsenessPenalty_p": f4(0),
    "sparsenessPenalty_beta": f4(0),
    "bDenoising": u4(0),
    "denoising_p": f4(0),
    "deltaBoost_one": f4(1),
    "deltaBoost_zero": f4(1),
    "SMCE_oneScale": f4(1),
    "SMCE_zeroScale": f4(1),
    "SMCE_oneTarget": f4(0.9),
    "SMCE_zeroTarget": f4(0.1),
    "ShuffleIndices": u4(1),
    "checkpoint_name": "",
    "checkpoint_interval": np.int32(0),
    "checkpoint_epochs": np.int32(0),
}
LAYER = {
    "name": "",
    "kind": u4(1),
    "type": u4(0),
    "poolingfunction": u4(0),
    "dataSet": "",
    "Nx": u4(1),
    "Ny": u4(1),
    "Nz": u4(1),
    "Nw": u4(1),
    "dimensions": u4(1),
    "kernelX": u4(1),
    "kernelY": u4(1),
    "kernelZ": u4(1),
    "kernelDimensions": u4(0),
    "kernelStrideX": u4(1),
    "kernelStrideY": u4(1),
    "kernelStrideZ": u4(1),
    "kernelPaddingX": u4(0),
    "kernelPaddingY": u4(0),
    "kernelPaddingZ": u4(0),
    "pDropout": f4(0),
    "weightInit": u4(0),
    "weightInitScale": f4(1),
    "biasInit": f4(0),
    "weightNorm": f4(0),
    "deltaNorm": f4(0),
    "activation": u4(0),
    "sparsenessPenalty_p": f4(0),
    "sparsenessPenalty_beta": f4(0),
    "RELUSlope": f4(1),
    "ELUAlpha": f4(1),
    "SELULambda": f4(1.050701),
    "attributes": u4(0),
}
WEIGHT = {
    "inputLayer": "",
    "outputLayer": "",
    "width": u8(1),
    "height": u8(1),
    "length": u8(1),
    "depth": u8(1),
    "breadth": u8(1),
    "bShared": u4(0),
    "bLocked": u4(0),
    "norm": f4(0),
}


class File:
    """A file that is about to be written; its parts can be changed before that.

    ``sizes`` are the units of the layers by name. ``layers`` and ``weights`` have attributes without their prefixes,
    and ``variables`` the arrays by name.
    """

    def __init__(self, **network):
        self.network = NETWORK | network
        self.layers, self.weights, self.variables = [], [], {}
        self._random = np.random.default_rng(11)

    def layer(self, name, size, kind=1, sources=(), skips=(), **changed):
        values = LAYER | {"name": name, "kind": u4(kind), "Nx": u4(size)} | changed
        for what, listed in (("source", sources), ("skip", skips)):
            values[what + "s"] = u4(len(listed))
            values |= {f"{what}{n}": other for n, other in enumerate(listed)}
        self.layers.append(values)
        return self

    def weight(self, source, layer, **changed):
        sizes = {each["name"]: int(each["Nx"]) for each in self.layers}
        values = WEIGHT | {"inputLayer": source, "outputLayer": layer} | changed
        values |= {"width": u8(sizes[layer]), "height": u8(sizes[source])}
        prefix = f"weight{len(self.weights)}_"
        self.weights.append(values)
        self.variables[prefix + "bias"] = self._random.normal(size=sizes[layer]).astype(f4)
        if not changed.get("bShared"):
            self.variables[prefix + "weights"] = self._random.normal(size=sizes[layer] * sizes[source]).astype(f4)
        return self

    def share(self, source, layer, owner, transposed):
        """Adds a weight that is the one between two layers of ``owner``."""
        names = {"sourceInputLayer": owner[0], "sourceOutputLayer": owner[1]}
        return self.weight(source, layer, bShared=u4(1), bTransposed=u4(transposed), **names)

    def normalise(self, number):
        """Adds what batch normalisation of a layer needs."""
        layer, random = self.layers[number], self._random
        layer["attributes"] = u4(int(layer["attributes"]) | 4)
        for name in ("scaleBN", "biasBN", "runningMeanBN", "runningVarianceBN"):
            values = random.uniform(0.5, 1.5, size=int(layer["Nx"])).astype(f4)
            self.variables[f"layer{number}_{name}"] = values
        return self

    def matrix(self, number):
        """Returns a weight as a matrix [inputs, outputs]."""
        shape = int(self.weights[number]["height"]), int(self.weights[number]["width"])
        return self.variables[f"weight{number}_weights"].reshape(shape)

    def bias(self, number):
        return self.variables[f"weight{number}_bias"]

    def attributes(self):
        values = dict(self.network)
        values["layers"] = u4(len(self.layers))
        for prefix, listed in (("layer", self.layers), ("weight", self.weights)):
            for n, layer in enumerate(listed):
                values |= {f"{prefix}{n}_{key}": value for key, value in layer.items()}
        values["weights"] = u4(len(self.weights))
        return values

    def write(self, path, changed=None, without=()):
        """Writes the file; attributes can be changed or left out."""
        with netCDF4.Dataset(path, "w") as file:
            for name, value in (self.attributes() | (changed or {})).items():
                if name not in without:
                    file.setncattr(name, value)
            for name, values in self.variables.items():
                if name in without:
                    continue
                dimension = (
                    name.rpartition("_")[0]
                    + "_"
                    + {"bias": "biasDim", "weights": "weightDim"}.get(name.rpartition("_")[2], "bnDim")
                )
                if dimension not in file.dimensions:
                    file.createDimension(dimension, len(values))
                file.createVariable(name, values.dtype, (dimension,))[:] = values
        return path


def autoencoder(**network):
    """Returns the file of DSSTNE's sample: input 256, hidden 8 with sigmoid, output 256."""
    file = File(**network)
    file.layer("Input", 256, 0, dataSet="gl_input", attributes=u4(1))
    file.layer("Hidden", 8, 1, ["Input"], attributes=u4(1))
    file.layer("Output", 256, 2, ["Hidden"], dataSet="gl_output")
    return file.weight("Input", "Hidden").weight("Hidden", "Output")


def every_kind(kind, loss, **output):
    """Returns a model that DSSTNE's files can express, with a kind of loss."""
    layers = [
        {"name": "In", "kind": "input", "size": 200, "denoising": 0.25},
        {"name": "h1", "kind": "hidden", "size": 6, "activation": "selu", "alpha_dropout": 0.1},
        {"name": "h2", "kind": "hidden", "size": 6, "activation": "softmax", "batch_norm": True, "skips": ["h1"]},
        {"name": "h3", "kind": "hidden", "size": 6, "activation": "sigmoid", "sparsity": {"mean": 0.1, "weight": 2}},
        {"name": "m", "kind": "merge", "function": "maximum", "sources": ["h2", "h3"]},
        {"name": "Out", "kind": "output", "size": 200, "sources": ["m", "h1"], **output},
    ]
    model = dsstne.Model({"name": "net", "layers": layers, "loss": [{"layer": "Out", "kind": kind, **loss}]}, seed=4)
    for name in model.tensors:
        if name.endswith(("running_mean", "bias")):
            model.set_tensor(name, np.random.default_rng(2).normal(size=model.tensors[name]))
    return model
