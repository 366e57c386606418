// SPDX-License-Identifier: Apache-2.0
//
// Incidents on disk: assembled next to their place, named at once, removed when there are too many.
#include "session/incident_directory.h"
#include "fakes/not_run.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "fakes/child.h"
#include "fakes/scale.h"
#include "fakes/serializers.h"
#include "fakes/temp_directory.h"

namespace {

bool g_refuses_renameat2 = false;

}  // namespace

// As sandboxes answer calls that they do not know.
extern "C" int renameat2(int from_fd, const char* from, int to_fd, const char* to, unsigned int flags) noexcept {
  if (g_refuses_renameat2) return errno = EPERM, -1;
  return static_cast<int>(syscall(SYS_renameat2, from_fd, from, to_fd, to, flags));
}

namespace {

using fakes::NamesIn;
using fakes::TempDirectory;
using pitot::Status;
using pitot::StatusCode;
using pitot::session::DirectoryTrust;
using pitot::session::FileSafe;
using pitot::session::IncidentDirectory;
namespace fs = std::filesystem;

constexpr int64_t kMorning = 1'795'226'399'000'000'000;  // 2026-11-21 01:59:59 UTC

class Unthrottled final : public pitot::session::Throttle {
 public:
  bool Proceed() noexcept override { return left-- > 0; }
  int left = 1 << 30;
};

auto WriteBytes(size_t size) {
  return [size](const pitot::model::Trace&, pitot::ByteSink& sink) {
    const std::string bytes(size, 'x');
    sink.Write(bytes.data(), bytes.size());
    return Status();
  };
}

// An incident of one file of that size; its path, or the error.
std::string AddIncident(IncidentDirectory* directory, uint64_t number, int64_t realtime_ns, const char* cause,
                        size_t bytes = 10) {
  Unthrottled throttle;
  fakes::CallSerializer serializer("file.txt", WriteBytes(bytes));
  std::string path;
  Status status = directory->Begin(number, realtime_ns, cause);
  if (status.ok()) status = directory->AddFile(&serializer, {}, &throttle);
  if (status.ok()) status = directory->Commit(&path);
  return status.ok() ? path : status.message();
}

}  // namespace

TEST_CASE("an incident is named by time, number and cause", "[directory]") {
  const TempDirectory temp;
  IncidentDirectory directory;
  REQUIRE(directory.Open(temp.path(), DirectoryTrust::kOwn).ok());

  CHECK(AddIncident(&directory, 7, kMorning, "latency /classify") == temp / "20261121T015959Z-0007-latency-classify");
  CHECK(AddIncident(&directory, 12345, 0, "x") == temp / "19700101T000000Z-12345-x");
}

TEST_CASE("any cause makes a safe name", "[directory]") {
  CHECK(FileSafe("latency /classify") == "latency-classify");
  CHECK(FileSafe("../../etc/passwd") == "etc-passwd");
  CHECK(FileSafe("") == "incident");
  CHECK(FileSafe("///") == "incident");
  CHECK(FileSafe("a\nb\xff\xe4") == "a-b");
  CHECK(FileSafe("under_score") == "under_score");
  CHECK(FileSafe(std::string(1 << 20, 'x')) == std::string(40, 'x'));
}

TEST_CASE("nothing has an incident's name before it is whole, and an abandoned one leaves nothing", "[directory]") {
  const TempDirectory temp;
  IncidentDirectory directory;
  REQUIRE(directory.Open(temp.path(), DirectoryTrust::kOwn).ok());
  Unthrottled throttle;
  fakes::CallSerializer serializer("file.txt", WriteBytes(10));

  REQUIRE(directory.Begin(1, kMorning, "x").ok());
  REQUIRE(directory.AddFile(&serializer, {}, &throttle).ok());
  REQUIRE(NamesIn(temp.path()).size() == 1);
  CHECK(NamesIn(temp.path())[0][0] == '.');
  directory.Abandon();
  CHECK(NamesIn(temp.path()).empty());
  directory.Abandon();

  REQUIRE(directory.Begin(2, kMorning, "x").ok());
  {
    const IncidentDirectory gone = [] { return IncidentDirectory(); }();
  }
  std::string path;
  REQUIRE(directory.AddFile(&serializer, {}, &throttle).ok());
  REQUIRE(directory.Commit(&path).ok());
  CHECK(NamesIn(temp.path()).size() == 1);
}

