//! One suite for every store: SQLite in a file, SQLite in memory, PostgreSQL searched in the process as small scopes are, and
//! by the server as large ones.
//!
//! PostgreSQL is tested when `UPLIFTMEM_TEST_POSTGRES` has its address; `cargo xtask ci` starts one.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test says what fails by failing"
)]

mod beside;
mod files;
mod journal;
mod leaks;
mod limits;
mod memories;
mod quotas;
mod recall;
mod reembed;
mod schema;
mod support;
mod tasks;
mod tenancy;
mod tickets;
mod tls;

/// Runs every named test of the suite on every store.
macro_rules! conformance {
    ($($subject:ident: $($test:ident),+ $(,)?;)+) => {
        mod sqlite_file { $(mod $subject { $(
            #[tokio::test]
            async fn $test() {
                let place = crate::support::SqliteFile::new();
                crate::$subject::$test(place.open().await).await;
            }
        )+ })+ }
        mod sqlite_memory { $(mod $subject { $(
            #[tokio::test]
            async fn $test() {
                crate::$subject::$test(crate::support::sqlite_memory().await).await;
            }
        )+ })+ }
        mod postgres { $(mod $subject { $(
            #[tokio::test]
            async fn $test() {
                if let Some(place) = crate::support::PostgresSchema::new() {
                    crate::$subject::$test(place.open().await).await;
                }
            }
        )+ })+ }
        mod postgres_server { $(mod $subject { $(
            #[tokio::test]
            async fn $test() {
                if let Some(place) = crate::support::PostgresSchema::new() {
                    crate::$subject::$test(place.open_searched_by_server().await).await;
                }
            }
        )+ })+ }
    };
}

conformance! {
    memories:
        a_batch_says_what_became_of_each_item,
        what_is_stored_reads_back_whole,
        duplicates_are_recognised_until_they_expire,
        what_is_beside_a_text_can_change,
        quarantine_and_release,
        superseding_links_both_and_retires_one,
        deleted_memories_are_gone,
        pages_follow_creation_order,
        versions_grow_with_every_change;
    tasks:
        tasks_are_stored_once_and_never_changed;
    tickets:
        a_ticket_is_leased_completed_and_counted_once,
        a_lease_that_is_not_kept_alive_goes_to_another,
        what_a_killed_worker_held_comes_back_untried,
        a_late_report_is_taken_unless_somebody_finished,
        failures_are_retried_up_to_the_limit,
        workers_at_once_never_get_the_same_ticket,
        an_agents_own_execution_is_recorded_once,
        wrong_reports_change_nothing,
        many_are_completed_at_once_each_by_itself;
    beside:
        one_leads_and_a_deposed_leader_writes_nothing,
        what_is_written_is_heard,
        many_tickets_are_looked_at_together,
        work_is_found_wherever_it_waits,
        a_request_that_comes_again_is_answered_once;
    journal:
        a_retrieval_is_recorded_with_its_task_or_not_at_all,
        entries_are_appended_in_order_and_never_changed,
        what_is_learned_from_must_have_been_executed,
        every_kind_reads_back_whole,
        the_latest_entries_come_newest_first;
    recall:
        words_vectors_and_both_find_what_they_should,
        status_and_expiry_are_applied_before_the_cut,
        any_text_is_data,
        another_generation_is_refused,
        order_is_deterministic_and_ties_go_by_id,
        large_scopes_are_searched_well_under_a_filter,
        changes_are_seen_at_once;
    reembed:
        a_scope_moves_to_a_new_embedder_and_resumes,
        a_move_can_be_given_up;
    files:
        memories_round_trip_to_the_byte,
        executions_and_journal_round_trip_to_the_byte,
        a_bad_line_is_named_and_nothing_is_imported,
        mem0_exports_are_imported,
        langgraph_items_are_imported,
        text_files_are_imported_by_paragraph,
        a_file_larger_than_a_batch_streams_and_reports_progress,
        open_tickets_round_trip_to_the_byte;
    limits:
        every_limit_is_named_in_its_error;
    tenancy:
        a_key_is_found_by_its_hash_until_it_is_revoked,
        a_tenant_sees_its_own_scopes_and_memories;
    quotas:
        memories_of_a_tenant_are_counted_and_bounded,
        executions_that_are_asked_for_are_bounded_and_outcomes_never,
        every_tenant_that_a_scope_is_within_counts,
        writers_at_once_never_pass_a_quota_together;
    leaks:
        no_method_crosses_scopes;
}
