# SPDX-License-Identifier: Apache-2.0
"""Pitot in llama.cpp's llama-server, as docs/guide/instrument.md tells, with one fault and a log of the truth.

Each edit has a short line of the server's source and what comes before it, after it, or in its place. The source is that of the sdist
llama_server.py fetches; an edit whose line is missing, or there several times, is an error.
"""

from pathlib import Path
from typing import List, NamedTuple


class Edit(NamedTuple):
    file: str
    line: str  # a part of it
    text: str
    place: str = 'after'  # before, after, instead (of the part)
    times: int = 1


LOG = r'''
// Of the board: the truth, by the server's own clock.
#include <time.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
inline uint64_t board_now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return uint64_t(now.tv_sec) * 1000000000 + uint64_t(now.tv_nsec);
}
inline void board_write(const char * fault, uint64_t request, uint64_t begin_ns, uint64_t ns, const char * role = "", uint64_t holder = 0) {
    static FILE * file = getenv("BOARD_LOG") ? fopen(getenv("BOARD_LOG"), "a") : nullptr;
    if (file == nullptr) return;
    fprintf(file, "{\"time_ns\":%llu,\"request\":\"%016llx\",\"fault\":\"%s\",\"injected_ns\":%llu,\"role\":\"%s\",\"holder\":[\"%016llx\"]}\n",
            (unsigned long long) begin_ns, (unsigned long long) request, fault, (unsigned long long) ns, role,
            (unsigned long long) holder);
    fflush(file);
}
inline void board_log(const char * fault, uint64_t request, uint64_t begin_ns, const char * role = "", uint64_t holder = 0) {
    board_write(fault, request, begin_ns, board_now_ns() - begin_ns, role, holder);
}
// How long the calling thread has waited for a CPU, ever.
inline uint64_t board_delay_ns() {
    FILE * file = fopen("/proc/thread-self/schedstat", "r");
    unsigned long long ran = 0, waited = 0;
    if (file != nullptr && fscanf(file, "%llu %llu", &ran, &waited) != 2) waited = 0;
    if (file != nullptr) fclose(file);
    return waited;
}
// Sleeps so many ms with the lock, if the file asks for it, and removes the file.
inline void board_hold() {
    static const char * path = getenv("BOARD_HOLD");
    if (path == nullptr || access(path, F_OK) != 0) return;
    FILE * file = fopen(path, "r");
    int ms = 0;
    if (file != nullptr && fscanf(file, "%d", &ms) != 1) ms = 0;
    if (file != nullptr) fclose(file);
    unlink(path);
    const uint64_t begin_ns = board_now_ns();
    usleep(useconds_t(ms) * 1000);
    board_log("lock_held", pitot::ThisOwner().request, begin_ns, "holder", pitot::ThisOwner().request);
}
'''

STEP = r'''
        uint64_t longest_id = 0;
        int64_t longest = 0, n_prompt = 0;
        std::vector<uint64_t> members;
        {
            std::vector<double> work(slots.size());
            std::vector<int64_t> prompt(slots.size());
            for (const auto & t : batch.tokens) {
                work[t.id_slot] += 1;
                prompt[t.id_slot] += t.is_prompt;
                n_prompt += t.is_prompt;
            }
            for (size_t i = 0; i < slots.size(); i++) {
                if (work[i] == 0 || !slots[i].task) continue;
                const pitot::Token & token = slots[i].task->trace_token;
                step.Join(token, work[i]);
                members.push_back(token.request);
                if (prompt[i] > longest) {
                    longest = prompt[i];
                    longest_id = token.request;
                }
            }
            step.Close(pitot::BatchClose::kStep);
        }
        const uint64_t step_begin_ns = board_now_ns(), step_delay_ns = board_delay_ns();
'''

STEP_END = r'''
        if (longest >= 500) { // a long prompt: a fault for the others
            for (uint64_t member : members) {
                if (member != longest_id) board_log("long_prompt", member, step_begin_ns, "waiter", longest_id);
            }
        }
        step.Finish();
        const uint64_t delay_ns = board_delay_ns() - step_delay_ns;
        if (delay_ns >= 1000000) board_write("step_cpu_waited", 0, step_begin_ns, delay_ns);
'''

START = r'''
static pitot::Recorder start_recorder() {
    pitot::Options options = pitot::Options::FromEnvironment();
    auto recorder = pitot::Recorder::Start(options);
    pitot::SetThreadName("slots");
    recorder.Add(pitot::MakeHostCollector());
    return recorder;
}
'''

