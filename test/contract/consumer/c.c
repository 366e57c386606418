// SPDX-License-Identifier: Apache-2.0
//
// A minimal server in C: starts, records, stops.
#include <pitot/c.h>
#include <stdio.h>

int main(void) {
  char message[256];
  pitot_recorder* recorder;
  if (pitot_recorder_start(NULL, &recorder, message, sizeof message) != PITOT_OK) {
    printf("start: %s\n", message);
    return 1;
  }
  const pitot_name work = pitot_intern("work");
  for (int i = 0; i < 1000; ++i) {
    pitot_request* request = pitot_request_begin("/consume", NULL, 0);
    pitot_scope_begin(work);
    pitot_scope_end();
    pitot_request_finish(request, PITOT_OUTCOME_OK);
  }
  pitot_stats stats;
  stats.size = sizeof stats;
  pitot_recorder_stats(recorder, &stats, NULL, 0);
  pitot_recorder_free(recorder);
  printf("pitot %s recorded %llu requests\n", pitot_version(), (unsigned long long)stats.requests_finished);
  return stats.requests_finished == 1000 ? 0 : 1;
}
