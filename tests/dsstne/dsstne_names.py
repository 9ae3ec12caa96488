"""Every name of DSSTNE that a user can meet, with the test that shows what it is here.

A group has names in the order of DSSTNE's own documentation or code. `shown(test, names)` says which test shows what
becomes of some names: a test of pytest as `file::function`, or one of Go. `absent(reason, names)` is for those that
have no counterpart, or none that a test could show. test_guide.py compares the names with the tables of the guide,
docs/dsstne*.md, and with what reads them.
"""

from typing import NamedTuple


class Shown(NamedTuple):
    """Where a test shows what a name is."""

    test: str


class Absent(NamedTuple):
    """Why no test does."""

    reason: str


def shown(test, names):
    return dict.fromkeys(names.split(), Shown(test))


def absent(reason, names):
    return dict.fromkeys(names.split(), Absent(reason))


ORACLE = "tests/dsstne/test_oracle.py::test_the_weights_are_those_of_the_oracle"
READ, RULES = "engine/dsstnejson/read_test.go::Test", "engine/dsstnejson/rules_test.go::TestRulesAreEnforced"
NETWORK = "tests/python/test_netcdf_networks.py::test_everything_that_training_needs_is_read"
SAVED = "tests/python/test_netcdf_networks.py::test_a_saved_network_comes_back"
BAD_NETWORK = "tests/python/test_netcdf_bad_networks.py::test_a_bad_file_is_refused_with_its_name_and_the_place"
BAD_DATA = "tests/python/test_netcdf_data.py::test_a_bad_file_is_refused_with_its_name_and_the_place"
DATA = "tests/python/test_netcdf_data.py::test_every_combination_of_attributes"
GENERATE = "tests/python/test_command_generate.py::test_"
TRAIN = "tests/python/test_command_train.py::test_"
PREDICT = "tests/python/test_command_predict.py::test_"
KNN = "tests/python/test_command_knn.py::test_"
ENCODER = "tests/python/test_command_encoder.py::test_"

# ---- keys ----

NETWORK_KEYS = {
    **shown(READ + "ValuesWithoutEffectAreTaken", "Version Kind WeightsData LRN MaxOut"),
    **shown(RULES, "LocalResponseNormalization"),
    **shown(ORACLE, "DeltaBoost ScaledMarginalCrossEntropy DataScaledMarginalCrossEntropy ErrorFunction Layers"),
    **shown(READ + "TheBenchmarkIsTranslated", "Name Denoising"),
    **shown(READ + "ThePenaltyOfSparseUnitsIsThatOfTheLayerOrOfTheNetwork", "SparsenessPenalty"),
    **shown(READ + "TheConfigHasWhatIsSaidAboutTrainingAndData", "ShuffleIndices Decay"),
    **shown(ORACLE, "RELUSlope ELUAlpha"),
    **shown(READ + "TheConstantsOfSELUMayBeGiven", "SELULambda"),
    **shown(RULES, "Slope"),
}

LAYER_KEYS = {
    **shown(READ + "KindsAndNamesFollowFromTheOrder", "Kind Name"),
    **shown(RULES, "Type Kernel KernelStride"),
    **shown(READ + "OnlySparseInputsAreDenoised", "Sparse"),
    **shown(READ + "TheProductOfAListIsTheSize", "N"),
    **shown(READ + "TheBenchmarkIsTranslated", "pDropout"),
    **shown("tests/python/test_dsstne_files.py::test_data_are_found_by_the_names_of_data_sets_too", "DataSet"),
    **shown(READ + "LayersMayStandInAnyOrder", "Source"),
    **shown(READ + "BatchNormalizationIsOurs", "BatchNormalization"),
    **shown(READ + "ThePenaltyOfSparseUnitsIsThatOfTheLayerOrOfTheNetwork", "SparsenessPenalty"),
    **shown(READ + "PoolingLayersAndSkipsAreOurs", "Function Skip"),
    **shown(READ + "ActivationsAreTranslated", "Activation"),
    **shown(ORACLE, "RELUSlope ELUAlpha"),
    **shown(RULES, "Slope SELULambda"),
    **shown(READ + "LayersHaveACapOnTheirWeights", "WeightNorm"),
    **shown(READ + "LayersHaveSoftMaxAndACapOnTheirGradients", "DeltaNorm"),
    **shown(READ + "InitialWeightsAreThoseThatWereMeant", "WeightInit"),
    **shown(READ + "SharesAreBetweenLayersOfAllKinds", "SharedWeights"),
}

