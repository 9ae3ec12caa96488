"""The functions that programs of DSSTNE call, and its defects, with the test that shows what they are here.

The form is that of dsstne_names.py. `Get/SetBatch` stands for GetBatch and SetBatch.
"""

from dsstne_names import DATA, NETWORK, ORACLE, READ, RULES, Shown, absent, shown

SEED = "tests/python/test_fit.py::test_the_seed_changes_the_result_and_repeats_it"
PLAN = "tests/python/test_trainer.py::test_the_plan_lists_parts_and_operations"
VALUES = "tests/python/test_encoders.py::test_an_encoder_gives_the_values_of_its_layers"
TENSORS = "tests/python/test_model.py::test_tensors_are_copied_out_and_in"
DEFINITION = "tests/python/test_dsstne_files.py::test_a_network_of_ours_has_all_defaults"
JAVA = "tests/abi/test_abi_program.py::test_a_java_program_searches_vectors"
METRICS = "tests/python/test_evaluate.py::test_metrics_equal_the_reference"
CHECKPOINT = "tests/python/test_checkpoints.py::test_fit_goes_on_with_the_same_bits"
DENSE = "tests/python/test_dense.py::test_training_on_dense_data_has_the_bits_of_sparse_data"
MAPPED = "tests/python/test_mapped_file.py::test_training_from_a_file_has_the_bits_of_training_from_memory"
HIDDEN = "buffers and memory of devices belong to the engine"