CONTEXT, HTTP, QUEUE = 'server-context.cpp', 'server-http.cpp', 'server-queue.cpp'
EDITS: List[Edit] = [
    Edit('CMakeLists.txt', 'target_link_libraries(${TARGET} PUBLIC llama-common mtmd ${CMAKE_THREAD_LIBS_INIT})',
         '\nfind_package(pitot REQUIRED COMPONENTS core host)\ntarget_link_libraries(${TARGET} PUBLIC pitot::core pitot::host)'),
    Edit('server-task.h', '#pragma once', '\n#include <pitot/pitot.h>' + LOG),
    Edit('server-task.h', '    int id_slot   = -1;', '\n    pitot::Token trace_token;'),
    Edit('server-task.h', '        copy.params    = params;', '\n        copy.trace_token = trace_token;'),
    # One batch for each step, with the work of each member.
    Edit(CONTEXT, '    void send_final_response(server_slot & slot) {',
         '\n        pitot::Stage(slot.task->trace_token, "respond");\n        step.Leave(slot.task->trace_token);'),
    Edit(CONTEXT, '                    server_slot * slot = get_available_slot(task);',
         '\n                    pitot::Stage(task.trace_token, "prompt");'),
    Edit(CONTEXT, '    void update_slots() {', '    pitot::Batch step; // of update_slots\n\n', 'before'),
    Edit(CONTEXT, '            pre_decode();\n', '            step = pitot::Batch::Begin("slots", "tokens");\n            PITOT_SCOPE("pre_decode");\n', 'before'),
    Edit(CONTEXT, '        GGML_ASSERT(batch.slot_batched || batch.size() == 0);', STEP, 'before'),
    Edit(CONTEXT, '                batch.render(off, n_tokens);', '\n                PITOT_SCOPE("decode", n_tokens, n_prompt);'),
    Edit(CONTEXT, '                post_decode(n_tokens, off);', '                PITOT_SCOPE("post_decode");\n', 'before'),
    Edit(CONTEXT, '    }\n\n    void pre_decode() {', STEP_END + '    }\n\n    void pre_decode() {', 'instead'),
    Edit(CONTEXT, '            const int tok_idx = slot.i_batch - off;', '            pitot::Adopt adopted(slot.task->trace_token);\n', 'before'),
    Edit(CONTEXT, '                id = common_sampler_sample(slot.smpl.get(), slot.ctx_tgt, tok_idx);', '                PITOT_SCOPE("sample");\n',
         'before'),
    Edit(CONTEXT, '            if (slot.stats.n_gen == 1) {', '            pitot::Emit(slot.task->trace_token);\n', 'before'),
    Edit(CONTEXT, '            if (slot.stats.n_gen == 1) {', '\n                pitot::Stage(slot.task->trace_token, "generate");'),
    Edit(CONTEXT, '            inputs = tokenize_input_prompts(ctx_server.vocab, ctx_server.mctx, prompt, true, true, ctx_server.init_opt);\n        }',
         '\n        size_t prompt_tokens = 0;\n        for (const auto & input : inputs) prompt_tokens += input.size();\n'
         '        req.trace.SetSize("prompt_tokens", (double) prompt_tokens);\n        req.trace.Stage("queue");\n'
         '        const pitot::Token trace_token = req.trace.Enqueue("tasks");\n'),
    Edit(CONTEXT, '            task.params.message_spans = task.tokens.find_message_spans(delimiters);',
         '            task.trace_token = trace_token;\n', 'before'),
    # A request for each HTTP request.
    Edit('server-http.h', '#pragma once', '\n#include "server-task.h"'),
    Edit('server-http.h', '    const std::function<bool()> & should_stop;', '\n    mutable pitot::Request trace = {};\n    uint64_t begin_ns = 0;'),
    Edit(HTTP, '            body,\n            std::move(files),\n            req.is_connection_closed',
         ',\n            std::move(trace),\n            begin_ns'),
    Edit(HTTP, '        std::string body = req.body;\n        std::map<std::string, uploaded_file> files;',
         '        static thread_local const bool named = (pitot::SetThreadName("http"), true);\n        (void) named;\n'
         '        const uint64_t begin_ns = board_now_ns();\n        auto trace = pitot::Request::Begin(route.c_str());\n'
         '        trace.Stage("parse");\n', 'before'),
    Edit(HTTP, 'auto callback = [handler](const httplib::Request & req, httplib::Response & res) {\n        static thread_local',
         'auto callback = [handler, route = path](const httplib::Request & req, httplib::Response & res) {\n        static thread_local', 'instead'),
    Edit(HTTP, '                if (!sink.write(chunk.data(), chunk.size())) {',
         '                PITOT_WAIT(pitot::WaitKind::kIo, "client socket", pitot::Owner{});\n', 'before'),
    Edit(HTTP, '        const auto on_complete = [request = q_ptr, response = r_ptr](bool) mutable {\n            response->on_complete();',
         '\n            board_log("served", request->trace.id(), request->begin_ns);\n            request->trace.Finish(pitot::Outcome::kOk);'),
    Edit(HTTP, '        res.set_content(response->data, response->content_type);\n        response->on_complete();',
         '\n        request->trace.Finish(response->status < 400 ? pitot::Outcome::kOk : pitot::Outcome::kFailed);'),
    # Locks and conditions.
    Edit('server-queue.h', 'std::mutex mutex_tasks;', 'pitot::Mutex mutex_tasks{"tasks"};', 'instead'),
    Edit('server-queue.h', 'std::condition_variable condition_tasks;', 'pitot::ConditionVariable condition_tasks{"tasks"};', 'instead'),
    Edit('server-queue.h', 'std::condition_variable cv; ', 'pitot::ConditionVariable cv{"queue worker"}; ', 'instead'),
    Edit('server-queue.h', 'std::mutex mutex_results;', 'pitot::Mutex mutex_results{"results"};', 'instead'),
    Edit('server-queue.h', 'std::condition_variable condition_results;', 'pitot::ConditionVariable condition_results{"results"};', 'instead'),
    Edit('server-queue.h', 'std::unique_lock<std::mutex>', 'std::unique_lock<pitot::Mutex>', 'instead', 2),
    Edit(QUEUE, 'std::unique_lock<std::mutex>', 'std::unique_lock<pitot::Mutex>', 'instead', 25),
    Edit(QUEUE, 'constexpr auto max_wait_time = std::chrono::seconds(1);', 'constexpr uint64_t max_wait_time = 1000000000; // ns', 'instead'),
    Edit(QUEUE, 'std::cv_status cr_res = condition_results.wait_for(lock, std::chrono::seconds(timeout));',
         'const bool notified = condition_results.wait_for(lock, timeout * 1000000000ull);', 'instead'),
    Edit(QUEUE, 'cr_res == std::cv_status::timeout', '!notified', 'instead'),
    Edit(QUEUE, '[this]() { worker_loop(); }', '[this]() { pitot::SetThreadName("queue worker"); worker_loop(); }', 'instead'),
    Edit(QUEUE, 'int server_queue::post(std::vector<server_task> && tasks, bool front) {\n    std::unique_lock<pitot::Mutex> lock(mutex_tasks);',
         '\n    board_hold();'),
    # The recorder, and an incident of everything when asked.
    Edit('server.cpp', '#include "server-context.h"', '#include <pitot/pitot.h>\n#include <pitot/collect/host.h>\n', 'before'),
    Edit('server.cpp', 'int llama_server(int argc, char ** argv) {', START + '\nstatic pitot::Recorder * board_recorder = nullptr;\n\n', 'before'),
    Edit('server.cpp', '    llama_backend_init();\n    llama_numa_init(params.numa);\n\n    const int result',
         '    pitot::Recorder recorder = start_recorder();\n    board_recorder = &recorder;\n', 'before'),
    Edit('server.cpp', '    ctx_http.post("/completion",',
         '    ctx_http.post("/incidentz", ex_wrapper([](const server_http_req &) {\n'
         '        auto res = std::make_unique<server_http_res>();\n'
         '        board_recorder->Trigger("board");\n        board_recorder->Flush(60000);\n        return res;\n    }));\n', 'before'),
]


def edit(folder: Path) -> None:
    """Edits the server's source in `folder`. Raises ValueError for a line that is not there as often as it should be."""
    texts = {}
    for one in EDITS:
        text = texts.setdefault(one.file, (folder / one.file).read_text(encoding='utf-8'))
        if text.count(one.line) != one.times:
            raise ValueError(f'{one.file} has {text.count(one.line)} times, not {one.times}: {one.line}')
        new = {'before': one.text + one.line, 'after': one.line + one.text, 'instead': one.text}[one.place]
        texts[one.file] = text.replace(one.line, new)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding='utf-8')
