// SPDX-License-Identifier: Apache-2.0
//
// A small server in plain C: a thread takes requests, another executes them as a batch; the last request is slow.
//
// Usage: server FOLDER. It writes an incident to FOLDER and prints its path.
#include <pitot/c.h>
#include <pthread.h>
#include <stdio.h>

enum { kRequests = 4 };

static void Complain(const char* what, const char* message) { fprintf(stderr, "%s: %s\n", what, message); }

static void PrintIncident(void* context, const pitot_incident* incident) {
  (void)context;
  if (incident->status != PITOT_OK) Complain("incident", incident->message);
  if (incident->directory != NULL) puts(incident->directory);
}

static void* Execute(void* jobs) {
  const pitot_token* tokens = jobs;
  pitot_set_thread_name("executor");
  pitot_batch* batch = pitot_batch_begin("resnet50");
  for (int i = 0; i < kRequests; ++i) pitot_batch_join(batch, &tokens[i]);
  pitot_batch_close(batch, PITOT_BATCH_FULL);
  pitot_scope_begin(pitot_intern("forward"));
  pitot_counter(pitot_intern("queue depth"), 2.5);
  pitot_scope_end();
  pitot_batch_submitted(batch);
  pitot_batch_leave(batch, &tokens[0]);
  pitot_batch_finish(batch);

  pitot_adopt adopt;
  pitot_adopt_begin(&adopt, &tokens[1]);
  pitot_instant(pitot_intern("cache miss"), "key 17");
  pitot_adopt_end(&adopt);
  for (int i = 0; i < kRequests; ++i) pitot_token_stage(&tokens[i], "respond");
  return NULL;
}

static void Serve(void) {
  pitot_request* requests[kRequests];
  pitot_token jobs[kRequests];
  pitot_set_thread_name("handler");
  for (int i = 0; i < kRequests; ++i) {
    requests[i] = pitot_request_begin(i + 1 < kRequests ? "/infer" : "/slow",
                                      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", 0);
    pitot_request_set_label(requests[i], "model", "resnet50");
    pitot_request_set_size(requests[i], "pixels", 50176);
    pitot_request_stage(requests[i], "decode");
    pitot_scope_begin(pitot_intern("libjpeg"));
    pitot_scope_end();
    pitot_request_stage(requests[i], "execute");
    jobs[i] = pitot_request_enqueue(requests[i], "jobs");
  }
  pthread_t executor;
  if (pthread_create(&executor, NULL, Execute, jobs) != 0) {
    Complain("pthread_create", "failed");
    return;
  }
  pitot_wait wait;
  pitot_wait_begin(&wait, PITOT_WAIT_FUTURE, pitot_intern("executor's thread"), pitot_this_owner());
  pthread_join(executor, NULL);
  pitot_wait_end(&wait);
  for (int i = 0; i < kRequests; ++i)
    pitot_request_finish(requests[i], i == 2 ? PITOT_OUTCOME_FAILED : PITOT_OUTCOME_OK);
}

int main(int argc, char** argv) {
  char message[256];
  pitot_options options;
  pitot_options_init(&options, sizeof options);
  options.incident_directory = argc > 1 ? argv[1] : NULL;
  options.process_name = "server in C";
  pitot_recorder* recorder;
  if (pitot_recorder_start(&options, &recorder, message, sizeof message) != PITOT_OK) Complain("start", message);
  pitot_recorder_on_incident(recorder, PrintIncident, NULL, NULL, 0);
  pitot_latency_trigger trigger;
  pitot_latency_trigger_init(&trigger, sizeof trigger);
  trigger.route = "/slow";
  trigger.above_ms = 1e-6;  // a nanosecond is too long on any machine
  if (pitot_recorder_add_latency_trigger(recorder, &trigger, message, sizeof message) != PITOT_OK)
    Complain("trigger", message);

  Serve();

  const pitot_status flushed = pitot_recorder_flush(recorder, 60000, message, sizeof message);
  if (flushed != PITOT_OK) Complain("flush", message);
  pitot_recorder_free(recorder);
  return flushed;
}
