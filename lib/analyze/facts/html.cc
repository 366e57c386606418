// SPDX-License-Identifier: Apache-2.0
#include "analyze/facts/html.h"

#include "base/text.h"

namespace pitot::facts {

std::string Escape(std::string_view raw) {
  const std::string text = base::SanitizeText(raw);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    // U+202A to U+202E, U+2066 to U+2069
    if (text[i] == '\xe2' && i + 2 < text.size() && (text[i + 1] == '\x80' || text[i + 1] == '\x81')) {
      const auto last = static_cast<unsigned char>(text[i + 2]);
      if (text[i + 1] == '\x80' ? last >= 0xaa && last <= 0xae : last >= 0xa6 && last <= 0xa9) {
        out += "\xef\xbf\xbd";
        i += 2;
        continue;
      }
    }
    switch (text[i]) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += text[i];
    }
  }
  return out;
}

const char kHtmlStyle[] = R"(
:root{color-scheme:light dark;--page:#fff;--text:#1b1f24;--soft:#57606a;--line:#d5dae0;--card:#f6f8fa;--other:#b9c0c8;
--queue:#e69f00;--code:#0072b2;--wait:#d55e00;--launch:#cc79a7;--copy:#56b4e9;--gpu:#009e73;--trouble:#d9c800;--unknown:#7d848c}
@media(prefers-color-scheme:dark){:root{--page:#0f1318;--text:#e6e9ed;--soft:#9aa4af;--line:#30363d;--card:#171c23;--other:#4b535d;
--code:#3d9bd8;--wait:#ee7a26;--gpu:#19b98b;--trouble:#f0e442;--unknown:#a3abb4}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:60rem;background:var(--page);color:var(--text);font:16px/1.45 system-ui,sans-serif;
overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.2;margin:.2rem 0}h2{font-size:1.1rem;margin:1.8rem 0 .6rem}
h1 small,h3 small{font-size:.8rem;font-weight:400;color:var(--soft);white-space:nowrap}
details{margin:.4rem 0}summary{cursor:pointer;font-size:.875rem;color:var(--soft)}
p{margin:.3rem 0}.soft,dt{color:var(--soft)}.soft{font-size:.875rem}.num{font-variant-numeric:tabular-nums;white-space:nowrap}
.card{background:var(--card);border:1px solid var(--line);border-left:.4rem solid var(--c,var(--line));border-radius:.3rem;
padding:.6rem .8rem;margin:.6rem 0;break-inside:avoid}
.card h3{font-size:1rem;margin:0;display:flex;flex-wrap:wrap;gap:.1rem .8rem;justify-content:space-between}
)";

}  // namespace pitot::facts
