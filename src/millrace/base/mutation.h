#pragma once

#include <cstdint>

// Deliberate bugs, to prove that the tests would find them. A hook is one condition in the engine:
//
//   if (level > read_level && !MR_MUTANT(name_of_the_bug)) ...
//
// A build with MILLRACE_MUTATIONS (presets dev and asan) takes the name of one bug from the
// environment variable MILLRACE_MUTANT when the process starts; "list" prints all names and exits,
// an unknown name is refused. Any other build has no hooks: the condition is a constant.
// `scripts/mutation` switches on one after the other and says who caught it.
namespace millrace::mutation {

// Every bug, once: its name, and what it does wrong.
#define MR_MUTANT_LIST(X)                                                                         \
  /* core */                                                                                      \
  X(ack_level_off_by_one, "the ack level moves one id beyond what is finished")                   \
  X(ack_level_stays_behind_gap,                                                                   \
    "nothing outstanding does not move the ack level to the read level")                          \
  X(expiry_ignored, "an expired task is treated as live")                                         \
  X(expiry_one_tick_late, "a task is still live at its expiry time")                              \
  X(gc_cursor_skips_rows, "a deletion that stopped at its limit counts as complete")              \
  X(retry_total_ignored, "a series of tries never ends")                                          \
  X(task_id_block_reused, "a new owner takes the range id, and so the ids, of the last one")      \
  /* backlog */                                                                                   \
  X(ack_level_not_restored, "a new owner starts at ack level 0")                                  \
  X(append_bound_ignored, "any number of appends may wait")                                       \
  X(buffer_bound_ignored, "tasks just written are loaded although the buffer is full")            \
  X(count_not_restored, "a refused write takes its part of the count with it")                    \
  X(count_never_settled, "a wrong count of an empty queue stays")                                 \
  X(ends_not_cancelled, "a task whose end was refused can never end again")                       \
  X(expired_page_not_acked, "expired rows move neither count nor deletion")                       \
  X(fence_skipped, "a write with unknown outcome counts as refused")                              \
  X(fence_without_new_lease, "an unknown outcome is decided without fencing the write first")     \
  X(final_update_skipped, "a clean stop does not write the metadata")                             \
  X(gc_deletes_above_ack_level, "deletion goes up to the read level")                             \
  X(idle_owner_never_checks, "an idle owner does not notice that its lease was stolen")           \
  X(idle_queue_keeps_timer, "an idle queue of an exclusive store asks for its range id")          \
  X(metadata_update_forgotten, "a refused metadata write is not tried again")                     \
  X(never_unloads, "a queue that is lost is not unloaded")                                        \
  X(old_row_kept_on_rewrite, "a task written again keeps its old row too")                        \
  X(outcome_guessed_applied, "an unknown outcome is taken for applied")                           \
  X(outcome_guessed_refused, "an unknown outcome is taken for refused")                           \
  X(owed_end_forgotten, "deleting an expired row is not tried again")                             \
  X(read_level_past_unread, "a full page moves the read level to the end of its range")           \
  X(reader_sleeps_after_error, "a failed read is not tried again")                                \
  X(reader_sleeps_when_full, "room in the buffer does not wake the reader")                       \
  X(rewrite_counted_as_accepted, "a task written again is counted as a new one")                  \
  X(sync_not_asked_for, "writes that callers wait for are sent as relaxed ones")                  \
  X(undecided_ids_readable, "the reader passes ids of a write that may still land")               \
  X(unload_cause_wrong, "a lost lease unloads with cause other_error")                            \
  /* store */                                                                                     \
  X(keep_owner_state_ignored, "memory: taking a lease overwrites the last owner's counts")        \
  X(range_id_not_checked, "memory: a fenced write lands")                                         \
  X(reply_before_commit, "threads: a write is answered before it is committed")                   \
  X(rocks_damage_taken_for_torn_tail, "RocksDB: damage before synced work is cut off")            \
  X(rocks_health_serving_when_broken, "RocksDB: healthy although no write is taken")              \
  X(rocks_keep_owner_state_ignored, "RocksDB: taking a lease overwrites the last owner's counts") \
  X(rocks_never_heals, "RocksDB: a broken store stays broken")                                    \
  X(rocks_range_id_not_checked, "RocksDB: a fenced write lands")                                  \
  X(rocks_sync_skipped, "RocksDB: synced writes are not synced")                                  \
  X(rocks_failed_write_acknowledged, "RocksDB: a write that failed is reported as durable")       \
  /* matching */                                                                                  \
  X(cancelled_poller_takes_task, "a poller that went away still gets a task")                     \
  X(poller_answered_twice, "a waiter is answered twice")                                          \
  X(poller_lost_at_match, "a poller that meets a task is forgotten")                              \
  X(stale_signal_unloads_newer, "a late signal of an old instance unloads the new one")           \
  X(sync_match_overtakes_backlog, "new work overtakes an old backlog")                            \
  /* cluster */                                                                                   \
  X(owner_before_agreement, "a new owner does not wait until the old ones gave up")               \
  X(unknown_outcome_repeated, "a call that may have been done is made again")                     \
  X(passed_on_again, "a call that another node passed on is passed on again")                     \
  /* temporal */                                                                                  \
  X(absent_partition_forgotten, "what another host stores in an empty partition is not found")    \
  X(failed_start_dropped, "a task whose start failed is taken for started")                       \
  X(forwarded_task_stored, "a forwarded task is stored by the parent too")                        \
  X(starts_never_pause, "failed starts are tried again at once")                                  \
  /* queue */                                                                                     \
  X(attempt_counted_twice, "a failure costs two attempts")                                        \
  X(attempt_not_counted, "a failure costs no attempt")                                            \
  X(census_misses_ended_rows, "rows that end during a count are not counted")                     \
  X(dead_task_dropped, "a task that used up its attempts is not kept")                            \
  X(expiring_lease_usable, "a lease that ran out can be extended and completed")                  \
  X(finished_lease_recovered, "a remembered lease whose task is finished comes back")             \
  X(invalid_row_kept, "a row that does not parse is skipped and stays")                           \
  X(late_token_accepted, "a lease is good until its timer has run, however late")                 \
  X(lease_not_remembered, "leases do not survive a restart")                                      \
  X(lease_table_unbounded, "more leases than leases_max")                                         \
  X(max_attempts_off_by_one, "a task gets one attempt too many")                                  \
  X(public_id_changes, "a task written again gets another id")                                    \
  X(release_charged, "a task given back costs an attempt")                                        \
  X(remembered_lease_handed_out, "a task leased before a restart is leased again")                \
  X(remembered_lease_unclamped, "a clock set back during a restart prolongs a remembered lease")  \
  X(token_counter_ignored, "any token of the same task will do")                                  \
  X(unloaded_while_leased, "a queue with leases is unloaded as idle")

enum class Mutant : std::uint8_t {
  kNone,
#define MR_MUTANT_NAME(name, what) name,
  MR_MUTANT_LIST(MR_MUTANT_NAME)
#undef MR_MUTANT_NAME
};

#ifdef MILLRACE_MUTATIONS
// The one that is switched on. Set before main.
extern const Mutant active;
inline bool IsActive(Mutant mutant) { return active == mutant; }
#else
constexpr bool IsActive(Mutant) { return false; }
#endif

}  // namespace millrace::mutation

#define MR_MUTANT(name) ::millrace::mutation::IsActive(::millrace::mutation::Mutant::name)