TEST_CASE("two writers with one process id and number keep their incidents apart", "[directory]") {
  const TempDirectory temp;
  IncidentDirectory mine, theirs;
  REQUIRE(mine.Open(temp.path(), DirectoryTrust::kOwn).ok());
  REQUIRE(theirs.Open(temp.path(), DirectoryTrust::kOwn).ok());
  Unthrottled throttle;
  fakes::CallSerializer first("mine.txt", WriteBytes(10)), second("theirs.txt", WriteBytes(10));
  REQUIRE(mine.Begin(1, kMorning, "x").ok());
  REQUIRE(mine.AddFile(&first, {}, &throttle).ok());
  REQUIRE(theirs.Begin(1, kMorning, "x").ok());
  REQUIRE(theirs.AddFile(&second, {}, &throttle).ok());
  std::string my_path, their_path;
  REQUIRE(mine.Commit(&my_path).ok());
  REQUIRE(theirs.Commit(&their_path).ok());

  CHECK(NamesIn(my_path) == std::vector<std::string>{"mine.txt"});
  CHECK(NamesIn(their_path) == std::vector<std::string>{"theirs.txt"});
}

TEST_CASE("a directory that goes away in mid-incident cleans up in its destructor", "[directory]") {
  const TempDirectory temp;
  {
    IncidentDirectory directory;
    REQUIRE(directory.Open(temp.path(), DirectoryTrust::kOwn).ok());
    REQUIRE(directory.Begin(1, kMorning, "x").ok());
  }
  CHECK(NamesIn(temp.path()).empty());
}

TEST_CASE("a directory without a parent says that the parent must exist", "[directory]") {
  const TempDirectory temp;
  IncidentDirectory directory;

  const Status status = directory.Open(temp.path() + "/no/such", DirectoryTrust::kOwn);

  CHECK(status.code() == StatusCode::kNotFound);
  CHECK(std::string(status.message()) == "cannot create Options::incident_directory " + temp.path() +
                                             "/no/such: its parent folder does not exist; create that first");
}

TEST_CASE("a parent that takes no folders is not said to be missing", "[directory]") {
  IncidentDirectory directory;
  const Status status = directory.Open("/proc/pitot-incidents", DirectoryTrust::kOwn);
  CHECK_FALSE(status.ok());
  CHECK(std::string(status.message()) ==
        "cannot create Options::incident_directory /proc/pitot-incidents: its parent folder exists, and the system "
        "answers: No such file or directory");
}

TEST_CASE("incidents of the same name get a number behind it", "[directory]") {
  const TempDirectory temp;
  IncidentDirectory one, other;  // of two processes
  REQUIRE(one.Open(temp.path(), DirectoryTrust::kOwn).ok());
  REQUIRE(other.Open(temp.path(), DirectoryTrust::kOwn).ok());

  CHECK(AddIncident(&one, 1, kMorning, "x") == temp / "20261121T015959Z-0001-x");
  CHECK(AddIncident(&other, 1, kMorning, "x") == temp / "20261121T015959Z-0001-x.2");
  CHECK(AddIncident(&one, 1, kMorning, "x") == temp / "20261121T015959Z-0001-x.3");
  CHECK(NamesIn(temp.path()).size() == 3);
}

