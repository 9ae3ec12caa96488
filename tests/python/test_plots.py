import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from matrices import blocks

import dsstne
from dsstne._tables import Profile
from dsstne.errors import InvalidArgumentError
from dsstne.report import Report, table_row

matplotlib = pytest.importorskip("matplotlib")

from matplotlib.figure import Figure  # noqa: E402

from dsstne import plots  # noqa: E402
from dsstne.plots import learning_curve  # noqa: E402

HISTORY = [
    {
        "epoch": epoch,
        "step": 34 * epoch,
        "loss": 30 - epoch,
        "seconds": 0.5,
        "examples_per_second": 1e4,
        "recall@20": 0.1 * epoch,
        "ndcg@20": 0.1 * epoch - 0.001,
    }
    for epoch in range(1, 6)
]


def labels(ax):
    return [text.get_text() for text in ax.figure.axes[-1].texts]


def test_a_picture_is_saved(tmp_path):
    path = tmp_path / "curve.png"
    learning_curve(HISTORY, path=path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_loss_and_metrics_are_drawn_on_axes_of_their_own(tmp_path):
    ax = learning_curve(HISTORY, path=tmp_path / "curve.png")
    assert list(ax.lines[0].get_ydata()) == [29, 28, 27, 26, 25]
    assert len(ax.figure.axes[-1].lines) == 2


def test_only_the_metrics_asked_for_are_drawn(tmp_path):
    ax = learning_curve(HISTORY, metrics=["ndcg@20"], path=tmp_path / "curve.png")
    assert labels(ax) == ["ndcg@20  0.499"]


def test_the_baseline_is_a_dashed_line_with_its_value(tmp_path):
    ax = learning_curve(HISTORY, baseline={"recall@20": 0.32, "mrr@5": 0.1}, path=tmp_path / "curve.png")
    assert "popularity  0.320" in labels(ax)
    dashed = [line for line in ax.figure.axes[-1].lines if line.is_dashed()]
    assert [line.get_ydata()[0] for line in dashed] == [0.32]


def test_labels_of_close_curves_do_not_cover_each_other(tmp_path):
    ax = learning_curve(HISTORY, path=tmp_path / "curve.png")
    figure = ax.figure
    figure.canvas.draw()
    low, high = sorted((t.get_window_extent() for t in figure.axes[-1].texts), key=lambda box: box.y0)
    assert low.y1 <= high.y0


def test_a_model_is_as_good_as_its_history(tmp_path):
    class Model:
        history = HISTORY

    assert len(learning_curve(Model(), path=tmp_path / "curve.png").lines) == 1


def test_epochs_without_a_metric_and_losses_that_are_not_finite_are_gaps(tmp_path):
    history = [{"epoch": 1, "loss": math.nan}, {"epoch": 2, "loss": 3.0, "recall@20": 0.5}]
    ax = learning_curve(history, path=tmp_path / "curve.png")
    assert list(ax.lines[0].get_xdata()) == [2]


def test_given_axes_are_drawn_on():
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    assert learning_curve(HISTORY, ax=ax) is ax


def test_an_empty_history_is_refused():
    with pytest.raises(InvalidArgumentError, match="the history is empty"):
        learning_curve([])


def test_a_metric_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(InvalidArgumentError, match=r"no metric 'recall@5'; it has recall@20, ndcg@20"):
        learning_curve(HISTORY, metrics=["recall@5"])


def test_without_matplotlib_the_error_says_how_to_install_it():
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.figure'] = None\n"
        "from dsstne.plots import learning_curve\n"
        "learning_curve([{'epoch': 1, 'loss': 1.0}], path='unused.png')"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ImportError: dsstne.plots needs matplotlib: pip install dsstne[plots]" in result.stderr


# ---- models compared, popularity, items, searches, profiles ----


@pytest.fixture(scope="module")
def held_out(X):
    return scipy.sparse.csr_array(blocks(seed=1).toarray() * (X.toarray() == 0))


@pytest.fixture(scope="module")
def models(X, model):
    return {"network": model, "item_knn": dsstne.item_knn(X, progress=False), "popularity": dsstne.popularity(X)}


@pytest.fixture(scope="module")
def compared(models, X, held_out):
    return dsstne.compare(models, X, held_out, ["ndcg@5", "recall@5"], resamples=500)


def texts(ax):
    return [text.get_text() for text in ax.texts]


def boxes(ax):
    ax.figure.canvas.draw()
    return [text.get_window_extent() for text in ax.texts]


def test_a_metric_is_drawn_over_the_length_of_the_list_for_each_model(models, X, held_out):
    ax = plots.metric_at_k(models, X, held_out, "recall", ks=[10, 1, 5], ax=Figure().add_subplot())
    for line, model in zip(ax.lines, models.values(), strict=True):
        expected = dsstne.evaluate(model, X, held_out, ["recall@1", "recall@5", "recall@10"])
        assert list(line.get_xdata()) == [1, 5, 10]
        assert list(line.get_ydata()) == pytest.approx(list(expected.values()))
    assert [text.split()[0] for text in texts(ax)] == list(models)


def test_lengths_of_the_list_end_at_the_number_of_items(models, X, held_out):
    ax = plots.metric_at_k(models, X, held_out, ax=Figure().add_subplot())
    assert ax.lines[0].get_xdata()[-1] == 50  # of 60 items
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "2", "5", "10", "20", "50"]


