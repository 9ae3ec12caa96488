"""Random valid cases, compared with NumPy: scores, activations, lists, neighbours and metrics.

A case follows from its seed. `python tests/python/oracle.py SEED [COUNT]` runs COUNT cases (1), beginning with SEED.

What is compared, and how exactly:

- The values of a hidden layer with float64, within the bound of :func:`activations`.
- The scores of an output with float64, made of the hidden values that the library returns. A score is a float64 sum
  that is rounded once; the bound is half a unit of float32 in the last place, and the rounding of the float64 sum.
- Lists exactly, ties included: they are the stable order of the scores that the library returns.
- Metrics with the formulas of docs/metrics.md, within 1e-12.

If all numbers are small integers, float32 is exact, and so are all comparisons of values.
"""

import sys
import traceback
import warnings

import numpy as np
import pyarrow
import scipy.sparse
import scipy.special

import dsstne

UNIT = 2.0**-24  # the largest relative error of rounding to float32
TINY = 2.0**-126  # numbers below are rounded, or flushed to zero, with an absolute error

# Name -> formula, largest slope. Each formula takes a handful of roundings, see accuracy_test.go of the kernels.
ACTIVATIONS = {
    "linear": (lambda z: z, 1),
    "sigmoid": (scipy.special.expit, 0.25),
    "tanh": (np.tanh, 1),
    "relu": (lambda z: np.maximum(z, 0), 1),
    "elu": (lambda z: np.where(z > 0, z, np.expm1(np.minimum(z, 0))), 1),
    "selu": (
        lambda z: 1.0507009873554805 * np.where(z > 0, z, 1.6732632423543773 * np.expm1(np.minimum(z, 0))),
        1.7580993408473766,
    ),
    "leaky_relu": (lambda z: np.where(z > 0, z, 0.01 * z), 1),
    "softplus": (lambda z: np.logaddexp(0, z), 1),
    "softsign": (lambda z: z / (1 + np.abs(z)), 1),
    "gelu": (lambda z: z * scipy.special.ndtr(z), 1.13),
    "silu": (lambda z: z * scipy.special.expit(z), 1.1),
}
EXACT = ("linear", "relu")
ROUNDINGS = 16  # of an activation: 8 units in the last place
METRICS = ("precision", "recall", "truncated_recall", "ndcg", "hit_rate", "mrr", "map", "coverage")