TEST_CASE("a directory is created with its owner's rights only, one level deep", "[directory]") {
  const TempDirectory temp;
  IncidentDirectory directory, deep;
  REQUIRE(directory.Open(temp / "incidents", DirectoryTrust::kOwn).ok());

  struct stat info {};
  REQUIRE(stat((temp / "incidents").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
  const Status status = deep.Open(temp / "a/b", DirectoryTrust::kOwn);
  CHECK(status.code() == StatusCode::kNotFound);
  CHECK(std::string(status.message()).find("Options::incident_directory") != std::string::npos);
  CHECK(!deep.IsOpen());
}

TEST_CASE("a file in the directory's place is an error naming it", "[directory]") {
  const TempDirectory temp;
  std::ofstream(temp / "file") << "in the way";
  IncidentDirectory directory;

  const Status status = directory.Open(temp / "file", DirectoryTrust::kOwn);

  CHECK(status.code() == StatusCode::kIoError);
  CHECK(std::string(status.message()).find(temp / "file") != std::string::npos);
}

TEST_CASE("a relative directory stays in its place when the host changes its own", "[directory]") {
  const TempDirectory temp, elsewhere;
  const fs::path before = fs::current_path();
  fs::current_path(temp.path());
  IncidentDirectory directory;
  const Status status = directory.Open("relative", DirectoryTrust::kOwn);
  fs::current_path(elsewhere.path());
  const std::string path = AddIncident(&directory, 1, kMorning, "x");
  fs::current_path(before);

  CHECK(status.ok());
  CHECK(fs::path(path).is_absolute());
  CHECK(NamesIn(temp / "relative").size() == 1);
  CHECK(NamesIn(elsewhere.path()).empty());
}

TEST_CASE("a removed directory is made again for the next incident", "[directory]") {
  const TempDirectory temp;
  IncidentDirectory directory;
  REQUIRE(directory.Open(temp / "incidents", DirectoryTrust::kOwn).ok());
  AddIncident(&directory, 1, kMorning, "x");
  fs::remove_all(temp / "incidents");

  CHECK(fs::exists(AddIncident(&directory, 2, kMorning, "x")));
}

TEST_CASE("a link put in the directory's place is not followed", "[directory]") {
  const TempDirectory temp, target;
  IncidentDirectory directory;
  REQUIRE(directory.Open(temp / "incidents", DirectoryTrust::kOwn).ok());
  fs::remove(temp / "incidents");
  fs::create_directory_symlink(target.path(), temp / "incidents");

  const std::string said = AddIncident(&directory, 1, kMorning, "x");

  CHECK(NamesIn(target.path()).empty());
  CHECK(said.find("cannot open Options::incident_directory") != std::string::npos);
}

TEST_CASE("a link to a directory is followed if it was there from the start", "[directory]") {
  const TempDirectory temp, target;
  fs::create_directory_symlink(target.path(), temp / "incidents");
  IncidentDirectory directory;
  REQUIRE(directory.Open(temp / "incidents", DirectoryTrust::kOwn).ok());

  CHECK(AddIncident(&directory, 1, kMorning, "x") == temp / "incidents/20261121T015959Z-0001-x");
  CHECK(NamesIn(target.path()).size() == 1);
}

TEST_CASE("a directory that became unsafe since the start takes no more incidents", "[directory]") {
  const TempDirectory temp;
  IncidentDirectory directory;
  REQUIRE(directory.Open(temp / "incidents", DirectoryTrust::kOwn).ok());
  AddIncident(&directory, 1, kMorning, "x");
  REQUIRE(rename((temp / "incidents").c_str(), (temp / "gone").c_str()) == 0);
  fs::create_directory(temp / "incidents");
  REQUIRE(chmod((temp / "incidents").c_str(), 0777) == 0);

  CHECK_THAT(AddIncident(&directory, 2, kMorning, "x"), Catch::Contains("is not safe: every user may write to it"));
  CHECK(NamesIn(temp / "incidents").empty());
}

TEST_CASE("a directory removed in mid-write fails that incident and the next one is whole", "[directory]") {
  const TempDirectory temp;
  IncidentDirectory directory;
  REQUIRE(directory.Open(temp / "incidents", DirectoryTrust::kOwn).ok());
  Unthrottled throttle;
  fakes::CallSerializer removes("file.txt", [&](const pitot::model::Trace&, pitot::ByteSink& sink) {
    fs::remove_all(temp / "incidents");
    sink.Write("x", 1);
    return Status();
  });
  std::string path;
  REQUIRE(directory.Begin(1, kMorning, "x").ok());
  const Status file = directory.AddFile(&removes, {}, &throttle), status = directory.Commit(&path);

  CHECK(!file.ok());
  CHECK(!status.ok());
  CHECK(path.empty());
  CHECK(fs::exists(AddIncident(&directory, 2, kMorning, "x") + "/file.txt"));
  CHECK(NamesIn(temp / "incidents").size() == 1);
}

TEST_CASE("a writer that must stop leaves nothing", "[directory]") {
  const TempDirectory temp;
  IncidentDirectory directory;
  REQUIRE(directory.Open(temp.path(), DirectoryTrust::kOwn).ok());
  Unthrottled throttle;
  throttle.left = 3;
  fakes::CallSerializer serializer("file.txt", WriteBytes(10 << 20));
  REQUIRE(directory.Begin(1, kMorning, "x").ok());

  const Status status = directory.AddFile(&serializer, {}, &throttle);
  directory.Abandon();

  CHECK(status.code() == StatusCode::kUnavailable);
  CHECK(NamesIn(temp.path()).empty());
}

TEST_CASE("remains of a killed writer are removed at the next start, files of a living one are not",
          "[directory][platform]") {
  if (fakes::kThreadSanitizer) {
    NOT_RUN("ThreadSanitizer's runtime hangs in one of twenty children of a fork");
    return;
  }
  const TempDirectory temp;
  int ready[2], go[2];
  REQUIRE(pipe(ready) == 0);
  REQUIRE(pipe(go) == 0);
  const auto write_half = [&] {
    IncidentDirectory directory;
    Unthrottled throttle;
    fakes::CallSerializer serializer("file.txt", WriteBytes(10));
    Status said;
    std::string path;
    if (!directory.Open(temp.path(), DirectoryTrust::kOwn).ok() || !directory.Begin(1, kMorning, "x").ok()) return 1;
    if (!directory.AddFile(&serializer, {}, &throttle).ok()) return 2;
    char byte = 'r';
    if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1) return 3;
    return directory.Commit(&path).ok() ? 0 : 4;
  };
  const pid_t killed = fakes::StartChild(write_half), living = fakes::StartChild(write_half);
  close(ready[1]);  // so that the children's death ends the wait for them
  char byte;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  REQUIRE(read(ready[0], &byte, 1) == 1);
  REQUIRE(NamesIn(temp.path()).size() == 2);
  kill(killed, SIGKILL);
  CHECK(fakes::WaitForChild(killed) == 1000 + SIGKILL);
  REQUIRE(NamesIn(temp.path()).size() == 2);

  IncidentDirectory directory;
  REQUIRE(directory.Open(temp.path(), DirectoryTrust::kOwn).ok());

  CHECK(NamesIn(temp.path()).size() == 1);
  REQUIRE(write(go[1], "g", 1) == 1);
  CHECK(fakes::WaitForChild(living) == 0);
  CHECK(NamesIn(temp.path()) == std::vector<std::string>{"20261121T015959Z-0001-x"});
  for (const int fd : {ready[0], go[0], go[1]}) close(fd);
}

TEST_CASE("a killed writer's incident with a whole dump is kept, without its half files", "[directory]") {
  const TempDirectory temp;
  const std::string partial = temp / ".pitot-partial-7.0-20261121T015959Z-0007-latency-classify";
  const auto leave = [&] {
    fs::create_directory(partial);
    std::ofstream(partial + "/dump.pitot") << "whole";
    std::ofstream(partial + "/.report.txt") << "ha";
  };
  leave();
  IncidentDirectory directory;
  REQUIRE(directory.Open(temp.path(), DirectoryTrust::kOwn).ok());

  const std::string kept = "20261121T015959Z-0007-latency-classify.partial";
  CHECK(NamesIn(temp.path()) == std::vector<std::string>{kept});
  CHECK(NamesIn(temp / kept) == std::vector<std::string>{"dump.pitot"});
  CHECK(directory.kept_partial() == std::vector<std::string>{temp / kept});
  leave();
  IncidentDirectory again;
  REQUIRE(again.Open(temp.path(), DirectoryTrust::kOwn).ok());
  CHECK(NamesIn(temp.path()) == std::vector<std::string>{kept, kept + ".2"});
}

TEST_CASE("a killed writer's incident without a whole dump is removed", "[directory]") {
  const TempDirectory temp;
  const std::string partial = temp / ".pitot-partial-7.0-20261121T015959Z-0007-latency-classify";
  fs::create_directory(partial);
  std::ofstream(partial + "/.dump.pitot") << "ha";
  std::ofstream(partial + "/report.txt") << "whole";
  IncidentDirectory directory;
  REQUIRE(directory.Open(temp.path(), DirectoryTrust::kOwn).ok());

  CHECK(NamesIn(temp.path()).empty());
  CHECK(directory.kept_partial().empty());
}

TEST_CASE("incidents are named where a sandbox refuses renameat2", "[directory]") {
  const TempDirectory temp;
  IncidentDirectory directory;
  REQUIRE(directory.Open(temp.path(), DirectoryTrust::kOwn).ok());
  g_refuses_renameat2 = true;
  const std::string first = AddIncident(&directory, 1, kMorning, "x"),
                    second = AddIncident(&directory, 1, kMorning, "x");
  g_refuses_renameat2 = false;

  CHECK(first == temp / "20261121T015959Z-0001-x");
  CHECK(second == temp / "20261121T015959Z-0001-x.2");
}

TEST_CASE("a file has its name only when it is whole", "[directory]") {
  const TempDirectory temp;
  IncidentDirectory directory;
  REQUIRE(directory.Open(temp.path(), DirectoryTrust::kOwn).ok());
  REQUIRE(directory.Begin(1, kMorning, "x").ok());
  const std::string partial = temp / NamesIn(temp.path())[0];
  Unthrottled throttle;
  std::vector<std::string> during;
  fakes::CallSerializer serializer("dump.pitot", [&](const pitot::model::Trace&, pitot::ByteSink& sink) {
    sink.Write("x", 1);
    during = NamesIn(partial);
    return Status();
  });
  REQUIRE(directory.AddFile(&serializer, {}, &throttle).ok());

  CHECK(during == std::vector<std::string>{".dump.pitot"});
  CHECK(NamesIn(partial) == std::vector<std::string>{"dump.pitot"});
}

TEST_CASE("while an incident begins, another start leaves what has no lock yet", "[directory]") {
  const TempDirectory temp;
  const std::string partial = temp / ".pitot-partial-7.0-20261121T015959Z-0007-x";
  fs::create_directory(partial);
  const int beginning = open(temp.path().c_str(), O_RDONLY | O_DIRECTORY);
  REQUIRE(flock(beginning, LOCK_SH) == 0);
  IncidentDirectory first, second;

  REQUIRE(first.Open(temp.path(), DirectoryTrust::kOwn).ok());
  CHECK(fs::exists(partial));
  close(beginning);
  REQUIRE(second.Open(temp.path(), DirectoryTrust::kOwn).ok());
  CHECK_FALSE(fs::exists(partial));
}

TEST_CASE("a directory to which every user may write is refused, or used with a doubt", "[directory]") {
  const TempDirectory temp;
  const std::string path = temp / "shared";
  fs::create_directory(path);
  REQUIRE(chmod(path.c_str(), GENERATE(0777, 01777)) == 0);
  IncidentDirectory directory;

  const Status status = directory.Open(path, DirectoryTrust::kOwn);
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK_THAT(status.message(),
             Catch::Contains("every user may write to it") && Catch::Contains("Options::accept_unsafe_directory"));
  IncidentDirectory trusting;
  REQUIRE(trusting.Open(path, DirectoryTrust::kAny).ok());
  CHECK(trusting.doubt() == "every user may write to it");
  IncidentDirectory inside;  // as the message advises
  CHECK(inside.Open(path + "/mine", DirectoryTrust::kOwn).ok());
  CHECK(inside.doubt().empty());
}

TEST_CASE("another user's directory and another user's link are refused", "[directory][platform]") {
  if (geteuid() != 0) {
    NOT_RUN("only root can give files away");
    return;
  }
  constexpr uid_t kOther = 12345;
  const TempDirectory temp, target;
  const std::string theirs = temp / "theirs", link = temp / "link";
  fs::create_directory(theirs);
  REQUIRE(chown(theirs.c_str(), kOther, kOther) == 0);
  fs::create_directory_symlink(target.path(), link);
  REQUIRE(lchown(link.c_str(), kOther, kOther) == 0);
  IncidentDirectory directory;

  CHECK_THAT(directory.Open(theirs, DirectoryTrust::kOwn).message(), Catch::Contains("it belongs to user 12345"));
  CHECK_THAT(directory.Open(link, DirectoryTrust::kOwn).message(), Catch::Contains("it is another user's link"));
  CHECK_THAT(directory.Open(link + "/", DirectoryTrust::kOwn).message(), Catch::Contains("it is another user's link"));
}

TEST_CASE("an incident is written when the process has no descriptors left", "[directory]") {
  const TempDirectory temp;
  IncidentDirectory directory;
  REQUIRE(directory.Open(temp.path(), DirectoryTrust::kOwn).ok());
  std::vector<int> taken;
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few{64, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  for (int fd; (fd = open("/dev/null", O_RDONLY)) >= 0;) taken.push_back(fd);
  std::vector<std::string> said;
  for (uint64_t i = 1; i <= 3; ++i) said.push_back(AddIncident(&directory, i, kMorning, "x"));
  Unthrottled throttle;
  fakes::CallSerializer more("more.txt", WriteBytes(10));
  const Status added = directory.AddLater(said[0], &more, {}, &throttle);
  directory.Prune(2, 1 << 30, said[2]);
  for (const int fd : taken) close(fd);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);

  for (uint64_t i = 1; i <= 3; ++i) CHECK(said[i - 1] == temp / ("20261121T015959Z-000" + std::to_string(i) + "-x"));
  CHECK(added.ok());
  CHECK(NamesIn(temp.path()).size() == 2);
}

TEST_CASE("what was just written stays when the clock was stepped back", "[directory]") {
  const TempDirectory temp;
  IncidentDirectory directory;
  REQUIRE(directory.Open(temp.path(), DirectoryTrust::kOwn).ok());
  constexpr int64_t kHour = 3'600'000'000'000;
  for (uint64_t i = 1; i <= 3; ++i) AddIncident(&directory, i, kMorning, "x");
  for (uint64_t i = 4; i <= 8; ++i) {
    const std::string written = AddIncident(&directory, i, kMorning - kHour, "x");
    directory.Prune(3, 1 << 30, written);
    CHECK(fs::exists(written));
    CHECK(NamesIn(temp.path()).size() == 3);
  }
}

TEST_CASE("signatures of verdicts on disk decide what is removed", "[directory]") {
  const TempDirectory temp;
  IncidentDirectory directory;
  REQUIRE(directory.Open(temp.path(), DirectoryTrust::kOwn).ok());
  const struct {
    const char *signature, *excess_ns;
  } verdicts[] = {{"a", "10"}, {"a", "90"}, {"a", "50"}, {"a", "40"}, {"b", "1"}};
  uint64_t number = 0;
  for (const auto& verdict : verdicts) {
    const std::string path = AddIncident(&directory, ++number, kMorning, "x");
    std::ofstream(path + "/verdict.json")
        << "{\n  \"signature\": \"" << verdict.signature << "\",\n  \"excess_ns\": " << verdict.excess_ns << ",\n";
  }
  const auto stays = [&] {
    std::string numbers;
    for (const std::string& name : NamesIn(temp.path())) numbers += name[20];
    return numbers;
  };
  directory.Prune(4, 1 << 30, "");
  CHECK(stays() == "1245");  // a repeat
  directory.Prune(3, 1 << 30, "");
  CHECK(stays() == "125");  // the newest of its signature
  directory.Prune(2, 1 << 30, "");
  CHECK(stays() == "15");  // the worst
}

TEST_CASE("pruning removes by number and by bytes, and only incidents", "[directory]") {
  const TempDirectory temp;
  IncidentDirectory directory;
  REQUIRE(directory.Open(temp.path(), DirectoryTrust::kOwn).ok());
  std::ofstream(temp / "README") << "the operator's";
  fs::create_directory(temp / "20261121T-not-one");
  for (uint64_t i = 1; i <= 5; ++i)
    AddIncident(&directory, i, kMorning + static_cast<int64_t>(i) * 1'000'000'000, "x", 8192);

  directory.Prune(3, 1 << 30, "");
  CHECK(NamesIn(temp.path()).size() == 2 + 3);
  directory.Prune(100, 2 * 8192 + 4096, "");
  CHECK(NamesIn(temp.path()).size() == 2 + 2);
  directory.Prune(100, 1, "");
  CHECK(NamesIn(temp.path()).size() == 2 + 1);
  CHECK(fs::exists(temp / "20261121T020004Z-0005-x"));
  CHECK(fs::exists(temp / "README"));
  CHECK(fs::exists(temp / "20261121T-not-one"));
}