# Of Python and of the C++ engine, which have the same names.
FUNCTIONS = {
    **shown("tests/python/test_import.py::test_first_use_loads_the_library", "Startup getGpu"),
    **absent("there is no state of the process to end", "Shutdown"),
    **shown(SEED, "SetRandomSeed Get/SetCDLRandomSeed"),
    **shown("tests/python/test_precision.py::test_a_trainer_takes_the_precision_too", "SetFastMath"),
    **shown(PLAN, "GetMemoryUsage GetBufferSize"),
    **absent("Python opens files, and NumPy transposes", "OpenFile CloseFile Transpose"),
    **absent(HIDDEN, "CreateFloatGpuBuffer DeleteFloatGpuBuffer CreateUnsignedGpuBuffer DeleteUnsignedGpuBuffer"),
    **absent("devices exchange what a run needs", "P2P_Bcast P2P_Allreduce"),
    **shown("tests/python/test_trainer.py::test_progress_is_told_while_a_run_goes_on", "Get/SetDebugLevel"),
    # Objects of CDL files.
    **absent("arguments take the place of a CDL object", "CreateCDLFromJSON CreateCDLFromDefaults DeleteCDL"),
    **shown("tests/python/test_fit.py::test_history_has_a_record_per_epoch", "Get/SetCDLEpochs"),
    **shown(ORACLE, "Get/SetCDLBatch Get/SetCDLAlpha Get/SetCDLAlphaInterval Get/SetCDLAlphaMultiplier"),
    **shown(ORACLE, "Get/SetCDLLambda Get/SetCDLMu Get/SetCDLOptimizer Get/SetCDLShuffleIndexes"),
    **shown(CHECKPOINT, "Get/SetCDLCheckpointInterval Get/SetCDLCheckpointFileName"),
    **absent("the call says it", "Get/SetCDLMode"),
    **absent("paths are arguments", "Get/SetCDLNetworkFileName Get/SetCDLDataFileName Get/SetCDLResultsFileName"),
    # Data sets.
    **shown(DATA, "LoadNetCDF"),
    **shown(
        "tests/python/test_dense.py::test_training_on_dense_data_has_the_bits_of_sparse_data", "CreateDenseDataSet"
    ),
    **shown("tests/python/test_indexed.py::test_arrays_are_viewed_as_they_are_stored", "CreateSparseDataSet"),
    **shown("tests/python/test_dataset.py::test_using_a_closed_dataset_is_an_error", "DeleteDataSet"),
    **shown("tests/python/test_netcdf_data.py::test_several_data_sets_of_a_file", "GetDataSetName"),
    **shown(
        "tests/python/test_mapped_file.py::test_training_from_a_file_has_the_bits_of_training_from_memory",
        "Get/SetStreaming",
    ),
    **absent("empty in DSSTNE", "LoadImageData LoadCSVData LoadJSONData LoadAudioData"),
    # Networks.
    **shown(
        "tests/python/test_dsstne_files.py::test_a_file_a_text_a_mapping_and_a_network_are_the_same",
        "LoadNeuralNetworkJSON",
    ),
    **shown(NETWORK, "LoadNeuralNetworkNetCDF"),
    **absent("only declared in DSSTNE", "ImportAutoEncoder"),
    **shown("tests/python/test_model.py::test_a_closed_model_says_so", "DeleteNNNetwork"),
    **shown("tests/python/test_netcdf_networks.py::test_a_saved_network_comes_back", "SaveNetCDF"),
    **shown("tests/python/test_dataset.py::test_a_dataset_serves_many_calls", "LoadDataSets"),
    **shown(
        "tests/python/test_dataset.py::test_closing_is_refused_while_a_trainer_is_bound_and_succeeds_afterwards",
        "ClearDataSets",
    ),
    **shown("tests/dsstne/test_oracle.py::test_the_initial_weights_are_those_of_the_file", "Randomize"),
    **shown("tests/python/test_gradients.py::test_gradients_agree_with_differences", "Validate"),
    **shown(ORACLE, "Train SetTrainingMode"),
    **shown("tests/python/test_checkpoints.py::test_a_run_goes_on_with_the_same_bits", "SetClearVelocity"),
    **shown("tests/python/test_model.py::test_predict_is_the_network", "PredictBatch"),
    **shown("tests/python/test_model.py::test_recommend_equals_sorting_all_scores", "CalculateTopK"),
    **shown(METRICS, "PredictTopK CalculateMRR"),
    **shown(VALUES, "SaveBatch DumpBatch SaveLayer DumpLayer GetUnitBuffer"),
    **shown(TENSORS, "SaveWeights GetWeight GetWeightBuffer CopyWeights Get/SetWeights Get/SetBiases"),
    **shown("tests/python/test_locked.py::test_a_trainer_locks_and_the_next_one_frees", "LockWeights UnlockWeights"),
    **shown("tests/python/test_model.py::test_batch_size_does_not_change_a_bit", "Get/SetBatch"),
    **shown("tests/python/test_model.py::test_rows_choose_examples_in_any_order", "Get/SetPosition"),
    **shown("tests/python/test_dsstne_files.py::test_fit_trains_as_the_file_says", "Get/SetShuffleIndices SetDecay"),
    **shown("tests/python/test_sparsity.py::test_units_are_off_for_most_rows", "Get/SetSparsenessPenalty"),
    **shown(READ + "OnlySparseInputsAreDenoised", "Get/SetDenoising"),
    **shown(ORACLE, "Get/SetDeltaBoost Get/SetSMCE"),
    **shown(CHECKPOINT, "Get/SetCheckpoint"),
    **absent("no layer here depends on their numbers", "Get/SetLRN Get/SetMaxout"),
    **shown("tests/python/test_dataset.py::test_shape_entries_and_range_are_told", "GetExamples"),
    **shown(DEFINITION, "GetName GetLayer GetLayers"),
    **absent(HIDDEN, "GetDeltaBuffer GetScratchBuffer GetP2PSendBuffer GetP2PReceiveBuffer GetP2PCPUBuffer"),
    **absent(HIDDEN, "GetPeerBuffer GetPeerBackBuffer"),
    # Layers and weights.
    **shown(DEFINITION, "GetLayerName GetKind GetType GetAttributes GetDataSetBase GetNumDimensions GetDimensions"),
    **shown("tests/python/test_devices.py::test_the_plan_tells_what_each_device_holds", "GetLocalDimensions"),
    **absent("there is no convolution", "GetKernelDimensions GetKernelStride"),
    **shown(VALUES, "Get/SetUnits"),
    **absent("gradients are never whole in memory", "Get/SetDeltas"),
    **shown("tests/python/test_weight_norm.py::test_no_unit_is_longer_than_its_norm", "SetNorm"),
}