class Matrix:
    """A random sparse matrix: what the library gets, and the same numbers as a dense array.

    Attributes:
        given: A matrix in one of the formats that the library takes.
        dense: float64 [rows, columns], the sums of duplicates.
        counts: Stored entries that are not zero by column, each duplicate counted.
    """

    def __init__(self, random, rows, columns, exact, density=None, may_convert=True):
        kind = random.choice(["float32", "float64", "bool", "integer"])
        lengths = random.binomial(columns, random.choice([0.02, 0.2, 0.7]) if density is None else density, rows)
        lengths[random.random(rows) < random.choice([0, 0.3])] = 0
        duplicates = random.random() < 0.4
        indices = [random.choice(columns, n, replace=duplicates) for n in lengths]
        if random.random() < 0.5:
            indices = [np.sort(row) for row in indices]
        indices = np.concatenate([np.empty(0, int), *indices])
        signs = [[1, 2, 3], [0, 1, 2], [-2, -1, 0, 1, 3]][random.integers(3)]
        if kind == "bool":
            data = random.random(len(indices)) < random.choice([0.8, 1])
        elif kind == "integer":
            data = random.choice(signs, len(indices)).astype(random.choice(["i1", "i2", "i4", "i8"]))
        elif exact:
            data = random.choice(signs, len(indices)).astype(kind)
        else:
            data = (random.standard_normal(len(indices)) * random.choice([1e-3, 1, 30])).astype(kind)
            data[random.random(len(data)) < 0.05] = 0
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        sums_in_float32 = kind in ("float32", "float64") and not exact  # SciPy would sum in another order
        formats = ["csr", "csr", "csr", "csr_matrix", "dataset", "arrow"]
        if may_convert and not (duplicates and sums_in_float32):
            formats += ["csc", "coo", "lil", "dok", "array"]
        self.format = random.choice(formats)
        if self.format == "arrow" and data.dtype.kind != "f" and not (data.dtype == bool and data.all()):
            data = data.astype(random.choice(["f4", "f8"]))  # of which duplicates are summed
        self.shape = (rows, columns)
        self.dense, self.counts = _sums(indptr, indices, data, self.shape)
        self.kind = f"{self.format} of {data.dtype}, {rows} x {columns}, {len(data)} stored"
        self.given = self._give(random, indptr, indices, data)

    def _give(self, random, indptr, indices, data):
        if self.format == "arrow":
            return _arrow(random, indptr, indices, data)
        made = (scipy.sparse.csr_matrix if self.format == "csr_matrix" else scipy.sparse.csr_array)(self.shape)
        if self.format in ("csr", "dataset") and random.random() < 0.3:  # a part of larger arrays
            before = int(random.integers(1, 5))
            indptr = indptr + before
            indices, data = np.append([0] * before, indices), np.append([1] * before, data).astype(data.dtype)
        made.data = data
        types = random.choice(["i4", "i8"], 2)
        if not self.format.startswith(("csr", "dataset")):
            types[1] = types[0]  # SciPy converts no others
        made.indices, made.indptr = indices.astype(types[0]), indptr.astype(types[1])
        if self.format.startswith(("csr", "dataset")) and random.random() < 0.2:
            made.data.flags.writeable = made.indices.flags.writeable = False
        if self.format == "dataset":
            return dsstne.Dataset(made)
        if self.format == "array":
            return made.toarray()
        return made if self.format.startswith("csr") else made.asformat(self.format)

    @property
    def stored(self):
        """Which entries are stored and not zero, [rows, columns]."""
        return self.dense != 0


def _sums(indptr, indices, data, shape):
    """Returns the sums of duplicates as float64, made in float32 in ascending order of the bits, and the counts."""
    rows = np.repeat(np.arange(shape[0]), np.diff(indptr))
    values = data.astype(np.float32)
    order = np.lexsort([values.view(np.uint32), indices, rows])
    sums = np.zeros(shape, np.float32)
    np.add.at(sums, (rows[order], indices[order]), values[order])
    if data.dtype == bool:
        sums = np.minimum(sums, 1)
    return sums.astype(np.float64), np.bincount(indices[values != 0], minlength=shape[1])


def _arrow(random, indptr, indices, data):
    """Returns rows of struct<index, value>, or of indices if all values are 1."""
    kind = random.choice(["i4", "i8"])
    is_large = random.random() < 0.5
    lists = pyarrow.LargeListArray if is_large else pyarrow.ListArray
    entries = pyarrow.array(indices.astype(kind))
    if data.dtype != bool:
        entries = pyarrow.StructArray.from_arrays([entries, pyarrow.array(data)], ["index", "value"])
    return lists.from_arrays(pyarrow.array(indptr.astype("i8" if is_large else "i4")), entries)


# ---- models ----


