// SPDX-License-Identifier: Apache-2.0
//
// Records without their sites, because their library was closed.
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/safe_read.h"
#include "fakes/recording.h"
#include "fakes/serializers.h"
#include "fakes/trace_text.h"
#include "pitot/trace.h"
#include "session/host.h"
#include "snapshot/modules.h"
#include "snapshot/site_reader.h"

namespace {

using fakes::EventsNamed;

// The plug-in and its mapping.
class Plugin {
 public:
  explicit Plugin(const char* path = PITOT_TEST_PLUGIN) : path_(path), handle_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) return;
    record = reinterpret_cast<void (*)(int)>(dlsym(handle_, "RecordInPlugin"));
    call = reinterpret_cast<void (*)(void (*)(void*), void*)>(dlsym(handle_, "CallFromPlugin"));
    literal = reinterpret_cast<const char* (*)()>(dlsym(handle_, "LiteralOfPlugin"));
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* context) {
          auto* plugin = static_cast<Plugin*>(context);
          if (info->dlpi_name == nullptr || std::strcmp(info->dlpi_name, plugin->path_) != 0) return 0;
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
            const uint64_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            plugin->begin = std::min(plugin->begin, at / 4096 * 4096);
            plugin->end = std::max(plugin->end, (at + info->dlpi_phdr[i].p_memsz + 4095) / 4096 * 4096);
          }
          return 1;
        },
        this);
  }
  ~Plugin() { Close(); }
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;
  bool ok() const { return handle_ != nullptr && record != nullptr && call != nullptr && begin < end; }
  // Whether its memory is really gone.
  bool Close() {
    if (handle_ != nullptr) dlclose(handle_);
    handle_ = nullptr;
    uint64_t word;
    return !pitot::base::ReadMemory(begin, &word, sizeof word);
  }

  void (*record)(int) = nullptr;
  void (*call)(void (*)(void*), void*) = nullptr;
  const char* (*literal)() = nullptr;
  uint64_t begin = ~uint64_t{0}, end = 0;

 private:
  const char* path_;
  void* handle_;
};

// What a trace calls the scopes of both plug-ins.
struct ScopesOf {
  explicit ScopesOf(const pitot::model::Trace& trace)
      : first(EventsNamed(trace, "scope of the plug-in").size()),
        other(EventsNamed(trace, "scope of another one").size()),
        unloaded(EventsNamed(trace, "(unloaded)").size()) {}
  size_t first, other, unloaded;
};

}  // namespace

TEST_CASE("a plug-in's events have their names while it is loaded", "[unload]") {
  const fakes::Recording recording;
  const Plugin plugin;
  REQUIRE(plugin.ok());
  plugin.record(5);

  const auto trace = recording.Trace();

  REQUIRE(EventsNamed(trace, "scope of the plug-in").size() == 1);
  CHECK(EventsNamed(trace, "scope of the plug-in")[0].args[0].second == "5");
  REQUIRE(EventsNamed(trace, "instant of the plug-in").size() == 1);
  CHECK(EventsNamed(trace, "instant of the plug-in")[0].args[0].second == "a literal of the plug-in");
}

TEST_CASE("events of a closed plug-in are reported as unloaded and keep their times", "[unload]") {
  const fakes::Recording recording;
  Plugin plugin;
  REQUIRE(plugin.ok());
  PITOT_INSTANT("before");
  plugin.record(5);
  PITOT_INSTANT("after");
  REQUIRE(plugin.Close());

  const auto trace = recording.Trace();

  CHECK(pitot::model::FindInconsistency(trace) == "");
  CHECK(EventsNamed(trace, "before").size() == 1);
  CHECK(EventsNamed(trace, "after").size() == 1);
  const auto unloaded = EventsNamed(trace, "(unloaded)");
  REQUIRE(unloaded.size() == 2);
  for (const auto& event : unloaded) {
    CHECK(event.begin_ns >= EventsNamed(trace, "before")[0].begin_ns);
    CHECK(event.begin_ns <= EventsNamed(trace, "after")[0].begin_ns);
    CHECK(event.args.empty());
  }
  for (const auto& site : trace.sites) CHECK(site.unloaded == (trace.strings[site.name] == "(unloaded)"));
}

TEST_CASE("a literal of a closed library is reported as unloaded", "[unload]") {
  const fakes::Recording recording;
  Plugin plugin;
  REQUIRE(plugin.ok());
  const pitot::detail::Literal literal{plugin.literal()};
  PITOT_INSTANT("with a literal", literal, 7);
  constexpr size_t kPage = 4096;
  void* const page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(plugin.literal()) & ~(kPage - 1));
  REQUIRE(plugin.Close());
  // Otherwise this test's own memory may come to lie there.
  REQUIRE(mmap(page, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == page);

  const auto events = EventsNamed(recording.Trace(), "with a literal");

  REQUIRE(events.size() == 1);
  REQUIRE(events[0].args.size() == 2);
  CHECK(events[0].args[0].second == "(unloaded)");
  CHECK(events[0].args[1].second == "7");
  munmap(page, kPage);
}

