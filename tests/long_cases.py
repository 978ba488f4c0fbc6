"""What `make test` leaves to `make test-all`, and what shows the same subject in `make test`.

The rule: `make test` has one case of each kind (a format, a layout, a vendor, a protocol, a command, an
error, a kill in each direction). More of a kind are `long`: they cost a Spark of their own, or seconds of
CPU, to show again with other values what another test has shown. A test that is long by itself has the
mark where it is defined.

`tests/conftest.py` gives the marks, `tests/test_long_cases.py` holds this table to the truth.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

# Bytes below this length are their own name; gzip's header alone is ten.
_SHORT: Final = 10


def case_name(value: object, argument: str) -> str | None:
    """The name of packed bytes in a case, which every collection gives; None for what pytest names itself.

    What packs them may write the time or chance into them, and xdist refuses workers that collect others.
    """
    is_packed = isinstance(value, bytes) and len(value) >= _SHORT and not value.isascii()
    return argument if is_packed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A test whose cases are long, but for some."""

    test: str
    """`folder/file.py::name`, within `tests/`."""
    cases: tuple[str, ...] = ()
    """The cases that are long; with neither these nor `kept`, all are."""
    kept: tuple[str, ...] = ()
    """The cases that are not, all others being long."""
    shown_by: tuple[str, ...] = ()
    """Tests of `make test` that fail when the subject breaks, where no case of its own remains."""

    def is_long(self, case: str) -> bool:
        """Whether this case, as it is between brackets, is one of them."""
        return case in self.cases if self.cases else case not in self.kept


_PARQUET_MEMORY: Final = "headrace/formats/test_parquet_memory.py::"
_AVRO_LIMITS: Final = "headrace/formats/test_avro_limits.py::"
_START: Final = "integration/test_start_problems.py::"
_SINK: Final = "sink/test_sink_end_to_end.py::"
_LISTENERS: Final = "listeners/test_listeners.py::"
_TASK: Final = "spark/test_task_end_to_end.py::"
_FIRST_START: Final = "ingest/service/test_first_start.py::"
_QUERIES: Final = "spark/frames/test_frames_queries.py::"
_INFERRED: Final = "headrace/formats/converters/test_inferred_column.py::"
_READER: Final = "headrace/kafka/consumer/test_partition_reader.py::"


def _archives(**names: str) -> tuple[str, ...]:
    """The names of archives, given by vendor with blanks between them."""
    return tuple(f"{vendor}-{name}" for vendor, of_vendor in names.items() for name in of_vendor.split())


# Of the archives of `tests/headrace/vendors/archive.py`: whatever branch of the product any of them runs in
# the tests that name these, these run too (by coverage with a context for each case).
_READ: Final = _archives(
    aiven=(
        "FAIL_avro_headers_mixed FAIL_avro_tombstone FAIL_csv_all_null_header aborted_tx "
        "avro_default_codec avro_no_envelope csv_all_none_encoding default json_array "
        "json_array_no_envelope jsonl_no_envelope jsonl_snappy key_only parquet_default "
        "prefix_legacy_bytes_none prefix_vars template_event_out_of_order"
    ),
    confluent="bytes_keys_json delims_no_topics_dir kvh_json_gz_time kvh_json_readd kvh_parquet tags",
    lenses=(
        "FAIL_bytes_null FAIL_envelope_avro_hyphen avro_snappy csv envelope_avro_del "
        "envelope_json_bytes envelope_json_struct_del envelope_parquet_bytes indexes_name "
        "json_any_skip_null json_gzip padding_right partitionby_value"
    ),
    quix="FAIL_new_parquet_tombstones new_jsonl_string_values old_parquet_gzip_str",
)
_WRITTEN: Final = _archives(
    aiven=(
        "FAIL_avro_tombstone FAIL_csv_all_null_header FAIL_csv_all_simple_headers "
        "aborted_tx_read_committed avro_no_envelope avro_null_in_gzip csv_all csv_all_none_encoding "
        "default json_array json_array_no_envelope jsonl_all_bytes jsonl_no_envelope jsonl_snappy "
        "key_only parquet_default parquet_no_envelope prefix_legacy_bytes_none prefix_vars "
        "template_event_out_of_order"
    ),
    confluent=(
        "FAIL_field_schemaless FAIL_keys_only_raw_avro bytes_keys_json delims_no_topics_dir "
        "field_struct hourly_wallclock kvh_json_readd kvh_parquet schema_affix tags "
        "time_rotate_interval"
    ),
    lenses=(
        "FAIL_bytes_null FAIL_envelope_avro_bytes_hyphen FAIL_envelope_avro_hyphen "
        "FAIL_partitionby_null_key avro_snappy bytes_skip_null csv envelope_avro envelope_avro_del "
        "envelope_json_any envelope_json_bytes envelope_json_struct_del envelope_parquet_bytes "
        "indexes_name json_any_skip_null json_gzip json_string nopartition padding_right "
        "parquet_default partitionby_key_topic partitionby_value text"
    ),
    quix="FAIL_new_jsonl_binary_keys FAIL_new_parquet new_jsonl_string_values new_parquet_flat",
)
_FETCHED: Final = _archives(
    confluent=(
        "avro_null avro_snappy bytes_keys_json field_flat field_struct hourly_wallclock "
        "json_any_ignore json_struct_numeric kvh_json kvh_json_gz_time kvh_parquet schema_affix "
        "tags time_rotate_interval"
    ),
)