def test_labels_of_close_models_do_not_cover_each_other(models, X, held_out):
    many = {f"model {number}": models["item_knn"] for number in range(5)}
    low_to_high = sorted(
        boxes(plots.metric_at_k(many, X, held_out, ax=plots._style.new_axes(False))), key=lambda b: b.y0
    )
    assert all(low.y1 <= high.y0 for low, high in itertools.pairwise(low_to_high))


def test_a_comparison_has_the_best_model_on_top_and_whiskers_of_the_differences(compared):
    ax = plots.comparison(compared, ax=Figure().add_subplot())
    means = {one["model"]: one["mean"] for one in compared["means"] if one["metric"] == "ndcg@5"}
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == sorted(means, key=means.get)
    whiskers = {line.get_ydata()[0]: list(line.get_xdata()) for line in ax.lines[1:] if len(line.get_xdata()) == 2}
    for one in compared["differences"]:
        if one["metric"] == "ndcg@5" and names[-1] in (one["model"], one["other"]):
            sign = 1 if one["other"] == names[-1] else -1
            other = one["model"] if sign == 1 else one["other"]
            ends = sorted(means[names[-1]] + sign * one[end] for end in ("low", "high"))
            assert whiskers[names.index(other)] == pytest.approx(ends)


def test_only_significant_differences_are_filled():
    base = np.random.default_rng(0).random(50)
    noise = np.random.default_rng(1).standard_normal(50)
    rows = {"base": base, "better": base + 0.1, "same": base + 0.1 * (noise - noise.mean())}
    result = dsstne.compare({name: {"ndcg@5": values} for name, values in rows.items()}, baseline="base")
    ax = plots.comparison(result, ax=Figure().add_subplot())
    names = [label.get_text() for label in ax.get_yticklabels()]
    faces = {
        names[int(line.get_ydata()[0])]: line.get_markerfacecolor() for line in ax.lines if line.get_marker() == "o"
    }
    assert faces["same"] == "white"
    assert faces["better"] == plots._style.COLOURS[0]


def test_a_comparison_with_another_model_than_was_tested_is_refused(models, X, held_out):
    result = dsstne.compare(models, X, held_out, "ndcg@5", baseline="popularity", resamples=100)
    assert plots.comparison(result, ax=Figure().add_subplot()).get_xlabel().startswith("ndcg@5")
    with pytest.raises(dsstne.NotFoundError, match="does not compare all models with 'network'"):
        plots.comparison(result, baseline="network")
    with pytest.raises(dsstne.NotFoundError, match="no metric 'mrr@5'; it has ndcg@5"):
        plots.comparison(result, metric="mrr@5")


