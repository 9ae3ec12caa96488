"""Ray Tune with dsstne, through its function API.

    pip install "ray[tune]" dsstne

A trial trains for an epoch at a time. Its checkpoint is a file, from which Ray starts it again if its process or its
machine dies, with the same result. The data are put into Ray's object store once.
"""

import tempfile

import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler

import dsstne


def train(config, inputs, held_out):
    """Trains until Ray ends the trial."""
    checkpoint = tune.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            trainer = dsstne.Trainer.resume(f"{folder}/run.checkpoint", inputs)
    else:
        model = dsstne.fit(inputs, hidden=config["hidden"], epochs=0, progress=False)
        trainer = dsstne.Trainer(model, inputs, learning_rate=config["learning_rate"])
    with trainer:
        while True:
            trainer.run(epochs=1)
            value = dsstne.evaluate(trainer.model, inputs, held_out, "ndcg@20", exclude="input")["ndcg@20"]
            with tempfile.TemporaryDirectory() as folder:
                trainer.save(f"{folder}/run.checkpoint")
                tune.report({"ndcg": value}, checkpoint=tune.Checkpoint.from_directory(folder))


if __name__ == "__main__":
    inputs, held_out = dsstne.datasets.hold_out(dsstne.datasets.load_debian().matrix, seed=0)
    ray.init(num_cpus=2, include_dashboard=False)
    with tempfile.TemporaryDirectory() as folder:
        tuner = tune.Tuner(
            tune.with_resources(tune.with_parameters(train, inputs=inputs, held_out=held_out), {"cpu": 1}),
            param_space={"hidden": tune.choice([16, 32]), "learning_rate": tune.loguniform(1e-3, 1e-2)},
            tune_config=tune.TuneConfig(
                metric="ndcg", mode="max", num_samples=4, scheduler=ASHAScheduler(max_t=4, grace_period=1)
            ),
            run_config=tune.RunConfig(
                storage_path=folder, verbose=0, failure_config=tune.FailureConfig(max_failures=2)
            ),
        )
        best = tuner.fit().get_best_result()
        print(
            "best:",
            best.config,
            f"ndcg@20 {best.metrics['ndcg']:.4f} after {best.metrics['training_iteration']} epochs",
        )
        with best.checkpoint.as_directory() as kept:
            model = dsstne.load(f"{kept}/run.checkpoint")
    print(model.recommend(inputs[:1], k=3)[0].shape)