# Units: more pages of a kind, sizes and codecs, larger worlds.
_UNITS: Final = (
    Moved(
        test="spark/test_session_settings.py::test_the_name_of_the_machine_needs_no_address",
        shown_by=("spark/test_session_settings.py::test_a_killed_driver_takes_its_processes_along",),
    ),
    # The model stands by itself: nothing that the product does changes what is found in it.
    Moved(
        test="protocol/test_protocol_model.py::test_every_world_keeps_the_promise",
        cases=(
            "generations",
            "kept producers",
            "late task",
            "more slots",
            "neighbours",
            "reading on",
            "replay",
            "replay and takeover",
            "restarted, unanswered",
            "socketless, twice",
            "twice",
            "unanswered",
        ),
    ),
    Moved(
        test="protocol/test_protocol_model.py::test_what_another_protection_covers",
        cases=("fence_again_on_larger_count", "only_last_holder", "slot_count_read_uncommitted"),
    ),
    Moved(
        test="protocol/test_sink_model.py::test_every_world_keeps_the_promise",
        cases=("lost slot", "made again", "made again, open", "moved, lost", "options twice", "replay"),
    ),
    Moved(
        test="spark/test_class_archive.py::test_a_session_takes_its_classes_from_the_archive",
        shown_by=(
            "spark/test_class_archive.py::test_an_archive_is_used_with_the_class_path_that_it_was_made_for",
            "spark/test_class_archive.py::test_what_the_user_says_of_archives_or_the_class_path_wins",
        ),
    ),
    Moved(
        test="spark/test_class_archive.py::test_a_damaged_archive_is_not_noticed",
        shown_by=("spark/test_class_archive.py::test_one_that_was_cut_off_is_not_used",),
    ),
    Moved(
        test="spark/test_class_archive.py::test_wherever_it_is_damaged",
        shown_by=("spark/test_class_archive.py::test_one_that_was_cut_off_is_not_used",),
    ),
    Moved(
        test="spark/test_class_archive.py::test_the_order_on_disk_does_not_matter",
        shown_by=("spark/test_class_archive.py::test_it_is_found_through_links_as_on_path",),
    ),
    Moved(
        test=f"{_PARQUET_MEMORY}test_memory_does_not_follow_what_a_page_expands_to",
        kept=(
            "repeated_texts-20000",
            "nulls_in_many_columns-10000",
            "another page-20000_0",
            "long_behind_short-304000",
        ),
    ),
    Moved(
        test=f"{_AVRO_LIMITS}test_a_datum_that_would_take_gigabytes_is_refused",
        kept=("array of optional fields", "array of deep records"),
    ),
    Moved(test=f"{_AVRO_LIMITS}test_batches_are_bounded_by_what_rows_become", kept=("columns",)),
    Moved(
        test="headrace/formats/test_hostile_parquet.py::test_a_footer_that_claims_terabytes_is_damage",
        kept=(
            "False-num_rows and num_values-2147483647",
            "True-total_byte_size-5497558138880",
            "True-data_page_offset-4611686018427387904",
        ),
    ),
    *(
        Moved(test=f"restore/{test}", kept=_READ)
        for test in (
            "test_whole_archives.py::test_an_archive_comes_back_but_for_what_is_excused",
            "test_archive_decoding.py::test_an_object_gives_the_records_that_its_layout_reads",
            "test_archive_decoding.py::test_a_position_of_an_archive_can_be_given_over_rest",
            "test_mutation_laws.py::test_auto_gives_the_records_of_the_layout_or_says_that_it_cannot_tell",
        )
    ),
    Moved(
        test="restore/test_mutated_archives.py::test_what_is_cut_short_gives_no_other_record",
        kept=tuple(f"{name}-3" for name in _READ),
    ),
    Moved(test="restore/test_round_trips.py::test_what_our_sink_wrote_comes_back", kept=_WRITTEN),
    Moved(
        test="sink/test_taken_names.py::test_objects_of_the_same_records_are_ours_already",
        kept=tuple(
            name
            for name in _WRITTEN
            if "FAIL" not in name and not name.startswith("quix-") and name != "aiven-key_only"
        ),
    ),
    Moved(
        test="sink/test_confluent_archives.py::test_how_records_are_fetched_does_not_matter",
        kept=_FETCHED,
    ),
    Moved(
        test="restore/test_archive_decoding.py::test_no_damaged_footer_ends_the_process",
        kept=("0",),
    ),
    Moved(
        test="restore/test_row_lines.py::"
        "test_members_are_found_only_in_lines_that_have_them_and_nothing_else",
        kept=("0",),
    ),
    # A source's are kept, which has more to load.
    Moved(
        test="ingest/cli/test_command_imports.py::test_a_command_loads_what_it_uses",
        cases=("lint sink.json", "policy sink.json"),
    ),
    Moved(
        test="headrace/formats/test_compression.py::test_large_content_comes_in_bounded_chunks",
        cases=("xz",),
    ),
    Moved(
        test="headrace/formats/test_text.py::test_memory_is_bounded",
        shown_by=(
            "headrace/formats/test_json_array.py::test_memory_is_bounded",
            "headrace/formats/test_hostile.py::test_content_without_end_stays_out_of_memory",
        ),
    ),
    Moved(test="headrace/formats/test_csv.py::test_memory_is_bounded", cases=("long names",)),
    # Read from a file and from standard input, on the terminal that shows less.
    Moved(
        test="ingest/cli/test_standard_streams.py::test_a_configuration_is_utf_8_whatever_the_terminal_shows",
        cases=("explain $CONFIG x-utf-8", "explain - x <$CONFIG-utf-8"),
    ),
    # What writes, alone, and all three.
    Moved(
        test="ingest/cli/test_standard_streams.py::test_what_is_closed_changes_no_exit_code",
        cases=("<&-", "2>&-"),
    ),
    Moved(test="ingest/cli/test_terminal.py::test_a_watch_that_is_ended_from_outside_says_so", kept=("15",)),
    Moved(
        test=f"{_INFERRED}test_values_with_a_new_member_do_not_fit_whatever_was_forgotten_before",
        kept=("0",),
    ),
    Moved(test=f"{_INFERRED}test_cells_of_tables_are_bounded_whatever_names_values_have", cases=("before1",)),
    # Each form and each bound once.
    Moved(
        test="restore/test_long_rows.py::test_envelopes_are_measured_by_what_is_in_them",
        kept=("65536-jsonl", "65536-objects", "16777216-an array"),
    ),
    # Each format, and each layout once; the others differ in what their own tests show.
    Moved(
        test="sink/test_alone_law.py::test_any_cut_gives_the_same_archive",
        cases=(
            "aiven jsonl",
            "aiven parquet",
            "avro bare",
            "avro of either",
            "confluent avro",
            "confluent json",
            "csv bare",
            "jsonl of bytes",
            "lenses avro",
            "lenses csv",
            "parquet bare",
            "quix json",
        ),
    ),
    Moved(test="ingest/cli/test_terminal.py::test_the_log_on_a_terminal_is_for_people", cases=("json",)),
    # Each module and each signal once.
    Moved(
        test="ingest/cli/test_interrupts.py::test_a_signal_while_a_command_loads",
        kept=("typer-1", "ingest.cli.configuration_commands-2", "headrace.vendors.load-15"),
    ),
    # SIGTERM, in full: `integration/test_signals.py`.
    Moved(
        test="ingest/cli/test_interrupts.py::test_a_signal_while_a_service_loads_its_libraries", kept=("1",)
    ),
    Moved(
        test="ingest/cli/test_interrupts.py::test_a_signal_while_a_service_is_silent",
        kept=("plan-2", "check-15"),
    ),
    Moved(
        test="spark/test_variant.py::test_names_that_stand_once_and_come_out_often_stay_within_memory",
        shown_by=(f"{_PARQUET_MEMORY}test_memory_does_not_follow_what_a_page_expands_to",),
    ),
    Moved(
        test="spark/test_class_archive.py::test_what_java_says_of_a_failure_is_one_line",
        shown_by=("spark/test_class_archive.py::test_a_failure_is_one_sentence",),
    ),
    # More seeds of the same law.
    Moved(
        test="headrace/formats/transforms/test_random_chains.py::"
        "test_avro_becomes_together_what_it_becomes_alone",
        kept=("0", "1"),
    ),
    # That of Parquet takes four seconds to be made.
    Moved(
        test="headrace/formats/test_inventory_files.py::test_a_few_thousand_rows_are_held_at_a_time",
        cases=("Parquet",),
    ),
    Moved(
        test="restore/test_long_rows.py::test_an_envelope_that_never_ends_stays_out_of_memory",
        cases=("array-json",),
    ),
    # Two thousand objects; where fetching ends, and that a pause is made, are the other tests'.
    Moved(
        test="spark/sink/test_slot_bounds.py::"
        "test_at_least_once_an_object_that_is_never_completed_stops_its_own_partition_alone",
        shown_by=(
            "spark/sink/test_slot_bounds.py::test_small_objects_that_s3_does_not_take_end_fetching",
            (
                "spark/sink/test_slot_bounds.py::"
                "test_at_least_once_an_object_that_is_never_completed_is_not_uploaded_without_a_pause"
            ),
        ),
    ),
    Moved(
        test="spark/test_session_settings.py::test_what_spark_refuses_is_a_sentence",
        shown_by=("spark/test_session_settings.py::test_a_session_that_cannot_start_is_one_sentence",),
    ),
    # Every run of `make test` has both.
    Moved(
        test="localstack/test_parts.py::test_run_gives_the_command_both_parts_and_stops_them",
        shown_by=("localstack/test_parts.py::test_both_are_started_side_by_side",),
    ),
)

