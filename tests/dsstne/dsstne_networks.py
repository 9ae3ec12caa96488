"""The networks that are trained beside the oracle: files of DSSTNE, their data sets, and the arguments of the calls.

The learning rates are high and the initial weights large, so that every weight moves far within the steps.
"""

import numpy as np
from dsstne_oracle import Call, DataSet

ROWS = 37  # a prime number: the last batch of an epoch is a shorter one
STEPS = 20
random = np.random.default_rng(20)


def boolean(columns, density=0.3, **attributes):
    stored = random.random((ROWS, columns)) < density
    stored[5] = False  # somebody without items
    return DataSet(stored.astype(float), stored, **attributes)


def analog(columns, values, density=0.4, **attributes):
    stored = random.random((ROWS, columns)) < density
    numbers = np.float32(random.choice(values, (ROWS, columns)))
    return DataSet(np.where(stored, numbers, 0).astype(float), stored, **attributes)


# The targets of cross-entropies without values are boolean, because DSSTNE ignores their values.
DATA = {
    "likes": boolean(14),
    "tags": boolean(9),
    "counts": analog(12, [0.5, 1, 1.5, 2]),
    "measures": analog(10, [-1.3, -0.7, -0.2, 0.4, 0.9, 1.6]),
    "shares": analog(11, [-0.8, -0.3, 0.6, 1]),
    "asked": boolean(12, ignore_zero=True),
    "ratings": analog(13, [-1.2, 0, 0.3, 0.8, 1.4], ignore_zero=True),
    "stars": analog(11, [0.4, 0.8, 1.2, 1.6], ignore_zero=True),
}


def entry(data="likes", name="Input", **keys):
    return {"Name": name, "Kind": "Input", "N": "auto", "DataSet": data, "Sparse": True, **keys}


def hidden(units, activation, name="Hidden", scale=0.4, **keys):
    weights = {"Scheme": "Gaussian", "Scale": scale, "Bias": 0.1}
    return {"Name": name, "Kind": "Hidden", "N": units, "Activation": activation, "WeightInit": weights, **keys}


def output(data, activation, name="Output", scale=0.4, **keys):
    weights = {"Scheme": "Gaussian", "Scale": scale, "Bias": -0.2}
    file = {"Name": name, "Kind": "Output", "N": "auto", "DataSet": data, "Activation": activation}
    return {**file, "WeightInit": weights, **keys}


def pooling(function, units, name, sources, **keys):
    kind = {"Name": name, "Kind": "Hidden", "Type": "Pooling", "Function": function}
    return {**kind, "N": units, "Source": sources, **keys}


def file(error, *layers, **keys):
    return {"Version": 0.7, "ErrorFunction": error, "ShuffleIndices": False, **keys, "Layers": list(layers)}


def tied(hidden="Hidden", source="Input"):
    owner = {"SourceInputLayer": source, "SourceOutputLayer": hidden}
    return {"SharedWeights": {"InputLayer": hidden, **owner, "Transposed": True}}


def share(source, into, layer, transposed=False):
    return {"InputLayer": source, "SourceInputLayer": into, "SourceOutputLayer": layer, "Transposed": transposed}


def scheme(word, scale, bias=0.1):
    return {"WeightInit": {"Scheme": word, "Scale": scale, "Bias": bias}}


MARGINS = {"oneTarget": 0.7, "zeroTarget": 0.3, "oneScale": 2.0, "zeroScale": 0.5}
ONES = {"oneTarget": 0.8, "oneScale": 1.5}
PENALTY = {"p": 0.5, "beta": 2.0}  # of the layers that are Sparse
SMCE, DSMCE, CE = "ScaledMarginalCrossEntropy", "DataScaledMarginalCrossEntropy", "CrossEntropy"

