// How layouts are put together (data_layout.h). data_layout_bytes.cc answers questions about them.

#include "datatypes/data_layout.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/numbers.h"
#include "datatypes/checked.h"

namespace lzy::datatypes {

bool DataLayout::InOrder() const {
  return inner ? inner->in_order : ordered;
}

std::uint64_t DataLayout::runs() const {
  return inner ? inner->runs : 1;
}

DataLayout DataLayout::Run(std::int64_t begin, std::uint64_t size) {
  if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) ThrowTooFar();
  return {begin, CheckedSum(begin, static_cast<std::int64_t>(size)), size, true, {}, true};
}

DataLayout Moved(DataLayout layout, std::int64_t by) {
  if (layout.size == 0) return {};
  layout.begin = CheckedSum(layout.begin, by);
  layout.end = CheckedSum(layout.end, by);
  return layout;
}

// Forms without a node of their own come first, because they make every query faster.
DataLayout Repeated(std::uint64_t count, std::int64_t stride, const DataLayout& layout) {
  if (count == 0 || layout.size == 0) return {};
  if (count == 1) return layout;
  const std::uint64_t size = CheckedProduct(count, layout.size);
  const std::int64_t last = CheckedProduct(count - 1, stride);
  const std::int64_t begin = CheckedSum(layout.begin, std::min<std::int64_t>(last, 0));
  const std::int64_t end = CheckedSum(layout.end, std::max<std::int64_t>(last, 0));
  // Runs that touch are one run.
  if (layout.IsRun() && stride == layout.end - layout.begin) return DataLayout::Run(begin, size);
  auto node = std::make_shared<LayoutNode>();
  node->begin = begin;
  node->count = count;
  node->stride = stride;
  node->child = layout;
  if (const LayoutNode* inner = layout.inner.get();
      inner != nullptr && inner->count > 0 && stride == CheckedProduct(inner->count, inner->stride)) {
    // The repetition below simply continues, so one level is enough. Its child keeps its place in the layout.
    node->count = CheckedProduct(count, inner->count);
    node->stride = inner->stride;
    node->child = Moved(inner->child, layout.begin - inner->begin);
  }
  node->runs = SaturatedProduct(node->count, node->child.runs());
  node->in_order = node->child.InOrder() && node->stride >= CheckedDifference(node->child.end, node->child.begin);
  return {begin, end, size, layout.exact, std::move(node), true};
}

namespace {

void JoinTo(DataLayout& layout, const DataLayout& next) {
  const bool ordered = layout.InOrder() && next.InOrder() && next.begin >= layout.end;
  layout = DataLayout::Hull(std::min(layout.begin, next.begin), std::max(layout.end, next.end),
                            CheckedSum(layout.size, next.size));
  layout.ordered = ordered;
}

}  // namespace

// Three cases: the part continues the last run; the last hull is not full yet; or the list gets one more.
void LayoutList::Add(DataLayout part) {
  if (part.size == 0) return;
  if (!elements_.empty() && part.IsRun()) {
    DataLayout& last = elements_.back().layout;
    if (last.IsRun() && last.end == part.begin) {
      last.end = part.end;
      last.size += part.size;
      return;
    }
  }
  if (elements_.size() == limit_ && in_last_ == together_) JoinPairs();
  if (in_last_ < together_) {
    JoinTo(elements_.back().layout, part);
    ++in_last_;
  } else {
    elements_.push_back({std::move(part), 0, 0});
    in_last_ = 1;
  }
}

// Halves the list. So each part is joined at most log2 times, and all hulls but the last stand for as many parts.
void LayoutList::JoinPairs() {
  const bool odd = elements_.size() % 2 != 0;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < elements_.size(); i += 2, ++kept) {
    if (i + 1 < elements_.size()) JoinTo(elements_[i].layout, elements_[i + 1].layout);
    if (i > 0) elements_[kept] = std::move(elements_[i]);
  }
  elements_.resize(kept);
  in_last_ = odd ? together_ : 2 * together_;
  together_ *= 2;
}

// Bounds, order and sums are computed once here; queries rely on them.
DataLayout LayoutList::Take() {
  if (elements_.empty()) return {};
  if (elements_.size() == 1) return std::move(elements_.front().layout);
  auto node = std::make_shared<LayoutNode>();
  node->elements = std::move(elements_);
  node->begin = node->elements.front().layout.begin;
  std::int64_t end = node->begin;
  std::uint64_t size = 0;
  bool exact = true;
  for (LayoutNode::Element& part : node->elements) {
    const DataLayout& layout = part.layout;
    exact &= layout.exact;
    node->in_order &= layout.InOrder() && layout.begin >= end;
    node->begin = std::min(node->begin, layout.begin);
    end = std::max(end, layout.end);
    part.data_before = size;
    part.runs_before = node->runs;
    size = CheckedSum(size, layout.size);
    node->runs = SaturatedSum(node->runs, layout.runs());
  }
  const std::int64_t begin = node->begin;
  return {begin, end, size, exact, std::move(node), true};
}

}  // namespace lzy::datatypes