# Each of these starts Headrace, Spark and all, in a process of its own: fifteen seconds of CPU or more.
_SERVICES: Final = (
    Moved(
        test="headrace/kafka/test_leadership.py::test_a_paused_leader_comes_back_to_nothing", kept=("True",)
    ),
    Moved(
        test="integration/test_versions.py::test_an_upload_told_through_another_service",
        shown_by=(
            "listeners/test_envelopes_localstack.py::test_uploads_arrive",
            "integration/test_end_to_end.py::test_a_key_arrives_as_it_is_written",
            "headrace/s3/test_reader_s3.py",
        ),
    ),
    Moved(
        test="integration/test_clock_step.py::test_a_wall_clock_that_is_stepped_back_does_not_stop_planning",
        shown_by=("ingest/source/test_wall_clock_steps.py",),
    ),
    Moved(
        test="integration/test_debug_log.py::test_an_object_can_be_followed_from_its_message_to_its_commit",
        shown_by=("integration/test_end_to_end.py::test_each_finished_object_has_one_line_in_the_log",),
    ),
    Moved(
        test="integration/test_discovery_events.py::test_an_object_replaced_while_it_is_read_is_never_mixed",
        shown_by=(
            "errors/test_error_reading.py::TestGone::test_superseded_after_rows",
            "headrace/s3/test_reader_s3.py::test_an_object_overwritten_while_it_is_read_ends_the_read",
        ),
    ),
    Moved(
        test="integration/test_discovery_fallback.py::test_the_queue_deleted_under_load_and_made_again",
        shown_by=("listeners/test_listeners.py::test_a_queue_deleted_under_way_and_made_again",),
    ),
    Moved(
        test="integration/test_post_actions.py::test_what_a_crash_has_left_is_done_by_the_next_start",
        shown_by=(
            "headrace/s3/test_post_action_calls.py::test_an_object_is_deleted_once",
            "headrace/s3/test_post_action_calls.py::test_content_that_came_since_is_left_alone",
            "faults/test_short_campaign.py::test_worker_broker_and_driver_killed",
        ),
    ),
    Moved(
        test="integration/test_restarts.py::test_a_stop_in_the_middle_of_the_load_and_a_restart",
        shown_by=("integration/test_signals.py::test_a_stop_of_all_processes_in_the_middle_of_the_load",),
    ),
    Moved(
        test="integration/test_signals.py::test_a_stop_of_all_processes_in_the_middle_of_the_load",
        kept=("group",),
    ),
    Moved(
        test="integration/test_splits.py::test_a_changed_configuration_is_refused_for_every_split",
        shown_by=(f"{_TASK}test_a_split_of_another_configuration_is_refused_before_its_first_row",),
    ),
    # Those that start a JVM.
    Moved(test=f"{_START}test_what_is_not_there_is_named", cases=("Spark", "S3 is not there")),
    Moved(test=f"{_START}test_a_bucket_that_does_not_exist", kept=("run-arguments0",)),
    Moved(test=f"{_START}test_a_sinks_bucket_that_does_not_exist", kept=("run-arguments0",)),
    Moved(
        test="errors/test_error_topics.py::TestMissing::test_the_option_topic_at_start_is_exit_2",
        shown_by=(f"{_START}test_what_is_not_there_is_named",),
    ),
    Moved(
        test="integration/test_until_idle.py::test_a_queue_that_fails",
        shown_by=(
            f"{_START}test_until_idle_ends_by_itself_and_says_that_an_object_needs_a_person",
            f"{_LISTENERS}test_a_queue_that_does_not_exist_is_listing_instead",
        ),
    ),
    Moved(
        test="integration/test_until_idle.py::test_a_restore_that_reads_no_key_is_no_success",
        shown_by=(
            # Its course `keys_of_which_none_is_read`; the exit code of the process is the other test's.
            "simulation/test_discovery_courses.py::test_it_comes_once_or_is_left_out",
            f"{_START}test_until_idle_ends_by_itself_and_says_that_an_object_needs_a_person",
        ),
    ),
    Moved(
        test="integration/test_until_idle.py::test_with_the_sinks_own_delimiter_everything_comes_back",
        shown_by=(
            "ingest/source/test_archive_routes.py::test_keys_are_read_by_the_sinks_own_delimiter",
            "ingest/source/catalogue/test_catalogue.py::test_a_listing_of_which_no_key_is_read",
            "restore/test_archive_end_to_end.py::test_an_archive_comes_back_into_kafka",
        ),
    ),
    Moved(
        test="integration/test_traces_end_to_end.py::test_each_object_of_a_source_is_one_trace",
        shown_by=(
            f"{_SINK}test_a_topic_becomes_objects_and_ordinary_tools_show_the_offsets",
            "ingest/http/traces/test_trace_exporter.py",
        ),
    ),
    Moved(
        test="errors/test_error_credentials.py::test_a_role_that_is_refused_for_a_while_costs_no_object",
        shown_by=(
            f"{_LISTENERS}test_a_role_that_is_refused_for_a_while",
            "headrace/aws/test_aws_credentials.py::test_a_role_is_assumed_where_it_is_used",
        ),
    ),
    Moved(
        test="errors/test_error_topics.py::TestCreation::test_a_topic_of_the_template_is_made",
        shown_by=(
            "headrace/kafka/test_output_topics.py::test_a_missing_topic_is_made_when_that_is_wanted",
            "ingest/service/test_missing_topics.py",
        ),
    ),
    Moved(
        test="errors/test_error_topics.py::TestCreation::test_one_that_cannot_be_made_says_why",
        shown_by=("headrace/kafka/test_output_topics.py::test_missing_topics_are_named_together",),
    ),
    Moved(
        test="localstack/test_broker.py::test_committed_records_survive_a_kill_and_a_restart",
        shown_by=("faults/test_short_campaign.py::test_worker_broker_and_driver_killed",),
    ),
    # Its mutation "who leads changes": a request is answered 409 for ninety seconds.
    Moved(
        test="ingest/connect/test_frozen_worker.py::test_a_client_that_tries_409_again_gets_every_answer",
        shown_by=(
            "simulation/test_simulation.py::test_what_failed_once_holds_and_chosen_seeds_break_no_law",
            "ingest/connect/test_worker_parts.py::test_a_source_and_a_sink_are_created_run_taken_over_and_deleted",
        ),
    ),
    Moved(
        test="errors/test_error_topics.py::TestLetters::test_without_the_dead_letter_topic_its_objects_wait",
        shown_by=("ingest/service/test_missing_topics.py",),
    ),
    Moved(
        test=f"{_SINK}test_a_second_run_writes_nothing_more",
        shown_by=(
            "sink/test_sink_kills.py::test_a_killed_worker_and_a_killed_driver_lose_and_repeat_nothing",
            "simulation/test_simulation.py",
        ),
    ),
    Moved(
        test=f"{_SINK}test_records_are_grouped_by_a_field_of_their_values",
        shown_by=("spark/sink/test_grouping.py",),
    ),
    Moved(
        test=f"{_SINK}test_side_objects_give_keys_headers_and_tombstones_back",
        shown_by=(
            "restore/test_joined_decoding.py",
            "restore/test_round_trips_end_to_end.py::test_a_topic_comes_back_through_the_bucket",
        ),
    ),
    Moved(
        test=f"{_SINK}test_a_record_that_is_refused_stops_its_partition_and_no_other",
        shown_by=("spark/sink/test_dead_letters.py", "spark/sink/test_partition_offsets.py"),
    ),
    Moved(
        test=f"{_SINK}test_objects_close_together_and_a_stop_may_leave_them_open",
        shown_by=("spark/sink/test_batch_rotation.py", "spark/sink/test_rotation.py"),
    ),
    Moved(
        test="sink/test_sink_isolation.py::"
        "test_read_uncommitted_archives_what_was_aborted_and_the_default_does_not",
        shown_by=(f"{_READER}test_aborted_records_are_not_there_and_markers_are_behind",),
    ),
    Moved(
        test="sink/test_sink_rest.py::test_a_sink_is_paused_stopped_rewound_and_resumed",
        shown_by=(
            "ingest/connect/test_worker_parts.py::test_a_source_and_a_sink_are_created_run_taken_over_and_deleted",
            "ingest/http/rest/test_rest_sink_offsets.py",
        ),
    ),
    Moved(
        test="sink/test_sink_takeover.py::"
        "test_it_is_refused_while_the_other_runs_and_goes_on_where_that_stops",
        shown_by=(
            "ingest/checks/findings/test_takeover_findings.py",
            "headrace/kafka/test_group_state.py::test_members_are_told_by_what_they_hold",
        ),
    ),
    Moved(
        test="sink/test_transforms_parts.py::test_a_sink_routes_and_masks",
        shown_by=(
            "sink/test_transformed_sink.py",
            "headrace/formats/transforms/test_record_transforms.py",
        ),
    ),
    Moved(
        test="headrace/test_python_parts.py::test_quix_by_its_own_names",
        shown_by=("headrace/test_python_arguments.py", "sink/test_quix_archives.py"),
    ),
    Moved(
        test="ingest/connect/test_worker_jvm.py::test_a_worker_ends_with_its_jvm_and_goes_on_when_it_is_started_again",
        shown_by=("faults/test_short_campaign.py::test_worker_broker_and_driver_killed",),
    ),
    Moved(
        test="ingest/connect/test_worker_under_load.py::test_a_sink_is_configured_while_its_groups_are_open",
        shown_by=(
            "ingest/connect/test_worker_parts.py::test_a_source_and_a_sink_are_created_run_taken_over_and_deleted",
        ),
    ),
    Moved(
        test="security/test_secure_end_to_end.py::test_no_key_reaches_a_terminal_raw",
        shown_by=("security/test_secure_end_to_end.py::test_no_key_reaches_a_log_or_a_page_raw",),
    ),
    Moved(
        test="spark/test_connect.py::test_options_of_the_server",
        shown_by=("spark/test_connect.py::test_two_slots_work_side_by_side",),
    ),
    Moved(
        test="spark/test_connect.py::test_a_dead_worker_is_an_unclean_end_and_the_slot_starts_again",
        shown_by=(
            "spark/test_connect.py::test_two_slots_work_side_by_side",
            "spark/test_task_end_to_end.py::test_a_killed_worker_loses_and_repeats_nothing",
        ),
    ),
    Moved(
        test="spark/test_foreign_writers.py::test_parquet_by_spark",
        kept=("snappy-INT96", "zstd-TIMESTAMP_MICROS", "lz4_raw-TIMESTAMP_MILLIS"),
    ),
    # Every codec: `headrace/formats/test_avro.py`. Java's blocks with sizes are in each, its sum in Snappy's.
    Moved(
        test="spark/test_foreign_writers.py::test_avro_by_its_own_library",
        kept=("null", "snappy", "zstandard"),
    ),
    # Without the annotation a column is a struct of the same groups, however it is shredded.
    Moved(
        test="spark/test_variant.py::test_variants_by_spark",
        cases=("as an object-false", "as an array-false", "as a number-false"),
    ),
    Moved(
        test="spark/frames/test_frames_write_queries.py::test_a_batch_without_rows_has_a_file",
        shown_by=(
            "spark/frames/test_frames_writes.py",
            "spark/frames/test_frames_write_queries.py::test_a_batch_that_spark_repeats_is_there_once",
        ),
    ),
    Moved(
        test="spark/frames/test_frames_restarts.py::test_drivers_that_are_killed",
        shown_by=(
            (
                "spark/frames/test_frames_stream.py::"
                "test_batches_hold_to_their_limit_and_restarts_read_nothing_twice"
            ),
            f"{_QUERIES}test_a_checkpoint_that_is_older_than_the_log",
            "simulation/test_simulation.py",
        ),
    ),
    Moved(
        test="integration/test_discovery_fallback.py::"
        "test_a_queue_that_was_never_there_is_an_error_and_listing_instead",
        shown_by=(f"{_LISTENERS}test_a_queue_that_does_not_exist_is_listing_instead",),
    ),
    Moved(
        test="integration/test_splits.py::test_slices_are_exactly_the_object",
        shown_by=(
            f"{_TASK}test_where_an_object_can_be_cut_is_said_and_slices_give_each_row_once",
            "spark/test_task_formats.py::test_slices_give_each_row_once",
        ),
    ),
    Moved(test="integration/test_signals.py::test_a_stop_while_spark_starts", kept=("2",)),
    Moved(
        test="errors/test_error_credentials.py::test_a_service_that_starts_without_credentials_gets_them",
        shown_by=(f"{_LISTENERS}test_without_credentials_it_keeps_trying",),
    ),
    Moved(
        test="errors/test_error_poison.py::test_it_is_found_out_and_the_others_go_on",
        shown_by=(
            "ingest/source/planner/test_planner_results.py::test_a_killer_is_found_out_and_the_others_go_on",
            f"{_TASK}test_a_killed_worker_loses_and_repeats_nothing",
        ),
    ),
    Moved(
        test="errors/test_error_order.py::test_a_failed_object_holds_its_topic_partition_and_nobody_else",
        shown_by=(f"{_TASK}test_after_a_failure_its_partition_is_held_back",),
    ),
    Moved(
        test="ingest/sink/test_published_under_policies.py::"
        "test_the_published_configuration_under_the_published_policy",
        shown_by=(
            "ingest/checks/findings/test_published_policies.py::test_an_upload_is_written_and_completed",
            "sink/test_aiven_end_to_end.py::test_the_published_configuration_runs_unchanged",
        ),
    ),
    Moved(
        test="restore/test_archive_discovery.py::test_no_index_object_is_read",
        shown_by=(
            "restore/test_archive_discovery.py::test_ten_thousand_index_keys_are_told_by_their_beginning",
        ),
    ),
    Moved(
        test="restore/test_side_objects_end_to_end.py::test_events_late_missing_and_too_late",
        shown_by=("ingest/source/catalogue/test_side_objects.py", "restore/test_joined_decoding.py"),
    ),
    Moved(
        test=f"{_SINK}test_a_backup_restored_by_the_source_is_equal_to_the_byte",
        shown_by=(
            "restore/test_round_trips_end_to_end.py::test_a_topic_comes_back_through_the_bucket",
            "restore/test_archive_discovery.py::test_our_own_layout_comes_back_to_the_byte",
        ),
    ),
    Moved(
        test="sink/test_missing_topic.py::test_a_topic_that_is_not_there_is_said_until_it_is_read",
        shown_by=("ingest/checks/findings/test_sink_topic_findings.py", "ingest/service/test_topic_watch.py"),
    ),
    Moved(
        test="sink/test_transforms_parts.py::test_a_source_takes_keys_from_values_and_routes",
        shown_by=(
            "headrace/formats/transforms/test_source_transforms.py",
            "headrace/formats/transforms/test_record_transforms.py",
        ),
    ),
    Moved(
        test=(
            "integration/test_post_actions.py::test_what_was_moved_is_not_ingested_again_without_the_option"
        ),
        shown_by=(
            f"{_FIRST_START}test_what_a_start_moves_to_is_in_the_ledger_before_anything_is_moved",
            f"{_FIRST_START}test_what_was_moved_is_not_read_again_without_the_option",
        ),
    ),
    Moved(
        test="integration/test_post_actions.py::test_another_bucket_is_another_first_start",
        shown_by=(
            f"{_FIRST_START}test_a_record_without_a_bucket_is_of_the_bucket_that_the_ledger_knows",
            "simulation/test_simulation.py",
        ),
    ),
    Moved(
        test="integration/test_post_actions.py::test_another_prefix_is_another_first_start",
        shown_by=(
            f"{_FIRST_START}test_another_prefix_is_another_first_start_of_the_keys_outside_the_first_one",
            f"{_FIRST_START}test_back_at_a_prefix_its_own_first_start_counts",
        ),
    ),
    Moved(
        test="integration/test_discovery_listing.py::"
        "test_an_upload_under_way_at_the_first_start_is_not_existing",
        shown_by=(
            (
                "ingest/source/catalogue/test_object_filter.py::"
                "test_uploads_that_were_under_way_are_not_existing"
            ),
            "headrace/kafka/test_control_records.py::test_controls_there_and_back",
        ),
    ),
    Moved(
        test="ingest/http/rest/test_rest_end_to_end.py::test_a_reset_has_everything_read_again",
        shown_by=(
            (
                "ingest/http/rest/test_rest_end_to_end.py::"
                "test_a_stopped_service_gives_its_slots_back_and_lets_offsets_be_changed"
            ),
            "ingest/http/rest/test_rest_offsets.py::test_delete_resets_all",
        ),
    ),
    Moved(
        test="ingest/connect/test_frozen_worker.py::test_a_request_to_a_frozen_worker_is_answered_in_time",
        shown_by=(
            "ingest/connect/test_forwarding.py::test_a_frozen_worker_is_not_waited_for",
            "ingest/connect/test_forwarding.py::test_nobody_waits_longer_than_asked",
        ),
    ),
    Moved(
        test="integration/test_until_idle.py::test_a_source_whose_template_takes_no_key_says_so",
        shown_by=(
            # Its course `keys_of_which_none_is_read`, as above.
            "simulation/test_discovery_courses.py::test_it_comes_once_or_is_left_out",
            f"{_START}test_until_idle_ends_by_itself_and_says_that_an_object_needs_a_person",
        ),
    ),
    Moved(
        test="integration/test_signals.py::test_a_stop_while_the_broker_is_silent",
        shown_by=(
            "integration/test_signals.py::test_a_stop_of_all_processes_in_the_middle_of_the_load",
            "ingest/cli/test_interrupts.py::test_a_signal_while_a_service_is_silent",
        ),
    ),
    Moved(
        test="ingest/connect/test_different_files.py::test_what_no_worker_runs_is_counted",
        shown_by=("ingest/connect/test_worker_assignment.py", "ingest/connect/test_worker_pages.py"),
    ),
    # That tokens are renewed in time: 20 s, of which six are CPU.
    Moved(
        test="security/test_token_logins.py::test_producing_does_not_pause_while_tokens_end",
        shown_by=(
            "security/test_token_logins.py::test_a_role_is_assumed_and_its_keys_are_renewed",
            "security/test_token_logins.py::test_a_renewal_that_fails_is_a_problem_until_one_works",
        ),
    ),
    *(
        Moved(test=f"spark/frames/test_frames_stream.py::{name}", shown_by=(f"{_QUERIES}{name}",))
        for name in (
            "test_a_checkpoint_of_another_log",
            "test_a_log_that_is_older_than_the_checkpoint",
            "test_bad_rows",
            "test_objects_that_are_gone",
            "test_two_queries_on_one_log",
        )
    ),
)

MOVED: Final = (*_UNITS, *_SERVICES)


def is_long(test: str, case: str) -> bool:
    """Whether a test (`folder/file.py::name`), in this case of it (empty without), is for `make test-all`."""
    moved = _BY_TEST.get(test)
    return moved is not None and moved.is_long(case)


def stale(collected: Iterable[tuple[str, str]]) -> list[str]:
    """A line for each entry of a collected file that does not fit the cases that there are."""
    cases: dict[str, set[str]] = {}
    for test, case in collected:
        cases.setdefault(test, set()).add(case)
    files = {test.partition("::")[0] for test in cases}
    found = []
    for moved in MOVED:
        if moved.test.partition("::")[0] in files:
            there = cases.get(moved.test, set())
            missing = sorted({*moved.cases, *moved.kept} - there)
            found += [f"{moved.test} has no case {case}" for case in missing]
            remain = any(not moved.is_long(case) for case in there)
            if remain == bool(moved.shown_by):
                found.append(f"{moved.test} needs either a case that remains or tests that show its subject")
    return found


_BY_TEST: Final = {moved.test: moved for moved in MOVED}