class Case:
    """A random model, random matrices, and the calls that are compared.

    Args:
        seed: All that the case depends on.
    """

    def __init__(self, seed):
        self.random = random = np.random.default_rng(seed)
        self.sharing = np.random.default_rng([seed, 1])
        self.exact = bool(random.random() < 0.5)
        self.rows = int(random.choice([0, 1, random.integers(2, 40)], p=[0.03, 0.07, 0.9]))
        self.items = int(random.choice([1, random.integers(2, 60), random.integers(60, 700)], p=[0.05, 0.65, 0.3]))
        self.devices = str(random.choice(["cpu", "cpu:3"]))
        self.options = {"devices": self.devices, "batch_size": int(random.choice([1, 3, 7, 64, 2048]))}
        if random.random() < 0.3:
            self.options["threads"] = int(random.integers(1, 4))
        make = random.choice([self.make_network, self.make_item_weights, self.make_popularity], p=[0.65, 0.25, 0.1])
        make()
        self.label = f"{make.__name__[5:]}, {self.model!r}, {', '.join(m.kind for m in self.inputs.values())}"
        names = random.permutation(list(self.inputs))
        matrices = {str(name): self.inputs[name].given for name in names}
        self.X = matrices if len(matrices) > 1 or random.random() < 0.2 else next(iter(matrices.values()))

    def numbers(self, *shape):
        """Returns random weights: small integers, or of a normal distribution."""
        if self.exact:
            return self.random.integers(-2, 3, shape).astype(np.float32)
        weights = self.random.standard_normal(shape) * self.random.choice([0.05, 1])
        if self.random.random() < 0.3:
            weights[self.random.random(shape[0]) < 0.2] = 0
        return weights.astype(np.float32)

    def matrix(self, columns, **options):
        return Matrix(self.random, self.rows, columns, self.exact, **options)

    def make_network(self):
        random = self.random
        width = int(random.choice([random.integers(1, 9), random.integers(9, 40), 130], p=[0.6, 0.35, 0.05]))
        sizes = [width] * int(random.choice([1, 2], p=[0.65, 0.35]))
        two_inputs = random.random() < 0.25
        columns = self.items if random.random() < 0.8 else int(random.integers(1, 50))
        tied = columns == self.items and random.random() < 0.3
        if len(sizes) == 2 and not tied:
            sizes[1] = int(random.integers(1, 20))
        inputs = {"first": columns} | ({"second": int(random.integers(1, 30))} if two_inputs else {})
        shares_table, shares_hidden = self.sharing.random(2) < 0.4
        if two_inputs and shares_table:
            inputs["second"] = columns
        self.scaling = {name: "none" if self.exact else str(random.choice(["none", "l2"])) for name in inputs}
        layers = [
            {"name": name, "kind": "input", "size": size, "scaling": self.scaling[name], "denoising": 0.5}
            for name, size in inputs.items()
        ]
        for n, size in enumerate(sizes):
            hidden = {"name": f"h{n}", "kind": "hidden", "size": size, "dropout": 0.2}
            hidden["sources"] = list(inputs) if n == 0 else ["h0"]
            if n == 1 and random.random() < 0.3:
                hidden["sources"].append("first")
            hidden["activation"] = str(random.choice(EXACT if self.exact else list(ACTIVATIONS)))
            hidden["bias"] = bool(random.random() < 0.7)
            layers.append(hidden)
        layers += self.sharing_layers(layers, two_inputs and shares_table, shares_hidden and len(sizes) == 2)
        loss = [{"layer": "out", "kind": str(random.choice(["softmax", "sigmoid", "squared", "hinge"]))}]
        outputs = {"out": self.items} | ({"other": int(random.integers(1, 40))} if random.random() < 0.15 else {})
        for name, size in outputs.items():
            sources = [layer["name"] for layer in layers if layer["kind"] == "hidden"][-1:]
            if name == "other":
                sources = [["h0", "h1"][: len(sizes)], []][random.integers(2)]
            tied_here = tied and name == "out"
            if not tied_here and random.random() < 0.25:  # inputs, alone or beside the hidden layers
                sources = list(inputs)[: random.integers(1, 3)] + sources * random.integers(2)
            output = {"name": name, "kind": "output", "size": size, "sources": sources}
            output["bias"] = not sources or bool(random.random() < 0.6)
            if len(sources) == 1 and sources[0] not in inputs and not self.exact and random.random() < 0.3:
                output["temperature"] = float(np.float32(random.choice([0.05, 1, 3])))
            if tied_here:
                output["shared"] = "h0.weight.first" if two_inputs else "h0.weight"
            layers.append(output)
        self.layers = {layer["name"]: layer for layer in layers}
        self.model = dsstne.Model({"layers": layers, "loss": loss})
        self.inputs = {name: self.matrix(size) for name, size in inputs.items()}
        for name, shape in self.model.tensors.items():
            self.model.set_tensor(name, self.numbers(*shape))
        self.weights = {name: self.model.tensor(name).astype(np.float64) for name in self.model.tensors}
        self.same_items = len(inputs) == len(outputs) == 1 and columns == self.items
        if random.random() < 0.2 and columns == self.items:
            self.same_items = self.model.same_items = bool(random.random() < 0.5)

    def sharing_layers(self, layers, shares_table, shares_hidden):
        """Returns layers that share the weights of hidden layers."""
        h0, *others = [layer for layer in layers if layer["kind"] == "hidden"]
        table = "h0.weight.first" if len(h0["sources"]) > 1 else "h0.weight"
        shared, list_of = [], "h1.weight.h0" if others and len(others[0]["sources"]) > 1 else "h1.weight"
        if shares_table:
            shared.append({"size": h0["size"], "sources": ["second"], "shared": table})
        if shares_hidden:
            for _ in range(self.sharing.integers(1, 3)):
                transposed = bool(self.sharing.random() < 0.5)
                source, size = ("h1", h0["size"]) if transposed else ("h0", others[0]["size"])
                share = {"weight": list_of, "transposed": transposed}
                if h0["size"] != others[0]["size"] and self.sharing.random() < 0.5:
                    share = list_of
                shared.append({"size": size, "sources": [source], "shared": share})
        activations = EXACT if self.exact else list(ACTIVATIONS)
        return [
            {"name": f"s{n}", "kind": "hidden", "activation": str(self.sharing.choice(activations)), **layer}
            for n, layer in enumerate(shared)
        ]

    def make_item_weights(self):
        self.items = min(self.items, 200)
        kind = self.random.choice(["dense", "csr", "none"], p=[0.45, 0.45, 0.1])
        W, bias = self.numbers(self.items, self.items), self.numbers(self.items)
        definition = {"kind": "item_weights", "items": self.items, "weight": kind}
        definition["bias"] = has_bias = bool(kind == "none" or self.random.random() < 0.3)
        if kind == "csr":
            W[self.random.random(W.shape) < 0.8] = 0
            definition["entries"] = int((W != 0).sum())
        if kind == "none":
            W[:] = 0
        if has_bias or kind == "none":
            self.model = dsstne.Model(definition)
            if kind != "none":
                self.model.set_tensor("weight", W)
            self.model.set_tensor("bias", bias)
        else:
            self.model = dsstne.Model.from_item_weights(scipy.sparse.coo_array(W) if kind == "csr" else W)
        self.give_item_weights(W, bias * has_bias)

    def make_popularity(self):
        data = self.matrix(self.items)
        while data.format == "arrow":
            data = self.matrix(self.items)
        self.model = dsstne.popularity(data.given)
        by_column = data.counts if data.format.startswith(("csr", "dataset", "csc")) else data.stored.sum(axis=0)
        self.give_item_weights(np.zeros((self.items, self.items)), by_column)

    def give_item_weights(self, W, bias):
        self.W, self.bias = W.astype(np.float64), np.asarray(bias, np.float64)
        self.layers = {"input": {"kind": "input"}, "output": {"kind": "output", "size": self.items}}
        self.inputs, self.same_items = {"input": self.matrix(self.items)}, True

    # ---- values of layers ----

    def scaled(self, name):
        """Returns the rows of an input in float64."""
        dense = self.inputs[name].dense
        if self.layers[name].get("scaling") != "l2":
            return dense
        norms = np.sqrt((dense**2).sum(axis=1, keepdims=True))
        return dense / np.where(norms == 0, 1, norms)

    def sources(self, name):
        """Yields the name and the weight [inputs, units] of each source of a layer."""
        layer = self.layers[name]
        for source in layer["sources"]:
            key = layer.get("shared") or f"{name}.weight" + (f".{source}" if len(layer["sources"]) > 1 else "")
            by_inputs = self.layers[source]["kind"] == "input"
            if isinstance(key, dict):
                key, by_inputs = key["weight"], key["transposed"]
            W = self.weights[key]
            if layer["kind"] == "hidden" and not by_inputs:
                by_inputs = W.shape[0] != layer["size"]
            yield source, (W if by_inputs else W.T)

    def activations(self, name, values, errors):
        """Computes a hidden layer in float64, and the most by which float32 may differ.

        A float32 sum of n products, in any order, differs by at most (n + 1) u times the sum of magnitudes (Higham,
        Accuracy and Stability of Numerical Algorithms, 3.1); scaling a row rounds each entry once more. An activation
        multiplies what its argument is wrong by with its slope, and is itself within 8 units in the last place.
        """
        bias = self.weights.get(f"{name}.bias", np.zeros(self.layers[name]["size"]))
        total, size = bias + np.zeros((self.rows, 1)), abs(bias) + np.zeros((self.rows, 1))
        terms, before = 4, 0.0
        for source, W in self.sources(name):
            x, e = (self.scaled(source), 0) if source in self.inputs else (values[source], errors[source])
            total, size, terms = total + x @ W, size + abs(x) @ abs(W), terms + W.shape[0] + 2
            before = before + (e @ abs(W) if source not in self.inputs else 0)
        function, slope = ACTIVATIONS[self.layers[name]["activation"]]
        value = function(total)
        if self.exact:
            return value, np.zeros(value.shape)
        wrong = before + terms * UNIT / (1 - terms * UNIT) * (size + before) + terms * TINY
        return value, slope * wrong + ROUNDINGS * UNIT * abs(value) + TINY

    def check_values(self):
        """Compares all layers; returns the scores of the outputs by name, as the library computes them."""
        values, errors, hidden, outputs = {}, {}, {}, {}
        for name, layer in self.layers.items():
            if layer["kind"] == "input":
                continue
            got = self.model.predict(self.X, name, **self.options)
            assert (got.dtype, got.shape) == (np.float32, (self.rows, layer["size"]))
            if layer["kind"] == "hidden":
                values[name], errors[name] = self.activations(name, values, errors)
                wrong = abs(got - values[name])
                assert (wrong <= errors[name]).all(), f"layer {name} differs by {wrong.max()}, {errors[name].max()}"
                hidden[name] = got.astype(np.float64)
            else:
                want, noise = self.scores(name, hidden)
                with np.errstate(under="ignore"):
                    ulp = np.spacing(abs(want).astype(np.float32)).astype(np.float64)
                bound = np.zeros(want.shape) if self.exact else 0.5000001 * ulp + noise
                wrong = abs(got - want)
                assert (wrong <= bound).all(), f"scores of {name} differ by {wrong.max()}"
                outputs[name] = got
        return outputs

    def scores(self, name, hidden):
        """Returns the scores of an output in float64, made of the library's hidden values, and their rounding."""
        if not hasattr(self, "weights"):
            x = self.inputs["input"].dense
            return x @ self.W + self.bias, 2.0**-52 * (self.items + 2) * (abs(x) @ abs(self.W) + abs(self.bias))
        layer, units = self.layers[name], self.layers[name]["size"]
        total, size, terms = np.zeros((self.rows, units)), np.zeros((self.rows, units)), 8
        rounded = np.zeros((self.rows, units))  # what is computed in float32: scaled rows, and parts that are added up
        for source, W in self.sources(name):
            if source in self.inputs:
                x = self.scaled(source)
                part, magnitude = x @ W, abs(x) @ abs(W)
                rounded = rounded + 4 * UNIT * magnitude
                total, size, terms = total + part, size + magnitude, terms + 2 * W.shape[0]
                continue
            W = W if W.shape == (self.layers[source]["size"], units) else W.T
            part, magnitude, count = hidden[source] @ W, abs(hidden[source]) @ abs(W), W.shape[0]
            if layer.get("temperature"):
                norm = np.outer(np.linalg.norm(hidden[source], axis=1), np.linalg.norm(W, axis=0))
                part, magnitude = (
                    np.divide(v, norm, out=np.zeros_like(v), where=norm != 0) / layer["temperature"]
                    for v in (part, magnitude)
                )
            total, size, terms = total + part, size + magnitude, terms + 2 * count
        bias = self.weights.get(f"{name}.bias", np.zeros(units))
        if rounded.any() and len(layer["sources"]) > 1:
            rounded = rounded + 4 * UNIT * (size + abs(bias))
        return total + bias, rounded + 2.0**-52 * terms * (size + abs(bias))

    # ---- calls ----

    def choose(self, units):
        """Returns keywords that restrict the items, and which items remain."""
        allowed = np.ones(units, bool)
        name = self.random.choice(["", "items", "filter_items"], p=[0.5, 0.25, 0.25])
        if not name:
            return {}, allowed
        chosen = self.random.random(units) < self.random.choice([0, 0.1, 0.6, 1], p=[0.05, 0.35, 0.5, 0.1])
        ids = np.append(np.flatnonzero(chosen), np.flatnonzero(chosen)[:1])  # with a duplicate
        given = [chosen, self.random.permutation(ids).astype(self.random.choice(["i4", "i8", "u2"]))]
        return {str(name): given[self.random.integers(2)]}, (chosen if name == "items" else ~chosen)

    def choose_rows(self):
        """Returns the keyword rows, and the numbers of the rows."""
        way = self.random.choice(["all", "mask", "numbers"], p=[0.6, 0.15, 0.25])
        if way == "all":
            return {}, np.arange(self.rows)
        if way == "mask" or not self.rows:
            mask = self.random.random(self.rows) < 0.5
            return {"rows": mask}, np.flatnonzero(mask)
        numbers = self.random.integers(0, self.rows, self.random.integers(0, 2 * self.rows))
        return {"rows": numbers}, numbers

    def choose_output(self):
        """Returns the keyword layer, and the name of the layer."""
        names = [name for name, layer in self.layers.items() if layer["kind"] == "output"]
        chosen = str(self.random.choice(names))
        return ({} if chosen == names[0] and self.random.random() < 0.7 else {"layer": chosen}), chosen

    def choose_excluded(self, units, automatic, evaluates):
        """Returns keywords that exclude items, and which are excluded, [rows, units]."""
        first = next(iter(self.inputs.values()))
        ways = ["default", "none", "matrix"] + ["input"] * (first.shape[1] == units)
        way = self.random.choice(ways)
        if way == "matrix":
            other = self.matrix(units)
            return {"exclude": other.given}, other.stored
        if way == "input" or (way == "default" and automatic):
            stored = first.stored
        else:
            stored = np.zeros((self.rows, units), bool)
        if evaluates:
            return {"default": {}, "none": {"exclude": None}, "input": {"exclude": "input"}}[way], stored
        return {"default": {}, "none": {"exclude_seen": False}, "input": {"exclude_seen": True}}[way], stored

    def check_recommend(self, outputs):
        layer, name = self.choose_output()
        scores = outputs[name]
        units = scores.shape[1]
        choice, allowed = self.choose(units)
        chosen, rows = self.choose_rows()
        automatic = self.same_items and name == next(iter(outputs))
        excluding, excluded = self.choose_excluded(units, automatic, False)
        k = int(self.random.choice([1, units, self.random.integers(1, units + 1)]))
        options = {**choice, **chosen, **excluding, **layer, **self.options}
        ids, best = self.model.recommend(self.X, k, **options)
        want, values = ranking(scores[rows], allowed & ~excluded[rows], k)
        said = f"recommend(k={k}, {', '.join(options)}): "
        compare(ids, want, said + "ids")
        compare(best, values, said + "scores")
        try:
            self.model.recommend(self.X, units + 1, **options)
        except dsstne.InvalidArgumentError:
            pass
        else:
            raise AssertionError("k above the number of items was taken")

    def check_some_scores(self, outputs):
        name = next(iter(outputs))
        items = self.random.integers(0, outputs[name].shape[1], 5)
        chosen, rows = self.choose_rows()
        got = self.model.scores(self.X, items, **chosen, **self.options)
        compare(got, outputs[name][rows][:, items], "scores()")
        compare(self.model.predict(self.X, name, **chosen, **self.options), outputs[name][rows], "predict(rows=)")

    def check_evaluate(self, outputs):
        layer, name = self.choose_output()
        scores = outputs[name]
        units = scores.shape[1]
        choice, allowed = self.choose(units)
        chosen, rows = self.choose_rows()
        automatic = self.same_items and name == next(iter(outputs))
        excluding, excluded = self.choose_excluded(units, automatic, True)
        held_out = self.matrix(units)
        cuts = [1, units, units + 3, int(self.random.integers(1, units + 1))]
        metrics = [f"{metric}@{self.random.choice(cuts)}" for metric in METRICS if self.random.random() < 0.6]
        metrics = metrics or ["recall@20"]
        options = {**choice, **chosen, **excluding, **layer, **self.options}
        ids, _ = ranking(scores[rows], allowed & ~excluded[rows], units)
        want = expected_metrics(metrics, ids, held_out.stored[rows], int(allowed.sum()))
        said = f"evaluate({', '.join(options)}): "
        got = dsstne.evaluate(self.model, self.X, held_out.given, metrics, **options)
        each = dsstne.evaluate(self.model, self.X, held_out.given, metrics, per_row=True, **options)
        for metric, (mean, values) in want.items():
            compare(np.array(got[metric]), np.array(mean), said + metric, 1e-12)
            compare(each[metric], values, said + metric + " of each row", 1e-12)

    def check_neighbors(self):
        """Compares the nearest rows of a matrix: those of all rows with NumPy, and the rest with these."""
        tensor, W = "weight", getattr(self, "W", None)
        metrics = ["cosine", "dot", "entry"]
        if W is None:
            matrices = [name for name in self.model.tensors if not name.endswith("bias")]
            if not matrices:
                return
            tensor, metrics = str(self.random.choice(matrices)), ["cosine", "dot"]
            W = self.weights[tensor]
        elif tensor not in self.model.tensors:
            return
        metric = str(self.random.choice(metrics))
        queries = self.random.integers(0, len(W), self.random.integers(1, 6))
        want, size = W[queries] @ W.T, abs(W[queries]) @ abs(W).T
        if metric == "cosine":
            norm = np.outer(np.linalg.norm(W[queries], axis=1), np.linalg.norm(W, axis=1))
            want, size = (np.divide(v, norm, out=np.zeros_like(v), where=norm != 0) for v in (want, size))
        if metric == "entry":
            want = size = W[queries]
        options = {"tensor": tensor, "metric": metric, "devices": self.devices}
        ids, found = self.model.neighbors(queries, len(W), include_self=True, **options)
        assert (np.sort(ids, axis=1) == np.arange(len(W))).all(), "not all rows are neighbours"
        values = np.empty(want.shape, np.float32)
        np.put_along_axis(values, ids.astype(np.int64), found, axis=1)
        ulp = np.spacing(abs(want).astype(np.float32)).astype(np.float64)
        noise = 2.0**-52 * (4 * W.shape[1] + 8)
        if metric == "cosine" and tensor + ".values" in self.model._listed():
            noise += 2.1 * UNIT  # the engine first normalizes the rows of a sparse matrix, and rounds their entries
        wrong, bound = abs(values - want), 0.5000001 * ulp + noise * abs(size)
        assert (wrong <= bound).all(), f"neighbors({metric}) differ by {wrong.max()}"
        choice, allowed = self.choose(len(W))
        include_self = bool(self.random.random() < 0.4)
        k = int(self.random.integers(1, len(W) + 1))
        may = np.tile(allowed, (len(queries), 1))
        if not include_self:
            may[np.arange(len(queries)), queries] = False
        got = self.model.neighbors(queries, k, include_self=include_self, **choice, **options)
        for part, expected, name in zip(got, ranking(values, may, k), ("ids", "similarities"), strict=True):
            compare(part, expected, f"neighbors(k={k}, {metric}, {include_self}, {', '.join(choice)}): {name}")

    def check(self):
        outputs = self.check_values()
        self.check_recommend(outputs)
        self.check_recommend(outputs)
        self.check_evaluate(outputs)
        self.check_some_scores(outputs)
        self.check_neighbors()


