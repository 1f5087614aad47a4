// FairNode is a node of a tree whose nodes share time: among the children of a
// node, the child with the least time relative to its weight is next
// (start-time fair queuing: Goyal, Vin and Cheng, SIGCOMM 1996). A child that
// was idle continues at its parent's present, so it saves up no credit.
//
// It reads no clock: its owner says what work has cost. Not thread-safe: its
// owner's mutex guards it. A node must be removed before its parent dies.
//
//   FairNode root, a, b;
//   a.Attach(&root);
//   a.Enter();                      // it has work
//   FairNode* next = root.First();  // a
//   next->NoteTurn();               // the time of its parent is now its own
//   next->Charge(cost_in_nanos);

#ifndef MILLRACE_SERVER_PIPELINE_THREADS_FAIR_NODE_H_
#define MILLRACE_SERVER_PIPELINE_THREADS_FAIR_NODE_H_

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

namespace millrace::pipeline {

class FairNode {
 public:
  FairNode() = default;
  FairNode(const FairNode&) = delete;
  FairNode& operator=(const FairNode&) = delete;

  FairNode* parent() const { return parent_; }

  // Makes the node a child of `parent`. It starts at the current time of
  // `parent`.
  void Attach(FairNode* parent) {
    parent_ = parent;
    tag_ = parent->now_;
  }

  // Removes the node from its parent; Attach() may follow.
  void Detach() {
    Leave();
    parent_ = nullptr;
  }

  // Weight relative to the siblings; above 0.
  void set_weight(double weight) { weight_ = weight; }

  // The node has work from now on, and so have all nodes above it.
  void Enter() {
    if (waiting_ || parent_ == nullptr) return;
    waiting_ = true;
    tag_ = std::max(tag_, parent_->now_);
    order_ = parent_->arrivals_++;
    parent_->children_.insert(this);
    parent_->Enter();
  }

  // The node has no work any more. The same holds for each node above it that
  // has no other child with work.
  void Leave() {
    if (!waiting_) return;
    waiting_ = false;
    parent_->children_.erase(this);
    if (parent_->children_.empty()) parent_->Leave();
  }

  bool waiting() const { return waiting_; }
  bool has_waiting() const { return !children_.empty(); }

  // The children with work, in the order of their turns.
  struct Before {
    bool operator()(const FairNode* a, const FairNode* b) const {
      return a->tag_ != b->tag_ ? a->tag_ < b->tag_ : a->order_ < b->order_;
    }
  };
  using Waiting = std::set<FairNode*, Before>;
  const Waiting& children() const { return children_; }
  FairNode* First() const {
    return children_.empty() ? nullptr : *children_.begin();
  }

  // The node gets a turn, and so does each node above it.
  void NoteTurn() {
    for (FairNode* node = this; node->parent_ != nullptr;
         node = node->parent_) {
      node->parent_->now_ = std::max(node->parent_->now_, node->tag_);
    }
  }

  // Adds `nanos` to the cost of the node's work; negative if too much was
  // charged before.
  void Charge(double nanos) {
    for (FairNode* node = this; node->parent_ != nullptr;
         node = node->parent_) {
      // Only a waiting node is in its parent's set, whose order depends on the
      // tag.
      if (node->waiting_) {
        auto held = node->parent_->children_.extract(node);
        node->tag_ += nanos / node->weight_;
        node->parent_->children_.insert(std::move(held));
      } else {
        node->tag_ += nanos / node->weight_;
      }
    }
  }

 private:
  FairNode* parent_ = nullptr;
  double tag_ = 0;  // nanoseconds that it was given, by weight, at its start
  double weight_ = 1;
  uint64_t order_ = 0;  // of siblings with one tag: who came first
  bool waiting_ = false;
  // The children with work, and the time shared among them.
  Waiting children_;
  double now_ = 0;  // the tag of the one that had the last turn
  uint64_t arrivals_ = 0;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_THREADS_FAIR_NODE_H_
