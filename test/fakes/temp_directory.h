// SPDX-License-Identifier: Apache-2.0
//
// A temporary directory for a test, removed with its contents.
#ifndef PITOT_TEST_FAKES_TEMP_DIRECTORY_H_
#define PITOT_TEST_FAKES_TEMP_DIRECTORY_H_

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace fakes {

class TempDirectory {
 public:
  TempDirectory() {
    std::string path = std::filesystem::temp_directory_path() / "pitot-test-XXXXXX";
    path_ = mkdtemp(path.data()) != nullptr ? path : "";
  }
  ~TempDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// The names in a directory, including hidden ones, sorted.
inline std::vector<std::string> NamesIn(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace fakes

#endif  // PITOT_TEST_FAKES_TEMP_DIRECTORY_H_