def ranking(scores, allowed, k):
    """Returns ids and scores of the k best allowed items of each row, -1 and -inf where no item is left."""
    ids = np.full((len(scores), k), -1, np.int32)
    best = np.full((len(scores), k), -np.inf, np.float32)
    for row, (values, may) in enumerate(zip(scores, np.broadcast_to(allowed, scores.shape), strict=True)):
        candidates = np.flatnonzero(may)
        order = candidates[np.argsort(-values[candidates], kind="stable")][:k]
        ids[row, : len(order)], best[row, : len(order)] = order, values[order]
    return ids, best


def expected_metrics(metrics, ids, held_out, ranked):
    """Returns the mean and the values by row of each metric, see docs/metrics.md; ids are all items in their order."""
    units, targets = ids.shape[1], held_out.sum(axis=1)
    counted = targets > 0
    found = np.take_along_axis(held_out, np.maximum(ids, 0).astype(np.int64), axis=1) & (ids >= 0)
    ranks = np.arange(1, units + 1)
    ideal = np.append(0, np.cumsum(1 / np.log2(1 + ranks)))
    results = {}
    for metric in metrics:
        name, _, cut = metric.partition("@")
        k = int(cut)
        top = found[:, :k]
        hits, most, at = top.sum(axis=1), np.minimum(k, targets), ranks[:k]
        with np.errstate(invalid="ignore", divide="ignore"):  # rows without targets
            values = {
                "precision": hits / k,
                "recall": hits / targets,
                "truncated_recall": hits / most,
                "ndcg": (top / np.log2(1 + at)).sum(axis=1) / ideal[most],
                "hit_rate": (hits > 0) * 1.0,
                "mrr": np.where(hits > 0, 1 / (1 + top.argmax(axis=1)), 0),
                "map": (top * np.cumsum(top, axis=1) / at).sum(axis=1) / most,
                "coverage": np.full(len(ids), np.nan),
            }[name]
        values[~counted] = np.nan
        mean = values[counted].mean() if counted.any() else np.nan
        if name == "coverage":
            distinct = np.setdiff1d(ids[counted, :k], -1)
            mean = len(distinct) / ranked if counted.any() and ranked else np.nan
        results[metric] = mean, values
    return results


def compare(got, want, what, tolerance=0.0):
    """Raises an error that shows the first difference."""
    assert got.shape == want.shape, f"{what}: shape {got.shape} instead of {want.shape}"
    with np.errstate(invalid="ignore"):
        same = (got == want) | (abs(got - want) <= tolerance) | (np.isnan(got) & np.isnan(want))
    if not same.all():
        place = tuple(np.argwhere(~same)[0])
        raise AssertionError(f"{what}: {got[place]} instead of {want[place]} at {[int(n) for n in place]}")


def run(seed):
    """Runs the case of a seed; the error says how to run it alone."""
    label = "not made"
    try:
        case = Case(seed)
        label = case.label
        case.check()
    except Exception as error:
        error.args = (f"case {seed} ({label}): {error}\nrun it alone: python tests/python/oracle.py {seed}",)
        raise


if __name__ == "__main__":
    warnings.simplefilter("ignore", UserWarning)  # all held-out items of a case may be excluded
    first, count = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    failed = 0
    for number in range(first, first + count):
        try:
            run(number)
        except Exception:
            failed += 1
            traceback.print_exc()
            if failed == 10:
                sys.exit("ten cases have failed")
    print(f"{count:,} cases, {failed} failed")
    sys.exit(failed > 0)