def test_popularity_bias_is_the_share_of_the_most_popular_items(models, X):
    ax = plots.popularity_bias(models, X, k=5, ax=Figure().add_subplot())
    order = np.argsort(-np.bincount(X.indices, minlength=60), kind="stable")
    for line, model in zip(ax.lines, models.values(), strict=True):
        times = np.bincount(model.recommend(X, k=5)[0].ravel(), minlength=60)
        ranks = np.round(line.get_xdata() / 100 * 60).astype(int)
        assert list(line.get_ydata()) == pytest.approx([100 * times[order[:r]].sum() / times.sum() for r in ranks])
        assert f"coverage {100 * (times > 0).mean():.3g} %" in line.get_label()
    assert ranks[0] == 1
    assert ranks[-1] == 60


def test_lists_of_another_library_are_drawn_like_those_of_a_model(models, X):
    ids, _ = models["item_knn"].recommend(X, k=5)
    ax = plots.popularity_bias({"ours": models["item_knn"], "theirs": ids}, X, k=5, ax=Figure().add_subplot())
    assert ax.lines[0].get_ydata().tolist() == ax.lines[1].get_ydata().tolist()


def test_an_item_map_shows_the_principal_components(X, model):
    vectors = np.random.default_rng(0).standard_normal((60, 5))
    ax = plots.embedding_map(vectors, X, labels=0, ax=Figure().add_subplot())
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    left, values, _ = np.linalg.svd(unit - unit.mean(axis=0), full_matrices=False)
    places = ax.collections[0].get_offsets()
    order = np.argsort(np.bincount(X.indices, minlength=60), kind="stable")
    np.testing.assert_allclose(np.abs(places), np.abs((left * values)[order, :2]), atol=1e-9)
    assert ax.get_xlabel() == f"component 1: {100 * values[0] ** 2 / (values**2).sum():.0f} % of the variance"


def test_labels_of_an_item_map_are_those_of_popular_items_and_do_not_cover_each_other(X, model):
    ax = plots.embedding_map(model, X, names=[f"item {i}" for i in range(60)], ax=plots._style.new_axes(False, (8, 6)))
    popular = np.argsort(np.bincount(X.indices, minlength=60), kind="stable")[::-1][:30]
    assert texts(ax)[0] == f"item {popular[0]}"
    assert set(texts(ax)) <= {f"item {i}" for i in popular}
    found = boxes(ax)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(found, 2))


def test_integers_that_a_model_has_as_names_are_labels(X):
    numbered = dsstne.fit(X, hidden=2, epochs=0, items=range(1000, 1060), progress=False)
    ax = plots.embedding_map(numbered, X, ax=Figure().add_subplot())
    most = np.argsort(np.bincount(X.indices, minlength=60), kind="stable")[-1]
    assert texts(ax)[0] == str(1000 + most)


def test_groups_of_an_item_map_have_colours_and_small_ones_are_others(X, model):
    ax = plots.embedding_map(model, X, groups=[f"g{min(i, 9)}" for i in range(60)], ax=Figure().add_subplot())
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["g9", "g0", "g1", "g2", "g3", "g4", "others"]


@pytest.mark.parametrize("make", [lambda X: dsstne.fit(X, hidden=3, epochs=1, tied=True, progress=False),
                                  lambda X: dsstne.factorize(X, factors=3, progress=False)])  # fmt: skip
def test_models_with_other_vectors_of_items_have_maps(X, make):
    assert len(plots.embedding_map(make(X), X, ax=Figure().add_subplot()).collections[0].get_offsets()) == 60


def test_vectors_of_one_number_and_of_zeros_have_a_map(X):
    ax = plots.embedding_map(np.zeros((60, 1)), X, ax=Figure().add_subplot())
    assert not ax.collections[0].get_offsets().any()


def test_bad_vectors_are_refused_in_words(X):
    for vectors, message in (
        (dsstne.popularity(X), "has no vector for each item"),
        (np.ones((59, 2)), "X has 60 columns, but there are 59 vectors"),
        (np.full((60, 2), np.nan), "not finite"),
        ([1, 2], "vectors must be a model or numbers"),
    ):
        with pytest.raises(dsstne.DsstneError, match=message):
            plots.embedding_map(vectors, X)
    with pytest.raises(InvalidArgumentError, match="names has 1 entries, but there are 60 vectors"):
        plots.embedding_map(np.ones((60, 2)), X, names=["a"])


