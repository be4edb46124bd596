#pragma once
// The table of lzy-plan as one HTML page, with plots in SVG that need neither network nor scripts.

#include <string>

#include "plan/plan.h"

namespace lzy {

/// `command`: what made the page, as a line for people.
std::string PlanPage(const PlanRequest& request, const PlanTable& table, const std::string& command);

/// Text for HTML.
std::string EscapeHtml(const std::string& text);

}  // namespace lzy
