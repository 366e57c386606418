// SPDX-License-Identifier: Apache-2.0
//
// Visibility and the inline namespace. Every public header includes this one; it includes nothing.
#ifndef PITOT_EXPORT_H_
#define PITOT_EXPORT_H_

// Marks a symbol that crosses the library's border. All others are hidden.
#define PITOT_EXPORT [[gnu::visibility("default")]]

// Opens and closes the namespace of the public C++ API: source compatible within a major version.
#define PITOT_NAMESPACE_BEGIN \
  namespace pitot {           \
  inline namespace v1 {
#define PITOT_NAMESPACE_END \
  }                         \
  }

#endif  // PITOT_EXPORT_H_