def report(*rows):
    table = [table_row("ndcg@5", model, "", value, rows=count, chosen=chosen) for model, value, count, chosen in rows]
    return Report("ndcg@5", "a tenth", "item_knn", "", 1.0, table, [])


def test_a_search_is_drawn_in_its_order_with_the_best_so_far():
    rows = [("popularity", 0.1, 9, False), ("item_knn", 0.3, 9, False), ("spectral", None, 0, False)]
    rows += [("item_knn", 0.5, 4, False), ("item_knn", 0.4, 9, True), ("rp3beta", 0.2, 9, False)]
    ax = plots.search_results(report(*rows), ax=Figure().add_subplot())
    assert ax.lines[0].get_xydata().tolist() == [[1, 0.1], [2, 0.3], [5, 0.4], [6, 0.4]]
    assert texts(ax) == ["popularity  0.1000", "item_knn  0.4000", "rp3beta  0.2000"]
    hollow = [line.get_xydata().tolist() for line in ax.lines if line.get_markerfacecolor() == "white"]
    assert hollow == [[[4, 0.5]]]
    assert ax.lines[-1].get_xydata().tolist() == [[5, 0.4]]  # the ring
    assert ax.get_xlim()[0] == 0.5  # the first one is number 1


def test_a_search_without_a_model_is_refused():
    with pytest.raises(InvalidArgumentError, match="no model was tried"):
        plots.search_results(report(("spectral", None, 0, False)))


def profiled(count):
    names = ("OutputStep output", "Gather hidden", *(f"Backward h{number}" for number in range(count - 2)))
    operations = [
        {"device": "cpu", "operation": name, "milliseconds": 10.0 / 2**at, "limit": limit, "limit_share": 0.5}
        for at, (name, limit) in enumerate(zip(names, itertools.cycle(["arithmetic", "memory", None])))
    ]
    return Profile(operations=operations, outside={"batch": 7.0}, milliseconds=30.0, steps=3)


def test_a_profile_has_a_bar_for_each_operation_the_longest_first():
    ax = plots.profile(profiled(3), ax=Figure().add_subplot())
    assert [bar.get_width() for bar in ax.patches] == [10, 7, 5, 2.5]
    assert [label.get_text() for label in ax.get_yticklabels()][:2] == ["OutputStep output", "host: batch"]
    assert texts(ax)[0] == "10.000 ms   50 % of arithmetic"
    assert texts(ax)[1] == "7.000 ms"


def test_a_long_profile_ends_in_a_bar_of_the_others():
    ax = plots.profile(profiled(30), ax=Figure().add_subplot())
    assert len(ax.patches) == 14
    assert ax.get_yticklabels()[-1].get_text() == "18 others"
    assert sum(bar.get_width() for bar in ax.patches) == pytest.approx(7 + 20 * (1 - 2.0**-30))


@pytest.mark.parametrize("name", ["comparison", "search_results", "profile"])
def test_what_is_not_a_result_is_refused(name):
    with pytest.raises(InvalidArgumentError, match=r"must be (what|the report)"):
        getattr(plots, name)({"means": []})


@pytest.mark.long
def test_every_plot_is_saved_with_its_title(tmp_path, models, X, held_out, compared):
    for name, arguments in {
        "metric_at_k": (models, X, held_out),
        "comparison": (compared,),
        "popularity_bias": (models, X),
        "embedding_map": (models["network"], X),
        "search_results": (report(("popularity", 0.1, 9, True)),),
        "profile": (profiled(3),),
    }.items():
        ax = getattr(plots, name)(*arguments, title="A $title", path=tmp_path / f"{name}.svg")
        assert ax.get_title(loc="left") == "A $title"
        assert (tmp_path / f"{name}.svg").read_text().startswith("<?xml")
