// SPDX-License-Identifier: Apache-2.0
//
// The reader of logs of vLLM and SGLang.
#include "fuzz/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::ReadAs(pitot::read::kRequestLogFormat, data, size);
}

#ifdef PITOT_CORPUS_WRITER
namespace {

constexpr const char* kVllm =
    "(APIServer pid=42) INFO 12-31 23:59:52 [logger.py:49] Received request chatcmpl-a: prompt: \"it's\\n\", params: "
    "P(n=1)\n"
    "(APIServer pid=42) INFO 12-31 23:59:52 [async_llm.py:415] Added request chatcmpl-a-0a1b2c3d.\n"
    "\x1b[0;36m(APIServer pid=42)\x1b[0;0m \x1b[32mINFO\x1b[0m \x1b[90m12-31 23:59:53\x1b[0m "
    "\x1b[90m[request_logger.py:65]\x1b[0m Received request cmpl-b-0: params: P(n=1), lora_request: None.\n"
    "INFO 12-31 23:59:54 [loggers.py:118] Engine 000: Avg prompt throughput: 12.5 tokens/s, Running: 2 reqs, "
    "GPU KV cache usage: 3.2%\n"
    "INFO 01-01 00:00:01 [logger.py:78] Generated response chatcmpl-a (streaming delta): output: 'x', finish_reason: "
    "length\n"
    "INFO 01-01 00:00:02 [logger.py:78] Generated response chatcmpl-a: output: 'x', finish_reason: stop\n"
    "INFO 01-01 00:00:03 async_llm_engine.py:223] Aborted request(s) cmpl-b-0,c.\n"
    "INFO 02-29 00:00:04 [async_llm.py:600] Request d failed (bad request): no.\n"
    "{\"asctime\": \"2026-12-31 23:59:52,123\", \"name\": \"vllm.entrypoints.logger\", \"process\": 4, "
    "\"message\": \"Received request e: params: x\"}\n";
constexpr const char* kSglang =
    "[2026-11-26 12:00:00] Receive: obj=GenerateReqInput(rid=['a', 'b'], text=[\"it's\", 'y'], sampling_params={})\n"
    "[2026-11-26 12:00:00.123 TP0] Prefill batch, #new-seq: 2, token usage: 0.01, input throughput (token/s): 33.30\n"
    "[2026-11-26 12:00:01 DP0 TP0] Decode batch [7], #running-req: 2, cuda graph: True\n"
    "[2026-11-26 12:00:02] Finish: obj=GenerateReqInput(rid='a'), out={'text': 'x' ... 'y', 'meta_info': {'id': 'a', "
    "'finish_reason': {'type': 'stop', 'matched': 2}, 'prompt_tokens': 12, 'completion_tokens': 8, 'e2e_latency': "
    "1.5}}\n"
    "Finish: obj=GenerateReqInput(rid='b'), out={'meta_info': {'id': 'b', 'finish_reason': {'type': 'abort', "
    "'message': "
    "\"isn't\"}, 'queue_time': 0.1}}\n"
    "{\"timestamp\": \"2026-11-26T12:00:03.250000\", \"event\": \"request.received\", \"rid\": \"c\", \"obj\": {}}\n"
    "[2026-11-26 12:00:04] {\"timestamp\": \"2026-11-26T12:00:04.250000\", \"event\": \"request.finished\", \"rid\": "
    "\"c\", "
    "\"out\": {\"meta_info\": {\"id\": \"c\", \"finish_reason\": null, \"e2e_latency\": 1.0, \"request_received_ts\": "
    "1795674603.25, \"queue_time\": 0.25, \"first_token_latency\": 0.5}}}\n";
constexpr const char* kMetrics =
    "{\"request_parameters\": \"{}\", \"id\": \"a\", \"finish_reason\": {\"type\": \"length\", \"length\": 16}, "
    "\"prompt_tokens\": 12, \"cached_tokens\": 4, \"queue_time\": 0.25, \"e2e_latency\": 1.5, \"request_received_ts\": "
    "1795674600.25, \"prefill_finished_ts\": 1795674600.75}\n";

}  // namespace

bool fuzz::WriteCorpus(const std::string& folder) {
  const std::string vllm = kVllm, sglang = kSglang;
  return fuzz::WriteFile(folder + "/vllm", vllm) && fuzz::WriteFile(folder + "/sglang", sglang) &&
         fuzz::WriteFile(folder + "/metrics", kMetrics) && fuzz::WriteFile(folder + "/cut", sglang.substr(0, 700)) &&
         fuzz::WriteFile(folder + "/both", vllm + sglang);
}
#endif
