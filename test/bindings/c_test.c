// SPDX-License-Identifier: Apache-2.0
//
// The C API from C: claims about every handle, struct and status. Prints a sentence for each claim that fails.
#include <dlfcn.h>
#include <pitot/c.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int g_checked, g_failed;
static const char* volatile g_claim = "(none)";  // the last one

#define CHECK(sentence, condition)                                                 \
  do {                                                                             \
    ++g_checked;                                                                   \
    g_claim = (sentence);                                                          \
    if (!(condition)) {                                                            \
      ++g_failed;                                                                  \
      printf("%s:%d: false: %s (%s)\n", __FILE__, __LINE__, sentence, #condition); \
    }                                                                              \
  } while (0)

static char g_message[256];
#define MESSAGE g_message, sizeof g_message
#define SAYS(words) (strstr(g_message, words) != NULL)

enum { kMostSeconds = 240 };  // less than CTest's limit, which would not say where it hangs

static void OnHanging(int signal_number) {
  static const char kText[] = "c_test hangs. The last claim was: ";
  const char* const claim = g_claim;
  (void)signal_number;
  if (write(STDOUT_FILENO, kText, sizeof kText - 1) < 0 || write(STDOUT_FILENO, claim, strlen(claim)) < 0 ||
      write(STDOUT_FILENO, "\n", 1) < 0)
    _exit(3);
  _exit(2);
}

// The end of a loop that waits for something.
static time_t Deadline(void) { return time(NULL) + 120; }

static pitot_recorder* Start(void) {
  pitot_recorder* recorder = NULL;
  CHECK("a recorder starts", pitot_recorder_start(NULL, &recorder, MESSAGE) == PITOT_OK);
  return recorder;
}

static pitot_stats StatsOf(pitot_recorder* recorder) {
  pitot_stats stats;
  stats.size = sizeof stats;
  CHECK("stats are given", pitot_recorder_stats(recorder, &stats, MESSAGE) == PITOT_OK);
  return stats;
}

// ---- Inert handles. ----

static void UseEverythingWithNull(void) {
  char traceparent[56] = "x";
  pitot_stats stats;
  stats.size = sizeof stats;
  CHECK("NULL is not running", pitot_recorder_status(NULL, MESSAGE) == PITOT_NOT_RUNNING && SAYS("not started"));
  CHECK("NULL triggers nothing", pitot_recorder_trigger(NULL, NULL, NULL, 0) == PITOT_NOT_RUNNING);
  CHECK("NULL flushes nothing", pitot_recorder_flush(NULL, 0, NULL, 0) == PITOT_NOT_RUNNING);
  CHECK("NULL takes no hook", pitot_recorder_on_incident(NULL, NULL, NULL, NULL, 0) == PITOT_NOT_RUNNING);
  CHECK("nor one for verdicts", pitot_recorder_on_verdict(NULL, NULL, NULL, NULL, 0) == PITOT_NOT_RUNNING);
  CHECK("NULL has zeros as stats",
        pitot_recorder_stats(NULL, &stats, NULL, 0) == PITOT_OK && stats.events_recorded == 0);
  CHECK("the cost of NULL is unknown", stats.recording_cpu_percent < 0 && stats.own_threads_cpu_percent < 0 &&
                                           !stats.depth_cost.is_known && !stats.depth_mean[3].is_known);
  CHECK("stats need room", pitot_recorder_stats(NULL, NULL, NULL, 0) == PITOT_INVALID_ARGUMENT);
  pitot_health health;
  health.size = sizeof health;
  CHECK("health of no recorder is unknown", pitot_recorder_health(NULL, 10000, &health, NULL, 0) == PITOT_OK &&
                                                health.state == PITOT_HEALTH_UNKNOWN && health.text[0] != '\0');
  CHECK("health needs room", pitot_recorder_health(NULL, 10000, NULL, NULL, 0) == PITOT_INVALID_ARGUMENT);
  CHECK("a start needs a place for the handle", pitot_recorder_start(NULL, NULL, MESSAGE) == PITOT_INVALID_ARGUMENT);
  CHECK("NULL refuses a latency trigger", pitot_recorder_add_latency_trigger(NULL, NULL, NULL, 0) == PITOT_NOT_RUNNING);
  CHECK("NULL refuses a failure trigger", pitot_recorder_add_failure_trigger(NULL, NULL, NULL, 0) == PITOT_NOT_RUNNING);
  CHECK("NULL refuses a tokens trigger", pitot_recorder_add_tokens_trigger(NULL, NULL, NULL, 0) == PITOT_NOT_RUNNING);
  CHECK("NULL refuses a stall trigger", pitot_recorder_add_stall_trigger(NULL, NULL, NULL, 0) == PITOT_NOT_RUNNING);
  CHECK("NULL refuses a drift trigger", pitot_recorder_add_drift_trigger(NULL, NULL, NULL, 0) == PITOT_NOT_RUNNING);
  CHECK("NULL refuses a judge", pitot_recorder_add_why(NULL, NULL, MESSAGE) == PITOT_NOT_RUNNING && SAYS("started"));
  CHECK("NULL refuses a predicate", pitot_recorder_add_predicate_trigger(NULL, NULL, NULL, 0) == PITOT_NOT_RUNNING);
  CHECK("NULL refuses a depth", pitot_recorder_set_depth(NULL, PITOT_DEPTH_AUTO, NULL, 0) == PITOT_NOT_RUNNING);
  CHECK("NULL refuses CUPTI", pitot_recorder_add_cupti(NULL, NULL, MESSAGE) == PITOT_NOT_RUNNING && SAYS("started"));
  CHECK("NULL refuses NVTX", pitot_recorder_add_nvtx(NULL, NULL, MESSAGE) == PITOT_NOT_RUNNING && SAYS("started"));
  CHECK("NULL refuses LibTorch", pitot_recorder_add_torch(NULL, NULL, MESSAGE) == PITOT_NOT_RUNNING && SAYS("started"));
  CHECK("NULL refuses the host", pitot_recorder_add_host(NULL, NULL, MESSAGE) == PITOT_NOT_RUNNING && SAYS("started"));
  CHECK("NULL refuses stacks", pitot_recorder_add_stacks(NULL, NULL, MESSAGE) == PITOT_NOT_RUNNING && SAYS("started"));
  CHECK("NULL refuses NVML", pitot_recorder_add_nvml(NULL, NULL, MESSAGE) == PITOT_NOT_RUNNING && SAYS("started"));
  CHECK("without counters no interval is changed", pitot_set_counter_interval(500, MESSAGE) == PITOT_UNAVAILABLE);
  CHECK("NULL refuses counters", pitot_recorder_add_counters(NULL, NULL, MESSAGE) == PITOT_NOT_RUNNING);
  CHECK("NULL refuses CUDA events", pitot_recorder_add_cuda_events(NULL, NULL, MESSAGE) == PITOT_NOT_RUNNING);
  CHECK("NULL refuses the GPU's collectors", pitot_recorder_enable_gpu(NULL, NULL, MESSAGE) == PITOT_NOT_RUNNING);
  pitot_profile* profile = (pitot_profile*)g_message;
  CHECK("NULL profiles no kernels",
        pitot_profile_kernels(NULL, NULL, &profile, MESSAGE) == PITOT_NOT_RUNNING && profile == NULL);
  CHECK("NULL does not hand CUPTI over", pitot_recorder_pause(NULL, "cupti", NULL, 0) == PITOT_NOT_RUNNING);
  CHECK("NULL does not take CUPTI back", pitot_recorder_resume(NULL, "cupti", NULL, 0) == PITOT_NOT_RUNNING);
  pitot_recorder_stop(NULL, 0);
  pitot_recorder_free(NULL);
  pitot_options_init(NULL, sizeof(pitot_options));

  pitot_set_thread_name(NULL);
  CHECK("NULL as a text is the empty name", pitot_intern(NULL) == pitot_intern(""));
  pitot_instant(pitot_intern(NULL), NULL);
  pitot_cuda_scope_begin(NULL, NULL, 0);
  pitot_cuda_scope_end(NULL);
  pitot_wait_begin(NULL, PITOT_WAIT_IO, 0, pitot_this_owner());
  pitot_wait_set_owner(NULL, pitot_this_owner());
  pitot_wait_end(NULL);
  pitot_adopt_begin(NULL, NULL);
  pitot_adopt_end(NULL);

  CHECK("NULL as a token has no request", pitot_token_request(NULL) == 0 && !pitot_token_is_late(NULL));
  pitot_token_stage(NULL, NULL);
  pitot_token_emit(NULL, 1);
  const pitot_token again = pitot_token_enqueue(NULL, NULL);
  CHECK("a token of NULL is put into no queue", pitot_token_request(&again) == 0);
  pitot_token_set_label(NULL, NULL, NULL);
  pitot_token_set_size(NULL, NULL, 1);
  CHECK("NULL as a request has no child", pitot_request_begin_child(NULL, "/x") == NULL);
  CHECK("NULL as a request has no id", pitot_request_id(NULL) == 0 && !pitot_request_is_late(NULL));
  pitot_request_write_traceparent(NULL, traceparent);
  CHECK("NULL as a request has no traceparent", strcmp(traceparent, "") == 0);
  pitot_request_write_traceparent(NULL, NULL);
  pitot_request_set_id(NULL, NULL);
  pitot_request_set_label(NULL, NULL, NULL);
  pitot_request_set_size(NULL, NULL, 0);
  pitot_request_set_deadline(NULL, 1);
  pitot_request_stage(NULL, NULL);
  pitot_request_emit(NULL, 1);
  const pitot_token token = pitot_request_token(NULL), queued = pitot_request_enqueue(NULL, "q");
  CHECK("a token of NULL has no request", pitot_token_request(&token) == 0 && pitot_token_request(&queued) == 0);
  pitot_request_finish(NULL, PITOT_OUTCOME_OK);
  pitot_request_finish_reason(NULL, PITOT_OUTCOME_OK, NULL);
  CHECK("NULL as a batch has no id", pitot_batch_id(NULL) == 0);
  pitot_batch_join(NULL, NULL);
  pitot_batch_join_work(NULL, NULL, 1);
  pitot_batch_join_many(NULL, NULL, NULL, 1);
  pitot_batch_leave(NULL, NULL);
  pitot_batch_close(NULL, PITOT_BATCH_FULL);
  pitot_batch_submitted(NULL);
  pitot_batch_finish(NULL);
}

static void NullHandlesAreInert(void) {
  UseEverythingWithNull();
  CHECK("without a recorder a request is NULL", pitot_request_begin("/x", NULL, 0) == NULL);
  CHECK("without a recorder a batch is NULL", pitot_batch_begin("x") == NULL);
  CHECK("without a recorder the clock is 0", pitot_now() == 0);
  pitot_scope_begin(pitot_intern("x"));
  pitot_scope_end();

  pitot_recorder* recorder = Start();
  UseEverythingWithNull();
  // NULL arguments with a valid handle.
  pitot_request* request = pitot_request_begin(NULL, NULL, 0);
  CHECK("a request without a route has an id", pitot_request_id(request) != 0);
  pitot_request_set_id(request, NULL);
  pitot_request_set_label(request, NULL, NULL);
  pitot_request_set_size(request, NULL, 1);
  pitot_request_stage(request, NULL);
  const pitot_token token = pitot_request_enqueue(request, NULL);
  pitot_adopt adopt = {{0}};
  pitot_adopt_end(&adopt);  // never begun
  pitot_adopt_begin(&adopt, NULL);
  pitot_adopt_end(&adopt);
  pitot_adopt_begin(&adopt, &token);
  pitot_adopt_end(&adopt);
  pitot_adopt_end(&adopt);
  pitot_wait wait = {{0}};
  pitot_wait_end(&wait);  // never begun
  pitot_wait_begin(&wait, 99, pitot_intern(NULL), pitot_this_owner());
  pitot_wait_end(&wait);
  pitot_wait_end(&wait);
  pitot_scope_end();  // never begun
  pitot_batch* batch = pitot_batch_begin(NULL);
  pitot_batch_join(batch, NULL);
  pitot_batch_join_work(batch, NULL, 1);
  pitot_batch_join_many(batch, NULL, NULL, 1);
  pitot_batch_close(batch, 99);
  pitot_batch_finish(batch);
  pitot_request_finish(request, PITOT_OUTCOME_OK);
  pitot_token_stage(&token, "over");
  CHECK("a token outlives its request and does nothing", !pitot_token_is_late(&token));
  CHECK("nothing was closed out of order", StatsOf(recorder).scopes_misnested == 0);
  pitot_recorder_free(recorder);
}

// ---- Structs of older and newer headers. ----

static void AStructOfAnOlderHeaderWorks(void) {
  // As if everything from process_name on had come later.
  pitot_options old;
  memset(&old, 0xee, sizeof old);
  const size_t size = offsetof(pitot_options, process_name);
  pitot_options_init(&old, size);
  CHECK("init leaves fields unknown to an older caller alone",
        old.size == size && ((unsigned char*)&old)[size] == 0xee);
  CHECK("init gives the defaults it has room for", old.clock == PITOT_CLOCK_AUTO && old.incident_directory == NULL);
  old.clock = PITOT_CLOCK_OPERATING_SYSTEM;
  pitot_recorder* recorder = NULL;
  CHECK("an older caller's options start a recorder", pitot_recorder_start(&old, &recorder, MESSAGE) == PITOT_OK);

  pitot_stats stats;
  memset(&stats, 0xee, sizeof stats);
  stats.size = offsetof(pitot_stats, rings_bytes);
  CHECK("an older caller gets stats", pitot_recorder_stats(recorder, &stats, MESSAGE) == PITOT_OK);
  CHECK("and only the fields it has room for",
        stats.size == offsetof(pitot_stats, rings_bytes) && stats.rings_bytes == 0xeeeeeeeeeeeeeeee);

  pitot_latency_trigger trigger;
  pitot_latency_trigger_init(&trigger, sizeof trigger);
  trigger.above_ms = 5;
  trigger.n = 1000;  // refused where it is read
  CHECK("a field out of range is named",
        pitot_recorder_add_latency_trigger(recorder, &trigger, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("1 to 64"));
  trigger.size = offsetof(pitot_latency_trigger, k);
  CHECK("an older caller's trigger is added with defaults",
        pitot_recorder_add_latency_trigger(recorder, &trigger, MESSAGE) == PITOT_OK);
  pitot_recorder_free(recorder);
}

static void AProgramOfRevision0Works(void) {
  pitot_options old;
  memset(&old, 0xee, sizeof old);
  const size_t size = offsetof(pitot_options, overhead_budget_percent);
  pitot_options_init(&old, size);
  CHECK("init leaves the fields of revision 1 alone", old.size == size && ((unsigned char*)&old)[size] == 0xee);
  pitot_recorder* recorder = NULL;
  CHECK("its options start a recorder, with the defaults of later fields",
        pitot_recorder_start(&old, &recorder, MESSAGE) == PITOT_OK);
  pitot_recorder_free(recorder);

  pitot_options options;
  memset(&options, 0xee, sizeof options);
  pitot_options_init(&options, sizeof options);
  CHECK("the defaults of revision 1 are those of C++",
        options.depth == PITOT_DEPTH_AUTO && options.overhead_budget_percent == 1 && options.perfetto_file == 0 &&
            options.language == PITOT_LANGUAGE_C);
}

static void StatsOfRevision1EndBeforeTheDepth(void) {
  pitot_recorder* recorder = Start();
  pitot_stats stats;
  memset(&stats, 0xee, sizeof stats);
  const size_t size = offsetof(pitot_stats, depth);
  stats.size = (uint32_t)size;
  CHECK("a program of revision 1 gets stats", pitot_recorder_stats(recorder, &stats, MESSAGE) == PITOT_OK);
  CHECK("with all the fields it knows", stats.rings_bytes == 32u << 20 && stats.scope_cost_ns > 0);
  CHECK("without the fields about depth", stats.size == size && ((unsigned char*)&stats)[size] == 0xee);
  pitot_recorder_free(recorder);
}

// The options of a possible newer header.
struct newer_options {
  pitot_options known;
  uint64_t unknown;
};

static void AStructOfANewerHeaderWorksIfItsUnknownFieldsAreZero(void) {
  struct newer_options newer;
  memset(&newer, 0xee, sizeof newer);
  pitot_options_init(&newer.known, sizeof newer);
  CHECK("init zeroes fields unknown to the library", newer.known.size == sizeof newer && newer.unknown == 0);
  CHECK("init gives the defaults it knows", newer.known.memory_budget_bytes == 128u << 20);

  pitot_recorder* recorder = NULL;
  newer.unknown = 1;
  CHECK("an unknown field with a value is refused",
        pitot_recorder_start(&newer.known, &recorder, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("newer"));
  CHECK("a failed start gives no handle", recorder == NULL);
  newer.unknown = 0;
  CHECK("an unknown field of zero is accepted", pitot_recorder_start(&newer.known, &recorder, MESSAGE) == PITOT_OK);

  struct {
    pitot_stats known;
    uint64_t unknown;
  } stats;
  memset(&stats, 0xee, sizeof stats);
  stats.known.size = sizeof stats;
  CHECK("a newer caller gets stats", pitot_recorder_stats(recorder, &stats.known, MESSAGE) == PITOT_OK);
  CHECK("and zeros in unknown fields", stats.unknown == 0 && stats.known.rings_bytes == 32u << 20);
  pitot_recorder_free(recorder);
}

static void StructsOfCollectorsFollowTheRules(void) {
  pitot_recorder* recorder = Start();
  struct {
    pitot_cupti known;
    uint64_t unknown;
  } cupti;
  memset(&cupti, 0xee, sizeof cupti);
  pitot_cupti_init(&cupti.known, sizeof cupti);
  CHECK("init gives CUPTI's defaults and zeroes fields unknown to the library",
        cupti.known.size == sizeof cupti && cupti.known.graph_level == 0 && cupti.known.library == NULL &&
            cupti.known.memory_bytes == 64u << 20 && cupti.known.lasting_cost_percent == 1 &&
            cupti.known.allow_torch_profiler == 1 && cupti.known.attach_at_start == PITOT_ATTACH_WHEN_ASKED &&
            cupti.unknown == 0);
  cupti.unknown = 1;
  CHECK("a newer caller's CUPTI is refused if it sets an unknown field",
        pitot_recorder_add_cupti(recorder, &cupti.known, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("newer"));
  cupti.unknown = 0;
  cupti.known.library = "/nowhere/libcupti.so";
  cupti.known.attach_at_start = PITOT_ATTACH_AT_START;
  CHECK("and accepted otherwise",
        pitot_recorder_add_cupti(recorder, &cupti.known, MESSAGE) == PITOT_NOT_FOUND && SAYS("/nowhere"));
  cupti.known.size = offsetof(pitot_cupti, memory_bytes);
  cupti.known.memory_bytes = 1;  // refused where it is read
  cupti.known.graph_level = 1;
  CHECK(
      "an older caller's CUPTI has the defaults of fields unknown to it, and graphs as a whole are looked for at once",
      pitot_recorder_add_cupti(recorder, &cupti.known, MESSAGE) == PITOT_NOT_FOUND);
  cupti.known.graph_level = 0;
  cupti.known.size = sizeof cupti.known;
  cupti.known.memory_bytes = 8u << 20;
  cupti.known.lasting_cost_percent = -1;
  CHECK("a negative lasting cost is refused",
        pitot_recorder_add_cupti(recorder, &cupti.known, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("lasting_cost"));
  cupti.known.lasting_cost_percent = 1;
  cupti.known.attach_at_start = 3;
  CHECK("so is a time of the first call unknown to the library",
        pitot_recorder_add_cupti(recorder, &cupti.known, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("::attach"));
  cupti.known.attach_at_start = PITOT_ATTACH_NEVER;
  CHECK("a CUPTI that is never called needs no library",
        pitot_recorder_add_cupti(recorder, &cupti.known, MESSAGE) == PITOT_OK);
  cupti.known.size = 0;
  CHECK("CUPTI without a size is refused",
        pitot_recorder_add_cupti(recorder, &cupti.known, MESSAGE) == PITOT_INVALID_ARGUMENT &&
            SAYS("pitot_cupti::size does not match") && SAYS("_init"));

  struct {
    pitot_nvml known;
    uint64_t unknown;
  } nvml;
  memset(&nvml, 0xee, sizeof nvml);
  pitot_nvml_init(&nvml.known, sizeof nvml);
  CHECK("init gives NVML's defaults and zeroes fields unknown to the library",
        nvml.known.size == sizeof nvml && nvml.known.rate_hz == 10 && nvml.known.library == NULL &&
            nvml.known.memory_bytes == 2u << 20 && nvml.unknown == 0);
  nvml.unknown = 1;
  CHECK("a newer caller's NVML is refused if it sets an unknown field",
        pitot_recorder_add_nvml(recorder, &nvml.known, MESSAGE) == PITOT_INVALID_ARGUMENT &&
            SAYS("pitot_nvml has a field set for a newer"));
  nvml.unknown = 0;
  nvml.known.library = "/nowhere/libnvidia-ml.so";
  CHECK("and accepted otherwise",
        pitot_recorder_add_nvml(recorder, &nvml.known, MESSAGE) == PITOT_NOT_FOUND && SAYS("/nowhere"));
  nvml.known.size = offsetof(pitot_nvml, memory_bytes);
  nvml.known.memory_bytes = 1;
  CHECK("an older caller's NVML has the defaults of fields unknown to it",
        pitot_recorder_add_nvml(recorder, &nvml.known, MESSAGE) == PITOT_NOT_FOUND);
  nvml.known.size = 0;
  CHECK("NVML without a size is refused",
        pitot_recorder_add_nvml(recorder, &nvml.known, MESSAGE) == PITOT_INVALID_ARGUMENT &&
            SAYS("pitot_nvml::size does not match") && SAYS("_init"));

  pitot_nvtx nvtx;
  pitot_nvtx_init(&nvtx, sizeof nvtx);
  CHECK("init gives NVTX's defaults", nvtx.size == sizeof nvtx && nvtx.capture == 1 && nvtx.mirror_scopes == 1);
  nvtx.reserved = 1;
  CHECK("a reserved field with a value is refused",
        pitot_recorder_add_nvtx(recorder, &nvtx, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("reserved"));
  CHECK("NVTX finds the library", pitot_recorder_add_nvtx(recorder, NULL, MESSAGE) == PITOT_OK);
  CHECK("once", pitot_recorder_add_nvtx(recorder, NULL, MESSAGE) == PITOT_ALREADY_RUNNING);

  pitot_torch torch;
  pitot_torch_init(&torch, sizeof torch);
  CHECK("init gives LibTorch's defaults", torch.size == sizeof torch && torch.shapes == 0 && torch.memory == 1);
  const pitot_status added = pitot_recorder_add_torch(recorder, &torch, MESSAGE);
  CHECK("LibTorch is recorded if the library was built with it, otherwise the message says how to get it",
        added == PITOT_OK || (added == PITOT_UNAVAILABLE && SAYS("PITOT_C_WITH_TORCH")));
  pitot_recorder_free(recorder);
}

static void AStructThatWasNotInitialisedIsRefused(void) {
  pitot_options options;
  pitot_recorder* recorder = NULL;
  memset(&options, 0, sizeof options);
  CHECK("options of zeros are refused",
        pitot_recorder_start(&options, &recorder, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("_init"));
  memset(&options, 0xcc, sizeof options);
  CHECK("options of garbage are refused",
        pitot_recorder_start(&options, &recorder, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("_init"));
  pitot_stats stats;
  memset(&stats, 0xcc, sizeof stats);
  CHECK("stats of garbage are refused", pitot_recorder_stats(NULL, &stats, MESSAGE) == PITOT_INVALID_ARGUMENT);
}

// ---- Statuses and messages. ----

static void AFailureSaysWhy(void) {
  pitot_options options;
  pitot_recorder *recorder = NULL, *second = NULL;
  pitot_options_init(&options, sizeof options);
  options.worker_cpu_percent = 101;
  CHECK("a wrong option is refused",
        pitot_recorder_start(&options, &recorder, MESSAGE) == PITOT_INVALID_ARGUMENT && recorder == NULL);
  CHECK("a wrong option is named", SAYS("worker_cpu_percent"));
  char small[8];
  memset(small, 'x', sizeof small);
  pitot_recorder_start(&options, &recorder, small, sizeof small);
  CHECK("a message is cut to its buffer", strcmp(small, "Options") == 0);
  CHECK("a message is optional", pitot_recorder_start(&options, &recorder, NULL, 0) == PITOT_INVALID_ARGUMENT);
  pitot_options_init(&options, sizeof options);
  options.clock = -1;
  CHECK("an invalid clock is named",
        pitot_recorder_start(&options, &recorder, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("clock"));
  CHECK("a status has a name", strcmp(pitot_status_name(PITOT_ALREADY_RUNNING), "already_running") == 0);
  CHECK("any number has one", pitot_status_name(-7) != NULL && pitot_status_name(1 << 20) != NULL);

  recorder = Start();
  CHECK("the message of a success is empty", strcmp(g_message, "") == 0);
  CHECK("a second recorder is refused",
        pitot_recorder_start(NULL, &second, MESSAGE) == PITOT_ALREADY_RUNNING && second == NULL && SAYS("libpitot_c"));
  pitot_recorder_stop(recorder, 5000);
  pitot_recorder_stop(recorder, 5000);
  CHECK("a stopped recorder says so", pitot_recorder_status(recorder, MESSAGE) == PITOT_NOT_RUNNING && SAYS("stopped"));
  pitot_recorder_free(recorder);
}

static int32_t Never(void* context, const pitot_request_view* request) { return context == request; }

// Each field reaches the library: a wrong value is refused by the field's name.
#define REFUSES_OPTION(field, wrong)                                                                          \
  do {                                                                                                        \
    pitot_options options;                                                                                    \
    pitot_recorder* recorder = NULL;                                                                          \
    pitot_options_init(&options, sizeof options);                                                             \
    options.field = wrong;                                                                                    \
    CHECK("a wrong " #field " is named",                                                                      \
          pitot_recorder_start(&options, &recorder, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("::" #field)); \
  } while (0)
#define REFUSES_TRIGGER(kind, valid, field, wrong)                                                      \
  do {                                                                                                  \
    pitot_##kind##_trigger trigger;                                                                     \
    pitot_##kind##_trigger_init(&trigger, sizeof trigger);                                              \
    trigger.valid;                                                                                      \
    trigger.field = wrong;                                                                              \
    CHECK("a wrong " #field " is named",                                                                \
          pitot_recorder_add_##kind##_trigger(recorder, &trigger, MESSAGE) == PITOT_INVALID_ARGUMENT && \
              SAYS("::" #field));                                                                       \
  } while (0)

static void EveryFieldReachesTheLibrary(void) {
  static char too_long[4000];
  memset(too_long, 'x', sizeof too_long - 1);
  REFUSES_OPTION(clock, 3);
  REFUSES_OPTION(incident_directory, too_long);
  REFUSES_OPTION(black_box_directory, too_long);
  REFUSES_OPTION(memory_budget_bytes, 1);
  REFUSES_OPTION(max_ring_bytes, 1);
  REFUSES_OPTION(min_ring_bytes, 1);
  REFUSES_OPTION(max_grown_ring_bytes, 1);
  REFUSES_OPTION(max_open_requests, 1);
  REFUSES_OPTION(pre_window_ms, 0);
  REFUSES_OPTION(post_window_ms, 60001);
  REFUSES_OPTION(max_incidents_per_cause_and_hour, 0);
  REFUSES_OPTION(max_incidents_kept, 0);
  REFUSES_OPTION(worker_cpu_percent, 0);
  REFUSES_OPTION(max_incident_directory_bytes, 0);
  REFUSES_OPTION(overhead_budget_percent, 0);
  REFUSES_OPTION(depth, 4);
  REFUSES_OPTION(depth, -1);
  REFUSES_OPTION(depth, 256 + PITOT_DEPTH_KERNELS);  // not cut to eight bits, a valid depth
  REFUSES_OPTION(perfetto_file, 2);
  REFUSES_OPTION(accept_unsafe_directory, 2);
  REFUSES_OPTION(handle_ends, 4);
  REFUSES_OPTION(handle_ends, 256);  // not cut to eight bits, a valid value
  REFUSES_OPTION(end_grace_ms, 0);
  REFUSES_OPTION(language, 3);
  REFUSES_OPTION(language, -1);

  pitot_recorder* recorder = Start();
  REFUSES_TRIGGER(latency, above_ms = 1, memory, 1);
  REFUSES_TRIGGER(latency, above_ms = 1, route, "");
  REFUSES_TRIGGER(latency, or_above_quantile = 0.9, above_ms, -1);
  REFUSES_TRIGGER(latency, above_ms = 1, or_above_quantile, 2);
  REFUSES_TRIGGER(latency, above_ms = 1, k, 2);
  REFUSES_TRIGGER(latency, above_ms = 1, n, 65);
  REFUSES_TRIGGER(latency, above_ms = 1, pre_window_ms, 3600001);
  REFUSES_TRIGGER(latency, above_ms = 1, post_window_ms, 60001);
  REFUSES_TRIGGER(failure, on_failed = 1, route, "");
  REFUSES_TRIGGER(failure, on_failed = 1, pre_window_ms, 3600001);
  REFUSES_TRIGGER(failure, on_failed = 1, post_window_ms, 60001);
  REFUSES_TRIGGER(failure, on_failed = 1, reserved, 1);
  REFUSES_TRIGGER(tokens, gap_above_ms = 1, route, "");
  REFUSES_TRIGGER(tokens, gap_above_ms = 1, first_token_above_ms, -1);
  REFUSES_TRIGGER(tokens, first_token_above_ms = 1, gap_above_ms, -1);
  REFUSES_TRIGGER(tokens, gap_above_ms = 1, pre_window_ms, 3600001);
  REFUSES_TRIGGER(tokens, gap_above_ms = 1, post_window_ms, 60001);
  REFUSES_TRIGGER(stall, scope_open_ms = 1, route, "");
  REFUSES_TRIGGER(stall, scope_open_ms = 1, request_open_ms, -1);
  REFUSES_TRIGGER(stall, scope_open_ms = 1, scope, "");
  REFUSES_TRIGGER(stall, request_open_ms = 1, scope_open_ms, -1);
  REFUSES_TRIGGER(stall, scope_open_ms = 1, pre_window_ms, 3600001);
  REFUSES_TRIGGER(stall, scope_open_ms = 1, post_window_ms, 60001);
  REFUSES_TRIGGER(drift, above_percent = 20, route, "");
  REFUSES_TRIGGER(drift, above_percent = 20, above_percent, 4);
  REFUSES_TRIGGER(drift, above_percent = 20, recent_requests, 99);
  REFUSES_TRIGGER(drift, recent_requests = 500, reference_requests, 4999);
  REFUSES_TRIGGER(drift, above_percent = 20, pre_window_ms, 3600001);
  REFUSES_TRIGGER(drift, above_percent = 20, post_window_ms, 60001);
  REFUSES_TRIGGER(predicate, predicate = Never, cause, "");
  REFUSES_TRIGGER(predicate, predicate = Never, predicate, NULL);
  REFUSES_TRIGGER(predicate, predicate = Never, pre_window_ms, 3600001);
  REFUSES_TRIGGER(predicate, predicate = Never, post_window_ms, 60001);
  pitot_recorder_free(recorder);
}

static void TheEnvironmentIsReadOnRequest(void) {
  pitot_options options;
  setenv("PITOT_PRE_WINDOW_MS", "1234", 1);
  setenv("PITOT_CLOCK", "sundial", 1);
  setenv("PITOT_PROCESS_NAME", "named", 1);
  setenv("PITOT_INCIDENT_DIRECTORY", "/somewhere", 1);
  pitot_options_init(&options, sizeof options);
  CHECK("the defaults ignore it", options.pre_window_ms == 5000 && options.post_window_ms == 100 &&
                                      options.clock == PITOT_CLOCK_AUTO && options.process_name == NULL);
  pitot_options_init_from_environment(&options, sizeof options);
  CHECK("a variable is read", options.pre_window_ms == 1234 && strcmp(options.process_name, "named") == 0 &&
                                  strcmp(options.incident_directory, "/somewhere") == 0);
  pitot_recorder* recorder = NULL;
  CHECK("a variable that does not parse is refused by name",
        pitot_recorder_start(&options, &recorder, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("PITOT_CLOCK"));
  unsetenv("PITOT_PRE_WINDOW_MS");
  unsetenv("PITOT_CLOCK");
  unsetenv("PITOT_PROCESS_NAME");
  unsetenv("PITOT_INCIDENT_DIRECTORY");
  setenv("PITOT_OFF", "1", 1);
  CHECK("PITOT_OFF=1 switches off", pitot_recorder_start(NULL, &recorder, MESSAGE) == PITOT_DISABLED);
  unsetenv("PITOT_OFF");
}

// ---- Collectors. ----

typedef int (*subscribe_function)(void** subscriber, void (*callback)(void), void* context);
typedef int (*unsubscribe_function)(void* subscriber);
enum { kTaken = 39 };  // CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
static void NeverCalled(void) {}

static void ADepthIsSetOrRefusedByName(void) {
  pitot_recorder* recorder = Start();
  const pitot_depth depths[] = {PITOT_DEPTH_SCOPES, PITOT_DEPTH_GRAPHS, PITOT_DEPTH_KERNELS, PITOT_DEPTH_OPS,
                                PITOT_DEPTH_AUTO};
  for (size_t i = 0; i < sizeof depths / sizeof *depths; ++i)
    CHECK("a depth is set", pitot_recorder_set_depth(recorder, depths[i], MESSAGE) == PITOT_OK);
  const pitot_depth wrong[] = {-1, 4, 254, 256, 256 + PITOT_DEPTH_KERNELS};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    CHECK("an invalid depth is refused by name",
          pitot_recorder_set_depth(recorder, wrong[i], MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("depth"));
  }
  CHECK("without a collector nothing is handed over", pitot_recorder_pause(recorder, "cupti", MESSAGE) == PITOT_OK);
  CHECK("or taken back", pitot_recorder_resume(recorder, "cupti", MESSAGE) == PITOT_OK);
  pitot_recorder_stop(recorder, 5000);
  CHECK("a stopped recorder refuses a depth",
        pitot_recorder_set_depth(recorder, PITOT_DEPTH_AUTO, MESSAGE) == PITOT_NOT_RUNNING && SAYS("stopped"));
  CHECK("and CUPTI", pitot_recorder_add_cupti(recorder, NULL, MESSAGE) == PITOT_NOT_RUNNING);
  CHECK("and NVML", pitot_recorder_add_nvml(recorder, NULL, MESSAGE) == PITOT_NOT_RUNNING);
  CHECK("and hands nothing over", pitot_recorder_pause(recorder, "cupti", MESSAGE) == PITOT_NOT_RUNNING);
  pitot_recorder_free(recorder);
}

static void CuptiIsTakenHandedOverAndTakenBack(void) {
  void* library = dlopen(PITOT_FAKE_CUPTI, RTLD_NOW | RTLD_LOCAL);
  CHECK("there is a CUPTI", library != NULL);
  if (library == NULL) return;
  subscribe_function subscribe;
  unsubscribe_function unsubscribe;
  *(void**)&subscribe = dlsym(library, "cuptiSubscribe");
  *(void**)&unsubscribe = dlsym(library, "cuptiUnsubscribe");
  void* other = NULL;

  pitot_recorder* recorder = Start();
  pitot_cupti cupti;
  pitot_cupti_init(&cupti, sizeof cupti);
  cupti.library = PITOT_FAKE_CUPTI;
  cupti.memory_bytes = 1;
  CHECK("too little memory is named",
        pitot_recorder_add_cupti(recorder, &cupti, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("::memory_bytes"));
  cupti.memory_bytes = 8u << 20;
  cupti.attach_at_start = PITOT_ATTACH_AT_START;
  CHECK("another tool subscribes", subscribe(&other, NeverCalled, NULL) == 0);
  CHECK("a status reports that another tool has CUPTI",
        pitot_recorder_add_cupti(recorder, &cupti, MESSAGE) == PITOT_UNAVAILABLE && SAYS("another tool has CUPTI"));
  CHECK("the other tool ends", unsubscribe(other) == 0);

  CHECK("CUPTI is taken", pitot_recorder_add_cupti(recorder, &cupti, MESSAGE) == PITOT_OK);
  CHECK("another tool cannot take it now", subscribe(&other, NeverCalled, NULL) == kTaken);
  CHECK("it is taken once", pitot_recorder_add_cupti(recorder, &cupti, MESSAGE) == PITOT_ALREADY_RUNNING);
  CHECK("a depth chosen by the governor is explained", strstr(StatsOf(recorder).depth_state, "scopes") != NULL);
  CHECK("a depth is set", pitot_recorder_set_depth(recorder, PITOT_DEPTH_KERNELS, MESSAGE) == PITOT_OK);
  CHECK("stats report the depth", StatsOf(recorder).depth == PITOT_DEPTH_KERNELS);
  CHECK("a fixed depth has no explanation", strcmp(StatsOf(recorder).depth_state, "") == 0);
  CHECK("it is handed over", pitot_recorder_pause(recorder, "cupti", MESSAGE) == PITOT_OK);
  CHECK("handing it over again does nothing", pitot_recorder_pause(recorder, "cupti", MESSAGE) == PITOT_OK);
  CHECK("the other tool takes it", subscribe(&other, NeverCalled, NULL) == 0);
  CHECK("it is not taken back while another tool has it, with the reason",
        pitot_recorder_resume(recorder, "cupti", MESSAGE) == PITOT_UNAVAILABLE && SAYS("another tool has CUPTI"));
  CHECK("the other tool gives it back", unsubscribe(other) == 0);
  CHECK("it is taken back", pitot_recorder_resume(recorder, "cupti", MESSAGE) == PITOT_OK);
  CHECK("and is Pitot's again", subscribe(&other, NeverCalled, NULL) == kTaken);
  pitot_recorder_free(recorder);
  CHECK("a freed recorder gives it back", subscribe(&other, NeverCalled, NULL) == 0);
  unsubscribe(other);
}

static void StacksAreRead(void) {
  pitot_recorder* recorder = Start();
  pitot_stacks stacks;
  pitot_stacks_init(&stacks, sizeof stacks);
  CHECK("init gives the defaults of stacks", stacks.most_stacks == 64 && stacks.most_threads == 16 &&
                                                 stacks.running_threads == PITOT_RUNNING_UNLESS_FILTERED);
  stacks.most_stacks = 0;
  CHECK("a number of stacks out of range is named",
        pitot_recorder_add_stacks(recorder, &stacks, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("::most_stacks is 0"));
  stacks.most_stacks = 1;
  stacks.running_threads = 257;
  CHECK("and a choice that does not exist",
        pitot_recorder_add_stacks(recorder, &stacks, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("running_threads"));
  stacks.running_threads = PITOT_RUNNING_NEVER;
  CHECK("stacks are read", pitot_recorder_add_stacks(recorder, &stacks, MESSAGE) == PITOT_OK);
  CHECK("once", pitot_recorder_add_stacks(recorder, NULL, MESSAGE) == PITOT_ALREADY_RUNNING);
  pitot_recorder_free(recorder);
}

static void TheHostIsSampled(void) {
  pitot_recorder* recorder = Start();
  pitot_host host;
  pitot_host_init(&host, sizeof host);
  CHECK("init gives the host's defaults",
        host.rate_hz == 10 && host.thread_rate_hz == 50 && host.most_threads == 64 && host.memory_bytes == 4u << 20);
  host.rate_hz = 51;
  CHECK("a host's rate out of range is named",
        pitot_recorder_add_host(recorder, &host, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("::rate_hz is 51"));
  host.rate_hz = 50;
  host.thread_rate_hz = 0;
  CHECK("and the threads' rate",
        pitot_recorder_add_host(recorder, &host, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("::thread_rate_hz"));
  host.thread_rate_hz = 200;
  host.most_threads = 0;
  CHECK("and the number of threads",
        pitot_recorder_add_host(recorder, &host, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("::most_threads"));
  host.most_threads = 8;
  host.memory_bytes = 1;
  CHECK("and the memory",
        pitot_recorder_add_host(recorder, &host, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("::memory_bytes"));
  host.memory_bytes = 64u << 10;
  CHECK("the host is sampled", pitot_recorder_add_host(recorder, &host, MESSAGE) == PITOT_OK);
  CHECK("once", pitot_recorder_add_host(recorder, NULL, MESSAGE) == PITOT_ALREADY_RUNNING);
  pitot_recorder_free(recorder);
}

static void NvmlIsSampled(void) {
  pitot_recorder* recorder = Start();
  pitot_nvml nvml;
  pitot_nvml_init(&nvml, sizeof nvml);
  nvml.library = PITOT_FAKE_NVML;
  nvml.rate_hz = 51;
  CHECK("a rate out of range is named",
        pitot_recorder_add_nvml(recorder, &nvml, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("::rate_hz is 51"));
  nvml.rate_hz = 50;
  nvml.memory_bytes = 1;
  CHECK("too little memory is named",
        pitot_recorder_add_nvml(recorder, &nvml, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("::memory_bytes"));
  nvml.memory_bytes = 64u << 10;
  CHECK("NVML is sampled", pitot_recorder_add_nvml(recorder, &nvml, MESSAGE) == PITOT_OK);
  pitot_recorder_free(recorder);
}

static void GpusAreRecordedAllTheTime(void) {
  pitot_recorder* recorder = Start();
  pitot_counters counters;
  pitot_counters_init(&counters, sizeof counters);
  CHECK("init gives the counters' defaults", counters.size == sizeof counters && counters.interval_us == 0 &&
                                                 counters.library == NULL && counters.most_cpu_percent == 2 &&
                                                 counters.memory_bytes == 1u << 20);
  counters.interval_us = 50;
  CHECK("an interval out of range is named",
        pitot_recorder_add_counters(recorder, &counters, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("::interval_us"));
  counters.interval_us = 8000;
  pitot_cuda_events events;
  pitot_cuda_events_init(&events, sizeof events);
  CHECK("init gives the defaults of CUDA events",
        events.size == sizeof events && events.pairs_per_context == 256 && events.memory_bytes == 1u << 20);
  events.pairs_per_context = 0;
  CHECK("a number of pairs out of range is named",
        pitot_recorder_add_cuda_events(recorder, &events, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("::pairs_per"));

  struct {
    pitot_gpu known;
    uint64_t unknown;
  } gpu;
  memset(&gpu, 0xee, sizeof gpu);
  pitot_gpu_init(&gpu.known, sizeof gpu);
  CHECK("init gives the GPU's defaults and zeroes fields unknown to the library",
        gpu.known.size == sizeof gpu && gpu.known.with_counters == 1 && gpu.known.with_cuda_events == 1 &&
            gpu.known.with_nvml == 1 && gpu.known.counters == NULL && gpu.known.cuda_events == NULL &&
            gpu.known.nvml == NULL && gpu.unknown == 0);
  gpu.unknown = 1;
  CHECK("a newer caller is refused if it sets an unknown field",
        pitot_recorder_enable_gpu(recorder, &gpu.known, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("newer"));
  gpu.unknown = 0;
  pitot_nvml nvml;
  pitot_nvml_init(&nvml, sizeof nvml);
  nvml.library = PITOT_FAKE_NVML;
  gpu.known.nvml = &nvml;
  gpu.known.counters = &counters;
  counters.size = 0;
  CHECK("options of a collector without a size are refused",
        pitot_recorder_enable_gpu(recorder, &gpu.known, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("_init"));
  counters.size = sizeof counters;
  gpu.known.cuda_events = &events;
  CHECK("options of a collector are passed on",
        pitot_recorder_enable_gpu(recorder, &gpu.known, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("::pairs_per"));
  CHECK("a wrong one adds no collector", pitot_set_counter_interval(500, MESSAGE) == PITOT_UNAVAILABLE);
  gpu.known.with_cuda_events = 0;
  CHECK("a corrected call adds the others", pitot_recorder_enable_gpu(recorder, &gpu.known, MESSAGE) == PITOT_OK);
  CHECK("the interval of running counters can be changed", pitot_set_counter_interval(500, MESSAGE) == PITOT_OK);
  CHECK("an interval that cannot be is refused",
        pitot_set_counter_interval(99, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("99 us"));
  CHECK("counters are there", pitot_recorder_add_counters(recorder, NULL, MESSAGE) == PITOT_ALREADY_RUNNING);
  CHECK("CUDA calls are there", pitot_recorder_add_cuda_calls(recorder, NULL, MESSAGE) == PITOT_ALREADY_RUNNING);
  CHECK("NVML is there", pitot_recorder_add_nvml(recorder, &nvml, MESSAGE) == PITOT_ALREADY_RUNNING);
  gpu.known.with_counters = gpu.known.with_cuda_calls = gpu.known.with_nvml = 0;
  gpu.known.with_cuda_events = 1;
  gpu.known.cuda_events = NULL;
  CHECK("a collector can be left out", pitot_recorder_enable_gpu(recorder, &gpu.known, MESSAGE) == PITOT_OK);
  CHECK("CUDA events are there", pitot_recorder_add_cuda_events(recorder, NULL, MESSAGE) == PITOT_ALREADY_RUNNING);

  pitot_set_work_stream(NULL);  // this thread works for nothing
  pitot_cuda_scope scope;
  memset(&scope, 0xee, sizeof scope);
  pitot_cuda_scope_end(&scope);  // never begun
  pitot_cuda_scope_begin(&scope, NULL, pitot_intern("forward"));
  pitot_cuda_scope_end(&scope);
  pitot_cuda_scope_end(&scope);
  CHECK("a CUDA scope without a driver is not open", scope.opaque[3] == 0);
  pitot_recorder_free(recorder);
  CHECK("the next recorder can have all of them, without a GPU, too",
        (recorder = Start()) != NULL &&
            (pitot_recorder_enable_gpu(recorder, NULL, MESSAGE) == PITOT_OK || SAYS("NVML") || SAYS("nvml")));
  pitot_recorder_free(recorder);
}

// With GPUs the status is PITOT_OK; without them the message names the missing part.
static void WithoutAGpuAStatusSaysWhy(void) {
  pitot_recorder* recorder = Start();
  CHECK("NVML is added with the defaults, or a message gives the reason",
        pitot_recorder_add_nvml(recorder, NULL, MESSAGE) == PITOT_OK || strlen(g_message) > 20);
  CHECK("CUPTI is added with the defaults, and not called",
        pitot_recorder_add_cupti(recorder, NULL, MESSAGE) == PITOT_OK);
  pitot_cupti at_start;
  pitot_cupti_init(&at_start, sizeof at_start);
  at_start.attach_at_start = PITOT_ATTACH_AT_START;
  const pitot_status cupti = pitot_recorder_add_cupti(recorder, &at_start, MESSAGE);
  CHECK("CUPTI is called, or a message gives the reason",
        cupti == PITOT_OK || ((cupti == PITOT_NOT_FOUND || cupti == PITOT_UNAVAILABLE) && strlen(g_message) > 20));
  CHECK("the recorder runs on", pitot_recorder_status(recorder, MESSAGE) == PITOT_OK);
  pitot_recorder_free(recorder);
}

// ---- Callbacks. ----

static char g_logged[256];
static void Log(void* context, pitot_log_level level, const char* message) {
  if (context == g_logged && level == PITOT_LOG_ERROR) snprintf(g_logged, sizeof g_logged, "%s", message);
}

struct seen {
  char message[256];
  int incidents;
  pitot_incident last;
  char cause[64], detail[64];
};
static void OnIncident(void* context, const pitot_incident* incident) {
  struct seen* seen = context;
  ++seen->incidents;
  seen->last = *incident;
  snprintf(seen->cause, sizeof seen->cause, "%s", incident->cause);
  snprintf(seen->detail, sizeof seen->detail, "%s", incident->detail);
  snprintf(seen->message, sizeof seen->message, "%s", incident->message);
}

static int32_t IsForTeapots(void* context, const pitot_request_view* request) {
  ++*(int*)context;
  return request->size == sizeof *request && strcmp(request->route, "/teapot") == 0 &&
         request->outcome == PITOT_OUTCOME_SHED && request->size_bucket == 4 && request->latency_ns > 0;
}

static void CallbacksAreCalledWithTheirContext(void) {
  static struct seen seen;  // lives for the life of the process, as the header requires
  static int asked;
  pitot_options options;
  pitot_options_init(&options, sizeof options);
  options.post_window_ms = 0;
  options.log = Log;
  options.log_context = g_logged;
  pitot_recorder* recorder = NULL;
  CHECK("a recorder with a log starts", pitot_recorder_start(&options, &recorder, MESSAGE) == PITOT_OK);
  CHECK("a hook is set", pitot_recorder_on_incident(recorder, OnIncident, &seen, MESSAGE) == PITOT_OK);

  pitot_predicate_trigger trigger;
  pitot_predicate_trigger_init(&trigger, sizeof trigger);
  CHECK(
      "a predicate without a function is refused",
      pitot_recorder_add_predicate_trigger(recorder, &trigger, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("predicate"));
  CHECK("and logged", strcmp(g_logged, g_message) == 0);
  trigger.predicate = IsForTeapots;
  trigger.context = &asked;
  trigger.cause = "teapot";
  CHECK("a predicate is added", pitot_recorder_add_predicate_trigger(recorder, &trigger, MESSAGE) == PITOT_OK);

  pitot_request_finish(pitot_request_begin("/coffee", NULL, 0), PITOT_OUTCOME_SHED);
  CHECK("incidents are flushed", pitot_recorder_flush(recorder, 60000, MESSAGE) == PITOT_OK);
  CHECK("a false predicate does not begin an incident", asked == 1 && seen.incidents == 0);
  pitot_request* teapot = pitot_request_begin("/teapot", NULL, 0);
  const uint64_t id = pitot_request_id(teapot);
  pitot_request_set_size(teapot, "cups", 8);
  pitot_request_finish(teapot, PITOT_OUTCOME_SHED);
  CHECK("incidents are flushed", pitot_recorder_flush(recorder, 60000, MESSAGE) == PITOT_OK);
  CHECK("a true predicate begins one", asked == 2 && seen.incidents == 1);
  CHECK("the hook gets the incident", strcmp(seen.cause, "teapot") == 0 && seen.last.first_request == id &&
                                          seen.last.slow_requests == 1 && seen.last.number == 1);
  CHECK("the hook gets an explanation", strstr(seen.detail, "/teapot, shed after ") == seen.detail);
  CHECK("without a directory the incident has none", seen.last.directory == NULL && seen.last.status == PITOT_OK);

  CHECK("a hook is removed", pitot_recorder_on_incident(recorder, NULL, NULL, MESSAGE) == PITOT_OK);
  CHECK("an incident is triggered", pitot_recorder_trigger(recorder, "because", MESSAGE) == PITOT_OK);
  CHECK("incidents are flushed", pitot_recorder_flush(recorder, 60000, MESSAGE) == PITOT_OK);
  CHECK("a removed hook is not called", seen.incidents == 1);
  pitot_recorder_free(recorder);
}

struct completed {
  const struct seen* seen;
  int verdicts, incidents_before;
  int has_report;
  char opening[64];
};
static void OnVerdict(void* context, const pitot_incident* incident) {
  struct completed* it = context;
  ++it->verdicts;
  it->incidents_before = it->seen->incidents;
  char path[4096];
  snprintf(path, sizeof path, "%s/report.txt", incident->directory != NULL ? incident->directory : "");
  FILE* report = fopen(path, "r");
  it->has_report = report != NULL && fgets(it->opening, sizeof it->opening, report) != NULL;
  if (report != NULL) fclose(report);
  if (incident->size != sizeof *incident || incident->status != PITOT_OK) it->has_report = 0;
  if (incident->verdict[0] != '\0' && strncmp(it->opening, incident->verdict, 8) != 0) it->has_report = 0;
  if (incident->verdict[0] == '\0') it->opening[0] = '\0';
}

static void TheHookForVerdictsHasEveryFile(void) {
  static struct seen seen;
  static struct completed completed = {.seen = &seen};
  char folder[] = "/tmp/pitot-c-test-XXXXXX";
  CHECK("a folder is made", mkdtemp(folder) != NULL);
  pitot_options options;
  pitot_options_init(&options, sizeof options);
  options.incident_directory = folder;
  options.post_window_ms = 0;
  pitot_recorder* recorder = NULL;
  CHECK("a recorder starts", pitot_recorder_start(&options, &recorder, MESSAGE) == PITOT_OK);
  CHECK("a hook is set", pitot_recorder_on_incident(recorder, OnIncident, &seen, MESSAGE) == PITOT_OK);
  CHECK("and one for verdicts", pitot_recorder_on_verdict(recorder, OnVerdict, &completed, MESSAGE) == PITOT_OK);
  CHECK("an incident is triggered", pitot_recorder_trigger(recorder, NULL, MESSAGE) == PITOT_OK);
  CHECK("incidents are flushed", pitot_recorder_flush(recorder, 60000, MESSAGE) == PITOT_OK);
  CHECK("it comes without a judge, and after the incident", completed.verdicts == 1 && completed.incidents_before == 1);
  CHECK("report.txt is there, without a verdict", completed.has_report && completed.opening[0] == '\0');

  CHECK("a judge is added", pitot_recorder_add_why(recorder, NULL, MESSAGE) == PITOT_OK);
  CHECK("an incident is triggered", pitot_recorder_trigger(recorder, NULL, MESSAGE) == PITOT_OK);
  CHECK("incidents are flushed", pitot_recorder_flush(recorder, 60000, MESSAGE) == PITOT_OK);
  CHECK("with a judge it has the verdict", completed.verdicts == 2 && completed.has_report && completed.opening[0]);

  CHECK("a hook is removed", pitot_recorder_on_incident(recorder, NULL, NULL, MESSAGE) == PITOT_OK);
  CHECK("an incident is triggered", pitot_recorder_trigger(recorder, NULL, MESSAGE) == PITOT_OK);
  CHECK("incidents are flushed", pitot_recorder_flush(recorder, 60000, MESSAGE) == PITOT_OK);
  CHECK("the other one stays", completed.verdicts == 3 && seen.incidents == 2);
  pitot_recorder_free(recorder);
}

static void AnIncidentThatCannotBeWrittenIsToldWhy(void) {
  static struct seen seen;
  char folder[] = "/tmp/pitot-c-test-XXXXXX";
  CHECK("a folder is made", mkdtemp(folder) != NULL);
  pitot_options options;
  pitot_options_init(&options, sizeof options);
  options.incident_directory = folder;
  options.post_window_ms = 0;
  pitot_recorder* recorder = NULL;
  CHECK("a recorder starts", pitot_recorder_start(&options, &recorder, MESSAGE) == PITOT_OK);
  pitot_recorder_on_incident(recorder, OnIncident, &seen, NULL, 0);
  CHECK("the folder is removed", rmdir(folder) == 0);
  FILE* in_its_place = fopen(folder, "w");
  CHECK("a file takes its place", in_its_place != NULL && fclose(in_its_place) == 0);
  CHECK("an incident is triggered", pitot_recorder_trigger(recorder, NULL, MESSAGE) == PITOT_OK);
  CHECK("incidents are flushed", pitot_recorder_flush(recorder, 60000, MESSAGE) == PITOT_OK);
  CHECK("the hook gets the incident", seen.incidents == 1 && seen.last.size == sizeof(pitot_incident));
  CHECK("without a directory and with the reason",
        seen.last.status != PITOT_OK && seen.message[0] != '\0' && seen.last.directory == NULL);
  CHECK("the failure is counted", StatsOf(recorder).incidents_failed == 1);
  pitot_recorder_free(recorder);
  unlink(folder);
}

// ---- Triggers. ----

static int WaitForFirings(pitot_recorder* recorder, uint64_t count) {
  const struct timespec pause = {0, 200000};
  for (const time_t deadline = Deadline(); StatsOf(recorder).triggers_fired < count; nanosleep(&pause, NULL)) {
    if (time(NULL) > deadline) return 0;
  }
  return 1;
}

static void TheBuiltInTriggersFire(void) {
  pitot_recorder* recorder = Start();
  pitot_failure_trigger failure;
  pitot_failure_trigger_init(&failure, sizeof failure);
  CHECK("failures count by default", failure.on_failed == 1 && failure.on_timed_out == 1 && failure.on_abandoned == 0);
  failure.route = "/failing";
  failure.on_timed_out = 0;
  CHECK("a failure trigger is added", pitot_recorder_add_failure_trigger(recorder, &failure, MESSAGE) == PITOT_OK);
  pitot_request_finish(pitot_request_begin("/failing", NULL, 0), PITOT_OUTCOME_OK);
  pitot_request_finish(pitot_request_begin("/failing", NULL, 0), PITOT_OUTCOME_TIMED_OUT);
  CHECK("it does not fire on other outcomes", StatsOf(recorder).triggers_fired == 0);
  pitot_request_finish(pitot_request_begin("/failing", NULL, 0), PITOT_OUTCOME_FAILED);
  CHECK("it fires on a failure", StatsOf(recorder).triggers_fired == 1);

  pitot_tokens_trigger tokens;
  pitot_tokens_trigger_init(&tokens, sizeof tokens);
  tokens.route = "/generate";
  tokens.first_token_above_ms = 1e-6;
  CHECK("a tokens trigger is added", pitot_recorder_add_tokens_trigger(recorder, &tokens, MESSAGE) == PITOT_OK);
  pitot_request* request = pitot_request_begin("/generate", NULL, 0);
  CHECK("it does not fire on a request", StatsOf(recorder).triggers_fired == 1);
  const pitot_token token = pitot_request_token(request);
  pitot_token_emit(&token, 3);
  CHECK("it fires on a late token", StatsOf(recorder).triggers_fired == 2);
  pitot_request_finish(request, PITOT_OUTCOME_OK);

  pitot_tokens_trigger gaps;
  pitot_tokens_trigger_init(&gaps, sizeof gaps);
  CHECK("quantiles of tokens are off", gaps.gap_or_above_quantile == 0 && gaps.first_token_or_above_quantile == 0);
  CHECK("and have the defaults of C++", gaps.memory == 10000 && gaps.warm_up_marks == 200);
  gaps.route = "/stream";
  gaps.gap_or_above_quantile = 0.4;
  CHECK("a quantile below the median is refused",
        pitot_recorder_add_tokens_trigger(recorder, &gaps, MESSAGE) == PITOT_INVALID_ARGUMENT);
  gaps.gap_or_above_quantile = 0.5;
  CHECK("a quantile of gaps is added", pitot_recorder_add_tokens_trigger(recorder, &gaps, MESSAGE) == PITOT_OK);
  request = pitot_request_begin("/stream", NULL, 0);
  for (int i = 0; i < 200; ++i) pitot_request_emit(request, 1);
  CHECK("it learns first", StatsOf(recorder).triggers_fired == 2);
  for (const time_t deadline = Deadline(); StatsOf(recorder).triggers_fired == 2 && time(NULL) < deadline;)
    pitot_request_emit(request, 1);
  CHECK("it fires on a gap that is longer than half of the others", StatsOf(recorder).triggers_fired == 3);
  pitot_request_finish(request, PITOT_OUTCOME_OK);

  pitot_stall_trigger stall;
  pitot_stall_trigger_init(&stall, sizeof stall);
  stall.scope = "hang";
  stall.scope_open_ms = 1;
  CHECK("a stall trigger is added", pitot_recorder_add_stall_trigger(recorder, &stall, MESSAGE) == PITOT_OK);
  pitot_scope_begin(pitot_intern("hang"));
  CHECK("it fires while a scope is open", WaitForFirings(recorder, 4));
  pitot_scope_end();

  pitot_drift_trigger drift;
  pitot_drift_trigger_init(&drift, sizeof drift);
  CHECK("init gives a drift's defaults", drift.route == NULL && drift.above_percent == 20 &&
                                             drift.recent_requests == 500 && drift.reference_requests == 20000 &&
                                             drift.cool_down_ms == 600000);
  CHECK("a drift trigger is added", pitot_recorder_add_drift_trigger(recorder, &drift, MESSAGE) == PITOT_OK);
  pitot_why why;
  pitot_why_init(&why, sizeof why);
  CHECK("init gives the judge's defaults", why.budget_ms == 2000 && why.html == 1 && why.sample_every_ms == 10000 &&
                                               why.sample_window_ms == 8000 && why.warm_up_ms == 30000 &&
                                               why.baseline_file == NULL);
  CHECK("a judge is added", pitot_recorder_add_why(recorder, &why, MESSAGE) == PITOT_OK);

  pitot_latency_trigger latency;
  pitot_latency_trigger_init(&latency, sizeof latency);
  CHECK("a latency trigger needs a threshold",
        pitot_recorder_add_latency_trigger(recorder, &latency, MESSAGE) == PITOT_INVALID_ARGUMENT && SAYS("above_ms"));
  latency.route = "/slow";
  latency.above_ms = 1e-6;
  CHECK("a latency trigger is added", pitot_recorder_add_latency_trigger(recorder, &latency, MESSAGE) == PITOT_OK);
  request = pitot_request_begin("/slow", NULL, pitot_now());
  for (const time_t deadline = Deadline(); !pitot_request_is_late(request) && time(NULL) < deadline;) {}
  CHECK("a request beyond the objective is late", pitot_request_is_late(request));
  pitot_request_finish(request, PITOT_OUTCOME_OK);
  CHECK("it fires on a slow request", StatsOf(recorder).triggers_fired == 5);
  pitot_recorder_free(recorder);
}

// ---- Requests. ----

static void ARequestKeepsItsTrace(void) {
  static const char kTraceparent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  pitot_recorder* recorder = Start();
  pitot_request* request = pitot_request_begin("/traced", kTraceparent, 0);
  char own[56], of_child[56], expected[56];
  pitot_request_write_traceparent(request, own);
  snprintf(expected, sizeof expected, "00-4bf92f3577b34da6a3ce929d0e0e4736-%016llx-01",
           (unsigned long long)pitot_request_id(request));
  CHECK("a request continues the caller's trace", strcmp(own, expected) == 0);
  pitot_request* child = pitot_request_begin_child(request, "/part");
  pitot_request_write_traceparent(child, of_child);
  CHECK("so does a child", strncmp(of_child, own, 35) == 0 && strcmp(of_child, own) != 0);
  pitot_request_finish(child, PITOT_OUTCOME_OK);
  CHECK("the thread works for the parent again", pitot_this_owner().request == pitot_request_id(request));

  const pitot_token token = pitot_request_enqueue(request, "next");
  CHECK("a token has its request's id", pitot_token_request(&token) == pitot_request_id(request));
  pitot_request* next = pitot_request_begin_from(&token, "/next");
  CHECK("a request begins from a token",
        pitot_request_id(next) != 0 && pitot_this_owner().request == pitot_request_id(next));
  pitot_request_set_deadline(next, 1);
  const pitot_token of_next = pitot_request_token(next);
  for (const time_t deadline = Deadline(); !pitot_token_is_late(&of_next) && time(NULL) < deadline;) {}
  CHECK("a token of a request beyond its deadline is late", pitot_token_is_late(&of_next));
  pitot_request_finish(next, 99);
  pitot_request_finish(request, PITOT_OUTCOME_OK);
  const pitot_stats stats = StatsOf(recorder);
  CHECK("all requests are finished",
        stats.requests_begun == 3 && stats.requests_finished == 3 && stats.requests_open == 0);
  CHECK("an invalid outcome counts as abandoned", stats.requests_abandoned == 1);
  pitot_recorder_free(recorder);
}

static void* AdoptElsewhere(void* token) {
  static uint64_t worked_for[2];
  pitot_adopt adopt;
  pitot_adopt_begin(&adopt, token);
  worked_for[0] = pitot_this_owner().request;
  pitot_adopt_end(&adopt);
  worked_for[1] = pitot_this_owner().request;
  return worked_for;
}

static void ATokenCrossesThreads(void) {
  pitot_recorder* recorder = Start();
  pitot_request* request = pitot_request_begin("/crossing", NULL, 0);
  pitot_token token = pitot_request_enqueue(request, "queue");
  pthread_t thread;
  void* result = NULL;
  CHECK("a thread starts", pthread_create(&thread, NULL, AdoptElsewhere, &token) == 0);
  pthread_join(thread, &result);
  const uint64_t* worked_for = result;
  CHECK("a thread works for the request it adopted", worked_for[0] == pitot_request_id(request));
  CHECK("and for no request after it", worked_for[1] == 0);
  pitot_request_finish(request, PITOT_OUTCOME_OK);
  pitot_recorder_free(recorder);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  signal(SIGALRM, OnHanging);
  alarm(kMostSeconds);
  CHECK("header and library have the same ABI",
        pitot_abi() == PITOT_ABI && pitot_abi_revision() == PITOT_ABI_REVISION && pitot_version()[0] != '\0');
  NullHandlesAreInert();
  AStructOfAnOlderHeaderWorks();
  AProgramOfRevision0Works();
  StatsOfRevision1EndBeforeTheDepth();
  AStructOfANewerHeaderWorksIfItsUnknownFieldsAreZero();
  StructsOfCollectorsFollowTheRules();
  AStructThatWasNotInitialisedIsRefused();
  AFailureSaysWhy();
  EveryFieldReachesTheLibrary();
  TheEnvironmentIsReadOnRequest();
  ADepthIsSetOrRefusedByName();
  CuptiIsTakenHandedOverAndTakenBack();
  StacksAreRead();
  TheHostIsSampled();
  NvmlIsSampled();
  GpusAreRecordedAllTheTime();
  WithoutAGpuAStatusSaysWhy();
  CallbacksAreCalledWithTheirContext();
  TheHookForVerdictsHasEveryFile();
  AnIncidentThatCannotBeWrittenIsToldWhy();
  TheBuiltInTriggersFire();
  ARequestKeepsItsTrace();
  ATokenCrossesThreads();
  printf("%d checked, %d failed\n", g_checked, g_failed);
  return g_failed != 0;
}
