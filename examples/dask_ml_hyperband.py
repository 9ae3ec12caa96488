"""dask-ml's Hyperband with dsstne.

    pip install "dask-ml==2025.1.0" "dask==2025.1.0" "distributed==2025.1.0" pyarrow dsstne

dask-ml's own code fails with later versions of Dask, for which dsstne.dask.search is there. Candidates travel between
processes as references to files in the store, and the data as numbers of rows of a saved dataset.
"""

import pickle
import tempfile

import dask.array
import distributed
import numpy as np
from dask_ml.model_selection import HyperbandSearchCV

import dsstne
import dsstne.dask

if __name__ == "__main__":
    X = dsstne.datasets.load_debian().matrix[:4000]
    with (
        tempfile.TemporaryDirectory() as folder,  # on a cluster a folder that all workers see
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        dsstne.Dataset(X).save(f"{folder}/x.arrow")
        recommender = dsstne.Recommender("network", hidden=16, store=f"{folder}/store")
        search = HyperbandSearchCV(
            dsstne.dask.RowsOf(recommender, f"{folder}/x.arrow"),
            {
                "estimator__learning_rate": np.geomspace(5e-4, 1e-2, 20),
                "estimator__denoising": np.linspace(0.2, 0.8, 20),
            },
            max_iter=9,
            random_state=0,
            test_size=0.2,
        )
        rows = dask.array.arange(X.shape[0], chunks=500)
        search.fit(rows, rows)  # it wants a y, which is not used
        print(search.best_params_, f"ndcg@20 {search.best_score_:.4f}")
        print(len(search.history_), "results,", len(pickle.dumps(search.best_estimator_)), "bytes a candidate")