NESTED_KEYS = {
    **shown(ORACLE, "SparsenessPenalty.p SparsenessPenalty.beta DeltaBoost.one DeltaBoost.zero"),
    **shown(READ + "TheBenchmarkIsTranslated", "Denoising.p"),
    **shown(ORACLE, "ScaledMarginalCrossEntropy.oneScale ScaledMarginalCrossEntropy.zeroScale"),
    **shown(ORACLE, "ScaledMarginalCrossEntropy.oneTarget ScaledMarginalCrossEntropy.zeroTarget"),
    **shown(READ + "ValuesWithoutEffectAreTaken", "LRN.k LRN.n LRN.alpha LRN.beta MaxOut.k"),
    **shown(READ + "InitialWeightsAreThoseThatWereMeant", "WeightInit.Scheme WeightInit.Scale WeightInit.Bias"),
    **shown(READ + "SharesAreBetweenLayersOfAllKinds", "SharedWeights.InputLayer SharedWeights.SourceInputLayer"),
    **shown(READ + "SharesAreBetweenLayersOfAllKinds", "SharedWeights.SourceOutputLayer SharedWeights.Transposed"),
}

# Keys that documentation and older files have, and that DSSTNE's program refuses.
REFUSED_KEYS = {
    **shown(RULES, "RepetitionDecay L1Penalty BiasInit KernelPadding Nx Ny Nz Nw Attributes Recurrent WeightData"),
    **shown(RULES, "TrainingParameters"),
}

CDL_KEYS = {
    **shown(ENCODER + "it_trains_as_the_file_says", "Network Data TrainingParameters.Epochs"),
    **shown(ENCODER + "it_trains_as_the_file_says", "TrainingParameters.Alpha TrainingParameters.Optimizer"),
    **shown(ENCODER + "it_trains_as_the_file_says", "TrainingParameters.Mu TrainingParameters.Lambda"),
    **shown(ENCODER + "it_trains_as_the_file_says", "TrainingParameters.AlphaInterval"),
    **shown(ENCODER + "it_trains_as_the_file_says", "TrainingParameters.AlphaMultiplier"),
    **shown(ENCODER + "validate_compares_gradients", "Command"),
    **shown(ENCODER + "networks_of_epochs_have_the_name_of_the_file", "TrainingParameters.CheckpointInterval"),
    **shown(ENCODER + "networks_of_epochs_have_the_name_of_the_file", "TrainingParameters.CheckpointName"),
    **shown(ENCODER + "the_other_keys_of_a_training", "Version RandomSeed TrainingParameters.Results"),
    **shown(ENCODER + "it_trains_as_the_file_says", "MiniBatch"),
    **shown(ENCODER + "shuffle_indices_of_the_cdl_file_takes_the_place_of_that_of_the_network", "ShuffleIndices"),
    **shown(ENCODER + "predict_prints_the_metrics_of_ten_lengths", "PredictionParameters"),
}

# ---- flags of DSSTNE's commands; which of them it lacks, the tables say ----

FLAGS = {
    "generateNetCDF": {
        **shown(GENERATE + "a_new_index_numbers_features_and_samples_as_they_appear", "-d -i -o -f -c"),
        **shown(GENERATE + "rows_stand_at_the_numbers_of_their_samples_and_absent_ones_are_empty", "-s"),
        **shown(GENERATE + "an_index_of_features_is_read_or_extended", "-m"),
        **shown(GENERATE + "analog_keeps_the_values", "-t"),
    },
    "train": {
        **shown(TRAIN + "it_trains_as_dsstne_does_by_default", "-c -i -o -b -e -alpha -lambda -lambda1"),
        **shown(TRAIN + "an_existing_network_stays", "-n"),
        **shown(TRAIN + "d_names_the_data_set_where_a_file_holds_several", "-d"),
        **shown(TRAIN + "flags_of_the_optimizer", "-mu -mu1"),
    },
    "predict": {
        **shown(PREDICT + "the_walk_through_of_dsstne", "-d -n -r -i -o -s -k"),
        **shown(PREDICT + "a_filter_leaves_out_what_it_lists_whatever_the_values", "-f"),
        **shown(PREDICT + "lines_stand_in_the_order_of_the_samples_whatever_the_batch", "-b"),
        **shown(PREDICT + "a_hidden_layer_gives_numbers_of_units", "-l"),
        **shown(PREDICT + "formats_of_a_score", "-p"),
    },
    "knn": {  # KnnSearch
        **shown(KNN + "the_text_is_that_of_knn_search", "--output-keys-only --score-precision --id-score-sep"),
        **shown(KNN + "the_neighbours_are_those_of_brute_force", "--input-files --output-file --k --batch-size"),
        **shown(KNN + "files_are_one_collection_however_they_are_given", "--data-files"),
        **shown(KNN + "what_is_wrong_is_said_and_nothing_is_written", "--data-type"),
        **shown(KNN + "delimiters_are_read_and_written", "--key-val-delim --vec-delim"),
        **shown(KNN + "the_speed_is_reported_after_as_many_batches", "--report-interval"),
    },
}