# Name -> the file and the call.
NETWORKS = {
    # Losses with their activations.
    "sigmoid and cross-entropy": (
        file(CE, entry(), hidden(6, "Sigmoid"), output("tags", "Sigmoid")),
        Call(alpha=0.5),
    ),
    "cross-entropy of what was asked": (
        file(CE, entry(), hidden(6, "Tanh"), output("asked", "Sigmoid")),
        Call(alpha=0.5),
    ),
    "soft-max": (
        file(CE, entry(), hidden(6, "Tanh"), output("likes", "SoftMax")),
        Call(alpha=0.5),
    ),
    "soft-max of counts": (
        file(CE, entry("counts"), hidden(7, "Linear"), output("tags", "SoftMax"), Decay=0.05),
        Call(alpha=0.4, lambda_=0.02),
    ),
    "margins": (
        file(SMCE, entry(), hidden(6, "Sigmoid"), output("tags", "Sigmoid"), ScaledMarginalCrossEntropy=MARGINS),
        Call(alpha=0.5),
    ),
    "the margins of DSSTNE": (
        file(SMCE, entry("counts"), hidden(6, "RELU"), output("likes", "Sigmoid", scale=1.5)),
        Call(alpha=0.5),
    ),
    "margins of what was asked": (
        file(SMCE, entry(), hidden(6, "SoftSign"), output("asked", "Sigmoid"), ScaledMarginalCrossEntropy=ONES),
        Call(alpha=0.2, lambda_=0.05),
    ),
    "margins with the values": (
        file(
            DSMCE,
            entry("counts"),
            hidden(6, "Tanh"),
            output("counts", "Sigmoid"),
            DataScaledMarginalCrossEntropy=MARGINS,
        ),
        Call(alpha=0.4),
    ),
    "margins with the values of what is stored": (
        file(DSMCE, entry(), hidden(6, "ELU"), output("stars", "Sigmoid"), DataScaledMarginalCrossEntropy=ONES),
        Call(alpha=0.2),
    ),
    "margins of a soft-max": (
        file(
            SMCE,
            entry(),
            hidden(6, "Tanh"),
            output("likes", "SoftMax"),
            ScaledMarginalCrossEntropy={"oneTarget": 0.15, "oneScale": 2.5},
        ),
        Call(alpha=0.5),
    ),
    "margins of a soft-max, with zeros that weigh as they do": (
        file(
            SMCE,
            entry("counts"),
            hidden(7, "Linear"),
            output("tags", "SoftMax"),
            ScaledMarginalCrossEntropy={"oneTarget": 0.25, "zeroTarget": 0, "oneScale": 1.5, "zeroScale": 1},
        ),
        Call("Momentum", alpha=0.2, mu=0.5, lambda_=0.02),
    ),
    "margins of a soft-max with the values": (
        file(
            DSMCE,
            entry(),
            hidden(6, "Sigmoid"),
            output("counts", "SoftMax"),
            DataScaledMarginalCrossEntropy={"oneTarget": 0.15, "oneScale": 0.5},
        ),
        Call(alpha=0.2),
    ),
    "margins of soft-maxes with the values": (
        file(
            DSMCE,
            entry("counts"),
            hidden(6, "Tanh"),
            output("counts", "SoftMax", "First"),
            output("tags", "SoftMax", "Second", Source="Hidden"),
            DataScaledMarginalCrossEntropy={"oneTarget": 0.2, "oneScale": 0.25},
        ),
        Call("Nesterov", alpha=0.1, mu=0.5, batch=16),
    ),
    "squares": (
        file("L2", entry(), hidden(6, "Linear"), output("likes", "Linear")),
        Call(alpha=0.1),
    ),
    "squares of measures": (
        file("L2", entry("measures"), hidden(6, "Tanh"), output("measures", "Tanh")),
        Call(alpha=0.2),
    ),
    "squares of ratings": (
        file("L2", entry("measures"), hidden(6, "Linear"), output("ratings", "Linear")),
        Call(alpha=0.2, lambda_=0.03),
    ),
    "squares of a sigmoid": (
        file("L2", entry(), hidden(6, "SELU"), output("likes", "Sigmoid")),
        Call(alpha=0.6),
    ),
    "squares of a ReLU": (
        file("L2", entry("counts"), hidden(6, "LRELU"), output("counts", "RectifiedLinear")),
        Call(alpha=0.1),
    ),
    "squares of a SELU": (
        file("L2", entry("measures"), hidden(6, "SELU"), output("measures", "ScaledExponentialLinear")),
        Call(alpha=0.05),
    ),
    "absolute differences": (
        file("L1", entry(), hidden(6, "Tanh"), output("likes", "Linear")),
        Call(alpha=0.05),
    ),
    "absolute differences of ratings": (
        file("L1", entry("measures"), hidden(6, "SoftPlus"), output("ratings", "SoftSign")),
        Call(alpha=0.1),
    ),
    "absolute differences of an ELU": (
        file("L1", entry("measures"), hidden(6, "Sigmoid"), output("measures", "ELU", ELUAlpha=0.7)),
        Call(alpha=0.1),
    ),
    "hinge": (
        file("Hinge", entry(), hidden(6, "SoftPlus"), output("likes", "Linear")),
        Call(alpha=0.05),
    ),
    "hinge of shares": (
        file("Hinge", entry("counts"), hidden(6, "LeakyRectifiedLinear", Slope=0.2), output("shares", "Tanh")),
        Call(alpha=0.1),
    ),
    "squared hinge": (
        file("L2Hinge", entry(), hidden(6, "SoftSign"), output("likes", "SoftPlus")),
        Call(alpha=0.1),
    ),
    "squared hinge of stars": (
        file(
            "L2Hinge",
            entry("measures"),
            hidden(6, "ExponentialLinear"),
            output("stars", "LRELU"),
            RELUSlope=0.3,
            ELUAlpha=0.6,
        ),
        Call(alpha=0.1),
    ),
    "squared hinge of a soft-sign": (
        file("L2Hinge", entry(), hidden(6, "SELU"), output("tags", "SoftSign")),
        Call(alpha=0.3),
    ),
    "squares of an ELU and of a leaky ReLU": (
        file(
            "L2",
            entry("measures"),
            hidden(6, "LRELU"),
            output("measures", "ELU", "First"),
            output("counts", "LRELU", "Second", Source="Hidden", Slope=0.4),
            RELUSlope=0.25,
            ELUAlpha=1.4,
        ),
        Call(alpha=0.05),
    ),
    "values of a soft-plus and of a SELU": (
        file(
            "L1",
            entry(),
            hidden(6, "ELU", ELUAlpha=0.5),
            output("counts", "SoftPlus", "First"),
            output("counts", "SELU", "Second", Source="Hidden"),
        ),
        Call(alpha=0.05),
    ),
    "values of a ReLU": (
        file("L2Hinge", entry("counts"), hidden(6, "Tanh"), output("stars", "RELU")),
        Call(alpha=0.1),
    ),
    # Shapes.
    "two hidden layers": (
        file(SMCE, entry(), hidden(7, "Tanh", "One"), hidden(5, "Sigmoid", "Two", 0.8), output("likes", "Sigmoid")),
        Call(alpha=0.7),
    ),
    "three hidden layers": (
        file(
            CE,
            entry("counts"),
            hidden(6, "RELU", "One"),
            hidden(7, "SoftPlus", "Two"),
            hidden(5, "Tanh", "Three"),
            output("tags", "SoftMax"),
        ),
        Call(alpha=0.5, batch=16),
    ),
    "two inputs": (
        file(
            CE,
            entry(),
            entry("counts", "More"),
            hidden(6, "Tanh", Source=["Input", "More"]),
            output("likes", "SoftMax"),
        ),
        Call(alpha=0.5, lambda_=0.01),
    ),
    "two inputs and two outputs": (
        file(
            "L2",
            entry("tags"),
            entry("measures", "More"),
            hidden(6, "Sigmoid", "One", Source=["Input", "More"]),
            hidden(5, "Tanh", "Two", Source="More"),
            output("likes", "Sigmoid", "First", Source=["One", "Two"]),
            output("ratings", "Linear", "Second", Source="Two"),
        ),
        Call(alpha=0.2),
    ),
    "a layer that reads an input and a hidden layer": (
        file(
            SMCE,
            entry(),
            hidden(6, "Tanh", "One"),
            hidden(5, "Sigmoid", "Two", Source=["Input", "One"]),
            output("tags", "Sigmoid", Source=["One", "Two"]),
        ),
        Call("Momentum", alpha=0.1, mu=0.8),
    ),
    "an input that feeds an output": (
        file(CE, entry(), output("tags", "Sigmoid")),
        Call("Momentum", alpha=0.3, mu=0.5, lambda_=0.02, lambda1=0.001),
    ),
    "inputs and a hidden layer that feed an output": (
        file(
            CE,
            entry("counts"),
            entry("tags", "More"),
            hidden(6, "Tanh", Source="Input"),
            output("likes", "SoftMax", Source=["More", "Hidden", "Input"]),
        ),
        Call("Adam", alpha=0.02, mu=0.9, mu1=0.999),
    ),
    "skips": (
        file(
            CE,
            entry(),
            hidden(6, "Tanh", "One"),
            hidden(6, "Sigmoid", "Two", Skip="One"),
            hidden(6, "RELU", "Three", Skip=["One", "Two"], BatchNormalization=True),
            hidden(9, "Linear", "Four"),
            output("tags", "Sigmoid", Source=["Three", "One"], Skip="Four"),
        ),
        Call("Adam", alpha=0.02, mu=0.9, mu1=0.999),
    ),
    "soft-max units": (
        file(
            CE,
            entry("counts"),
            hidden(6, "SoftMax", "One"),
            hidden(6, "Tanh", "Two", Source=["Input", "One"]),
            output("tags", "Sigmoid", Source=["Two", "One"]),
        ),
        Call("Momentum", alpha=0.2, mu=0.5),
    ),
    "capped gradients of soft-max units": (
        file(
            CE,
            entry(),
            hidden(6, "Tanh", "One"),
            hidden(6, "SoftMax", "Two", Skip="One", DeltaNorm=0.2, BatchNormalization=True),
            output("tags", "Sigmoid", Source=["Two", "One"]),
        ),
        Call(alpha=0.5),
    ),
    "capped gradients": (
        file(
            CE,
            entry(),
            hidden(6, "Tanh", "One", DeltaNorm=0.1),
            hidden(5, "Tanh", "Two", DeltaNorm=0.3),
            output("tags", "Sigmoid"),
        ),
        Call(alpha=0.5),
    ),
    "capped gradients of soft-max outputs": (
        file(
            CE,
            entry(),
            hidden(6, "Tanh", "One"),
            output("tags", "SoftMax", Source=["One", "Input"], DeltaNorm=0.3),
        ),
        Call(alpha=0.5),
    ),
    "capped gradients of an output": (
        file(
            "L2",
            entry(),
            hidden(6, "Tanh", "One"),
            output("tags", "Sigmoid", DeltaNorm=0.2),
        ),
        Call("Momentum", alpha=0.2, mu=0.5),
    ),
    "capped weights": (
        file(
            CE,
            entry(),
            hidden(6, "Tanh", "One", WeightNorm=1.2),
            hidden(5, "Tanh", "Two", WeightNorm=0.9),
            output("tags", "Sigmoid", Source=["Two", "One"], WeightNorm=1.1),
        ),
        Call(alpha=0.5),
    ),
    "capped weights of several inputs and of what was asked": (
        file(
            CE,
            entry(),
            entry("counts", "Counts"),
            hidden(6, "Tanh", "One", Source=["Input", "Counts"], WeightNorm=1.3),
            output("asked", "Sigmoid", WeightNorm=1.2),
        ),
        Call("Momentum", alpha=0.2, mu=0.5, lambda_=0.01),
    ),
    "a shared weight with a cap": (
        file(CE, entry(), hidden(6, "Tanh", WeightNorm=1.4), output("likes", "Sigmoid", **tied())),
        Call("Adam", alpha=0.02, mu=0.9, mu1=0.999),
    ),
    "max-out, products and cosines": (
        file(
            "L2",
            entry("counts"),
            hidden(6, "Tanh", "One"),
            hidden(6, "Sigmoid", "Two", Skip="One"),
            pooling("MaxOut", 6, "Most", ["One", "Two"]),
            pooling("DotProduct", 2, "Dot", ["Most", "One", "Two"]),
            pooling("Cosine", 2, "Angle", ["Two", "Most", "One"]),
            output("counts", "Linear", Source=["Dot", "Angle", "Most"]),
        ),
        Call(alpha=0.05),
    ),
    "an output of products": (
        file(
            CE,
            entry("counts"),
            *(hidden(5, "Tanh", f"Unit{n}", Source="Input") for n in range(10)),
            pooling("DotProduct", "auto", "Output", [f"Unit{n}" for n in range(10)], Kind="Output", DataSet="tags"),
        ),
        Call("Momentum", alpha=0.1, mu=0.5),
    ),
    "an output of cosines": (
        file(
            "L2",
            entry(),
            *(hidden(5, "Tanh", f"Unit{n}", Source="Input") for n in range(9)),
            pooling("MaxOut", 5, "Most", ["Unit0", "Unit1", "Unit2"]),
            pooling("Cosine", 9, "Output", ["Most", *(f"Unit{n}" for n in range(9))], Kind="Output", DataSet="tags"),
        ),
        Call("Nesterov", alpha=0.3, mu=0.5),
    ),
    "boosted deltas": (
        file(CE, entry(), hidden(6, "Tanh"), output("likes", "Sigmoid"), DeltaBoost={"one": 3, "zero": 0.5}),
        Call(alpha=0.3),
    ),
    "boosted deltas of values": (
        file("L2", entry("counts"), hidden(6, "Tanh"), output("counts", "Linear"), DeltaBoost={"one": 2}),
        Call("Momentum", alpha=0.05, mu=0.5),
    ),
    "layers in another order": (
        {
            "ErrorFunction": CE,
            "ShuffleIndices": False,
            "Layers": [
                output("likes", "SoftMax", Source="Two"),
                hidden(6, "Sigmoid", "Two", Source="One"),
                hidden(5, "Tanh", "One", Source="Input"),
                entry(),
            ],
        },
        Call(alpha=0.5),
    ),
    "what DSSTNE takes by default": (
        {"SHUFFLEINDICES": False, "layers": [{"n": 14, "dataset": "likes"}, {"N": 6}, {"N": 9, "DataSet": "tags"}]},
        Call(alpha=0.5),
    ),
    "defaults, and sizes as products": (
        {
            "ShuffleIndices": False,
            "errorFunction": "l2",
            "Layers": [
                {"N": [3, 4], "DataSet": "counts", "Sparse": True},
                {"N": [2, 3], "Activation": "tanh"},
                {"N": 5, "Activation": "relu"},
                {"N": [5, 2], "DataSet": "measures", "Activation": "LINEAR"},
            ],
        },
        Call(alpha=0.1, batch=12),
    ),
    "shared": (
        file(CE, entry(), hidden(6, "Tanh"), output("likes", "Sigmoid", **tied())),
        Call(alpha=0.4, lambda_=0.02),
    ),
    "shared, with Adam": (
        file("L2", entry("counts"), hidden(6, "Linear"), output("counts", "Linear", **tied())),
        Call("Adam", alpha=0.02, lambda_=0.01, mu=0.9, mu1=0.99, batch=13),
    ),
    "shared, beside another output": (
        file(
            CE,
            entry(),
            hidden(6, "Sigmoid"),
            output("likes", "SoftMax", "First", **tied()),
            output("tags", "Sigmoid", "Second", Source="Hidden"),
        ),
        Call("Nesterov", alpha=0.1, mu=0.7, lambda1=0.005),
    ),
    "shared by a decoder": (
        file(
            CE,
            entry(),
            hidden(6, "Tanh", "Encoder"),
            hidden(4, "Tanh", "Code"),
            hidden(6, "Sigmoid", "Decoder", SharedWeights=share("Code", "Encoder", "Code", True)),
            output("likes", "Sigmoid", SharedWeights=[share("Decoder", "Input", "Encoder", True)]),
        ),
        Call("Momentum", alpha=0.2, mu=0.8, lambda_=0.01),
    ),
    "shared by inputs, outputs and square layers": (
        file(
            "L2",
            entry(),
            entry(name="Again"),
            hidden(5, "Tanh", "A", Source="Input"),
            hidden(5, "Sigmoid", "B", Source="Again", SharedWeights=share("Again", "Input", "A")),
            hidden(5, "Tanh", "C", Source=["A", "B"]),
            hidden(5, "Tanh", "D", Source="C", SharedWeights=share("C", "B", "C", True)),
            hidden(5, "Tanh", "E", Source=["D", "B"], SharedWeights=[share("B", "B", "C")]),
            output("tags", "Linear", "First", Source="E"),
            output("likes", "Linear", "Second", Source=["D", "E"], SharedWeights=[share("D", "Input", "A", True)]),
            output("tags", "Tanh", "Third", Source="D", SharedWeights=share("D", "E", "First")),
        ),
        Call("Adam", alpha=0.02, lambda_=0.01, mu=0.9, mu1=0.99, batch=13),
    ),
    # Optimizers and schedules.
    "momentum": (
        file("L2", entry(), hidden(6, "Tanh"), output("likes", "Sigmoid")),
        Call("Momentum", alpha=0.2, mu=0.9, lambda_=0.01),
    ),
    "momentum of ratings": (
        file("L2", entry(), hidden(6, "Linear"), output("ratings", "Linear")),
        Call("Momentum", alpha=0.05, mu=0.6, lambda_=0.05, lambda1=0.01),
    ),
    "Nesterov": (
        file(
            SMCE,
            entry(),
            hidden(6, "Sigmoid"),
            output("tags", "Sigmoid"),
            ScaledMarginalCrossEntropy=MARGINS,
            Decay=0.1,
        ),
        Call("Nesterov", alpha=0.2, mu=0.9, lambda_=0.01),
    ),
    "AdaGrad": (
        file(CE, entry(), hidden(6, "Tanh"), output("tags", "Sigmoid")),
        Call("AdaGrad", alpha=0.05),
    ),
    "AdaGrad with both penalties": (
        file("L2", entry("measures"), hidden(6, "Tanh"), output("ratings", "Linear"), Decay=0.02),
        Call("AdaGrad", alpha=0.05, lambda_=0.05, lambda1=0.02),
    ),
    "RMSProp": (
        file(CE, entry(), hidden(6, "Sigmoid"), output("likes", "SoftMax")),
        Call("RMSProp", alpha=0.01, mu=0.9),
    ),
    "RMSProp with weight decay": (
        file("L2", entry("counts"), hidden(6, "Tanh"), output("stars", "SoftPlus")),
        Call("RMSProp", alpha=0.01, mu=0.8, lambda_=0.1),
    ),
    "AdaDelta": (
        file(CE, entry(), hidden(6, "Tanh"), output("tags", "Sigmoid")),
        Call("AdaDelta", mu=0.9),
    ),
    "AdaDelta of what was asked": (
        file(CE, entry(), hidden(6, "SELU"), output("asked", "Sigmoid")),
        Call("AdaDelta", mu=0.8, lambda_=0.1, batch=20),
    ),
    "Adam": (
        file(CE, entry(), hidden(6, "Tanh"), output("likes", "SoftMax")),
        Call("Adam", alpha=0.02, mu=0.9, mu1=0.999),
    ),
    "Adam of ratings, with both penalties": (
        file("L2", entry("measures"), hidden(6, "Sigmoid"), output("ratings", "Linear")),
        Call("Adam", alpha=0.02, mu=0.8, mu1=0.95, lambda_=0.05, lambda1=0.2),
    ),
    "the learning rate falls after some epochs": (
        file(CE, entry(), hidden(6, "Tanh"), output("tags", "Sigmoid")),
        Call(alpha=0.5, alpha_interval=2, alpha_multiplier=0.3),
    ),
    "the learning rate falls after each epoch": (
        file("L2", entry("measures"), hidden(6, "Tanh"), output("measures", "Tanh")),
        Call("Momentum", alpha=0.1, mu=0.5, batch=15, alpha_interval=1, alpha_multiplier=0.8),
    ),
    "sparse weights": (
        file(CE, entry(), hidden(6, "Tanh"), output("likes", "SoftMax")),
        Call(alpha=0.5, lambda1=0.02),
    ),
    "all rows in a step": (
        {**file(CE, entry(), hidden(6, "Tanh"), output("likes", "SoftMax")), "ShuffleIndices": True},
        Call(alpha=0.5, batch=ROWS),
    ),
    "more than all rows in a step": (
        {**file("L2", entry("measures"), hidden(6, "Tanh"), output("counts", "Linear")), "ShuffleIndices": True},
        Call("Adam", alpha=0.02, mu=0.9, mu1=0.999, batch=ROWS + 11),
    ),
    "two rows in a step": (
        file(CE, entry(), hidden(6, "Sigmoid"), output("tags", "Sigmoid")),
        Call(alpha=0.3, batch=2),
    ),
    "denoising and a penalty of layers that are not sparse": (
        file(
            SMCE,
            entry(Sparse=False),
            hidden(6, "Sigmoid", Sparse=False, Type="FullyConnected"),
            output("likes", "Sigmoid", Sparse=True, Type="FullyConnected"),
            Name="AE",
            Kind="AutoEncoder",
            Denoising={"p": 0.2},
            SparsenessPenalty=PENALTY,
            ScaledMarginalCrossEntropy=MARGINS,
        ),
        Call(alpha=0.5),
    ),
    "denoising and a penalty of other layers": (
        file(
            "L2",
            entry("measures", Sparse=False),
            hidden(6, "Tanh", Type="FullyConnected"),
            output("counts", "SoftPlus"),
            Name="AE",
            Kind="FeedForward",
            Denoising={"p": 0.5},
            SparsenessPenalty=PENALTY,
        ),
        Call("RMSProp", alpha=0.01, mu=0.9),
    ),
    "batch normalisation": (
        file(CE, entry(), hidden(6, "Sigmoid", BatchNormalization=True), output("likes", "Sigmoid")),
        Call(alpha=0.3),
    ),
    "batch normalisation of some layers": (
        file(
            CE,
            entry("counts"),
            entry("tags", "More"),
            hidden(6, "Tanh", "One", Source=["Input", "More"], BatchNormalization=True),
            hidden(5, "RELU", "Two", BatchNormalization=False),
            hidden(4, "SoftPlus", "Three", BatchNormalization=True),
            output("tags", "SoftMax"),
        ),
        Call("Momentum", alpha=0.15, mu=0.6, lambda_=0.02, batch=16),
    ),
    "sparse units": (
        file(CE, entry(), hidden(6, "Sigmoid", Sparse=True), output("likes", "Sigmoid"), SparsenessPenalty=PENALTY),
        Call(alpha=0.5),
    ),
    "sparse units of one layer": (
        file(
            SMCE,
            entry("measures"),
            hidden(6, "Sigmoid", "One", Sparse=True, SparsenessPenalty={"p": 0.2, "beta": 0.5}),
            hidden(5, "Tanh", "Two"),
            output("likes", "Sigmoid"),
        ),
        Call("Momentum", alpha=0.1, mu=0.5, lambda_=0.01, batch=16),
    ),
    "sparse units of two layers": (
        file(
            "L2",
            entry("counts"),
            hidden(7, "Sigmoid", "One", Sparse=True),
            hidden(5, "Sigmoid", "Two", Sparse=True, SparsenessPenalty={"p": 0.3}),
            output("counts", "Linear"),
            SparsenessPenalty=PENALTY,
        ),
        Call("Adam", alpha=0.02, mu=0.9, mu1=0.999),
    ),
    "locked hidden layer": (
        file(CE, entry(), hidden(6, "Tanh", "One"), hidden(5, "Tanh", "Two"), output("tags", "Sigmoid")),
        Call(alpha=0.5, lambda_=0.02, locked=("One",)),
    ),
    "locked output": (
        file("L2", entry(), hidden(6, "Tanh", "One"), hidden(5, "Sigmoid", "Two"), output("counts", "Linear")),
        Call("Adam", alpha=0.02, mu=0.9, mu1=0.999, lambda_=0.02, locked=("Two", "Output")),
    ),
    # Initial weights.
    "Xavier and Caffe's": (
        file(
            CE,
            entry(),
            hidden(16, "Tanh", **scheme("Xavier", 1.5)),
            output("tags", "Sigmoid", N=9, **scheme("CaffeXavier", 0.8)),
        ),
        Call(alpha=0.5),
    ),
    "of one length": (
        file(
            CE,
            entry(),
            hidden(16, "Tanh", **scheme("UnitBall", 1.5)),
            output("tags", "Sigmoid", **scheme("UnitBall", 2)),
        ),
        Call(alpha=0.5),
    ),
    "of one length in three layers": (
        file(
            "L2",
            entry("measures"),
            hidden(7, "Tanh", "One", **scheme("UnitBall", 0.9)),
            hidden(6, "Sigmoid", "Two", **scheme("CaffeXavier", 1)),
            output("counts", "Linear", **scheme("UnitBall", 1.2)),
        ),
        Call("Adam", alpha=0.02, mu=0.9, mu1=0.999),
    ),
    "Caffe's and SELU's": (
        file(
            CE,
            entry(),
            hidden(16, "SELU", **scheme("CaffeXavier", 1)),
            output("tags", "Sigmoid", **scheme("SELU", 0.7)),
        ),
        Call(alpha=0.3),
    ),
    "SELU's and uniform ones": (
        file(
            CE,
            entry(),
            hidden(16, "SELU", **scheme("SELU", 1)),
            output("likes", "SoftMax", **scheme("Uniform", 0.3, -1)),
        ),
        Call(alpha=0.3),
    ),
    "uniform and constant ones": (
        file(
            "L2",
            entry(),
            hidden(16, "Tanh", **scheme("Uniform", 0.5)),
            output("likes", "Sigmoid", **scheme("Constant", -0.3, 0.4)),
        ),
        Call(alpha=0.3),
    ),
    "constant ones and Xavier's": (
        file(
            "L2",
            entry("counts"),
            hidden(16, "Linear", **scheme("Constant", 0.05)),
            output("counts", "Sigmoid", **scheme("Xavier", 1)),
        ),
        Call(alpha=0.3),
    ),
}
