// SPDX-License-Identifier: Apache-2.0
//
// A fuzzer without libFuzzer: writes its corpus (--write-corpus FOLDER), tells whether a folder has what it would write
// (--compare FOLDER), runs the given files, or mutates them slightly (--mutate ROUNDS).
#include <filesystem>
#include <string>

#include "fuzz/fuzz.h"

namespace {

bool ReadFile(const char* path, std::string* bytes) {
  FILE* const file = fopen(path, "rb");
  if (file == nullptr) return false;
  for (int c; (c = fgetc(file)) != EOF;) *bytes += static_cast<char>(c);
  fclose(file);
  return true;
}

int Run(const std::string& bytes) {
  return LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

// Deterministic.
void Mutate(const std::string& original, uint32_t rounds) {
  uint64_t state = 88172645463325252u;
  const auto next = [&] { return state ^= state << 13, state ^= state >> 7, state ^= state << 17; };
  for (uint32_t round = 0; round < rounds && !original.empty(); ++round) {
    std::string bytes = original;
    for (uint64_t changes = 1 + next() % 8; changes > 0; --changes) {
      const size_t at = next() % bytes.size();
      if (next() % 3 == 0) {
        bytes[at] = static_cast<char>(next());
      } else {
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << next() % 8));
      }
    }
    Run(bytes);
  }
}

// Files that a fuzzer found are in the folder, too.
bool Compare(const std::string& folder) {
  namespace fs = std::filesystem;
  std::string written = (fs::temp_directory_path() / "pitot-corpus-XXXXXX").native();
  if (mkdtemp(written.data()) == nullptr) return false;
  bool is_same = fuzz::WriteCorpus(written);
  for (const auto& entry : fs::directory_iterator(written)) {
    const std::string path = folder + "/" + entry.path().filename().native();
    std::string now, before;
    if (ReadFile(entry.path().c_str(), &now) && ReadFile(path.c_str(), &before) && now == before) continue;
    fprintf(stderr, "%s is not what --write-corpus writes now: write it again, and commit it\n", path.c_str());
    is_same = false;
  }
  fs::remove_all(written);
  return is_same;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--write-corpus") return fuzz::WriteCorpus(argv[2]) ? 0 : 1;
  if (argc == 3 && std::string(argv[1]) == "--compare") return Compare(argv[2]) ? 0 : 1;
  const uint32_t rounds = argc > 2 && std::string(argv[1]) == "--mutate" ? static_cast<uint32_t>(atoi(argv[2])) : 0;
  for (int i = rounds != 0 ? 3 : 1; i < argc; ++i) {
    std::string bytes;
    if (!ReadFile(argv[i], &bytes)) return 1;
    if (rounds != 0)
      Mutate(bytes, rounds);
    else if (Run(bytes) != 0)
      return 1;
  }
  return 0;
}