# ---- what files hold; <n> and <j> are numbers ----

DATA_FIELDS = {
    **shown("tests/python/test_netcdf_data.py::test_several_data_sets_of_a_file", "datasets name<n>"),
    **shown(DATA, "attributes<n> examplesDim<n> uniqueExamplesDim<n> sparseDataDim<n> dataDim<n> sparseIndex<n>"),
    **shown(DATA, "sparseData<n> data<n> index<n> dataWeight<n>"),
    **shown(BAD_DATA, "kind<n>"),
    **shown("tests/python/test_netcdf_data.py::test_every_type_of_values", "dataType<n>"),
    **shown(
        "tests/python/test_netcdf_data.py::test_two_and_three_dimensions_are_one_row",
        "dimensions<n> width<n> height<n> length<n>",
    ),
    **shown("tests/python/test_netcdf_data.py::test_rows_may_overlap_and_leave_gaps", "sparseStart<n> sparseEnd<n>"),
    **shown("tests/python/test_netcdf_data.py::test_columns_cuts_the_names", "indToFeature<n>"),
    **shown("tests/python/test_netcdf_writing.py::test_a_written_file_is_what_dsstne_reads", "indToSample<n>"),
}

NETWORK_ATTRIBUTES = {
    **shown(BAD_NETWORK, "version"),
    **shown(NETWORK, "name layers weights errorFunction kind ShuffleIndices decay bSparsenessPenalty"),
    **shown(NETWORK, "sparsenessPenalty_p sparsenessPenalty_beta bDenoising denoising_p SMCE_oneScale SMCE_zeroScale"),
    **shown(NETWORK, "SMCE_oneTarget SMCE_zeroTarget"),
    **shown(SAVED, "deltaBoost_one deltaBoost_zero"),
    **absent("no layer here depends on it", "maxout_k LRN_k LRN_n LRN_alpha LRN_beta"),
    **absent("checkpoints are options of a run", "checkpoint_name checkpoint_interval checkpoint_epochs"),
}

LAYER_ATTRIBUTES = {
    **shown(NETWORK, "name kind type dataSet Nx pDropout weightInit weightInitScale biasInit weightNorm deltaNorm"),
    **shown(NETWORK, "activation sparsenessPenalty_p sparsenessPenalty_beta RELUSlope attributes"),
    **shown(NETWORK, "sources source<j> skips skip<j>"),
    **shown("tests/python/test_netcdf_networks.py::test_pooling_layers_have_no_weights", "poolingfunction"),
    **shown("tests/python/test_netcdf_networks.py::test_activations_are_those_that_dsstne_computes", "ELUAlpha"),
    **shown(
        BAD_NETWORK,
        "SELULambda",
    ),
    **shown("tests/python/test_netcdf_networks.py::test_the_units_of_four_axes_are_one_layer", "Ny Nz Nw"),
    **absent("the sizes say it", "dimensions"),
    **absent("there is no convolution", "kernelX kernelY kernelZ kernelDimensions"),
    **absent("there is no convolution", "kernelStrideX kernelStrideY kernelStrideZ"),
    **absent("there is no convolution", "kernelPaddingX kernelPaddingY kernelPaddingZ"),
    **shown(
        "tests/python/test_netcdf_networks.py::test_batch_normalisation_is_that_of_the_file",
        "bnDim scaleBN biasBN runningMeanBN runningVarianceBN",
    ),
}

WEIGHT_ATTRIBUTES = {
    **shown(NETWORK, "inputLayer outputLayer norm"),
    **absent("the sizes of the layers say it", "width height length depth breadth"),
    **shown(
        "tests/python/test_netcdf_networks.py::test_shared_weights",
        "bShared bTransposed sourceInputLayer sourceOutputLayer",
    ),
    **shown("tests/python/test_netcdf_networks.py::test_locked_weights_are_written_and_come_back", "bLocked"),
    **shown(
        "tests/python/test_netcdf_networks.py::test_an_autoencoder_computes_what_dsstne_did",
        "weights weightDim biasDim",
    ),
    **shown("tests/python/test_netcdf_networks.py::test_several_sources_have_one_bias", "bias"),
}

# What the library writes beside that, and DSSTNE does not look up.
OWN_FIELDS = {
    *("columns<n>", "featuresDigest<n>", "samplesDigest<n>"),  # of data sets
    *("itemNames", "layer<n>_columns", "layer<n>_featuresDigest"),  # of networks
}
