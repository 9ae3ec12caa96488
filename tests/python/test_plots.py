import math
import subprocess
import sys

import pytest

from dsstne.errors import InvalidArgumentError

matplotlib = pytest.importorskip("matplotlib")

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