# Of Java and of the C++ runtime that it calls.
JAVA_NAMES = shown(
    JAVA,
    "Dsstne.load DsstneContext NetworkConfig NNNetwork.predict initInputLayerDataSets DenseNNDataSet "
    "DenseWeightedNNDataSet SparseNNDataSet SparseWeightedNNDataSet OutputNNDataSet TopKOutput",
)

# ---- what DSSTNE accepts and does not do, and its defects; the titles are ours ----

UNFINISHED = {
    "Activations without kernels": Shown("tests/python/test_fit.py::test_every_activation_works_in_a_deep_network"),
    "Cross entropy with other activations than sigmoid and soft-max": Shown(RULES),
    "Margins with other activations than sigmoid and soft-max": Shown(RULES),
    "Data margins with soft-max": Shown(READ + "LossesAreTranslatedWithTheActivationOfTheOutput"),
    "Data margins of boolean data": Shown(ORACLE),
    "Hinge on sparse data": Shown("tests/python/test_fit.py::test_with_hinge_an_absent_item_has_the_target_minus_one"),
    "L1 with soft-max": Shown(RULES),
    "Pooling functions without code": Shown(RULES),
    "Convolution and pooling on several GPUs": Shown(
        "engine/train/devices_test.go::TestOneStepOnSeveralDevicesIsThatOfOneButForTheOrderOfSums"
    ),
    "Types of values that end the program": Shown(
        "tests/python/test_netcdf_data.py::test_a_bad_file_is_refused_with_its_name_and_the_place"
    ),
    "Target layers, and recurrent, mutable or compressed data": Shown(RULES),
    "Parts of `predict` that are missing": Shown(
        "tests/python/test_command_predict.py::test_a_hidden_layer_gives_numbers_of_units"
    ),
}

DEFECTS = {
    "Wrong items for lists of 26 or more": Shown(
        "tests/python/test_model.py::test_recommend_equals_sorting_all_scores"
    ),
    "A filter of timestamps": Shown(
        "tests/python/test_command_predict.py::test_a_filter_leaves_out_what_it_lists_whatever_the_values"
    ),
    "Gradients of analog sparse inputs": Shown(ORACLE),
    "Stale data on several GPUs": Shown("engine/train/defects_test.go::TestRowsWithoutEntriesInAShardAddNothingStale"),
    "Denoising that scales biases": Shown(
        "engine/train/defects_test.go::TestDenoisingLeavesBiasesAloneOnAnyNumberOfDevices"
    ),
    "Initial weights and slopes": Shown(READ + "InitialWeightsAreThoseThatWereMeant"),
    "Batch normalisation of the last batch": Shown(
        "tests/python/test_batch_norm.py::test_predictions_use_the_running_moments"
    ),
    "Dropout without a mask": Shown("tests/python/test_gradients.py::test_gradients_agree_with_differences"),
    "Rows that do not belong together": Shown(
        "tests/python/test_command_generate.py::"
        "test_rows_stand_at_the_numbers_of_their_samples_and_absent_ones_are_empty"
    ),
    "Losses that differ from their gradients": Shown(
        "tests/python/test_gradients.py::test_gradients_agree_with_differences"
    ),
    "Penalties that are lost": Shown(NETWORK),
    "The first steps of Adam": Shown(ORACLE),
    "Data sets that Python creates": Shown(
        "tests/python/test_dataset.py::test_arrays_have_the_same_address_on_both_sides"
    ),
}
