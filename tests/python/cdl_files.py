"""A network and data for the command encoder, and what its CDL files say."""

import json

import numpy as np
import scipy.sparse

import dsstne

X = scipy.sparse.random_array((60, 30), density=0.2, format="csr", rng=0, dtype=np.float32)
X.data[:] = 1
Y = scipy.sparse.random_array((60, 30), density=0.2, format="csr", rng=1, dtype=np.float32)
Y.data[:] = 1
CONFIG = {
    "ShuffleIndices": False,
    "Layers": [
        {"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "input", "Sparse": True},
        {"Name": "Hidden", "N": 8, "Activation": "Sigmoid"},
        {"Name": "Output", "N": "auto", "DataSet": "output", "Activation": "Sigmoid"},
    ],
}
TRAINING = {"Epochs": 3, "CheckpointInterval": 0}
TRAIN = {"Command": "train", "Network": "config.json", "Data": "data.nc", "TrainingParameters": TRAINING}


def write_files(folder):
    """Writes the network and the data to a folder: both matrices in one file, and each in its own."""
    (folder / "config.json").write_text(json.dumps(CONFIG))
    dsstne.netcdf.write(folder / "data.nc", {"input": X, "output": Y})
    dsstne.netcdf.write(folder / "in.nc", {"input": X})
    dsstne.netcdf.write(folder / "out.nc", {"output": Y})


def trained(**more):
    """What train says, with other training parameters."""
    return {**TRAIN, "TrainingParameters": {**TRAINING, **more}}