TEST_CASE("an open scope of a plug-in shows, even in a snapshot read after the plug-in is gone", "[unload]") {
  const fakes::Recording recording;
  Plugin plugin;
  REQUIRE(plugin.ok());
  struct Inside {
    const fakes::Recording* recording;
    pitot::model::Trace trace;
    pitot::snapshot::Snapshot snapshot;
  } inside{&recording, {}, {}};
  plugin.call(
      [](void* context) {
        auto* in = static_cast<Inside*>(context);
        in->trace = in->recording->Trace();
        in->snapshot = in->recording->Snapshot();
      },
      &inside);
  REQUIRE(plugin.Close());

  const auto later = pitot::assemble::Assemble(inside.snapshot);

  REQUIRE(EventsNamed(inside.trace, "around the call").size() == 1);
  CHECK(EventsNamed(inside.trace, "around the call")[0].duration_ns == pitot::model::kOpen);
  REQUIRE(EventsNamed(later, "(unloaded)").size() == 1);
  CHECK(EventsNamed(later, "(unloaded)")[0].duration_ns == pitot::model::kOpen);
}

TEST_CASE("new mappings over a closed plug-in are not taken for its sites", "[unload]") {
  for (const int fill : {0x00, 0xff, 0x41}) {
    INFO("filled with " << fill);
    const fakes::Recording recording;
    Plugin plugin;
    REQUIRE(plugin.ok());
    plugin.record(5);
    const pitot::detail::Literal literal{plugin.literal()};
    PITOT_INSTANT("with a literal", literal);
    REQUIRE(plugin.Close());
    void* other = mmap(reinterpret_cast<void*>(plugin.begin), plugin.end - plugin.begin, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    REQUIRE(other != MAP_FAILED);
    std::memset(other, fill, plugin.end - plugin.begin);

    const auto trace = recording.Trace();
    munmap(other, plugin.end - plugin.begin);

    CHECK(pitot::model::FindInconsistency(trace) == "");
    CHECK(EventsNamed(trace, "(unloaded)").size() == 2);
    CHECK(EventsNamed(trace, "with a literal").size() == 1);
  }
}

TEST_CASE("a plug-in in another's place does not take its names", "[unload]") {
  const fakes::Recording recording;
  pitot::snapshot::Modules modules;
  const auto look = [&] { modules.Look(recording.slow_clock()); };
  const auto scopes = [&] {
    pitot::snapshot::Snapshot snapshot = recording.Snapshot();
    snapshot.modules = &modules;
    return ScopesOf(pitot::assemble::Assemble(snapshot));
  };
  look();
  Plugin first;
  REQUIRE(first.ok());
  SECTION("seen by a look in between") { look(); }
  SECTION("not seen") {}
  first.record(1);
  CHECK(scopes().first == 1);
  pitot::snapshot::Snapshot before = recording.Snapshot();
  before.modules = &modules;
  const uint64_t place = first.begin;
  REQUIRE(first.Close());
  Plugin other(PITOT_OTHER_TEST_PLUGIN);
  REQUIRE(other.ok());
  REQUIRE(other.begin == place);

  const ScopesOf late(pitot::assemble::Assemble(before));
  CHECK(late.other == 0);
  CHECK(late.unloaded == 2);  // with its instant
  other.record(2);
  const ScopesOf both = scopes();
  CHECK(both.first == 0);
  CHECK(both.other == 1);
  CHECK(both.unloaded == 2);
}

TEST_CASE("a plug-in that is loaded again keeps the names of its earlier events", "[unload]") {
  const fakes::Recording recording;
  pitot::snapshot::Modules modules;
  modules.Look(recording.slow_clock());
  for (int i = 0; i < 2; ++i) {
    Plugin plugin;
    REQUIRE(plugin.ok());
    plugin.record(i);
    modules.Look(recording.slow_clock());
    if (i == 0) continue;
    pitot::snapshot::Snapshot snapshot = recording.Snapshot();
    snapshot.modules = &modules;
    CHECK(ScopesOf(pitot::assemble::Assemble(snapshot)).first == 2);
  }
}

TEST_CASE("a literal of a plug-in does not become one of another in its place", "[unload]") {
  const fakes::Recording recording;
  pitot::snapshot::Modules modules;
  modules.Look(recording.slow_clock());
  Plugin first;
  REQUIRE(first.ok());
  PITOT_INSTANT("with a literal", pitot::detail::Literal{first.literal()});
  REQUIRE(first.Close());
  Plugin other(PITOT_OTHER_TEST_PLUGIN);
  REQUIRE(other.ok());
  pitot::snapshot::Snapshot snapshot = recording.Snapshot();
  snapshot.modules = &modules;

  const auto events = EventsNamed(pitot::assemble::Assemble(snapshot), "with a literal");

  REQUIRE(events.size() == 1);
  CHECK(events[0].args[0].second == "(unloaded)");
}

TEST_CASE("an incident does not give a plug-in's events the names of another in its place", "[unload]") {
  // Another thread may map something into the gap first.
  bool is_in_its_place = false;
  for (int attempt = 0; attempt < 20 && !is_in_its_place; ++attempt) {
    session_test::Host host;
    REQUIRE(host.Start());
    uint64_t place;
    {
      Plugin first;
      REQUIRE(first.ok());
      place = first.begin;
      first.record(1);
    }
    Plugin other(PITOT_OTHER_TEST_PLUGIN);
    REQUIRE(other.ok());
    is_in_its_place = other.begin == place;
    if (!is_in_its_place) continue;
    REQUIRE(host.TriggerAndFlush());

    const ScopesOf scopes(host.traces().at(0));

    CHECK(scopes.other == 0);
    CHECK(scopes.unloaded == 2);
  }
  CHECK(is_in_its_place);
}

TEST_CASE("a thread that hangs with the loader's lock holds up no incident", "[unload]") {
  session_test::Host host;
  REQUIRE(host.Start());
  REQUIRE(host.TriggerAndFlush());  // it has looked
  fakes::Gate gate;
  std::thread hanging([&] {
    dl_iterate_phdr(
        [](dl_phdr_info*, size_t, void* context) {
          static_cast<fakes::Gate*>(context)->Pass();
          return 1;
        },
        &gate);
  });
  REQUIRE(gate.WaitUntilReached());
  PITOT_INSTANT("a new site");

  const bool is_done = host.TriggerAndFlush();
  gate.open = true;
  hanging.join();

  CHECK(is_done);
}

TEST_CASE("a site with a right magic but pointers to nowhere is not a site", "[unload]") {
  const fakes::Recording recording;
  // As if one library's memory were now another's.
  static pitot::Site site{pitot::kSiteMagic, pitot::SiteKind::kInstant, 0, 0, 1, 0, "name", "file", "function", "text"};
  pitot::detail::EmitNow(&site, "");
  const pitot::Site right = site;
  std::vector<pitot::Site> wrong(4, right);
  wrong[0].name = reinterpret_cast<const char*>(16);
  wrong[1].kind = static_cast<pitot::SiteKind>(77);
  wrong[2].arg_count = 8;
  wrong[3].arg_text = reinterpret_cast<const char*>(~uint64_t{0} - 4);
  for (const pitot::Site& each : wrong) {
    site = each;
    const auto trace = recording.Trace();
    CHECK(EventsNamed(trace, "(unloaded)").size() == 1);
    CHECK(pitot::model::FindInconsistency(trace) == "");
  }
  site = right;
  CHECK(EventsNamed(recording.Trace(), "name").size() == 1);
}

TEST_CASE("memory is read if it is mapped, up to the last byte, and nowhere else", "[unload]") {
  char* pages = static_cast<char*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(munmap(pages + 4096, 4096) == 0);
  std::memset(pages, 'x', 4096);
  const auto address = reinterpret_cast<uint64_t>(pages);
  char out[64];
  std::string text;

  CHECK(pitot::base::CanReadMemory());
  CHECK(pitot::base::ReadMemory(address + 4096 - 64, out, 64));
  CHECK(!pitot::base::ReadMemory(address + 4096 - 63, out, 64));
  CHECK(!pitot::base::ReadMemory(address + 4096, out, 1));
  CHECK(!pitot::base::ReadMemory(0, out, 1));
  CHECK(!pitot::base::ReadMemory(~uint64_t{0} - 8, out, 64));
  // A string without an end before the unmapped page is not a string; one with an end is.
  CHECK(!pitot::base::ReadString(address + 4000, 512, &text));
  CHECK(pitot::base::ReadString(address + 4000, 96, &text));
  CHECK(text == std::string(96, 'x'));
  pages[4095] = '\0';
  CHECK(pitot::base::ReadString(address + 4000, 512, &text));
  CHECK(text == std::string(95, 'x'));
  CHECK(pitot::base::ReadString(address + 4095, 512, &text));
  CHECK(text.empty());
  munmap(pages, 4096);
}
